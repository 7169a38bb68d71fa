"""What is stored of a finished rollout: derived where it can be, and never a 0 for what was not scored (case B30)."""

from collections import Counter
from dataclasses import replace

import pytest

from rollway.types import JobCreate, RewardFailure, RewardValue, RolloutFailure
from rollway_service.core.errors import InvalidRequest
from rollway_service.operations.messages import FinishedTrajectory
from rollway_service.operations.records import build_record, outcome_counts, reward_failure, total_reward
from tests.builders import a_finished, a_job_row, a_tree, a_work_item

BROKEN = RewardFailure(kind="infra", detail="sandbox lost")


def a_reward(value, *, weight=1.0, name="exact"):
    failure = BROKEN if value is None else None
    return RewardValue(name=name, value=value, weight=weight, source="exact", failure=failure)


def a_record(*, spec=None, rewards=None, path=(0, 1), **fields):
    body = {"run_id": "run_1", "rewards": [{"kind": "exact"}]} | (spec or {})
    finished = a_finished(a_work_item(), **fields)
    trajectory = FinishedTrajectory(path=list(path), stop_reason="completed", finish_reasons=["stop"])
    rewards = finished.rewards if rewards is None else rewards
    finished = replace(finished, rewards=rewards, trajectories=[trajectory])
    return build_record(a_work_item(), a_job_row(), JobCreate.model_validate(body), 0, finished)


@pytest.mark.parametrize(
    ("values", "total"),
    [
        ([], None),
        ([(1.0, 1.0)], 1.0),
        ([(1.0, 0.5), (0.5, 2.0)], 1.5),
        ([(1.0, -1.0)], -1.0),
        ([(0.0, 1.0)], 0.0),
        ([(1.0, 1.0), (None, 1.0)], None),
        ([(None, 0.0)], None),
    ],
)
def test_a_total_is_of_all_rewards_or_there_is_none(values, total):
    assert total_reward([a_reward(value, weight=weight) for value, weight in values]) == total


def test_the_first_failed_reward_is_the_reason():
    rewards = [a_reward(1.0), a_reward(None, name="a"), a_reward(None, name="b")]
    assert reward_failure(rewards).detail == "reward 'a': infra: sandbox lost"
    assert reward_failure(rewards[:1]) is None


def test_a_group_with_two_lost_checkers_has_the_mean_of_the_other_two():
    records = [a_record(rewards=[a_reward(value)]) for value in (1.0, 0.0, None, None)]
    counts = sum((Counter(record.counts) for record in records), Counter())
    assert [(record.state, record.reward) for record in records] == [
        ("completed", 1.0),
        ("completed", 0.0),
        ("failed", None),
        ("failed", None),
    ]
    assert counts["reward_sum"] / counts["rollouts_scored"] == 0.5
    assert counts["rollouts_unscored"] / (counts["rollouts_scored"] + counts["rollouts_unscored"]) == 0.5
    assert {record.failure.kind for record in records[2:]} == {"reward"}
    assert counts["trainable_tokens"] == 6


@pytest.mark.parametrize(
    ("spec", "fields", "state", "kind"),
    [
        ({}, {}, "completed", None),
        ({}, {"failure": RolloutFailure(kind="engine", detail="x")}, "failed", "engine"),
        ({}, {"failure": RolloutFailure(kind="cancelled", detail="x")}, "cancelled", "cancelled"),
        ({}, {"tree": a_tree(sampled=1, logprobs=[float("nan")])}, "failed", "no_sampled_tokens"),
        ({"purpose": "eval"}, {"tree": a_tree(logprobs=[float("nan")])}, "completed", None),
        ({"rewards": []}, {"reward": None}, "completed", None),
        ({"rewards": [{"kind": "posted"}]}, {"reward": None}, "awaiting_reward", None),
        (
            {"rewards": [{"kind": "posted"}]},
            {"failure": RolloutFailure(kind="engine", detail="x")},
            "failed",
            "engine",
        ),
    ],
)
def test_how_a_rollout_ends(spec, fields, state, kind):
    record = a_record(spec=spec, **fields)
    assert record.state == state
    assert (None if record.failure is None else record.failure.kind) == kind
    assert (record.reward is None) == (state != "completed" or not record.finished.rewards)


def test_the_facts_of_a_trajectory_are_derived_from_its_tree():
    tree = a_tree(prompt=4, version=3, logprobs=[-1.0, float("nan"), -2.0])
    record = a_record(tree=tree, spec={"sampling": {"temperature": 0.5}})
    (trajectory,) = record.trajectories
    assert (trajectory["num_tokens"], trajectory["num_sampled"], trajectory["num_trainable"]) == (7, 3, 2)
    assert (trajectory["oldest_version"], trajectory["newest_version"], trajectory["versions"]) == (3, 3, [3])
    assert trajectory["sampling"] == {"temperature": 0.5, "top_p": 1.0, "top_k": 0, "min_p": 0.0}
    assert trajectory["logprob_kind"] == "tempered"
    assert record.tree["sha256"] == tree.sha256
    assert record.array.data is tree.container
    assert record.num_bytes == len(tree.container)


@pytest.mark.parametrize(
    "changes",
    [
        {"weight_versions": [[4, 6, 0]]},
        {"trainable": [[0, 7]]},
        {"trainable": [[4, 7], [4, 7]]},
        {"lengths": [4, 4]},
        {"parents": [-1, 1]},
        {"kv_versions": [[4, 7, 2**31]]},
    ],
)
def test_a_tree_that_contradicts_itself_is_not_stored(changes):
    packed = a_tree(prompt=4, sampled=3)
    forged = replace(packed, layout=packed.layout.model_copy(update=changes))
    with pytest.raises(InvalidRequest, match="work item wki_1"):
        a_record(tree=forged)


def test_a_token_is_not_trainable_because_a_worker_says_so():
    packed = a_tree(prompt=4, logprobs=[-1.0, float("nan"), -2.0])
    forged = replace(packed, layout=packed.layout.model_copy(update={"trainable": [[4, 7]]}))
    with pytest.raises(InvalidRequest, match="token 5 is marked trainable without an observed log-prob"):
        a_record(tree=forged)


def test_bytes_that_are_no_container_are_not_stored():
    packed = a_tree()
    with pytest.raises(InvalidRequest, match="work item wki_1"):
        a_record(tree=replace(packed, container=packed.container[:-4]))


@pytest.mark.parametrize("path", [(1,), (0, 0), (0, 2), ()])
def test_a_trajectory_must_be_a_walk_of_its_tree(path):
    with pytest.raises(InvalidRequest, match="path"):
        a_record(path=path)


@pytest.mark.parametrize(
    ("state", "reward", "kind", "has_rewards", "expected"),
    [
        ("completed", 0.0, None, True, {"rollouts_completed": 1, "rollouts_scored": 1, "reward_sum": 0.0}),
        ("completed", None, None, False, {"rollouts_completed": 1}),
        ("failed", None, "reward", True, {"rollouts_failed": 1, "rollouts_unscored": 1}),
        ("failed", None, "engine", True, {"rollouts_failed": 1}),
        ("cancelled", None, "cancelled", True, {"rollouts_cancelled": 1}),
    ],
)
def test_what_an_end_adds_to_the_counters(state, reward, kind, has_rewards, expected):
    failure = None if kind is None else RolloutFailure(kind=kind, detail="x")
    assert outcome_counts(state, reward, failure, has_rewards=has_rewards) == expected
