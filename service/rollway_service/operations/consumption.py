"""Acknowledging batches: consumed, checkpointed, returned, extended, rewound."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rollway.types import BatchConsumed, BatchExtend, BatchReturn, BatchState, CheckpointMark, Rewind, Rewound
from rollway_service.core.errors import FieldInvalid, NotFound, StaleFence
from rollway_service.dispatch.ports import job_topic, pool_topic, run_topic
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.lookups import get_batch, get_run
from rollway_service.store import deliveries, jobs
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import BatchRow, DeliveryRow, JobRow


async def count_consumed(
    context: Context,
    transaction: Transaction,
    consumed: Sequence[DeliveryRow],
    job_rows: Mapping[str, JobRow],
    *,
    sign: int = 1,
    is_stale: bool = False,
) -> None:
    """Move the jobs' counters of what trainers have used up (or, with sign -1, want again; or find too old).

    A group counts once, when no consumer group wants it any more; that is what lets admission go on.
    """
    if not consumed:
        return
    run_id = consumed[0].run_id
    wanted = await deliveries.still_wanted(transaction, run_id, [delivery.group_id for delivery in consumed])
    by_job: dict[str, list[DeliveryRow]] = {}
    for delivery in consumed:
        by_job.setdefault(delivery.job_id, [])
        if sign < 0 or delivery.group_id not in wanted:
            by_job[delivery.job_id].append(delivery)
    for job_id in sorted(by_job):
        gone = by_job[job_id]
        counts = {
            "groups_stale" if is_stale else "groups_consumed": sign * len(gone),
            "bytes_consumed": sign * sum(delivery.num_bytes for delivery in gone),
        }
        drops = {"stale": len(gone)} if is_stale and gone else None
        await jobs.add_counts(transaction, job_id, counts, drops=drops)
        job = job_rows[job_id]
        for topic in (pool_topic(job.pool_id), job_topic(job_id)):
            transaction.after_commit(lambda topic=topic: context.wakeups.wake(topic))  # type: ignore[misc]


def _answer(batch: BatchRow, state: str, groups: int, expires_at_s: float | None = None) -> BatchState:
    return BatchState.model_validate(
        {
            "batch_id": batch.id,
            "state": state,
            "groups": groups,
            "expires_at_s": batch.expires_at_s if expires_at_s is None else expires_at_s,
        }
    )


async def _held(
    transaction: Transaction, batch: BatchRow, group_ids: Sequence[str] | None
) -> tuple[list[DeliveryRow], bool]:
    """Deliveries of the batch that a request is about, and whether they are all that it still holds."""
    held = await deliveries.deliveries_of_batch(transaction, batch.id, lock=True)
    if group_ids is None:
        return held, True
    by_id = {delivery.group_id: delivery for delivery in held}
    for index, group_id in enumerate(group_ids):
        if group_id not in by_id:
            raise FieldInvalid(f"$.group_ids[{index}]", f"batch {batch.id} does not hold group {group_id!r}")
    return [by_id[group_id] for group_id in dict.fromkeys(group_ids)], set(group_ids) == set(by_id)


def _check_leased(batch: BatchRow) -> None:
    if batch.state != "leased":
        raise StaleFence(
            f"batch {batch.id} is {batch.state}: its lease is over, and its groups may be another consumer's"
        )


async def consume_batch(context: Context, caller: Caller, batch_id: str, request: BatchConsumed) -> BatchState:
    """The trainer has used these groups in a step. Saying it again for the same step is fine.

    Raises:
        StaleFence: the lease ran out before.
    """
    async with context.database.transaction() as transaction:
        batch = await get_batch(transaction, caller.tenant_id, batch_id)
        is_kept = batch.state == "consumed" and await deliveries.count_consumed_of(transaction, batch_id) > 0
        if is_kept and batch.step == request.step:
            return _answer(batch, "consumed", 0)
        _check_leased(batch)
        held, is_all = await _held(transaction, batch, request.group_ids)
        await deliveries.consume(transaction, batch_id, [delivery.group_id for delivery in held], request.step)
        if is_all:
            await deliveries.set_batch(transaction, batch_id, state="consumed", step=request.step)
        job_rows = await jobs.jobs_by_ids(transaction, sorted({delivery.job_id for delivery in held}))
        await count_consumed(context, transaction, held, job_rows)
        transaction.after_commit(lambda: context.wakeups.wake(run_topic(batch.run_id)))
        return _answer(batch, "consumed" if is_all else "leased", len(held))


async def return_batch(context: Context, caller: Caller, batch_id: str, request: BatchReturn) -> BatchState:
    """Put groups back on offer, unused. Returning a returned batch is fine."""
    async with context.database.transaction() as transaction:
        batch = await get_batch(transaction, caller.tenant_id, batch_id)
        if batch.state == "returned":
            return _answer(batch, "returned", 0)
        _check_leased(batch)
        held, is_all = await _held(transaction, batch, request.group_ids)
        await deliveries.offer_again(transaction, batch_id, [delivery.group_id for delivery in held])
        if is_all:
            await deliveries.set_batch(transaction, batch_id, state="returned")
        transaction.after_commit(lambda: context.wakeups.wake(run_topic(batch.run_id)))
        return _answer(batch, "returned" if is_all else "leased", len(held))


async def extend_batch(context: Context, caller: Caller, batch_id: str, request: BatchExtend) -> BatchState:
    """Keep a batch for `lease_s` more seconds from now."""
    async with context.database.transaction() as transaction:
        batch = await get_batch(transaction, caller.tenant_id, batch_id)
        _check_leased(batch)
        expires_at_s = await deliveries.extend_batch(transaction, batch_id, request.lease_s)
        held = await deliveries.deliveries_of_batch(transaction, batch_id)
        return _answer(batch, "leased", len(held), expires_at_s)


async def _consumer_group(transaction: Transaction, caller: Caller, run_id: str, name: str) -> str:
    await get_run(transaction, caller.tenant_id, run_id)
    found = await deliveries.consumer_group_id(transaction, run_id, name)
    if found is None:
        raise NotFound(f"run {run_id} has no consumer group {name!r}: nothing was leased under that name")
    return found


async def mark_checkpointed(context: Context, caller: Caller, run_id: str, request: CheckpointMark) -> Rewound:
    """All that was consumed up to this step is in a checkpoint of the trainer."""
    async with context.database.transaction() as transaction:
        consumer_group = await _consumer_group(transaction, caller, run_id, request.consumer_group)
        await deliveries.mark_checkpointed(transaction, consumer_group, request.step)
        return Rewound(groups_offered_again=0)


async def rewind(context: Context, caller: Caller, run_id: str, request: Rewind) -> Rewound:
    """Go back to the trainer's checkpoint: what it consumed after that step is offered again, in the same order."""
    async with context.database.transaction() as transaction:
        consumer_group = await _consumer_group(transaction, caller, run_id, request.consumer_group)
        wanted_before = await deliveries.consumed_after(transaction, consumer_group, request.step)
        still_wanted = await deliveries.still_wanted(transaction, run_id, [row.group_id for row in wanted_before])
        again = await deliveries.rewind(transaction, consumer_group, request.step)
        counted = [row for row in wanted_before if row.group_id not in still_wanted]
        job_rows = await jobs.jobs_by_ids(transaction, sorted({row.job_id for row in counted}))
        await count_consumed(context, transaction, counted, job_rows, sign=-1)
        transaction.after_commit(lambda: context.wakeups.wake(run_topic(run_id)))
        return Rewound(groups_offered_again=again)
