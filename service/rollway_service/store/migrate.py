"""Bringing a database to the schema of this version, from wherever it is."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool


def migrations_folder() -> Path:
    """In a wheel beside the package, in a checkout at its top."""
    packaged = Path(__file__).parents[1] / "migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "migrations"


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(migrations_folder()))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """The revision that this version of the service needs."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def _upgrade(connection: Connection) -> None:
    command.upgrade(_config(connection), "head")


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


async def upgrade(url: str) -> None:
    """Apply all migrations. Safe to run again; on PostgreSQL, concurrent runs wait for each other."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(parsed.set(drivername="sqlite"), poolclass=NullPool)
        with engine.begin() as connection:
            _upgrade(connection)
        engine.dispose()
        return
    async_engine = create_async_engine(parsed.set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with async_engine.begin() as async_connection:
        await async_connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7232101)")
        await async_connection.run_sync(_upgrade)
    await async_engine.dispose()


async def current(url: str) -> str | None:
    """The revision that the database is at; None when it is empty."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(parsed.set(drivername="sqlite"), poolclass=NullPool)
        with engine.connect() as connection:
            return _current(connection)
    async_engine = create_async_engine(parsed.set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with async_engine.connect() as async_connection:
        return await async_connection.run_sync(_current)
