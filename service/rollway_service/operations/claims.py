"""Claims, checkpoints and ends of work items, as workers make them. Each is fenced: a late writer changes nothing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rollway.types import JobCreate
from rollway_service.core.errors import InvalidRequest
from rollway_service.operations.admission import admit_to_pool
from rollway_service.operations.context import Context
from rollway_service.operations.messages import CheckpointPiece, ClaimedItem, Claims, FinishedRollout
from rollway_service.operations.rollout_ends import RolloutEnd, end_rollouts
from rollway_service.operations.sessions import live_session, requeue_items
from rollway_service.store import fleet, jobs, records, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import TaskRow, WorkItemRow


async def claim(context: Context, session_id: str, *, limit: int, active_version: int | None) -> Claims:
    """Give the session up to `limit` work items that fit its weights; admits more when too few are queued."""
    async with context.database.transaction() as transaction:
        session = await live_session(transaction, session_id)

        async def take(limit: int) -> list[WorkItemRow]:
            return await work.claim(
                transaction,
                pool_id=session.pool_id,
                session_id=session_id,
                limit=limit,
                active_version=active_version,
            )

        items = await take(limit)
        if len(items) < limit and await admit_to_pool(context, transaction, session.pool_id, limit - len(items)):
            items += await take(limit - len(items))
        return await _claims(transaction, items)


async def _claims(transaction: Transaction, items: Sequence[WorkItemRow]) -> Claims:
    if not items:
        return Claims(items=[], jobs={})
    rows = await jobs.jobs_by_ids(transaction, sorted({item.job_id for item in items}))
    tasks = await jobs.tasks_by_ids(transaction, sorted({item.task_id for item in items}))
    resumed = [item.id for item in items if item.fence > 1]
    payloads = await work.checkpoints_of(transaction, resumed)
    now_s = await transaction.now_s()
    return Claims(
        items=[_claimed(item, tasks[item.task_id], payloads.get(item.id, []), now_s) for item in items],
        jobs={job_id: JobCreate.model_validate(row.spec) for job_id, row in rows.items()},
    )


def _claimed(item: WorkItemRow, task: TaskRow, payloads: list[bytes], now_s: float) -> ClaimedItem:
    assert item.deadline_at_s is not None
    return ClaimedItem(
        work_item_id=item.id,
        fence=item.fence,
        run_id=item.run_id,
        job_id=item.job_id,
        group_id=item.group_id,
        task_id=item.task_id,
        rollout_id=item.rollout_id,
        task_index=task.task_index,
        member_index=item.member_index,
        seed=item.seed,
        attempts=item.attempts,
        prompt_ids=np.frombuffer(task.prompt_ids, dtype="<i4"),
        reference=task.reference,
        metadata=task.metadata,
        checkpoints=payloads,
        remaining_s=item.deadline_at_s - now_s,
        queued_s=max(0.0, now_s - item.created_at_s),
        exact_version=item.exact_version,
        min_version=item.min_version,
    )


async def checkpoint(context: Context, session_id: str, pieces: Sequence[CheckpointPiece]) -> list[str]:
    """Keep what rollouts have gained. Returns the items that are no longer the session's; theirs was not kept."""
    fences = {piece.work_item_id: piece.fence for piece in pieces}
    async with context.database.transaction() as transaction:
        owned = await work.owned_items(transaction, session_id, fences)
        rows = [
            {
                "work_item_id": piece.work_item_id,
                "sequence": piece.sequence,
                "tenant_id": owned[piece.work_item_id].tenant_id,
                "run_id": owned[piece.work_item_id].run_id,
                "fence": piece.fence,
                "sampled_tokens": piece.sampled_tokens,
                "payload": piece.payload,
            }
            for piece in pieces
            if piece.work_item_id in owned
        ]
        await work.insert_checkpoints(transaction, rows)
    return sorted(set(fences) - set(owned))


async def finish(context: Context, session_id: str, finished: Sequence[FinishedRollout]) -> list[str]:
    """Store rollouts that have ended, each exactly once. Returns the items that are no longer the session's.

    Their tokens are booked as waste; nothing else of them is kept.

    Raises:
        InvalidRequest: a tree contradicts itself; nothing was stored.
    """
    fences = {rollout.work_item_id: rollout.fence for rollout in finished}
    if len(fences) != len(finished):
        raise InvalidRequest("a work item is finished twice in one call")
    async with context.database.transaction() as transaction:
        owned = await work.owned_items(transaction, session_id, fences)
        ends = [
            RolloutEnd(owned[rollout.work_item_id], rollout) for rollout in finished if rollout.work_item_id in owned
        ]
        await end_rollouts(context, transaction, ends)
        rest = [rollout for rollout in finished if rollout.work_item_id not in owned]
        return await _late(transaction, session_id, rest)


async def _late(transaction: Transaction, session_id: str, rest: Sequence[FinishedRollout]) -> list[str]:
    """Items whose results came too late; their tokens are booked as waste.

    A result that is stored already was sent again because the answer was lost, and is not late.
    """
    if not rest:
        return []
    tenant_id = await fleet.session_tenant(transaction, session_id)
    found = await work.items_by_ids(transaction, [rollout.work_item_id for rollout in rest])
    items = {item_id: item for item_id, item in found.items() if item.tenant_id == tenant_id}
    trees = await records.trees_of_groups(transaction, sorted({item.group_id for item in items.values()}))
    stored = {(tree.work_item_id, tree.sha256) for tree in trees.values()}
    wasted: dict[str, int] = {}
    late = []
    for rollout in rest:
        item = items.get(rollout.work_item_id)
        sha256 = None if rollout.tree is None else rollout.tree.sha256
        if item is not None and item.fence == rollout.fence and (item.id, sha256) in stored:
            continue
        late.append(rollout.work_item_id)
        if item is not None:
            wasted[item.job_id] = wasted.get(item.job_id, 0) + rollout.usage.sampled_tokens
    for job_id in sorted(wasted):
        await jobs.add_counts(transaction, job_id, {"wasted_tokens": wasted[job_id]})
    return sorted(late)


async def release(context: Context, session_id: str, fences: dict[str, int], reason: str) -> None:
    """Hand back items that this worker cannot finish; they are queued again, up to their `limits.max_attempts`."""
    async with context.database.transaction() as transaction:
        owned = await work.owned_items(transaction, session_id, fences)
        await requeue_items(context, transaction, list(owned.values()), reason)
