"""Admission: work leaves the backlog when a worker asks for more than is queued, as far as the job's gates allow."""

from __future__ import annotations

from collections.abc import Sequence

from rollway.types import JobCreate
from rollway_service.operations.context import Context
from rollway_service.operations.progress import job_allowance
from rollway_service.operations.work_rows import group_members, group_row
from rollway_service.policies.control.admission import share_pool
from rollway_service.policies.views import JobShareView
from rollway_service.store import fleet, jobs, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import JobRow


async def admit_to_pool(context: Context, transaction: Transaction, pool_id: str, wanted_rollouts: int) -> int:
    """Queue about `wanted_rollouts` rollouts in a pool from the backlogs of its jobs; returns how many came.

    Jobs are locked by their counters in the order of their ids, so that concurrent admissions never pass a gate twice.
    """
    candidates = await jobs.live_jobs_of_pool(transaction, pool_id)
    counters = await jobs.counters_of(transaction, [job.id for job in candidates])
    with_backlog = [job for job in candidates if counters[job.id].tasks > counters[job.id].tasks_admitted]
    if not with_backlog:
        return 0
    counters = await jobs.counters_of(transaction, [job.id for job in with_backlog], lock=True)
    live = await jobs.jobs_by_ids(transaction, [job.id for job in with_backlog])
    queued = await fleet.queued_per_job(transaction, pool_id)
    specs: dict[str, JobCreate] = {}
    views: list[JobShareView] = []
    for job in (live[job.id] for job in with_backlog):
        if job.state not in jobs.LIVE_STATES or job.paused:
            continue
        specs[job.id] = JobCreate.model_validate(job.spec)
        gate = await job_allowance(transaction, job, specs[job.id], counters[job.id])
        views.append(JobShareView(job.id, job.priority, specs[job.id].group_size, gate.groups, queued.get(job.id, 0)))
    shares = share_pool(views, wanted_rollouts, context.settings.queue_target_rollouts)
    now_s = await transaction.now_s()
    admitted = 0
    for job_id in sorted(specs):
        if shares[job_id]:
            tasks = await jobs.next_tasks(transaction, job_id, counters[job_id].tasks_admitted, shares[job_id])
            admitted += await _admit(transaction, live[job_id], specs[job_id], tasks, now_s)
    return admitted


async def _admit(
    transaction: Transaction, job: JobRow, spec: JobCreate, tasks: Sequence[tuple[str, int]], now_s: float
) -> int:
    groups = [group_row(job, spec, task_id, task_index, now_s) for task_id, task_index in tasks]
    items = [item for group in groups for item in group_members(job, spec, group)]
    await work.insert_groups(transaction, groups)
    await work.insert_work_items(transaction, items)
    await jobs.add_counts(transaction, job.id, {"tasks_admitted": len(groups), "groups_admitted": len(groups)})
    return len(items)
