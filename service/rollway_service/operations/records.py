"""Rows of a rollout that has ended, made from what its worker says. Pure.

What can be derived from the tree is derived; what contradicts itself is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rollway.arrays import expand_tree
from rollway.container import ContainerError, read_container
from rollway.types import JobCreate, PostedReward, RewardValue, RolloutFailure
from rollway_service.core.errors import InvalidRequest
from rollway_service.core.ids import new_id
from rollway_service.core.trajectory_stats import TrajectoryStats, trajectory_stats
from rollway_service.operations.messages import FinishedRollout
from rollway_service.store.rows import JobRow, WorkItemRow


@dataclass(frozen=True, slots=True)
class ArrayRow:
    """A container on its way to the array store."""

    tree_id: str
    tenant_id: str
    run_id: str
    data: bytes


@dataclass(slots=True)
class RolloutRecord:
    """Everything that is stored of one rollout, and what it adds to the job's counters."""

    item: WorkItemRow
    finished: FinishedRollout
    state: str
    reward: float | None
    failure: RolloutFailure | None
    rollout: dict[str, Any]
    tree: dict[str, Any] | None
    array: ArrayRow | None
    trajectories: list[dict[str, Any]]
    counts: dict[str, float] = field(default_factory=dict)

    @property
    def num_bytes(self) -> int:
        return 0 if self.array is None else len(self.array.data)


def total_reward(rewards: list[RewardValue]) -> float | None:
    """Weighted sum; None when there are no rewards or one is absent."""
    if not rewards or any(reward.value is None for reward in rewards):
        return None
    return float(sum(reward.weight * reward.value for reward in rewards if reward.value is not None))


def posted_rewards(spec: JobCreate) -> list[PostedReward]:
    return [reward for reward in spec.rewards if isinstance(reward, PostedReward)]


def reward_failure(rewards: list[RewardValue]) -> RolloutFailure | None:
    for reward in rewards:
        if reward.failure is not None:
            detail = f"reward {reward.name!r}: {reward.failure.kind}: {reward.failure.detail}"
            return RolloutFailure(kind="reward", detail=detail)
    return None


def _stats(finished: FinishedRollout) -> list[TrajectoryStats]:
    """Checked facts of the trajectories. Raises InvalidRequest for a tree that contradicts itself."""
    if finished.tree is None:
        return []
    try:
        # The same check as the client's, or a batch with the tree could be leased and never be read.
        expand_tree(finished.tree.layout, *read_container(finished.tree.container))
        return [trajectory_stats(finished.tree.layout, trajectory.path) for trajectory in finished.trajectories]
    except ContainerError as error:
        raise InvalidRequest(f"work item {finished.work_item_id}: {error}") from None


def _failure(
    finished: FinishedRollout,
    spec: JobCreate,
    stats: list[TrajectoryStats],
    rewards: list[RewardValue],
    newest_version: int | None,
) -> RolloutFailure | None:
    if finished.failure is not None:
        return finished.failure
    if spec.purpose != "eval" and not any(fact.num_trainable for fact in stats):
        sampled = sum(fact.num_sampled for fact in stats)
        detail = (
            f"none of {sampled} sampled tokens has an observed log-prob" if sampled else "the model sampled nothing"
        )
        return RolloutFailure(kind="no_sampled_tokens", detail=detail)
    newest = max((fact.newest_version for fact in stats if fact.newest_version is not None), default=None)
    if newest is not None and newest_version is not None and newest > newest_version:
        detail = (
            f"the engine says that version {newest} sampled tokens; the newest that was published is {newest_version}"
        )
        return RolloutFailure(kind="engine", detail=detail)
    return reward_failure(rewards) or _unscored(finished, spec, rewards)


def _unscored(finished: FinishedRollout, spec: JobCreate, rewards: list[RewardValue]) -> RolloutFailure | None:
    """An answer that was cut off is not judged: neither a 0 nor a sample without its reward."""
    if len(rewards) >= len(spec.rewards) - len(posted_rewards(spec)):
        return None
    ends = ", ".join(
        trajectory.stop_reason + (f" ({trajectory.stop_detail})" if trajectory.stop_detail else "")
        for trajectory in finished.trajectories
    )
    return RolloutFailure(kind="reward", detail=f"not scored: it ended as {ends}")


def _state(spec: JobCreate, failure: RolloutFailure | None) -> str:
    if failure is not None:
        return "cancelled" if failure.kind == "cancelled" else "failed"
    return "awaiting_reward" if posted_rewards(spec) else "completed"


