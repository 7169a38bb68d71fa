"""The one table of states: closed, with true ends, and without a way back from them."""

from typing import get_args

import pytest

from rollway.types.batches import BatchState
from rollway.types.fleet import Worker
from rollway.types.jobs import JobState
from rollway.types.rollouts import GroupState, RolloutState
from rollway_service.core.errors import WrongState
from rollway_service.core.states import TRANSITIONS, check_transition, is_terminal, sources

ENDS = {
    "job": {"completed", "cancelled"},
    "group": {"ready", "dropped", "failed", "cancelled"},
    "work_item": {"done", "cancelled"},
    "rollout": {"completed", "failed", "cancelled"},
    "delivery": {"dropped"},
    "session": {"closed", "lost"},
    "batch": {"consumed", "returned", "expired"},
}


@pytest.mark.parametrize("kind", TRANSITIONS)
def test_every_target_is_a_state_of_the_same_kind(kind):
    table = TRANSITIONS[kind]
    assert set().union(*table.values()) <= set(table)


@pytest.mark.parametrize("kind", TRANSITIONS)
def test_ends_are_ends(kind):
    assert {state for state in TRANSITIONS[kind] if is_terminal(kind, state)} == ENDS[kind]


@pytest.mark.parametrize("kind", TRANSITIONS)
def test_an_end_can_be_reached_from_everywhere(kind):
    reaching = set(ENDS[kind])
    for _ in TRANSITIONS[kind]:
        reaching |= {state for state, targets in TRANSITIONS[kind].items() if targets & reaching}
    assert reaching == set(TRANSITIONS[kind])


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("job", get_args(JobState)),
        ("group", get_args(GroupState)),
        ("batch", get_args(BatchState.model_fields["state"].annotation)),
        ("session", get_args(Worker.model_fields["state"].annotation)),
    ],
)
def test_clients_are_told_the_states_of_the_table(kind, told):
    assert set(told) == set(TRANSITIONS[kind])


def test_clients_can_be_told_every_state_of_a_rollout():
    assert set(TRANSITIONS["rollout"]) <= set(get_args(RolloutState))


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        ("job", "cancelled", {"open", "closed"}),
        ("job", "completed", {"closed"}),
        ("work_item", "done", {"queued", "claimed"}),
        ("delivery", "offered", {"leased", "consumed", "checkpointed"}),
        ("delivery", "checkpointed", {"consumed"}),
        ("rollout", "completed", {"awaiting_reward"}),
    ],
)
def test_the_expected_side_of_a_change(kind, target, expected):
    assert set(sources(kind, target)) == expected


@pytest.mark.parametrize(("kind", "target"), [("job", "open"), ("group", "open"), ("session", "live"), ("job", "x")])
def test_nothing_becomes_new_again(kind, target):
    with pytest.raises(ValueError, match="ever becomes"):
        sources(kind, target)


@pytest.mark.parametrize("kind", TRANSITIONS)
def test_exactly_the_transitions_of_the_table_are_allowed(kind):
    for state, targets in TRANSITIONS[kind].items():
        for target in targets:
            check_transition(kind, state, target, "thing 1")
        for target in set(TRANSITIONS[kind]) - targets:
            with pytest.raises(WrongState, match=f"thing 1 is {state}; it cannot become {target}"):
                check_transition(kind, state, target, "thing 1")
