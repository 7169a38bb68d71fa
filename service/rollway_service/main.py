"""The composition root: `python -m rollway_service` serves REST, runs the steward, and may hold an embedded worker.

This is the only module that may know both doors and workers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import structlog
import uvicorn

from rollway.local_keys import store_key
from rollway.types import ModelCreate, PoolCreate
from rollway_service.api.app import create_app
from rollway_service.composition import build_context, configure_logging
from rollway_service.config import Settings
from rollway_service.core.errors import AlreadyExists
from rollway_service.operations import keys, models, pools
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.steward import run_steward
from rollway_service.store import migrate

DEFAULT_TENANT = "default"
_GRACEFUL_S = 5
_SWITCH_INTERVAL_S = 0.0005

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What to start. `engine`: "embedded", the URL of a running SGLang, or "none" for a service without a worker."""

    settings: Settings
    engine: str
    model_path: Path | None
    model_name: str
    slots: int | None
    is_deterministic: bool
    threads: int
    until_stdin_closes: bool


def parse_arguments(arguments: list[str] | None = None) -> tuple[Options, argparse.Namespace]:
    parser = argparse.ArgumentParser(prog="rollway up", description="Serve Rollway.")
    parser.add_argument("--host", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on (default 8080)")
    parser.add_argument("--data-dir", type=Path, help="where SQLite and keys live (default ~/.rollway)")
    parser.add_argument("--database", help="database URL (default: SQLite in the data directory)")
    parser.add_argument(
        "--engine", default="embedded", help='"embedded" (default), "none", or the base URL of a running SGLang'
    )
    parser.add_argument("--model", type=Path, help="model folder to register and serve (default: the tiny policy)")
    parser.add_argument("--model-name", help="its name (default: the folder's)")
    parser.add_argument("--slots", type=int, help="rollouts at once")
    parser.add_argument("--deterministic", action="store_true", help="embedded engine in float64")
    parser.add_argument("--threads", type=int, default=1, help="torch threads of the embedded engine")
    parser.add_argument("--json-logs", action="store_true")
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="also stop when standard input ends: with whoever started it"
    )
    parsed = parser.parse_args(arguments)
    settings = Settings(host=parsed.host, port=parsed.port, data_dir=parsed.data_dir, database_url=parsed.database)
    model_path = parsed.model
    if model_path is None and parsed.engine == "embedded":
        model_path = tiny_policy()
    name = parsed.model_name or ("tiny" if parsed.model is None else parsed.model.name)
    return (
        Options(
            settings=settings,
            engine=parsed.engine,
            model_path=model_path,
            model_name=name,
            slots=parsed.slots,
            is_deterministic=parsed.deterministic,
            threads=parsed.threads,
            until_stdin_closes=parsed.until_stdin_closes,
        ),
        parsed,
    )


def tiny_policy() -> Path:
    """The demo's checkpoint, which ships with the package."""
    import rollway.demo  # noqa: PLC0415 - only for its folder

    return Path(str(rollway.demo.__file__)).parent / "tiny_policy"


async def open_local(context: Context, url: str) -> Caller:
    """The default tenant, with a key for this machine's user in the key file."""
    tenant_id = await keys.ensure_tenant(context, DEFAULT_TENANT)
    token = await keys.add_key(context, tenant_id, "local")
    await asyncio.to_thread(store_key, url, token)
    return await keys.authenticate(context, token)


async def ensure_model(context: Context, caller: Caller, options: Options) -> None:
    """Register the model and its pool, unless they are there from an earlier start."""
    assert options.model_path is not None
    with contextlib.suppress(AlreadyExists):
        await models.register_model(
            context, caller, ModelCreate(name=options.model_name, source=str(options.model_path.absolute()))
        )
    with contextlib.suppress(AlreadyExists):
        await pools.create_pool(context, caller, PoolCreate(name=options.model_name, model=options.model_name))


class _Server(uvicorn.Server):
    """uvicorn, which leaves signals to us: worker and steward end with it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(options: Options) -> None:
    """Serve until SIGINT or SIGTERM."""
    settings = options.settings
    settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
    await migrate.upgrade(settings.url)
    context = build_context(settings)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if options.until_stdin_closes:
        asyncio.get_running_loop().add_reader(sys.stdin, _on_stdin, stop)
    config = uvicorn.Config(
        create_app(context, max_body_bytes=settings.max_body_bytes),
        host=settings.host,
        port=settings.port,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACEFUL_S,
    )
    server = _Server(config)
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve())
            await _until_listening(server, serving)
            port = server.servers[0].sockets[0].getsockname()[1]
            url = f"http://{settings.host}:{port}"
            caller = await open_local(context, url)
            steward = group.create_task(run_steward(context))
            worker = await _start_worker(group, context, caller, options, stop)
            _announce(settings, url)
            log.info("ready", url=url, database=settings.url.partition("@")[2] or settings.url, engine=options.engine)
            await stop.wait()
            if worker is not None:
                await worker
            steward.cancel()
            server.should_exit = True
    finally:
        await context.database.dispose()


def _on_stdin(stop: asyncio.Event) -> None:
    """Standard input has something: its end means that whoever started us is gone."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin)
        stop.set()


def _announce(settings: Settings, url: str) -> None:
    """Write the URL where whoever started us looks for it (with port 0, only we know the port)."""
    if settings.url_file is not None:
        partial = settings.url_file.with_suffix(".partial")
        partial.write_text(url)
        partial.replace(settings.url_file)


async def _until_listening(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    while not server.started:
        if serving.done():
            raise SystemExit(f"the service cannot listen on {server.config.host}:{server.config.port}")
        await asyncio.sleep(0.01)


async def _start_worker(
    group: asyncio.TaskGroup, context: Context, caller: Caller, options: Options, stop: asyncio.Event
) -> asyncio.Task[None] | None:
    """The embedded worker, once it takes work; None for a service without one."""
    if options.model_path is not None:
        await ensure_model(context, caller, options)
    if options.engine == "none":
        return None
    from rollway_workers.assembly import WorkerOptions, run_worker  # noqa: PLC0415 - a service alone needs no worker
    from rollway_workers.control_plane import DirectControlPlane  # noqa: PLC0415

    worker_options = WorkerOptions(
        pool=options.model_name,
        engine=options.engine,
        name="local",
        slots=options.slots,
        is_deterministic=options.is_deterministic,
        threads=options.threads,
    )
    control = DirectControlPlane(context, caller.tenant_id)
    started = asyncio.Event()
    task = group.create_task(run_worker(control, context.tokenizers, options.settings, worker_options, stop, started))
    waiter = group.create_task(started.wait())
    await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
    return task


def main(arguments: list[str] | None = None) -> int:
    options, parsed = parse_arguments(arguments)
    configure_logging(as_json=parsed.json_logs)
    # The embedded engine's thread runs many tiny kernels; at the default interval it waits 5 ms for the lock at each.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    asyncio.run(serve(options))
    return 0
