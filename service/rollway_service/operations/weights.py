"""Publishing weight versions, and knowing which workers run them."""

from __future__ import annotations

import asyncio
import time

from rollway.types import Page, VersionPublish, WeightVersion
from rollway.types.base import INT32_MAX
from rollway_service.core.errors import FieldInvalid, NotFound
from rollway_service.dispatch.ports import pool_topic
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.idempotency import once
from rollway_service.operations.lookups import MAX_PAGE, get_model
from rollway_service.operations.models import check_source
from rollway_service.store import fleet, models
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import VersionRow

_CONVERGENCE_POLL_S = 0.05


async def _as_version(transaction: Transaction, row: VersionRow) -> WeightVersion:
    active = await models.count_active(transaction, row.model_id)
    return WeightVersion(
        model_id=row.model_id,
        version=row.version,
        parent=row.parent,
        trainer_step=row.trainer_step,
        digest=row.digest,
        source=row.source,
        created_at_s=row.created_at_s,
        workers_active=active.get(row.version, 0),
        workers_total=sum(active.values()),
        metadata=row.metadata,
    )


async def publish_version(
    context: Context, caller: Caller, model: str, request: VersionPublish, *, key: str | None = None
) -> WeightVersion:
    """Assign the next version to these weights; workers load them on their own. Returns at once."""
    check_source(context, request.source, "$.source")

    async def make() -> WeightVersion:
        found = await get_model(transaction, caller.tenant_id, model)
        version = await models.take_next_version(transaction, found.id)
        parent = version - 1 if request.parent is None else request.parent
        if parent >= version:
            raise FieldInvalid("$.parent", f"version {parent} does not exist; the latest is {version - 1}")
        await models.insert_version(
            transaction,
            model_id=found.id,
            version=version,
            tenant_id=caller.tenant_id,
            parent=parent,
            trainer_step=request.trainer_step,
            digest=request.digest,
            source=request.source,
            metadata=request.metadata,
        )
        for pool_id in await fleet.pools_of_model(transaction, found.id):
            topic = pool_topic(pool_id)
            transaction.after_commit(lambda topic=topic: context.wakeups.wake(topic))  # type: ignore[misc]
        row = await models.version_by_number(transaction, found.id, version)
        assert row is not None
        return await _as_version(transaction, row)

    async with context.database.transaction() as transaction:
        return await once(transaction, caller, key, "publish_version", request, make, WeightVersion, target=model)


async def get_version(context: Context, caller: Caller, model: str, version: int) -> WeightVersion:
    async with context.database.snapshot() as transaction:
        found = await get_model(transaction, caller.tenant_id, model)
        row = await models.version_by_number(transaction, found.id, version)
        if row is None:
            raise NotFound(f"model {found.name!r} has no version {version}; its latest is {found.latest_version}")
        return await _as_version(transaction, row)


async def wait_until_converged(
    context: Context, caller: Caller, model: str, version: int, wait_s: float
) -> WeightVersion:
    """The version, once all live workers of the model run it or after `wait_s`."""
    deadline_s = time.monotonic() + wait_s
    while True:
        found = await get_version(context, caller, model, version)
        if found.is_converged or time.monotonic() >= deadline_s:
            return found
        await asyncio.sleep(_CONVERGENCE_POLL_S)


def _version_before(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if not (cursor.isascii() and cursor.isdecimal()) or int(cursor) > INT32_MAX:
        raise FieldInvalid("cursor", "is not a cursor of this list; use next_cursor of the page before")
    return int(cursor)


async def list_versions(
    context: Context, caller: Caller, model: str, *, cursor: str | None, limit: int
) -> Page[WeightVersion]:
    """Newest first; cursors are version numbers."""
    if not 1 <= limit <= MAX_PAGE:
        raise FieldInvalid("limit", f"must be between 1 and {MAX_PAGE}")
    before = _version_before(cursor)
    async with context.database.snapshot() as transaction:
        found = await get_model(transaction, caller.tenant_id, model)
        rows = await models.list_versions(transaction, found.id, before=before, limit=limit)
        items = [await _as_version(transaction, row) for row in rows]
    return Page(items=items, next_cursor=str(rows[-1].version) if len(rows) == limit else None)
