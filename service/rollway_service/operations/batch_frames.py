"""Leased batches as they go out: a header from the rows, and the containers as they are stored.

Containers are read in pieces while they are sent: a batch may be larger than the service's memory, and no connection is
held while a client takes its time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rollway.framing import container_offsets
from rollway.types import BatchHeader, GroupHeader, SampleHeader, TreeHeader, TreeLayout
from rollway_service.core.errors import NotFound
from rollway_service.operations.context import Context
from rollway_service.store import deliveries, jobs, models, records, work
from rollway_service.store.ports import ArrayRef, Transaction
from rollway_service.store.rows import (
    BatchRow,
    DeliveryRow,
    GroupRow,
    RolloutRow,
    TaskRow,
    TrajectoryRow,
    TreeRow,
)

_PIECE_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class LeasedBatch:
    """A batch ready to be sent. `array_refs`: where the containers of the header's trees lie, by tree id."""

    header: BatchHeader
    array_refs: Mapping[str, ArrayRef]

    @property
    def num_bytes(self) -> int:
        return sum(tree.length for tree in self.header.trees)


def empty_batch(**values: Any) -> LeasedBatch:
    return LeasedBatch(BatchHeader(batch_id=None, expires_at_s=None, **values), {})


async def batch_containers(context: Context, batch: LeasedBatch) -> AsyncIterator[bytes]:
    """The containers of a batch in the order of its header's trees.

    Raises:
        NotFound: retention has taken one since the batch was leased.
    """
    for piece in _pieces(batch.header.trees):
        refs = {tree.tree_id: batch.array_refs[tree.tree_id] for tree in piece}
        async with context.database.snapshot() as transaction:
            data = await context.arrays.get(transaction, refs)
        for tree in piece:
            if tree.tree_id not in data:
                raise NotFound(f"the array of tree {tree.tree_id} is no longer kept (retention)")
            yield data[tree.tree_id]


