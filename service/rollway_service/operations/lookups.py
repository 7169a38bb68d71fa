"""Finding what a request names, or saying that it is not there. Others' things are not there."""

from __future__ import annotations

from rollway_service.core.errors import FieldInvalid, NotFound
from rollway_service.core.ids import is_any_id, is_id
from rollway_service.store import deliveries, fleet, jobs, models
from rollway_service.store.paging import Cursor
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import BatchRow, JobRow, ModelRow, PoolRow, RunRow

MAX_PAGE = 1000
MAX_ID_CHARS = 64


async def get_run(transaction: Transaction, tenant_id: str, run_id: str, *, lock: bool = False) -> RunRow:
    row = await jobs.run_by_id(transaction, tenant_id, run_id, lock=lock) if is_id("run", run_id) else None
    if row is None:
        raise NotFound.of("run", run_id)
    return row


async def get_job(transaction: Transaction, tenant_id: str, job_id: str) -> JobRow:
    row = await jobs.job_by_id(transaction, tenant_id, job_id) if is_id("job", job_id) else None
    if row is None:
        raise NotFound.of("job", job_id)
    return row


async def get_model(transaction: Transaction, tenant_id: str, name_or_id: str) -> ModelRow:
    if is_id("model", name_or_id):
        row = await models.model_by_id(transaction, tenant_id, name_or_id)
    else:
        row = await models.model_by_name(transaction, tenant_id, name_or_id)
    if row is None:
        raise NotFound.of("model", name_or_id)
    return row


async def get_pool(transaction: Transaction, tenant_id: str, name_or_id: str) -> PoolRow:
    if is_id("pool", name_or_id):
        row = await fleet.pool_by_id(transaction, tenant_id, name_or_id)
    else:
        row = await fleet.pool_by_name(transaction, tenant_id, name_or_id)
    if row is None:
        raise NotFound.of("pool", name_or_id)
    return row


def check_new_name(name: str) -> None:
    """Refuse names that would be taken for ids, and never be found."""
    if is_any_id(name):
        raise FieldInvalid("$.name", f"{name!r} looks like an id of this service; choose another name")


async def get_batch(transaction: Transaction, tenant_id: str, batch_id: str) -> BatchRow:
    """The batch, locked: whoever acknowledges, extends or expires it comes after the other."""
    found = is_id("batch", batch_id)
    row = await deliveries.batch_by_id(transaction, tenant_id, batch_id, lock=True) if found else None
    if row is None:
        raise NotFound.of("batch", batch_id)
    return row


def page_cursor(cursor: str | None, limit: int, kind: str) -> Cursor:
    """A checked cursor: ids themselves are cursors."""
    if not 1 <= limit <= MAX_PAGE:
        raise FieldInvalid("limit", f"must be between 1 and {MAX_PAGE}")
    if cursor is not None and not is_id(kind, cursor):
        raise FieldInvalid("cursor", "is not a cursor of this list; use next_cursor of the page before")
    return Cursor(after=cursor, limit=limit)
