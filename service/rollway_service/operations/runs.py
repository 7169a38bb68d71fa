"""Runs: what belongs to one training."""

from __future__ import annotations

from rollway.types import Page, Run, RunCreate
from rollway_service.core.errors import FieldInvalid, NotFound
from rollway_service.core.ids import new_id
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.idempotency import once
from rollway_service.operations.lookups import get_model, page_cursor
from rollway_service.operations.lookups import get_run as find_run
from rollway_service.operations.pools import ensure_pool
from rollway_service.store import fleet, jobs, models
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import RunRow


async def _as_run(transaction: Transaction, row: RunRow) -> Run:
    model = await models.model_by_id(transaction, row.tenant_id, row.model_id)
    pool = await fleet.pool_by_id(transaction, row.tenant_id, row.pool_id)
    assert model is not None
    assert pool is not None
    return Run(
        id=row.id,
        name=row.name,
        model_id=row.model_id,
        model=model.name,
        pool=pool.name,
        tags=row.tags,
        created_at_s=row.created_at_s,
        metadata=row.metadata,
    )


async def create_run(context: Context, caller: Caller, request: RunCreate, *, key: str | None = None) -> Run:
    """Open a run for a model. Its rollouts go to `pool`, by default the pool of the model's name."""

    async def make() -> Run:
        try:
            model = await get_model(transaction, caller.tenant_id, request.model)
        except NotFound as error:
            raise FieldInvalid("$.model", error.detail) from None
        pool = await ensure_pool(transaction, caller.tenant_id, request.pool or model.name, model, path="$.pool")
        run_id = new_id("run")
        await jobs.insert_run(
            transaction,
            id=run_id,
            tenant_id=caller.tenant_id,
            model_id=model.id,
            pool_id=pool.id,
            name=request.name,
            tags=request.tags,
            metadata=request.metadata,
        )
        return await _as_run(transaction, await find_run(transaction, caller.tenant_id, run_id))

    async with context.database.transaction() as transaction:
        return await once(transaction, caller, key, "create_run", request, make, Run)


async def get_run(context: Context, caller: Caller, run_id: str) -> Run:
    async with context.database.snapshot() as transaction:
        return await _as_run(transaction, await find_run(transaction, caller.tenant_id, run_id))


async def list_runs(context: Context, caller: Caller, *, cursor: str | None, limit: int) -> Page[Run]:
    async with context.database.snapshot() as transaction:
        rows = await jobs.list_runs(transaction, caller.tenant_id, page_cursor(cursor, limit, "run"))
        items = [await _as_run(transaction, row) for row in rows]
    return Page(items=items, next_cursor=rows[-1].id if len(rows) == limit else None)