def _pieces(trees: Sequence[TreeHeader]) -> list[list[TreeHeader]]:
    pieces: list[list[TreeHeader]] = []
    room = 0
    for tree in trees:
        if not pieces or tree.length > room:
            pieces.append([])
            room = _PIECE_BYTES
        pieces[-1].append(tree)
        room -= tree.length
    return pieces


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a batch is made of, by id or by group."""

    groups: dict[str, GroupRow]
    tasks: dict[str, TaskRow]
    rollouts: dict[str, list[RolloutRow]]
    trajectories: dict[str, list[TrajectoryRow]]
    trees: dict[str, TreeRow]


async def _load_rows(transaction: Transaction, group_ids: Sequence[str]) -> _Rows:
    groups = await work.groups_by_ids(transaction, group_ids)
    tasks = await jobs.tasks_by_ids(transaction, sorted({group.task_id for group in groups.values()}))
    rollouts: dict[str, list[RolloutRow]] = {}
    for rollout in await records.rollouts_of_groups(transaction, group_ids):
        rollouts.setdefault(rollout.group_id, []).append(rollout)
    trajectories: dict[str, list[TrajectoryRow]] = {}
    for trajectory in await records.trajectories_of_groups(transaction, group_ids):
        trajectories.setdefault(trajectory.rollout_id, []).append(trajectory)
    return _Rows(groups, tasks, rollouts, trajectories, await records.trees_of_groups(transaction, group_ids))


async def load_batch(
    context: Context,
    transaction: Transaction,
    batch: BatchRow,
    consumer_group: str,
    *,
    withheld_groups: int = 0,
    stale_dropped: int = 0,
) -> LeasedBatch:
    """The batch as it was leased, from what is stored.

    Raises:
        NotFound: retention has taken its arrays.
    """
    held = await deliveries.deliveries_of_batch(transaction, batch.id)
    rows = await _load_rows(transaction, [delivery.group_id for delivery in held])
    tree_order: dict[str, int] = {}
    model = await models.model_of_run(transaction, batch.run_id)
    lineage = await context.lineage(transaction, model.id, model.latest_version)
    ages = {version: lineage.distance(batch.trainer_version, version) for version in _oldest_versions(rows)}
    groups = [_group_header(rows, delivery, tree_order, ages) for delivery in held]
    trees = [rows.trees[tree_id] for tree_id in tree_order]
    refs: dict[str, ArrayRef] = {tree.id: tree.array_ref for tree in trees}
    if missing := await context.arrays.missing(transaction, refs):
        raise NotFound(f"the arrays of {len(missing)} trees are no longer kept (retention), first {missing[0]}")
    offsets = container_offsets([tree.num_bytes for tree in trees])
    header = BatchHeader(
        batch_id=batch.id,
        run_id=batch.run_id,
        model_id=model.id,
        consumer_group=consumer_group,
        trainer_version=batch.trainer_version,
        expires_at_s=batch.expires_at_s,
        end_of_data=False,
        withheld_groups=withheld_groups,
        stale_dropped=stale_dropped,
        groups=groups,
        trees=[_tree_header(tree, offset) for tree, offset in zip(trees, offsets, strict=True)],
    )
    return LeasedBatch(header, refs)


def _oldest_versions(rows: _Rows) -> set[int]:
    found = {trajectory.oldest_version for members in rows.trajectories.values() for trajectory in members}
    return {version for version in found if version is not None}


def _tree_header(tree: TreeRow, offset: int) -> TreeHeader:
    return TreeHeader(
        tree_id=tree.id,
        offset=offset,
        length=tree.num_bytes,
        sha256=tree.sha256,
        layout=TreeLayout.model_validate(tree.layout),
    )


def _group_header(
    rows: _Rows, delivery: DeliveryRow, tree_order: dict[str, int], ages: Mapping[int, int | None]
) -> GroupHeader:
    group = rows.groups[delivery.group_id]
    task = rows.tasks[group.task_id]
    members = rows.rollouts.get(group.id, [])
    stale = set(delivery.stale_rollouts)
    samples = [
        _sample_header(trajectory, rollout, delivery, tree_order.setdefault(trajectory.tree_id, len(tree_order)), ages)
        for rollout in members
        if rollout.state == "completed" and rollout.id not in stale
        for trajectory in rows.trajectories.get(rollout.id, [])
    ]
    return GroupHeader(
        group_id=group.id,
        job_id=group.job_id,
        task_id=group.task_id,
        task_index=group.task_index,
        task_key=task.key,
        task_metadata=task.metadata,
        recipe=samples[0].recipe if samples else "",
        group_size=group.size,
        failed_members=sum(rollout.state == "failed" for rollout in members),
        stale_members=len(stale),
        samples=samples,
    )


def _sample_header(
    trajectory: TrajectoryRow,
    rollout: RolloutRow,
    delivery: DeliveryRow,
    tree_index: int,
    ages: Mapping[int, int | None],
) -> SampleHeader:
    return SampleHeader.model_validate(
        {
            "trajectory_id": trajectory.id,
            "rollout_id": rollout.id,
            "tree": tree_index,
            "path": trajectory.path,
            "role": trajectory.role,
            "recipe": trajectory.recipe,
            "member_index": rollout.member_index,
            "stop_reason": trajectory.stop_reason,
            "stop_detail": trajectory.stop_detail,
            "reward": rollout.reward,
            "rewards": rollout.rewards,
            "logprob_kind": trajectory.logprob_kind,
            **trajectory.sampling,
            "seed": trajectory.seed,
            "num_tokens": trajectory.num_tokens,
            "num_trainable": trajectory.num_trainable,
            "oldest_version": trajectory.oldest_version,
            "newest_version": trajectory.newest_version,
            "staleness": None if trajectory.oldest_version is None else ages[trajectory.oldest_version],
            "engine": trajectory.engine,
            "timings": rollout.timings,
            "findings": trajectory.findings,
            "stale_versions": [version for version in trajectory.versions if version in delivery.stale_versions],
        }
    )
