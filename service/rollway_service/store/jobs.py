"""Runs, jobs, their tasks and counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, insert, select, update

from rollway_service.core.states import sources
from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.paging import Cursor, page
from rollway_service.store.rows import CounterRow, JobRow, RunRow, TaskRow, as_row, as_row_or_none
from rollway_service.store.tables import groups, job_counters, jobs, runs, tasks

LIVE_STATES = ("open", "closed")


def for_update(transaction: Transaction, statement: Select[Any]) -> Select[Any]:
    """Lock the rows until the end of the transaction; SQLite has one writer and needs none."""
    return statement.with_for_update() if transaction.dialect == "postgresql" else statement


async def insert_run(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert(runs).values(created_at_s=now_s(), **values))


async def run_by_id(transaction: Transaction, tenant_id: str, run_id: str, *, lock: bool = False) -> RunRow | None:
    statement = select(runs).where(runs.c.id == run_id, runs.c.tenant_id == tenant_id)
    return as_row_or_none(RunRow, await transaction.one(for_update(transaction, statement) if lock else statement))


async def share_run(transaction: Transaction, run_id: str) -> None:
    """Wait for whoever holds the run locked, and keep others from locking it until the end of the transaction."""
    if transaction.dialect == "postgresql":
        await transaction.one(select(runs.c.id).where(runs.c.id == run_id).with_for_update(read=True, key_share=True))


async def list_runs(transaction: Transaction, tenant_id: str, cursor: Cursor) -> list[RunRow]:
    rows = await page(transaction, select(runs).where(runs.c.tenant_id == tenant_id), runs.c.id, cursor)
    return [as_row(RunRow, row) for row in rows]


async def insert_job(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert(jobs).values(created_at_s=now_s(), paused=False, state="open", **values))
    counters = {key: values[key] for key in ("tenant_id", "run_id")}
    await transaction.execute(insert(job_counters).values(job_id=values["id"], drops={}, failures={}, **counters))


async def job_by_id(transaction: Transaction, tenant_id: str, job_id: str) -> JobRow | None:
    statement = select(jobs).where(jobs.c.id == job_id, jobs.c.tenant_id == tenant_id)
    return as_row_or_none(JobRow, await transaction.one(statement))


async def jobs_by_ids(transaction: Transaction, job_ids: Sequence[str]) -> dict[str, JobRow]:
    rows = await transaction.all(select(jobs).where(jobs.c.id.in_(job_ids))) if job_ids else []
    return {row["id"]: as_row(JobRow, row) for row in rows}


async def list_jobs(
    transaction: Transaction, tenant_id: str, cursor: Cursor, filters: Mapping[str, str | None]
) -> list[JobRow]:
    """Jobs with these values of run_id, purpose, state; None means any."""
    statement = select(jobs).where(jobs.c.tenant_id == tenant_id)
    for column, value in filters.items():
        if value is not None:
            statement = statement.where(jobs.c[column] == value)
    return [as_row(JobRow, row) for row in await page(transaction, statement, jobs.c.id, cursor)]


async def jobs_of_run(transaction: Transaction, run_id: str) -> list[JobRow]:
    rows = await transaction.all(select(jobs).where(jobs.c.run_id == run_id).order_by(jobs.c.id))
    return [as_row(JobRow, row) for row in rows]


async def live_jobs_of_pool(transaction: Transaction, pool_id: str) -> list[JobRow]:
    """Jobs that may still have work, in the order they came."""
    rows = await transaction.all(
        select(jobs)
        .where(jobs.c.pool_id == pool_id, jobs.c.state.in_(LIVE_STATES), jobs.c.paused.is_(False))
        .order_by(jobs.c.id)
    )
    return [as_row(JobRow, row) for row in rows]


async def cancelled_with_open_groups(transaction: Transaction) -> list[str]:
    rows = await transaction.all(
        select(jobs.c.id)
        .join(groups, groups.c.job_id == jobs.c.id)
        .where(jobs.c.state == "cancelled", groups.c.state == "open")
        .distinct()
    )
    return [row["id"] for row in rows]


async def set_job_state(transaction: Transaction, job_id: str, target: str) -> bool:
    """Compare-and-set along the transition table; False when the job was in no state that allows it."""
    values: dict[str, Any] = {"state": target}
    if target in {"completed", "cancelled"}:
        values["ended_at_s"] = now_s()
    rows = await transaction.execute(
        update(jobs).where(jobs.c.id == job_id, jobs.c.state.in_(sources("job", target))).values(**values)
    )
    return rows == 1


async def set_paused(transaction: Transaction, job_id: str, *, paused: bool) -> None:
    await transaction.execute(update(jobs).where(jobs.c.id == job_id).values(paused=paused))


async def counters_of(transaction: Transaction, job_ids: Sequence[str], *, lock: bool = False) -> dict[str, CounterRow]:
    if not job_ids:
        return {}
    statement = select(job_counters).where(job_counters.c.job_id.in_(job_ids)).order_by(job_counters.c.job_id)
    rows = await transaction.all(for_update(transaction, statement) if lock else statement)
    return {row["job_id"]: as_row(CounterRow, row) for row in rows}


async def add_counts(
    transaction: Transaction,
    job_id: str,
    counts: Mapping[str, float],
    *,
    drops: Mapping[str, int] | None = None,
    failures: Mapping[str, int] | None = None,
) -> CounterRow:
    """Add to a job's counters and return them. The row is the last that a transaction locks, so none can deadlock."""
    values: dict[str, Any] = {name: job_counters.c[name] + amount for name, amount in counts.items() if amount}
    if drops or failures:
        locked = (await counters_of(transaction, [job_id], lock=True))[job_id]
        for name, added in (("drops", drops), ("failures", failures)):
            if added:
                before = getattr(locked, name)
                values[name] = before | {reason: before.get(reason, 0) + count for reason, count in added.items()}
    values = values or {"tasks": job_counters.c.tasks}
    statement = update(job_counters).where(job_counters.c.job_id == job_id).values(**values).returning(job_counters)
    row = await transaction.one(statement)
    assert row is not None
    return as_row(CounterRow, row)


