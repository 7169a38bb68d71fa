"""Pools, workers and their sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, insert, select, update
from sqlalchemy.engine import RowMapping

from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.paging import Cursor, page
from rollway_service.store.rows import PoolRow, SessionRow, as_row, as_row_or_none
from rollway_service.store.tables import pools, work_items, worker_sessions, workers


async def insert_pool(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert(pools).values(created_at_s=now_s(), **values))


async def pool_by_id(transaction: Transaction, tenant_id: str, pool_id: str) -> PoolRow | None:
    statement = select(pools).where(pools.c.id == pool_id, pools.c.tenant_id == tenant_id)
    return as_row_or_none(PoolRow, await transaction.one(statement))


async def pool_by_name(transaction: Transaction, tenant_id: str, name: str) -> PoolRow | None:
    statement = select(pools).where(pools.c.name == name, pools.c.tenant_id == tenant_id)
    return as_row_or_none(PoolRow, await transaction.one(statement))


async def list_pools(transaction: Transaction, tenant_id: str, cursor: Cursor) -> list[PoolRow]:
    rows = await page(transaction, select(pools).where(pools.c.tenant_id == tenant_id), pools.c.id, cursor)
    return [as_row(PoolRow, row) for row in rows]


async def pools_of_model(transaction: Transaction, model_id: str) -> list[str]:
    rows = await transaction.all(select(pools.c.id).where(pools.c.model_id == model_id))
    return [row["id"] for row in rows]


async def bind_pool(transaction: Transaction, pool_id: str, model_id: str) -> None:
    """Let a pool without a model serve this one."""
    await transaction.execute(
        update(pools).where(pools.c.id == pool_id, pools.c.model_id.is_(None)).values(model_id=model_id)
    )


def _is_live() -> Any:
    return (worker_sessions.c.state == "live") & (worker_sessions.c.expires_at_s > now_s())


async def pool_load(transaction: Transaction, pool_id: str) -> tuple[int, int, int, int]:
    """(live workers, slots, busy slots, queued work items) of a pool."""
    sessions = await transaction.one(
        select(func.count().label("workers"), func.coalesce(func.sum(worker_sessions.c.slots), 0).label("slots")).where(
            worker_sessions.c.pool_id == pool_id, _is_live()
        )
    )
    assert sessions is not None
    busy = await transaction.scalar(
        select(func.count())
        .select_from(work_items)
        .join(worker_sessions, worker_sessions.c.id == work_items.c.session_id)
        .where(work_items.c.state == "claimed", worker_sessions.c.pool_id == pool_id)
    )
    queued = await transaction.scalar(
        select(func.count())
        .select_from(work_items)
        .where(work_items.c.pool_id == pool_id, work_items.c.state == "queued")
    )
    return int(sessions["workers"]), int(sessions["slots"]), int(busy), int(queued)


async def queued_per_job(transaction: Transaction, pool_id: str) -> dict[str, int]:
    rows = await transaction.all(
        select(work_items.c.job_id, func.count().label("queued"))
        .where(work_items.c.pool_id == pool_id, work_items.c.state == "queued")
        .group_by(work_items.c.job_id)
    )
    return {row["job_id"]: row["queued"] for row in rows}


async def worker_named(transaction: Transaction, pool_id: str, name: str) -> RowMapping | None:
    statement = select(workers).where(workers.c.pool_id == pool_id, workers.c.name == name)
    if transaction.dialect == "postgresql":
        statement = statement.with_for_update()
    return await transaction.one(statement)


async def insert_worker(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert(workers).values(epoch=1, created_at_s=now_s(), **values))


async def raise_epoch(transaction: Transaction, worker_id: str) -> int:
    statement = (
        update(workers).where(workers.c.id == worker_id).values(epoch=workers.c.epoch + 1).returning(workers.c.epoch)
    )
    return int(await transaction.scalar(statement))


async def insert_session(transaction: Transaction, lease_s: float, **values: Any) -> None:
    await transaction.execute(
        insert(worker_sessions).values(
            state="live", opened_at_s=now_s(), seen_at_s=now_s(), expires_at_s=now_s() + lease_s, **values
        )
    )


async def live_session(transaction: Transaction, session_id: str, *, lock: bool = False) -> SessionRow | None:
    """The session if it lives and its lease has not run out, by the database's clock."""
    statement = select(worker_sessions).where(worker_sessions.c.id == session_id, _is_live())
    if lock and transaction.dialect == "postgresql":
        statement = statement.with_for_update(key_share=True)
    return as_row_or_none(SessionRow, await transaction.one(statement))


async def session_tenant(transaction: Transaction, session_id: str) -> str | None:
    """Whose session it is, live or not; None where there is none."""
    found: str | None = await transaction.scalar(
        select(worker_sessions.c.tenant_id).where(worker_sessions.c.id == session_id)
    )
    return found


async def renew_session(
    transaction: Transaction, session_id: str, *, lease_s: float, active_version: int | None, slots: int
) -> bool:
    """Extend the lease of a session that has not run out; False when it has."""
    rows = await transaction.execute(
        update(worker_sessions)
        .where(worker_sessions.c.id == session_id, _is_live())
        .values(seen_at_s=now_s(), expires_at_s=now_s() + lease_s, active_version=active_version, slots=slots)
    )
    return rows == 1


async def end_sessions(
    transaction: Transaction, state: str, *, worker_id: str | None = None, session_id: str | None = None
) -> list[str]:
    """End live sessions: of a worker, or one; without either, all whose lease has run out. Returns their ids."""
    statement = update(worker_sessions).where(worker_sessions.c.state == "live")
    if worker_id is not None:
        statement = statement.where(worker_sessions.c.worker_id == worker_id)
    elif session_id is not None:
        statement = statement.where(worker_sessions.c.id == session_id)
    else:
        statement = statement.where(worker_sessions.c.expires_at_s <= now_s())
    rows = await transaction.all(statement.values(state=state).returning(worker_sessions.c.id))
    return [row["id"] for row in rows]


async def list_workers(
    transaction: Transaction, tenant_id: str, cursor: Cursor, pool_id: str | None
) -> Sequence[RowMapping]:
    """Workers with their latest session and busy slots."""
    busy = (
        select(work_items.c.session_id, func.count().label("busy"))
        .where(work_items.c.state == "claimed")
        .group_by(work_items.c.session_id)
        .subquery()
    )
    statement = (
        select(
            workers.c.id,
            workers.c.name,
            pools.c.name.label("pool"),
            worker_sessions.c.state,
            (worker_sessions.c.expires_at_s <= now_s()).label("is_expired"),
            workers.c.epoch,
            worker_sessions.c.slots,
            func.coalesce(busy.c.busy, 0).label("slots_busy"),
            worker_sessions.c.active_version,
            worker_sessions.c.engine,
            worker_sessions.c.opened_at_s,
            worker_sessions.c.seen_at_s,
        )
        .join(pools, pools.c.id == workers.c.pool_id)
        .join(
            worker_sessions,
            (worker_sessions.c.worker_id == workers.c.id) & (worker_sessions.c.epoch == workers.c.epoch),
        )
        .outerjoin(busy, busy.c.session_id == worker_sessions.c.id)
        .where(workers.c.tenant_id == tenant_id)
    )
    if pool_id is not None:
        statement = statement.where(workers.c.pool_id == pool_id)
    return await page(transaction, statement, workers.c.id, cursor)
