"""A service's parts without doors and workers, on each database."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from rollway.types import JobCreate, ModelCreate, RunCreate
from rollway_service.api.rpc.server import start_rpc_server
from rollway_service.composition import build_context
from rollway_service.config import Settings
from rollway_service.operations import jobs, keys, models, runs
from rollway_service.operations.messages import WorkerHello
from rollway_service.store import fleet
from rollway_workers.control_direct import DirectControlPlane
from rollway_workers.control_remote import RemoteControlPlane
from tests.builders import token_tasks


class Bench:
    """Operations at hand: a run of a model, and short ways to do what tests begin with."""

    def __init__(self, context, caller, run):
        self.context = context
        self.caller = caller
        self.run = run
        self.control = DirectControlPlane(context, caller.tenant_id)

    async def submit(self, number=1, **fields):
        body = {"run_id": self.run.id, "tasks": token_tasks(number), "group_size": 2, "close": True} | fields
        return await jobs.submit_job(self.context, self.caller, JobCreate.model_validate(body))

    async def job(self, job_id):
        return await jobs.get_job(self.context, self.caller, job_id)

    async def session(self, name="w1", *, version=0, slots=64):
        async with self.context.database.snapshot() as transaction:
            pool = await fleet.pool_by_name(transaction, self.caller.tenant_id, "m")
        hello = WorkerHello(pool.id, name, slots, {"kind": "test"}, version)
        return (await self.control.open_session(hello)).session_id

    @contextlib.asynccontextmanager
    async def carried(self, carrier):
        """The same, with a control plane that is reached as `carrier` says: direct, or remote over gRPC."""
        if carrier == "direct":
            yield self
            return
        server = await start_rpc_server(self.context, "127.0.0.1", 0, max_message_bytes=64 * 2**20)
        token = await keys.add_key(self.context, self.caller.tenant_id, "worker")
        self.control = RemoteControlPlane(f"grpc://127.0.0.1:{server.port}", token)
        yield self
        await self.control.close()
        await server.stop(0)

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
def carrier():
    """Modules that try both say so."""
    return "direct"


@pytest.fixture
async def bench(database_url, tmp_path, carrier) -> AsyncIterator[Bench]:
    found = await open_bench(database_url, tmp_path)
    async with found.carried(carrier):
        yield found
    await found.context.database.dispose()


@pytest.fixture
async def two(database_url, tmp_path, carrier) -> AsyncIterator[tuple[Bench, Bench]]:
    """The same database through two services, each with connections of its own."""
    first = await open_bench(database_url, tmp_path)
    context = build_context(Settings(database_url=database_url, data_dir=tmp_path))
    second = Bench(context, first.caller, first.run)
    async with first.carried(carrier), second.carried(carrier):
        yield first, second
    await asyncio.gather(first.context.database.dispose(), context.database.dispose())