async def insert_tasks(transaction: Transaction, rows: Sequence[Mapping[str, Any]]) -> None:
    await transaction.insert_many(insert(tasks), [dict(row) for row in rows])


async def next_tasks(transaction: Transaction, job_id: str, from_index: int, limit: int) -> list[tuple[str, int]]:
    """(task id, task index) of the backlog in order."""
    rows = await transaction.all(
        select(tasks.c.id, tasks.c.task_index)
        .where(tasks.c.job_id == job_id, tasks.c.task_index >= from_index)
        .order_by(tasks.c.task_index)
        .limit(limit)
    )
    return [(row["id"], row["task_index"]) for row in rows]


async def tasks_by_ids(transaction: Transaction, task_ids: Sequence[str]) -> dict[str, TaskRow]:
    rows = await transaction.all(select(tasks).where(tasks.c.id.in_(task_ids))) if task_ids else []
    return {row["id"]: as_row(TaskRow, row) for row in rows}


_SUMMED = [
    column
    for column in job_counters.columns
    if column.name not in {"job_id", "tenant_id", "run_id", "drops", "failures", "waiting_for"}
]


async def sum_counters(transaction: Transaction) -> dict[str, float]:
    """Sums over all jobs, by name of the counter."""
    row = await transaction.one(select(*(func.coalesce(func.sum(column), 0).label(column.name) for column in _SUMMED)))
    assert row is not None
    return {str(name): float(value) for name, value in row.items()}


async def reasons(transaction: Transaction) -> list[tuple[dict[str, int], dict[str, int]]]:
    """(drops, failures) by reason of every job that has any."""
    rows = await transaction.all(
        select(job_counters.c.drops, job_counters.c.failures).where(
            (job_counters.c.groups_dropped > 0)
            | (job_counters.c.groups_failed > 0)
            | (job_counters.c.rollouts_failed > 0)
            | (job_counters.c.groups_stale > 0)
        )
    )
    return [(row["drops"], row["failures"]) for row in rows]
