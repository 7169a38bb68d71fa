"""A whole service in this process, for tests: real database, real HTTP, a scripted or embedded engine, real workers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import uvicorn

import rollway
from rollway_service.api.app import create_app
from rollway_service.api.rpc.server import start_rpc_server
from rollway_service.composition import build_context
from rollway_service.config import Settings
from rollway_service.engines.sglang import SGLangEngine, SGLangTimeouts
from rollway_service.main import tiny_policy
from rollway_service.operations import keys
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.steward import sweep
from rollway_workers.assembly import WorkerOptions, run_worker
from rollway_workers.control_direct import DirectControlPlane
from rollway_workers.engines.scripted import Responder, ScriptedServer, seeded_responder

TINY_VOCAB, TINY_EOS, TINY_WINDOW = 304, 2, 256
_names = itertools.count()


class _QuietServer(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self):
        yield


@dataclass
class Stack:
    """What a test needs of a running service."""

    context: Context
    caller: Caller
    token: str
    url: str
    client: rollway.AsyncClient
    http: httpx.AsyncClient
    engine: ScriptedServer | None = None
    rpc_url: str = ""
    rpc: rollway.AsyncClient | None = None
    workers: list[tuple[asyncio.Task[None], asyncio.Event]] = field(default_factory=list)

    async def start_worker(
        self, *, name: str = "w1", pool: str = "tiny", slots: int = 32, engine: str | None = None, **options: Any
    ):
        """A worker on the scripted engine (or another), ready to take work."""
        stop, started = asyncio.Event(), asyncio.Event()
        chosen = WorkerOptions(
            pool=pool, engine=engine or self.engine.url, name=name, slots=slots, engine_wait_s=5.0, **options
        )
        control = DirectControlPlane(self.context, self.caller.tenant_id)
        settings = self.context.settings
        task = asyncio.create_task(run_worker(control, self.context.tokenizers, settings, chosen, stop, started))
        waiter = asyncio.create_task(started.wait())
        await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            waiter.cancel()
            task.result()
        self.workers.append((task, stop))
        return task, stop

    async def stop_workers(self) -> None:
        for _, stop in self.workers:
            stop.set()
        await asyncio.gather(*(task for task, _ in self.workers), return_exceptions=True)
        self.workers.clear()

    async def sweep(self) -> None:
        await sweep(self.context, 0)

    async def other_tenant(self) -> rollway.AsyncClient:
        """A client of another tenant."""
        tenant_id = await keys.ensure_tenant(self.context, f"tenant-{next(_names)}")
        token = await keys.add_key(self.context, tenant_id, "test")
        return rollway.AsyncClient(self.url, token)


@asynccontextmanager
async def running_stack(
    database_url: str,
    tmp_path: Path,
    *,
    responder: Responder | None = None,
    with_worker: bool = True,
    model_source: Path | None = None,
    window: int = TINY_WINDOW,
    model_window: int | None = None,
    slots: int = 32,
    engine_options: dict[str, Any] | None = None,
    **settings: Any,
) -> AsyncIterator[Stack]:
    """A service with the tiny model registered, a scripted engine, and one worker on it.

    The database must be migrated. `window` is the context length of the engine, and of the model unless `model_window`.
    """
    defaults = {"session_lease_s": 3.0, "steward_interval_s": 0.2, "checkpoint_interval_s": 0.05, "reward_processes": 1}
    context = build_context(Settings(database_url=database_url, data_dir=tmp_path, **(defaults | settings)))
    tenant_id = await keys.ensure_tenant(context, "default")
    token = await keys.add_key(context, tenant_id, "test")
    caller = await keys.authenticate(context, token)
    config = uvicorn.Config(
        create_app(context, max_body_bytes=context.settings.max_body_bytes),
        host="127.0.0.1",
        port=0,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=1,
        ws="none",
    )
    server = _QuietServer(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        if serving.done():
            serving.result()
        await asyncio.sleep(0.005)
    url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    client = rollway.AsyncClient(url, token)
    await context.wakeups.open()
    rpc_server = await start_rpc_server(context, "127.0.0.1", 0, max_message_bytes=context.settings.max_body_bytes)
    rpc_url = f"grpc://127.0.0.1:{rpc_server.port}"
    rpc = rollway.AsyncClient(rpc_url, token)
    engine = ScriptedServer(
        responder or seeded_responder(vocab_size=TINY_VOCAB, eos_token_id=TINY_EOS, mean_tokens=12, chunk_tokens=8),
        vocab_size=TINY_VOCAB,
        context_length=window,
        **(engine_options or {}),
    )
    await engine.start()
    http = httpx.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30)
    stack = Stack(context, caller, token, url, client, http, engine, rpc_url, rpc)
    try:
        source = model_source or tiny_policy()
        await client.register_model("tiny", source, context_length=model_window or window)
        await client.create_pool("tiny", model="tiny")
        if with_worker:
            await stack.start_worker(slots=slots)
        yield stack
    finally:
        await stack.stop_workers()
        await client.aclose()
        await rpc.aclose()
        await http.aclose()
        await rpc_server.stop(0.5)
        server.should_exit = True
        await serving
        await engine.stop()
        await context.wakeups.close()
        await context.database.dispose()


def sglang(server: ScriptedServer, **timeouts: float) -> SGLangEngine:
    return SGLangEngine(server.url, timeouts=SGLangTimeouts(**timeouts) if timeouts else None)


async def until(condition: Callable[[], Any], *, within_s: float = 20.0) -> Any:
    """What `condition` (maybe async) gives once it is true. Fails after `within_s`."""
    deadline = asyncio.get_running_loop().time() + within_s
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        if asyncio.get_running_loop().time() > deadline:
            raise AssertionError(f"not so within {within_s} s: {condition}")
        await asyncio.sleep(0.02)
