"""Connections and transactions on SQLite (WAL, one writer) and PostgreSQL.

One request is one transaction. Whatever must happen after it (wake-ups) is collected in the transaction and runs only
when it has been committed. No connection is held while waiting for anything but the database.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy import Executable, event, func, select
from sqlalchemy.engine import RowMapping, make_url
from sqlalchemy.exc import DataError, StatementError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from rollway_service.core.errors import InvalidRequest
from rollway_service.store.columns import escape_nul, now_s

_SQLITE_READERS = 4
_BUSY_TIMEOUT_MS = 30_000


class Transaction:
    """One open transaction: typed access to statements, and what to do after the commit."""

    def __init__(self, connection: AsyncConnection) -> None:
        self.connection = connection
        self.dialect = connection.dialect.name
        self._after_commit: list[Callable[[], None]] = []

    async def execute(self, statement: Executable, parameters: Sequence[dict[str, Any]] | None = None) -> int:
        """Run a statement and return how many rows it touched (-1 when the driver does not say)."""
        result = await self.connection.execute(statement, parameters)
        return int(getattr(result, "rowcount", -1))

    async def insert_many(self, statement: Executable, rows: Sequence[dict[str, Any]]) -> None:
        if rows:
            await self.connection.execute(statement, list(rows))

    async def all(self, statement: Executable) -> Sequence[RowMapping]:
        return (await self.connection.execute(statement)).mappings().all()

    async def one(self, statement: Executable) -> RowMapping | None:
        return (await self.connection.execute(statement)).mappings().first()

    async def scalar(self, statement: Executable) -> Any:
        return (await self.connection.execute(statement)).scalar()

    async def now_s(self) -> float:
        return float(await self.scalar(select(now_s())))

    async def alone_with(self, *parts: str) -> None:
        """Wait until no other transaction holds these words, and hold them to the end of this one.

        For what is looked up and then made: rows that are not there cannot be locked. SQLite has one writer anyway.
        """
        if self.dialect == "postgresql":
            key = func.hashtextextended("\x1f".join(escape_nul(part) for part in parts), 0)
            await self.scalar(select(func.pg_advisory_xact_lock(key)))

    def after_commit(self, action: Callable[[], None]) -> None:
        self._after_commit.append(action)

    def run_after_commit(self) -> None:
        for action in self._after_commit:
            action()


class Database:
    """A database by URL: `sqlite:///path`, or `postgresql://user@host/name`."""

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        parsed = make_url(url)
        self.is_sqlite = parsed.get_backend_name() == "sqlite"
        self.num_transactions = 0
        if self.is_sqlite:
            self.url = parsed.set(drivername="sqlite+aiosqlite")
            self._writer = _sqlite_engine(self.url.render_as_string(hide_password=False), 1, read_only=False)
            self._reader = _sqlite_engine(
                self.url.render_as_string(hide_password=False), _SQLITE_READERS, read_only=True
            )
        else:
            self.url = parsed.set(drivername="postgresql+asyncpg")
            self._writer = self._reader = create_async_engine(
                self.url,
                pool_size=pool_size,
                max_overflow=0,
                pool_timeout=30,
                # jsonb comes as text and is decoded by the column type, which knows about NUL.
                json_deserializer=str,
            )
        self._write_lock = asyncio.Lock()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """A transaction that may write; committed at the end of the block, rolled back by an exception."""
        if not self.is_sqlite:
            async with self._begin(self._writer) as transaction:
                yield transaction
        else:
            async with self._write_lock, self._begin(self._writer) as transaction:
                yield transaction
        transaction.run_after_commit()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Transaction]:
        """A transaction that only reads."""
        async with self._begin(self._reader) as transaction:
            yield transaction

    @asynccontextmanager
    async def _begin(self, engine: AsyncEngine) -> AsyncIterator[Transaction]:
        self.num_transactions += 1
        try:
            async with engine.begin() as connection:
                yield Transaction(connection)
        except StatementError as error:
            if _is_bad_value(error):
                raise InvalidRequest(f"the database cannot hold a value: {error.orig}") from error
            raise

    async def dispose(self) -> None:
        await self._writer.dispose()
        if self._reader is not self._writer:
            await self._reader.dispose()


def _sqlite_engine(url: str, pool_size: int, *, read_only: bool) -> AsyncEngine:
    engine = create_async_engine(
        url, poolclass=AsyncAdaptedQueuePool, pool_size=pool_size, max_overflow=0, pool_timeout=60
    )

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        # The driver must not open transactions by itself: BEGIN IMMEDIATE below takes the write lock at once.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
            f"busy_timeout={_BUSY_TIMEOUT_MS}",
            f"query_only={'ON' if read_only else 'OFF'}",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "invalidate")
    def on_invalidate(connection: Any, _record: Any, _error: BaseException | None) -> None:
        # A task that is cancelled leaves cursors behind, and SQLite keeps a closed connection's write lock until the
        # last of them is collected: nobody could write for as long.
        connection.rollback()

    @event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _is_bad_value(error: StatementError) -> bool:
    """Whether a value, not the database, was at fault: refused by the driver, or by PostgreSQL as a data exception."""
    state = getattr(error.orig, "sqlstate", None)
    if isinstance(state, str):
        return state.startswith("22")
    return isinstance(error, DataError) or isinstance(error.orig, ValueError | OverflowError | TypeError)


T = TypeVar("T")


def chunks(items: Sequence[T], size: int) -> list[Sequence[T]]:
    """Pieces of at most `size` items: databases bound the number of parameters of a statement."""
    return [items[start : start + size] for start in range(0, len(items), size)]
