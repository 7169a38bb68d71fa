"""Bringing a database to the schema of this version, from wherever it is."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import create_engine
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool


class DatabaseUnusable(Exception):
    """The database cannot be opened or is of another version; the message says why and what to do."""


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
    revision = _current(connection)
    try:
        if revision is not None:
            ScriptDirectory.from_config(_config()).get_revision(revision)
    except CommandError:
        raise DatabaseUnusable(
            f"the database is at revision {revision!r}, which this version of Rollway does not know: a newer one made"
            " it; start that version, or name another database"
        ) from None
    command.upgrade(_config(connection), "head")


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _parse(url: str) -> URL:
    with contextlib.suppress(ArgumentError):
        parsed = make_url(url)
        if parsed.get_backend_name() in {"sqlite", "postgresql"}:
            return parsed
    raise DatabaseUnusable("the database's URL must be sqlite:///path or postgresql://user@host/name")


@contextlib.contextmanager
def _told(parsed: URL) -> Iterator[None]:
    """Whatever keeps a database from being opened, in a line."""
    try:
        yield
    except (DBAPIError, OSError) as error:
        reason = str(error.orig if isinstance(error, DBAPIError) else error)
        name = parsed.render_as_string(hide_password=True)
        raise DatabaseUnusable(f"the database {name} cannot be used: {reason}") from error


async def upgrade(url: str) -> None:
    """Apply all migrations. Safe to run again; on PostgreSQL, concurrent runs wait for each other.

    Raises:
        DatabaseUnusable: it cannot be opened, or a newer version of Rollway made it.
    """
    parsed = _parse(url)
    with _told(parsed):
        await _upgrade_at(parsed)


async def _upgrade_at(parsed: URL) -> None:
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
    """The revision that the database is at; None when it is empty. Raises DatabaseUnusable."""
    parsed = _parse(url)
    with _told(parsed):
        return await _current_at(parsed)


async def require_head(url: str) -> None:
    """For who uses a database that a service keeps. Raises DatabaseUnusable when it is of another version."""
    found, needed = await current(url), head()
    if found != needed:
        raise DatabaseUnusable(
            f"the database is at revision {found!r}, and {needed!r} is needed here: start the service of this version"
            " first, it brings the database up to date"
        )


async def _current_at(parsed: URL) -> str | None:
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(parsed.set(drivername="sqlite"), poolclass=NullPool)
        with engine.connect() as connection:
            return _current(connection)
    async_engine = create_async_engine(parsed.set(drivername="postgresql+asyncpg"), poolclass=NullPool)
    async with async_engine.connect() as async_connection:
        return await async_connection.run_sync(_current)
