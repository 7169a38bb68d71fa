"""A service's parts without doors and workers, on each database."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from rollway.types import JobCreate, ModelCreate, RunCreate
from rollway_service.composition import build_context
from rollway_service.config import Settings
from rollway_service.operations import jobs, keys, models, runs, sessions
from rollway_service.operations.messages import WorkerHello
from rollway_service.store import fleet
from tests.builders import token_tasks


class Bench:
    """Operations at hand: a run of a model, and short ways to do what tests begin with."""

    def __init__(self, context, caller, run):
        self.context = context
        self.caller = caller
        self.run = run

    async def submit(self, tasks=1, **fields):
        body = {"run_id": self.run.id, "tasks": token_tasks(tasks), "group_size": 2, "close": True} | fields
        return await jobs.submit_job(self.context, self.caller, JobCreate.model_validate(body))

    async def job(self, job_id):
        return await jobs.get_job(self.context, self.caller, job_id)

    async def session(self, name="w1", *, version=0, slots=64):
        async with self.context.database.snapshot() as transaction:
            pool = await fleet.pool_by_name(transaction, self.caller.tenant_id, "m")
        hello = WorkerHello(pool.id, name, slots, {"kind": "test"}, version)
        return (await sessions.open_session(self.context, self.caller.tenant_id, hello)).session_id

    async def sql(self, statement, **values):
        from sqlalchemy import text

        async with self.context.database.transaction() as transaction:
            return await transaction.connection.execute(text(statement), values)

    async def expire_session(self, session_id):
        await self.sql("UPDATE worker_sessions SET expires_at_s = 1 WHERE id = :id", id=session_id)


async def open_bench(database_url: str, tmp_path, **settings) -> Bench:
    context = build_context(Settings(database_url=database_url, data_dir=tmp_path, **settings))
    tenant_id = await keys.ensure_tenant(context, "default")
    caller = await keys.authenticate(context, await keys.add_key(context, tenant_id, "test"))
    source = str(tmp_path)
    await models.register_model(
        context, caller, ModelCreate(name="m", source=source, vocab_size=300, context_length=64)
    )
    run = await runs.create_run(context, caller, RunCreate(name="r", model="m"))
    return Bench(context, caller, run)


@pytest.fixture
async def bench(database_url, tmp_path) -> AsyncIterator[Bench]:
    found = await open_bench(database_url, tmp_path)
    yield found
    await found.context.database.dispose()


@pytest.fixture
async def two(database_url, tmp_path) -> AsyncIterator[tuple[Bench, Bench]]:
    """The same database through two services, each with connections of its own."""
    first = await open_bench(database_url, tmp_path)
    context = build_context(Settings(database_url=database_url, data_dir=tmp_path))
    second = Bench(context, first.caller, first.run)
    yield first, second
    await asyncio.gather(first.context.database.dispose(), context.database.dispose())
