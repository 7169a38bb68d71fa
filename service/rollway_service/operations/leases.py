"""Leasing batches: who gets which groups, each once per consumer group, until acknowledged or expired."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from rollway.types import BatchLease, JobCreate
from rollway_service.core.errors import FieldInvalid
from rollway_service.core.ids import is_id, new_id
from rollway_service.core.selection import Candidate, Selection, select_members
from rollway_service.core.states import is_terminal
from rollway_service.dispatch.ports import run_topic
from rollway_service.operations.batch_frames import LeasedBatch, empty_batch, load_batch
from rollway_service.operations.consumption import count_consumed
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.lookups import get_run
from rollway_service.store import deliveries, jobs, models, records
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import DeliveryRow, JobRow, ModelRow, RunRow

_POLL_S = 0.5


@dataclass(slots=True)
class Choice:
    """What a scan of the offered groups found."""

    taken: list[tuple[DeliveryRow, Selection]] = field(default_factory=list)
    dropped: list[DeliveryRow] = field(default_factory=list)
    withheld: int = 0
    num_samples: int = 0
    is_full: bool = False


async def lease_batch(context: Context, caller: Caller, run_id: str, request: BatchLease) -> LeasedBatch:
    """Lease a batch, waiting up to `wait_s` for it to be full.

    No connection is held while waiting. An answer without groups says why: the end of the data, or what is awaited.
    """
    deadline_s = time.monotonic() + request.wait_s
    await _ensure_consumer_group(context, caller, run_id, request.consumer_group)
    while True:
        ticket = context.wakeups.ticket(run_topic(run_id))
        remaining_s = deadline_s - time.monotonic()
        async with context.database.transaction() as transaction:
            batch = await _try_lease(context, transaction, caller, run_id, request, is_last=remaining_s <= 0)
        if batch.header.groups or batch.header.end_of_data or remaining_s <= 0:
            return batch
        await context.wakeups.wait(run_topic(run_id), ticket, min(_POLL_S, remaining_s))


async def _ensure_consumer_group(context: Context, caller: Caller, run_id: str, name: str) -> None:
    async with context.database.snapshot() as transaction:
        await get_run(transaction, caller.tenant_id, run_id)
        if await deliveries.consumer_group_id(transaction, run_id, name) is not None:
            return
    async with context.database.transaction() as transaction:
        # The lock keeps groups from becoming ready between the look at what is ready and the birth of the consumer.
        await get_run(transaction, caller.tenant_id, run_id, lock=True)
        if await deliveries.consumer_group_id(transaction, run_id, name) is None:
            await deliveries.insert_consumer_group(
                transaction, id=new_id("consumer_group"), tenant_id=caller.tenant_id, run_id=run_id, name=name
            )


async def _matching_jobs(transaction: Transaction, run: RunRow, request: BatchLease) -> list[JobRow]:
    """Jobs that the lease may take from: named ones, else all training jobs; evaluations never."""
    found = [job for job in await jobs.jobs_of_run(transaction, run.id) if job.purpose != "eval"]
    if request.job_ids is not None:
        for index, job_id in enumerate(request.job_ids):
            if not is_id("job", job_id) or all(job.id != job_id for job in found):
                raise FieldInvalid(f"$.job_ids[{index}]", f"run {run.id} has no job {job_id!r} to train on")
        found = [job for job in found if job.id in request.job_ids]
    else:
        found = [job for job in found if job.purpose == "train"]
    if request.tags:
        found = [job for job in found if set(request.tags) <= set(job.spec.get("tags", []))]
    return found


async def _try_lease(
    context: Context, transaction: Transaction, caller: Caller, run_id: str, request: BatchLease, *, is_last: bool
) -> LeasedBatch:
    run = await get_run(transaction, caller.tenant_id, run_id)
    consumer_group = await deliveries.consumer_group_id(transaction, run_id, request.consumer_group)
    assert consumer_group is not None
    model = await models.model_by_id(transaction, run.tenant_id, run.model_id)
    assert model is not None
    trainer_version = _trainer_version(request, model)
    if request.request_id is not None:
        await transaction.alone_with("batch", consumer_group, request.request_id)
        stored = await deliveries.batch_by_request(transaction, consumer_group, request.request_id)
        if stored is not None:
            return await load_batch(context, transaction, stored, request.consumer_group)
    matching = await _matching_jobs(transaction, run, request)
    choice = await _choose(context, transaction, consumer_group, matching, model, trainer_version, request)
    await _drop(context, transaction, consumer_group, choice.dropped, matching)
    job_ids = [job.id for job in matching]
    seen = len(choice.taken) + len(choice.dropped) + choice.withheld
    is_contended = not choice.is_full and await deliveries.count_offered(transaction, consumer_group, job_ids) > seen
    is_final = bool(matching) and not is_contended and all(is_terminal("job", job.state) for job in matching)
    if choice.taken and (choice.is_full or is_final or (is_last and request.allow_partial)):
        return await _lease(context, transaction, run, consumer_group, trainer_version, request, choice)
    header = {
        "run_id": run.id,
        "model_id": run.model_id,
        "consumer_group": request.consumer_group,
        "trainer_version": trainer_version,
        "withheld_groups": choice.withheld,
        "stale_dropped": len(choice.dropped),
    }
    if is_final and not choice.taken:
        held = await deliveries.leased_elsewhere(transaction, consumer_group, job_ids, request.consumer)
        if held == 0:
            return empty_batch(**header, end_of_data=True)
        waiting_for = f"leases: {held} groups are leased to other consumers and may come back"
    else:
        waiting_for = await _missing(transaction, matching, choice, request)
    return empty_batch(**header, end_of_data=False, waiting_for=waiting_for)


def _trainer_version(request: BatchLease, model: ModelRow) -> int:
    if request.trainer_version is None:
        return model.latest_version
    if request.trainer_version > model.latest_version:
        raise FieldInvalid(
            "$.trainer_version",
            f"version {request.trainer_version} does not exist; the latest is {model.latest_version}",
        )
    return request.trainer_version


async def _missing(transaction: Transaction, matching: Sequence[JobRow], choice: Choice, request: BatchLease) -> str:
    if not matching:
        return "jobs: the run has no training job yet"
    counters = await jobs.counters_of(transaction, [job.id for job in matching])
    in_flight = sum(counter.groups_open for counter in counters.values())
    backlog = sum(counter.tasks - counter.tasks_admitted for counter in counters.values())
    wanted = f"{request.groups} groups" if request.groups is not None else f"{request.samples} samples"
    return (
        f"groups: {len(choice.taken)} groups ({choice.num_samples} samples) of the wanted {wanted} are ready;"
        f" {in_flight} in flight, {backlog} in the backlog, {choice.withheld} withheld as stale"
    )


async def _choose(
    context: Context,
    transaction: Transaction,
    consumer_group: str,
    matching: Sequence[JobRow],
    model: ModelRow,
    trainer_version: int,
    request: BatchLease,
) -> Choice:
    """Scan offered groups in order until the batch is full or none is left."""
    choice = Choice()
    if not matching:
        return choice
    specs = {job.id: JobCreate.model_validate(job.spec) for job in matching}
    smallest = min(spec.group_size for spec in specs.values())
    lineage = await context.lineage(transaction, model.id, model.latest_version)
    after: str | None = None
    while not choice.is_full:
        limit = _wanted_groups(request, choice, smallest)
        offered = await deliveries.offered(transaction, consumer_group, list(specs), after=after, limit=limit)
        candidates = await _candidates(transaction, offered)
        for delivery in offered:
            spec = specs[delivery.job_id]
            selection = select_members(
                candidates.get(delivery.group_id, []),
                lineage,
                trainer_version=trainer_version,
                max_staleness=request.max_staleness,
                action=request.stale,
                min_members=spec.member_failure.min_members,
            )
            size = len(candidates.get(delivery.group_id, [])) - len(selection.stale_rollouts)
            _place(choice, delivery, selection, size, request)
            if choice.is_full:
                break
        if len(offered) < limit:
            break
        after = offered[-1].ready_order
    return choice


def _wanted_groups(request: BatchLease, choice: Choice, smallest_group: int) -> int:
    """Groups still wanted. No more rows than these are locked, so that consumers do not hide groups from each other."""
    if request.groups is not None:
        return request.groups - len(choice.taken)
    assert request.samples is not None
    return max(1, math.ceil((request.samples - choice.num_samples) / smallest_group))


def _place(choice: Choice, delivery: DeliveryRow, selection: Selection, size: int, request: BatchLease) -> None:
    if selection.verdict == "withhold":
        choice.withheld += 1
    elif selection.verdict == "drop":
        choice.dropped.append(delivery)
    elif request.samples is not None and choice.num_samples + size > request.samples:
        if not choice.taken:
            raise FieldInvalid(
                "$.samples", f"the next group has {size} samples, and groups are never split; ask for at least {size}"
            )
        choice.is_full = True
    else:
        choice.taken.append((delivery, selection))
        choice.num_samples += size
        choice.is_full = (
            len(choice.taken) == request.groups if request.samples is None else choice.num_samples == request.samples
        )


async def _candidates(transaction: Transaction, offered: Sequence[DeliveryRow]) -> dict[str, list[Candidate]]:
    """Usable samples by group."""
    found: dict[str, list[Candidate]] = {}
    for row in await records.usable_versions(transaction, [delivery.group_id for delivery in offered]):
        found.setdefault(row.group_id, []).append(Candidate(row.rollout_id, tuple(row.versions), row.num_trainable))
    return found


async def _drop(
    context: Context,
    transaction: Transaction,
    consumer_group: str,
    dropped: Sequence[DeliveryRow],
    matching: Sequence[JobRow],
) -> None:
    """Groups too old for this consumer group are gone for it, and no longer count as ahead of the trainer."""
    if not dropped:
        return
    await deliveries.drop_deliveries(transaction, consumer_group, [delivery.group_id for delivery in dropped])
    await count_consumed(context, transaction, dropped, {job.id: job for job in matching}, is_stale=True)


async def _lease(
    context: Context,
    transaction: Transaction,
    run: RunRow,
    consumer_group: str,
    trainer_version: int,
    request: BatchLease,
    choice: Choice,
) -> LeasedBatch:
    batch_id = new_id("batch")
    await deliveries.insert_batch(
        transaction,
        lease_s=request.lease_s,
        id=batch_id,
        tenant_id=run.tenant_id,
        run_id=run.id,
        consumer_group_id=consumer_group,
        consumer=request.consumer,
        request_id=request.request_id,
        request=request.model_dump(mode="json", exclude_defaults=True),
        trainer_version=trainer_version,
    )
    group_ids = [delivery.group_id for delivery, _ in choice.taken]
    await deliveries.lease_deliveries(transaction, consumer_group, group_ids, batch_id)
    for delivery, selection in choice.taken:
        if selection.stale_rollouts or selection.masked_versions:
            await deliveries.note_stale(
                transaction,
                consumer_group,
                delivery.group_id,
                list(selection.stale_rollouts),
                list(selection.masked_versions),
            )
    stored = await deliveries.batch_by_id(transaction, run.tenant_id, batch_id)
    assert stored is not None
    return await load_batch(
        context,
        transaction,
        stored,
        request.consumer_group,
        withheld_groups=choice.withheld,
        stale_dropped=len(choice.dropped),
    )
