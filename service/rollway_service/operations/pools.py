"""Pools of workers, as people see them."""

from __future__ import annotations

from rollway.types import Page, Pool, PoolCreate, Worker
from rollway_service.core.errors import AlreadyExists, FieldInvalid, NotFound
from rollway_service.core.ids import is_id, new_id
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.idempotency import once
from rollway_service.operations.lookups import check_new_name, get_model, page_cursor
from rollway_service.operations.lookups import get_pool as find_pool
from rollway_service.store import fleet
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import ModelRow, PoolRow


async def ensure_pool(
    transaction: Transaction, tenant_id: str, name_or_id: str, model: ModelRow, *, path: str = "$.pool"
) -> PoolRow:
    """The pool of this name or id serving this model; one of a new name is made. A pool serves one model."""
    if is_id("pool", name_or_id):
        pool = await fleet.pool_by_id(transaction, tenant_id, name_or_id)
        if pool is None:
            raise FieldInvalid(path, f"there is no pool {name_or_id!r}")
    else:
        pool = await fleet.pool_by_name(transaction, tenant_id, name_or_id)
    if pool is None:
        await transaction.alone_with("pool", tenant_id, name_or_id)
        pool = await fleet.pool_by_name(transaction, tenant_id, name_or_id)
    if pool is None:
        pool_id = new_id("pool")
        await fleet.insert_pool(
            transaction,
            id=pool_id,
            tenant_id=tenant_id,
            name=name_or_id,
            model_id=model.id,
            profile="default",
            labels={},
        )
        return await find_pool(transaction, tenant_id, pool_id)
    if pool.model_id is None:
        await fleet.bind_pool(transaction, pool.id, model.id)
        return await find_pool(transaction, tenant_id, pool.id)
    if pool.model_id != model.id:
        raise FieldInvalid(path, f"pool {pool.name!r} serves another model than {model.name!r}")
    return pool


async def _as_pool(transaction: Transaction, row: PoolRow) -> Pool:
    workers, slots, busy, queued = await fleet.pool_load(transaction, row.id)
    return Pool(
        id=row.id,
        name=row.name,
        model_id=row.model_id,
        profile=row.profile,
        slots=slots,
        slots_busy=busy,
        queued=queued,
        workers=workers,
        created_at_s=row.created_at_s,
        labels=row.labels,
    )


async def create_pool(context: Context, caller: Caller, request: PoolCreate, *, key: str | None = None) -> Pool:
    check_new_name(request.name)

    async def make() -> Pool:
        await transaction.alone_with("pool", caller.tenant_id, request.name)
        if await fleet.pool_by_name(transaction, caller.tenant_id, request.name) is not None:
            raise AlreadyExists(f"a pool {request.name!r} exists already")
        model_id = None
        if request.model is not None:
            try:
                model_id = (await get_model(transaction, caller.tenant_id, request.model)).id
            except NotFound as error:
                raise FieldInvalid("$.model", error.detail) from None
        pool_id = new_id("pool")
        await fleet.insert_pool(
            transaction,
            id=pool_id,
            tenant_id=caller.tenant_id,
            name=request.name,
            model_id=model_id,
            profile=request.profile,
            labels=request.labels,
        )
        return await _as_pool(transaction, await find_pool(transaction, caller.tenant_id, pool_id))

    async with context.database.transaction() as transaction:
        return await once(transaction, caller, key, "create_pool", request, make, Pool)


async def get_pool(context: Context, caller: Caller, name_or_id: str) -> Pool:
    async with context.database.snapshot() as transaction:
        return await _as_pool(transaction, await find_pool(transaction, caller.tenant_id, name_or_id))


async def list_pools(context: Context, caller: Caller, *, cursor: str | None, limit: int) -> Page[Pool]:
    async with context.database.snapshot() as transaction:
        rows = await fleet.list_pools(transaction, caller.tenant_id, page_cursor(cursor, limit, "pool"))
        items = [await _as_pool(transaction, row) for row in rows]
    return Page(items=items, next_cursor=rows[-1].id if len(rows) == limit else None)


async def list_workers(
    context: Context, caller: Caller, *, pool: str | None, cursor: str | None, limit: int
) -> Page[Worker]:
    """Workers with their latest session; a session whose lease has run out is lost."""
    async with context.database.snapshot() as transaction:
        pool_id = None if pool is None else (await find_pool(transaction, caller.tenant_id, pool)).id
        rows = await fleet.list_workers(transaction, caller.tenant_id, page_cursor(cursor, limit, "worker"), pool_id)
    items = [
        Worker(
            id=row["id"],
            name=row["name"],
            pool=row["pool"],
            state="lost" if row["state"] == "live" and row["is_expired"] else row["state"],
            epoch=row["epoch"],
            slots=row["slots"],
            slots_busy=row["slots_busy"],
            weight_version=row["active_version"],
            engine=row["engine"],
            started_at_s=row["opened_at_s"],
            seen_at_s=row["seen_at_s"],
        )
        for row in rows
    ]
    return Page(items=items, next_cursor=items[-1].id if len(items) == limit else None)
