"""The composition root: `python -m rollway_service` serves REST, runs the steward, and may hold an embedded worker.

This is the only module that may know both doors and workers.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import structlog
import uvicorn

from rollway_service.api.app import create_app
from rollway_service.api.rpc.server import CannotListen, RpcServer, start_rpc_server
from rollway_service.composition import build_context
from rollway_service.config import Settings
from rollway_service.local_setup import CannotServe, ensure_model, open_local, served_folder, tiny_policy
from rollway_service.logs import configure_logging
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.steward import run_steward
from rollway_service.store import migrate

EMBEDDED, NO_ENGINE = "embedded", "none"
_GRACEFUL_S = 5
_SWITCH_INTERVAL_S = 0.0005

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Options:
    """What to start. `engine`: "embedded", the URL of a running SGLang, or "none" for a service without a worker.

    `model_path`: None for what SGLang says it serves. `model_name`: empty for the folder's.
    """

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
    parser.add_argument("--grpc-port", type=int, help="port of gRPC (default 8081; -1: none)")
    parser.add_argument("--data-dir", type=Path, help="where SQLite and keys live (default ~/.rollway)")
    parser.add_argument("--database", help="database URL (default: SQLite in the data directory)")
    parser.add_argument(
        "--engine", default=EMBEDDED, help='"embedded" (default), "none", or the base URL of a running SGLang'
    )
    parser.add_argument(
        "--model",
        type=Path,
        help="model folder to register and serve (default: the tiny policy, or what SGLang serves)",
    )
    parser.add_argument("--model-name", help="its name (default: the folder's)")
    parser.add_argument("--slots", type=int, help="rollouts at once")
    parser.add_argument("--deterministic", action="store_true", help="embedded engine in float64")
    parser.add_argument("--threads", type=int, default=1, help="torch threads of the embedded engine")
    parser.add_argument("--json-logs", action="store_true")
    parser.add_argument(
        "--until-stdin-closes", action="store_true", help="also stop when standard input ends: with whoever started it"
    )
    parsed = parser.parse_args(arguments)
    settings = Settings(
        host=parsed.host,
        port=parsed.port,
        grpc_port=parsed.grpc_port,
        data_dir=parsed.data_dir,
        database_url=parsed.database,
    )
    folder = parsed.model.absolute() if parsed.model is not None else None
    is_tiny = folder is None and parsed.engine == EMBEDDED
    return (
        Options(
            settings=settings,
            engine=parsed.engine,
            model_path=tiny_policy() if is_tiny else folder,
            model_name=parsed.model_name or ("tiny" if is_tiny else ""),
            slots=parsed.slots,
            is_deterministic=parsed.deterministic,
            threads=parsed.threads,
            until_stdin_closes=parsed.until_stdin_closes,
        ),
        parsed,
    )


async def with_model(options: Options) -> Options:
    """The options with the model's folder and name filled in."""
    path = options.model_path
    if path is None and options.engine != NO_ENGINE:
        path = await served_folder(options.engine)
    if path is None:
        return options
    if not await asyncio.to_thread(path.is_dir):
        raise CannotServe(f"--model {path}: there is no such folder")
    return replace(options, model_path=path, model_name=options.model_name or path.name)


