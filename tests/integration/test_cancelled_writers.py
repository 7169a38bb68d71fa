"""A writer that is cancelled in the middle of a statement leaves the database to others at once."""

import asyncio
import gc

import pytest
from sqlalchemy import text

from rollway_service.store import database

COUNT = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {}) SELECT x FROM n"
SLOW = f"INSERT INTO numbers {COUNT.format(400_000)}"
UNREAD = f"INSERT INTO numbers {COUNT.format(10)} RETURNING x"


@pytest.fixture
def no_collector():
    """Nothing is tidied up by luck."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("statement", [SLOW, UNREAD])
async def test_the_next_writer_does_not_wait_for_what_the_cancelled_one_left(
    database_url, monkeypatch, no_collector, statement
):
    monkeypatch.setattr(database, "_BUSY_TIMEOUT_MS", 8000)
    store = database.Database(database_url)
    async with store.transaction() as transaction:
        await transaction.connection.execute(text("CREATE TABLE numbers (x INTEGER)"))
    kept = []
    for round_index in range(12):
        begun = asyncio.Event()

        async def write(begun=begun):
            async with store.transaction() as transaction:
                begun.set()
                while True:
                    await transaction.connection.execute(text(statement))

        task = asyncio.create_task(write())
        await begun.wait()
        await asyncio.sleep(0.002 * round_index)
        task.cancel()
        # The task keeps its error, and with it all that the frames of its traceback hold.
        kept.append((task, await asyncio.gather(task, return_exceptions=True)))
        async with store.transaction() as transaction:
            await transaction.connection.execute(text("INSERT INTO numbers VALUES (-1)"))
    assert all(task.cancelled() for task, _ in kept)
    async with store.snapshot() as transaction:
        rows = await transaction.all(text("SELECT x FROM numbers"))
    assert [row["x"] for row in rows] == [-1] * 12
    await store.dispose()
