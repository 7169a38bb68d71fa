"""Reading what is stored: groups, rollouts, trajectories, trees."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rollway.arrays import ORIGINS, TreeArrays, expand_tree, sample_arrays
from rollway.container import read_container
from rollway.types import Group, Page, Rollout, Trajectory, TrajectoryArrays, Tree, TreeLayout, TreeNode, Usage
from rollway_service.core.errors import NotFound
from rollway_service.core.ids import is_id
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.lookups import get_job, get_model, get_run, page_cursor
from rollway_service.store import jobs, records, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import GroupRow, RolloutRow, TrajectoryRow, TreeRow, WorkItemRow
from rollway_service.tokenization.ports import TokenizerError


def _finished(row: RolloutRow, trajectory_ids: Sequence[str]) -> Rollout:
    return Rollout.model_validate(
        {
            "id": row.id,
            "run_id": row.run_id,
            "job_id": row.job_id,
            "group_id": row.group_id,
            "task_id": row.task_id,
            "task_index": row.task_index,
            "member_index": row.member_index,
            "state": row.state,
            "seed": row.seed,
            "attempts": row.attempts,
            "reward": row.reward,
            "rewards": row.rewards,
            "failure": row.failure,
            "trajectory_ids": list(trajectory_ids),
            "usage": row.usage,
            "timings": row.timings,
            "decisions": row.decisions,
            "created_at_s": row.created_at_s,
            "ended_at_s": row.ended_at_s,
        }
    )


def _unfinished(item: WorkItemRow, task_index: int, checkpointed_tokens: int) -> Rollout:
    return Rollout(
        id=item.rollout_id,
        run_id=item.run_id,
        job_id=item.job_id,
        group_id=item.group_id,
        task_id=item.task_id,
        task_index=task_index,
        member_index=item.member_index,
        state="running" if item.state == "claimed" else "queued",
        seed=item.seed,
        attempts=item.attempts,
        usage=Usage(),
        checkpointed_tokens=checkpointed_tokens,
        created_at_s=item.created_at_s,
    )


async def read_rollout(context: Context, caller: Caller, rollout_id: str) -> Rollout:
    """A rollout, whether it runs or has ended."""
    if not is_id("rollout", rollout_id):
        raise NotFound.of("rollout", rollout_id)
    async with context.database.snapshot() as transaction:
        row = await records.rollout_by_id(transaction, caller.tenant_id, rollout_id)
        if row is not None:
            trajectories = await records.trajectories_of_rollouts(transaction, [row.id])
            return _finished(row, [trajectory.id for trajectory in trajectories])
        item = await work.item_of_rollout(transaction, caller.tenant_id, rollout_id)
        if item is None:
            raise NotFound.of("rollout", rollout_id)
        task = (await jobs.tasks_by_ids(transaction, [item.task_id]))[item.task_id]
        return _unfinished(item, task.task_index, await work.checkpointed_tokens(transaction, item.id))


async def list_rollouts(
    context: Context, caller: Caller, *, filters: Mapping[str, str | None], cursor: str | None, limit: int
) -> Page[Rollout]:
    """Rollouts that have ended, newest first."""
    async with context.database.snapshot() as transaction:
        rows = await records.list_rollouts(
            transaction, caller.tenant_id, page_cursor(cursor, limit, "rollout"), filters
        )
        found = await records.trajectories_of_rollouts(transaction, [row.id for row in rows])
    by_rollout: dict[str, list[str]] = {}
    for trajectory in found:
        by_rollout.setdefault(trajectory.rollout_id, []).append(trajectory.id)
    items = [_finished(row, by_rollout.get(row.id, [])) for row in rows]
    return Page(items=items, next_cursor=rows[-1].id if len(rows) == limit else None)


async def get_group(context: Context, caller: Caller, group_id: str) -> Group:
    """A group with the members it still waits for."""
    async with context.database.snapshot() as transaction:
        found = is_id("group", group_id)
        row = await work.group_by_id(transaction, caller.tenant_id, group_id) if found else None
        if row is None:
            raise NotFound.of("group", group_id)
        pending = await work.items_of_groups(transaction, [group_id], ("queued", "claimed"))
        members = await records.rollouts_of_groups(transaction, [group_id])
        task = (await jobs.tasks_by_ids(transaction, [row.task_id]))[row.task_id]
    return _as_group(row, task.key, [item.rollout_id for item in pending], members)


def _as_group(row: GroupRow, key: str | None, pending: list[str], members: Sequence[RolloutRow]) -> Group:
    usable = [member for member in members if member.state == "completed"]
    return Group.model_validate(
        {
            "id": row.id,
            "run_id": row.run_id,
            "job_id": row.job_id,
            "task_id": row.task_id,
            "task_index": row.task_index,
            "task_key": key,
            "state": row.state,
            "group_size": row.size,
            "num_usable": len(usable),
            "num_failed": sum(member.state == "failed" for member in members),
            "reason": row.reason,
            "pending_rollout_ids": pending + [m.id for m in members if m.state == "awaiting_reward"],
            "rewards": [member.reward for member in usable],
            "decisions": row.decisions,
            "deadline_at_s": row.deadline_at_s,
            "created_at_s": row.created_at_s,
            "ended_at_s": row.ended_at_s,
        }
    )


async def list_groups(
    context: Context, caller: Caller, job_id: str, *, state: str | None, cursor: str | None, limit: int
) -> Page[Group]:
    async with context.database.snapshot() as transaction:
        await get_job(transaction, caller.tenant_id, job_id)
        rows = await work.list_groups(transaction, job_id, page_cursor(cursor, limit, "group"), state)
        ids = [row.id for row in rows]
        pending = await work.items_of_groups(transaction, ids, ("queued", "claimed"))
        members = await records.rollouts_of_groups(transaction, ids)
        tasks = await jobs.tasks_by_ids(transaction, [row.task_id for row in rows])
    items = [
        _as_group(
            row,
            tasks[row.task_id].key,
            [item.rollout_id for item in pending if item.group_id == row.id],
            [member for member in members if member.group_id == row.id],
        )
        for row in rows
    ]
    return Page(items=items, next_cursor=rows[-1].id if len(rows) == limit else None)


def _as_trajectory(
    row: TrajectoryRow, rollout: RolloutRow | None, arrays: TrajectoryArrays | None, text: str | None
) -> Trajectory:
    return Trajectory.model_validate(
        {
            "id": row.id,
            "run_id": row.run_id,
            "job_id": row.job_id,
            "group_id": row.group_id,
            "rollout_id": row.rollout_id,
            "task_id": row.task_id,
            "role": row.role,
            "model_id": row.model_id,
            "recipe": row.recipe,
            "stop_reason": row.stop_reason,
            "stop_detail": row.stop_detail,
            "finish_reasons": row.finish_reasons,
            "num_tokens": row.num_tokens,
            "num_sampled": row.num_sampled,
            "num_trainable": row.num_trainable,
            "oldest_version": row.oldest_version,
            "newest_version": row.newest_version,
            "logprob_kind": row.logprob_kind,
            **row.sampling,
            "seed": row.seed,
            "engine": row.engine,
            "findings": row.findings,
            "reward": None if rollout is None else rollout.reward,
            "rewards": [] if rollout is None else rollout.rewards,
            "created_at_s": row.created_at_s,
            "arrays": arrays,
            "text": text,
        }
    )


async def list_trajectories(
    context: Context, caller: Caller, *, filters: Mapping[str, Any], cursor: str | None, limit: int
) -> Page[Trajectory]:
    """Trajectories without arrays, newest first."""
    async with context.database.snapshot() as transaction:
        if filters.get("run_id") is not None:
            await get_run(transaction, caller.tenant_id, filters["run_id"])
        rows = await records.list_trajectories(
            transaction, caller.tenant_id, page_cursor(cursor, limit, "trajectory"), filters
        )
        rollouts = await records.rollouts_by_ids(transaction, sorted({row.rollout_id for row in rows}))
    items = [_as_trajectory(row, rollouts.get(row.rollout_id), None, None) for row in rows]
    return Page(items=items, next_cursor=rows[-1].id if len(rows) == limit else None)


async def read_tree(context: Context, transaction: Transaction, row: TreeRow) -> TreeArrays:
    """A stored tree with its arrays. Raises NotFound when retention has taken them."""
    data = await context.arrays.get(transaction, {row.id: row.array_ref})
    if row.id not in data:
        raise NotFound(f"the arrays of tree {row.id} are no longer kept (retention)")
    return expand_tree(TreeLayout.model_validate(row.layout), *read_container(data[row.id]))


def _nullable(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


async def get_trajectory(
    context: Context, caller: Caller, trajectory_id: str, *, with_arrays: bool, with_text: bool
) -> Trajectory:
    """One trajectory; arrays and text on request. Log-probs that were not observed are null."""
    async with context.database.snapshot() as transaction:
        found = is_id("trajectory", trajectory_id)
        row = await records.trajectory_by_id(transaction, caller.tenant_id, trajectory_id) if found else None
        if row is None:
            raise NotFound.of("trajectory", trajectory_id)
        rollout = await records.rollout_by_id(transaction, caller.tenant_id, row.rollout_id)
        model = await get_model(transaction, caller.tenant_id, row.model_id)
        arrays = None
        if with_arrays or with_text:
            tree_row = await records.tree_by_id(transaction, row.tree_id)
            assert tree_row is not None
            arrays = _path_arrays(await read_tree(context, transaction, tree_row), row.path)
    text = None
    if with_text and arrays is not None:
        try:
            text = (await context.tokenizers.load(model.source)).decode(arrays.token_ids, skip_special=False)
        except TokenizerError as error:
            raise NotFound(f"no text: {error}") from None
    return _as_trajectory(row, rollout, arrays if with_arrays else None, text)


def _path_arrays(tree: TreeArrays, path: Sequence[int]) -> TrajectoryArrays:
    sample = sample_arrays(tree, path)
    observed = [
        value for node in path for value in tree.observed_logprobs[tree.starts[node] : tree.starts[node + 1]].tolist()
    ]
    return TrajectoryArrays(
        token_ids=sample.token_ids.tolist(),
        behavior_logprobs=_nullable(observed),
        loss_mask=sample.loss_mask.tolist(),
        weight_versions=sample.weight_versions.tolist(),
        kv_versions=sample.kv_versions.tolist(),
        origins=[ORIGINS[code] for code in sample.origins],
    )


async def get_rollout_tree(context: Context, caller: Caller, rollout_id: str) -> Tree:
    """The tree that the rollout's work item grew."""
    async with context.database.snapshot() as transaction:
        rollout = (
            await records.rollout_by_id(transaction, caller.tenant_id, rollout_id)
            if is_id("rollout", rollout_id)
            else None
        )
        if rollout is None:
            raise NotFound(f"no rollout {rollout_id!r} that has ended")
        trajectories = await records.trajectories_of_rollouts(transaction, [rollout_id])
        if not trajectories:
            raise NotFound(f"rollout {rollout_id} ended before it had any token")
        row = await records.tree_by_id(transaction, trajectories[0].tree_id)
        assert row is not None
        tree = await read_tree(context, transaction, row)
    return Tree(
        id=row.id,
        group_id=row.group_id,
        nodes=[_node(tree, index) for index in range(len(tree.layout.parents))],
        paths={trajectory.id: trajectory.path for trajectory in trajectories},
    )


def _node(tree: TreeArrays, index: int) -> TreeNode:
    where = slice(tree.starts[index], tree.starts[index + 1])
    origin = tree.layout.origins[index]
    return TreeNode(
        index=index,
        parent=tree.layout.parents[index],
        origin=origin,
        turn=tree.layout.turns[index],
        token_ids=tree.token_ids[where].tolist(),
        behavior_logprobs=_nullable(tree.observed_logprobs[where].tolist()) if origin == "model" else None,
        loss_mask=tree.loss_mask[where].tolist(),
        weight_versions=tree.weight_versions[where].tolist(),
    )
