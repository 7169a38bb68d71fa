"""Staleness along the lineage, and which members of a group a trainer may have (case B17)."""

import pytest

from rollway_service.core.lineage import Lineage
from rollway_service.core.selection import Candidate, Selection, select_members

LINE = Lineage({version: version - 1 if version else None for version in range(12)})
# 0 - 1 - 2 - 3, and a rollback: 1 - 4 - 5
FORKED = Lineage({0: None, 1: 0, 2: 1, 3: 2, 4: 1, 5: 4})


def member(rollout_id, *versions):
    return Candidate(rollout_id, versions, num_trainable=len(versions))


def select(members, lineage=LINE, *, trainer=7, bound=1, action="drop", least=1):
    return select_members(
        members, lineage, trainer_version=trainer, max_staleness=bound, action=action, min_members=least
    )


@pytest.mark.parametrize(
    ("lineage", "trainer", "version", "distance"),
    [
        (LINE, 7, 7, 0),
        (LINE, 7, 5, 2),
        (LINE, 7, 0, 7),
        (LINE, 7, 8, None),
        (FORKED, 5, 4, 1),
        (FORKED, 5, 1, 2),
        (FORKED, 5, 0, 3),
        (FORKED, 5, 3, None),
        (FORKED, 5, 2, None),
        (FORKED, 3, 4, None),
        (FORKED, 99, 1, None),
    ],
)
def test_distance_counts_publishes_between_a_version_and_its_ancestor(lineage, trainer, version, distance):
    assert lineage.distance(trainer, version) == distance


@pytest.mark.parametrize(
    ("versions", "bound", "stale"),
    [
        ([5, 5, 4, 1], 1, [1]),
        ([5, 4, 1], 0, [1, 4]),
        ([5, 4, 1, 0], 3, []),
        ([3, 2, 1, 9], None, [2, 3, 9]),
        ([], 0, []),
    ],
)
def test_stale_are_the_old_and_those_off_the_lineage(versions, bound, stale):
    assert FORKED.stale(versions, 5, bound) == stale


@pytest.mark.parametrize("pulled_at", [5, 6, 7, 9])
@pytest.mark.parametrize("bound", [0, 1, 2])
def test_a_row_made_at_5_is_served_while_its_age_is_within_the_bound(bound, pulled_at):
    is_served = {(0, 5), (1, 5), (1, 6), (2, 5), (2, 6), (2, 7)}
    expected = "deliver" if (bound, pulled_at) in is_served else "drop"
    assert select([member("a", 5)], trainer=pulled_at, bound=bound).verdict == expected


@pytest.mark.parametrize(
    ("versions", "verdict"), [((6, 7), "deliver"), ((5, 7), "drop"), ((7,), "deliver"), ((), "deliver")]
)
def test_the_oldest_token_counts(versions, verdict):
    assert select([member("a", *versions)]).verdict == verdict


FRESH, OLD, MIXED = member("fresh", 7), member("old", 5), member("mixed", 5, 7)


@pytest.mark.parametrize(
    ("members", "action", "least", "selection"),
    [
        ([FRESH, FRESH], "drop", 1, Selection("deliver")),
        ([FRESH, OLD], "drop", 1, Selection("deliver", stale_rollouts=("old",))),
        ([FRESH, OLD], "drop", 2, Selection("drop")),
        ([OLD, MIXED], "drop", 1, Selection("drop")),
        ([OLD], "drop", 0, Selection("drop")),
        ([FRESH, OLD], "withhold", 1, Selection("withhold")),
        ([FRESH, FRESH], "withhold", 1, Selection("deliver")),
        ([FRESH, OLD], "mask", 1, Selection("deliver", masked_versions=(5,))),
        ([MIXED, OLD], "mask", 1, Selection("deliver", masked_versions=(5,))),
        ([OLD, OLD], "mask", 1, Selection("drop")),
        ([FRESH], "mask", 1, Selection("deliver")),
    ],
)
def test_what_happens_to_a_group_with_old_members(members, action, least, selection):
    assert select(members, action=action, least=least) == selection


@pytest.mark.parametrize(
    ("action", "selection"),
    [
        ("drop", Selection("deliver", stale_rollouts=("left",))),
        ("mask", Selection("deliver", masked_versions=(3,))),
        ("withhold", Selection("withhold")),
    ],
)
def test_tokens_of_a_branch_that_was_left_are_stale_without_any_bound(action, selection):
    members = [member("kept", 1, 4), member("left", 3)]
    assert select(members, FORKED, trainer=5, bound=None, action=action) == selection