def build_record(
    item: WorkItemRow,
    job: JobRow,
    spec: JobCreate,
    task_index: int,
    finished: FinishedRollout,
    *,
    newest_version: int | None = None,
) -> RolloutRecord:
    """The rows of one rollout.

    `newest_version` of the model that was published: no token can be of a later one. None: not known.

    Raises:
        InvalidRequest: tree, spans and arrays contradict each other; nothing of it may be stored as true.
    """
    stats = _stats(finished)
    rewards = list(finished.rewards)
    failure = _failure(finished, spec, stats, rewards, newest_version)
    state = _state(spec, failure)
    reward = total_reward(rewards) if state == "completed" else None
    owner = {"tenant_id": item.tenant_id, "run_id": item.run_id, "job_id": item.job_id, "group_id": item.group_id}
    rollout = {
        "id": item.rollout_id,
        **owner,
        "task_id": item.task_id,
        "task_index": task_index,
        "member_index": item.member_index,
        "state": state,
        "seed": item.seed,
        "attempts": item.attempts,
        "reward": reward,
        "rewards": [value.model_dump(mode="json") for value in rewards],
        "rewards_deadline_at_s": None,
        "failure": None if failure is None else failure.model_dump(mode="json"),
        "usage": finished.usage.model_dump(mode="json"),
        "timings": finished.timings.model_dump(mode="json"),
        "decisions": [decision.model_dump(mode="json", exclude_defaults=True) for decision in finished.decisions],
        "created_at_s": item.created_at_s,
    }
    tree, array, trajectories = None, None, []
    if finished.tree is not None:
        tree_id = new_id("tree")
        array = ArrayRow(tree_id, item.tenant_id, item.run_id, finished.tree.container)
        tree = {
            "id": tree_id,
            **owner,
            "work_item_id": item.id,
            "layout": finished.tree.layout.model_dump(mode="json"),
            "sha256": finished.tree.sha256,
            "num_tokens": finished.tree.layout.num_tokens,
            "num_bytes": len(finished.tree.container),
        }
        trajectories = _trajectory_rows(item, job, spec, finished, stats, tree_id, owner)
    record = RolloutRecord(item, finished, state, reward, failure, rollout, tree, array, trajectories)
    record.counts = _counts(record, spec, stats)
    return record


def _trajectory_rows(
    item: WorkItemRow,
    job: JobRow,
    spec: JobCreate,
    finished: FinishedRollout,
    stats: list[TrajectoryStats],
    tree_id: str,
    owner: Mapping[str, str],
) -> list[dict[str, Any]]:
    sampling = spec.sampling
    cuts = {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": sampling.min_p,
    }
    return [
        {
            "id": new_id("trajectory"),
            **owner,
            "task_id": item.task_id,
            "rollout_id": item.rollout_id,
            "tree_id": tree_id,
            "path": list(trajectory.path),
            "role": trajectory.role,
            "model_id": job.model_id,
            "recipe": spec.recipe.generate.name,
            "stop_reason": trajectory.stop_reason,
            "stop_detail": trajectory.stop_detail,
            "finish_reasons": list(trajectory.finish_reasons),
            "num_tokens": fact.num_tokens,
            "num_sampled": fact.num_sampled,
            "num_trainable": fact.num_trainable,
            "versions": list(fact.versions),
            "oldest_version": fact.oldest_version,
            "newest_version": fact.newest_version,
            "logprob_kind": finished.logprob_kind,
            "sampling": cuts,
            "seed": item.seed,
            "engine": finished.engine.model_dump(mode="json"),
            "findings": list(trajectory.findings),
        }
        for trajectory, fact in zip(finished.trajectories, stats, strict=True)
    ]


def _counts(record: RolloutRecord, spec: JobCreate, stats: list[TrajectoryStats]) -> dict[str, float]:
    usage = record.finished.usage
    counts: dict[str, float] = {
        "prompt_tokens": usage.prompt_tokens,
        "sampled_tokens": usage.sampled_tokens,
        "wasted_tokens": usage.wasted_tokens,
        "trainable_tokens": 0 if record.failure is not None else sum(fact.num_trainable for fact in stats),
        "nonfinite_logprobs": record.finished.nonfinite_logprobs,
        "missing_logprobs": record.finished.missing_logprobs,
    }
    if record.state != "awaiting_reward":
        counts |= outcome_counts(record.state, record.reward, record.failure, has_rewards=bool(spec.rewards))
    return counts


def outcome_counts(
    state: str, reward: float | None, failure: RolloutFailure | None, *, has_rewards: bool
) -> dict[str, float]:
    """What a rollout in its final state adds to the job's counters."""
    counts: dict[str, float] = {f"rollouts_{state}": 1}
    if reward is not None:
        counts |= {"rollouts_scored": 1, "reward_sum": reward}
    elif has_rewards and failure is not None and failure.kind == "reward":
        counts["rollouts_unscored"] = 1
    return counts
