"""Progress of jobs, the reason why work is held back, and the stream that watches it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from rollway.types import JobCreate, JobProgress
from rollway_service.core.states import is_terminal
from rollway_service.dispatch.ports import job_topic
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.lookups import get_job
from rollway_service.policies.control.admission import Allowance, allowance
from rollway_service.policies.views import AheadView
from rollway_service.store import fleet, jobs, models, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import CounterRow, JobRow

WATCH_MAX_SILENCE_S = 15.0
_WATCH_POLL_S = 1.0
_WATCH_MIN_GAP_S = 0.1


async def ahead_view(transaction: Transaction, job: JobRow, counters: CounterRow) -> AheadView:
    """How far the job has run ahead of its trainer, now."""
    model = await models.model_by_id(transaction, job.tenant_id, job.model_id)
    assert model is not None
    gone = counters.groups_dropped + counters.groups_failed + counters.groups_cancelled + counters.groups_stale
    counted = counters.groups_admitted - gone
    return AheadView(
        versions_since_start=model.latest_version - job.base_version,
        groups_counted=counted,
        groups_ahead=counted - counters.groups_consumed,
        bytes_ahead=counters.bytes_ready - counters.bytes_consumed,
    )


async def job_allowance(transaction: Transaction, job: JobRow, spec: JobCreate, counters: CounterRow) -> Allowance:
    """Groups that the job's own gates let through. Evaluations are never held back by a trainer."""
    backlog = counters.tasks - counters.tasks_admitted
    if spec.purpose != "train":
        return Allowance(backlog, "")
    gate = allowance(await ahead_view(transaction, job, counters), spec.admission)
    return Allowance(min(backlog, gate.groups), gate.held_by)


async def _waiting_for(transaction: Transaction, job: JobRow, spec: JobCreate, counters: CounterRow) -> str | None:
    if is_terminal("job", job.state):
        return None
    if job.paused:
        return "paused: the job was paused; resume it"
    backlog = counters.tasks - counters.tasks_admitted
    if backlog == 0 and counters.groups_open == 0:
        return None if job.state == "closed" else "tasks: the job is open and has none left"
    workers, _, _, _ = await fleet.pool_load(transaction, job.pool_id)
    if workers == 0:
        return "workers: no live worker serves the job's pool"
    if backlog > 0:
        gate = await job_allowance(transaction, job, spec, counters)
        if gate.groups == 0:
            return gate.held_by
    queued, claimed = await work.count_in_flight(transaction, job.pool_id, job.id)
    if claimed > 0 or counters.groups_open == 0:
        return None
    if queued > 0:
        return f"workers: {queued} rollouts are queued; no worker with a free slot and fitting weights has taken them"
    return f"rewards: the rollouts of {counters.groups_open} groups have ended and wait for posted rewards"


async def job_progress(transaction: Transaction, job: JobRow, spec: JobCreate, counters: CounterRow) -> JobProgress:
    return JobProgress(
        tasks=counters.tasks,
        backlog=counters.tasks - counters.tasks_admitted,
        groups_admitted=counters.groups_admitted,
        groups_open=counters.groups_open,
        groups_ready=counters.groups_ready,
        groups_dropped=counters.groups_dropped,
        groups_failed=counters.groups_failed,
        groups_cancelled=counters.groups_cancelled,
        groups_consumed=counters.groups_consumed,
        groups_stale=counters.groups_stale,
        rollouts_completed=counters.rollouts_completed,
        rollouts_failed=counters.rollouts_failed,
        rollouts_cancelled=counters.rollouts_cancelled,
        rollouts_scored=counters.rollouts_scored,
        rollouts_unscored=counters.rollouts_unscored,
        rollouts_refilled=counters.rollouts_refilled,
        reward_sum=counters.reward_sum,
        prompt_tokens=counters.prompt_tokens,
        sampled_tokens=counters.sampled_tokens,
        trainable_tokens=counters.trainable_tokens,
        wasted_tokens=counters.wasted_tokens,
        nonfinite_logprobs=counters.nonfinite_logprobs,
        missing_logprobs=counters.missing_logprobs,
        drops=counters.drops,
        failures=counters.failures,
        waiting_for=await _waiting_for(transaction, job, spec, counters),
    )


async def watch_job(context: Context, caller: Caller, job_id: str) -> AsyncIterator[JobProgress | None]:
    """Progress whenever it has changed, until the job ends; None where nothing changed for a while.

    No connection is held between two looks.
    """
    last: JobProgress | None = None
    silent_s = 0.0
    while True:
        ticket = context.wakeups.ticket(job_topic(job_id))
        async with context.database.snapshot() as transaction:
            row = await get_job(transaction, caller.tenant_id, job_id)
            counters = (await jobs.counters_of(transaction, [job_id]))[job_id]
            spec = JobCreate.model_validate(row.spec)
            progress = await job_progress(transaction, row, spec, counters)
        if progress != last:
            last, silent_s = progress, 0.0
            yield progress
            # A busy job changes many times a second; nobody reads that fast.
            await asyncio.sleep(_WATCH_MIN_GAP_S)
        if is_terminal("job", row.state):
            return
        if silent_s >= WATCH_MAX_SILENCE_S:
            silent_s = 0.0
            yield None
        await context.wakeups.wait(job_topic(job_id), ticket, _WATCH_POLL_S)
        silent_s += _WATCH_POLL_S