class _Server(uvicorn.Server):
    """uvicorn, which leaves signals to us: worker and steward end with it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(options: Options) -> None:
    """Serve until SIGINT or SIGTERM."""
    options = await with_model(options)
    listener = _listen(options.settings)
    settings = options.settings
    await _prepare_store(settings)
    context = build_context(settings)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    if options.until_stdin_closes:
        asyncio.get_running_loop().add_reader(sys.stdin, _on_stdin, stop)
    config = uvicorn.Config(
        create_app(context, max_body_bytes=settings.max_body_bytes),
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=_GRACEFUL_S,
    )
    server = _Server(config)
    await context.wakeups.open()
    try:
        async with asyncio.TaskGroup() as group:
            serving = group.create_task(server.serve(sockets=[listener]))
            await _until_serving(server, serving)
            rpc = await _start_rpc(context)
            urls = _urls(settings, listener.getsockname()[1], rpc)
            caller = await open_local(context, *urls)
            steward = group.create_task(run_steward(context))
            try:
                worker = await _start_worker(group, context, caller, options, stop)
                _announce(settings, urls)
                database = settings.url.partition("@")[2] or settings.url
                log.info("ready", urls=urls, database=database, engine=options.engine)
                await stop.wait()
                if worker is not None:
                    await worker
            finally:
                steward.cancel()
                server.should_exit = True
                if rpc is not None:
                    await rpc.stop(_GRACEFUL_S)
                await asyncio.wait([serving])
    finally:
        await context.wakeups.close()
        await context.database.dispose()


async def _prepare_store(settings: Settings) -> None:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        await migrate.upgrade(settings.url)
    except OSError as error:
        raise CannotServe(f"--data-dir {settings.data_dir}: {error.strerror}") from None
    except migrate.DatabaseUnusable as error:
        raise CannotServe(str(error)) from None


def _on_stdin(stop: asyncio.Event) -> None:
    """Standard input has something: its end means that whoever started us is gone."""
    if not os.read(sys.stdin.fileno(), 4096):
        asyncio.get_running_loop().remove_reader(sys.stdin)
        stop.set()


async def _start_rpc(context: Context) -> RpcServer | None:
    settings = context.settings
    if settings.rpc_port < 0:
        return None
    try:
        return await start_rpc_server(
            context,
            settings.host,
            settings.rpc_port,
            max_message_bytes=settings.max_body_bytes,
            tls_cert=settings.grpc_tls_cert,
            tls_key=settings.grpc_tls_key,
        )
    except CannotListen as error:
        raise CannotServe(f"{error}; choose another port with --grpc-port, or none with -1") from None


def _urls(settings: Settings, port: int, rpc: RpcServer | None) -> list[str]:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    scheme = "grpc" if settings.grpc_tls_cert is None else "grpcs"
    return [f"http://{host}:{port}"] + ([f"{scheme}://{host}:{rpc.port}"] if rpc is not None else [])


def _announce(settings: Settings, urls: list[str]) -> None:
    """Write the URLs where whoever started us looks for them (with port 0, only we know the ports)."""
    # The first file last: whoever waits for it finds the other there.
    for file, url in reversed(list(zip((settings.url_file, settings.grpc_url_file), urls, strict=False))):
        if file is not None:
            partial = file.with_suffix(".partial")
            partial.write_text(url)
            partial.replace(file)


def _listen(settings: Settings) -> socket.socket:
    """The socket to serve on; taken first, so that a busy port is told before anything is started."""
    try:
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        raise CannotServe(
            f"cannot listen on {settings.host}:{settings.port}: {os.strerror(error.errno or 0)}; choose another with --host and --port"
        ) from None


async def _until_serving(server: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    while not server.started and not serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)


async def _start_worker(
    group: asyncio.TaskGroup, context: Context, caller: Caller, options: Options, stop: asyncio.Event
) -> asyncio.Task[CannotServe | None] | None:
    """The embedded worker, once it takes work; None for a service without one."""
    if options.model_path is not None:
        await ensure_model(context, caller, options.model_name, options.model_path)
    if options.engine == NO_ENGINE:
        return None
    from rollway_workers.assembly import WorkerOptions, WorkerRefused, run_worker  # noqa: PLC0415 - a service alone needs none
    from rollway_workers.control_direct import DirectControlPlane  # noqa: PLC0415

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

    async def work() -> CannotServe | None:
        try:
            await run_worker(control, context.tokenizers, options.settings, worker_options, stop, started)
        except WorkerRefused as error:
            return CannotServe(f"the worker cannot serve: {error}")
        return None

    task = group.create_task(work())
    waiter = group.create_task(started.wait())
    await asyncio.wait([task, waiter], return_when=asyncio.FIRST_COMPLETED)
    if task.done() and (refusal := task.result()) is not None:
        waiter.cancel()
        raise refusal
    return task


def main(arguments: list[str] | None = None) -> int:
    options, parsed = parse_arguments(arguments)
    configure_logging(as_json=parsed.json_logs)
    # The embedded engine's thread runs many tiny kernels; at the default interval it waits 5 ms for the lock at each.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    return_code = 0
    try:
        asyncio.run(serve(options))
    except* CannotServe as refusals:
        for refusal in refusals.exceptions:
            sys.stderr.write(f"rollway: {refusal}\n")
        return_code = 1
    return return_code
