"""Models and the lineage of their weight versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import func, insert, select, update

from rollway_service.core.lineage import Lineage
from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.paging import Cursor, page
from rollway_service.store.rows import ModelRow, VersionRow, as_row, as_row_or_none
from rollway_service.store.tables import models, pools, runs, weight_versions, worker_sessions


async def insert_model(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert(models).values(latest_version=0, created_at_s=now_s(), **values))


async def model_by_id(transaction: Transaction, tenant_id: str, model_id: str) -> ModelRow | None:
    statement = select(models).where(models.c.id == model_id, models.c.tenant_id == tenant_id)
    return as_row_or_none(ModelRow, await transaction.one(statement))


async def model_by_name(transaction: Transaction, tenant_id: str, name: str) -> ModelRow | None:
    statement = select(models).where(models.c.name == name, models.c.tenant_id == tenant_id)
    return as_row_or_none(ModelRow, await transaction.one(statement))


async def model_of_run(transaction: Transaction, run_id: str) -> ModelRow:
    row = await transaction.one(select(models).join(runs, runs.c.model_id == models.c.id).where(runs.c.id == run_id))
    assert row is not None
    return as_row(ModelRow, row)


async def latest_versions(transaction: Transaction, model_ids: Sequence[str]) -> dict[str, int]:
    rows = await transaction.all(select(models.c.id, models.c.latest_version).where(models.c.id.in_(model_ids)))
    return {row["id"]: row["latest_version"] for row in rows}


async def list_models(transaction: Transaction, tenant_id: str, cursor: Cursor) -> list[ModelRow]:
    rows = await page(transaction, select(models).where(models.c.tenant_id == tenant_id), models.c.id, cursor)
    return [as_row(ModelRow, row) for row in rows]


async def insert_version(transaction: Transaction, **values: Any) -> None:
    await transaction.execute(insert(weight_versions).values(created_at_s=now_s(), **values))


async def take_next_version(transaction: Transaction, model_id: str) -> int:
    """Raise the model's latest version by one and return it; concurrent publishers wait for each other."""
    statement = (
        update(models)
        .where(models.c.id == model_id)
        .values(latest_version=models.c.latest_version + 1)
        .returning(models.c.latest_version)
    )
    return int(await transaction.scalar(statement))


async def version_by_number(transaction: Transaction, model_id: str, version: int) -> VersionRow | None:
    statement = select(weight_versions).where(
        weight_versions.c.model_id == model_id, weight_versions.c.version == version
    )
    return as_row_or_none(VersionRow, await transaction.one(statement))


async def list_versions(transaction: Transaction, model_id: str, *, before: int | None, limit: int) -> list[VersionRow]:
    """Newest first, older than `before`."""
    statement = select(weight_versions).where(weight_versions.c.model_id == model_id)
    if before is not None:
        statement = statement.where(weight_versions.c.version < before)
    rows = await transaction.all(statement.order_by(weight_versions.c.version.desc()).limit(limit))
    return [as_row(VersionRow, row) for row in rows]


async def lineage(transaction: Transaction, model_id: str) -> Lineage:
    statement = select(weight_versions.c.version, weight_versions.c.parent).where(
        weight_versions.c.model_id == model_id
    )
    return Lineage({row["version"]: row["parent"] for row in await transaction.all(statement)})


async def count_active(transaction: Transaction, model_id: str) -> dict[int | None, int]:
    """Live workers of the model's pools by the version they run."""
    statement = (
        select(worker_sessions.c.active_version, func.count().label("workers"))
        .join(pools, pools.c.id == worker_sessions.c.pool_id)
        .where(
            pools.c.model_id == model_id,
            worker_sessions.c.state == "live",
            worker_sessions.c.expires_at_s > now_s(),
        )
        .group_by(worker_sessions.c.active_version)
    )
    return {row["active_version"]: row["workers"] for row in await transaction.all(statement)}
