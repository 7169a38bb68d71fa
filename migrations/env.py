"""Alembic environment for both databases.

SQLite migrations run on an engine of their own, without `PRAGMA foreign_keys`: rebuilding a parent table with the pragma
on deletes the children that cascade.
"""

from __future__ import annotations

import asyncio
from typing import Any

from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from rollway_service.config import Settings
from rollway_service.store.tables import PARTITIONED, metadata

LOCK_TIMEOUT = "5s"


def is_ours(obj: Any, name: str | None, kind: str, reflected: bool, compare_to: Any) -> bool:  # noqa: FBT001
    """Partitions are made by the steward and are no part of the model."""
    del obj, compare_to
    return not (
        kind == "table" and reflected and name and any(name.startswith((f"{t}_p", f"{t}_default")) for t in PARTITIONED)
    )


def run(connection: Connection) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,
        include_object=is_ours,
        compare_type=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_postgresql(url: Any) -> None:
    engine = create_async_engine(url.set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with engine.begin() as connection:
        await connection.run_sync(run)
    await engine.dispose()


def main() -> None:
    given = context.config.attributes.get("connection")
    if given is not None:
        run(given)
        return
    url = make_url(Settings().url)
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url.set(drivername="sqlite"), poolclass=NullPool)
        with engine.begin() as connection:
            run(connection)
        engine.dispose()
    else:
        asyncio.run(run_postgresql(url))


main()
