"""A worker as a process of its own: `rollway worker --pool NAME --engine ...`.

It asks a service over gRPC and needs no database; with --database it works on the database itself.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import structlog

from rollway.errors import RollwayError
from rollway.local_keys import checked_key, find_key
from rollway_service.config import Settings
from rollway_service.core.errors import Forbidden, NotFound, Unauthenticated
from rollway_service.logs import configure_logging
from rollway_service.tokenization.huggingface import HuggingFaceTokenizers
from rollway_workers.assembly import EMBEDDED, WorkerOptions, WorkerRefused, run_worker
from rollway_workers.control_plane import ControlPlane
from rollway_workers.control_remote import RemoteControlPlane, ServiceUnreachable

DEFAULT_SERVICE = "grpc://127.0.0.1:8081"
_POOL_POLL_S = 2.0

log = structlog.get_logger()


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rollway worker", description=__doc__)
    parser.add_argument("--pool", required=True, help="the pool to serve")
    parser.add_argument(
        "--engine",
        default=EMBEDDED,
        help='"embedded", "sglang" to launch one, or the base URL of a running SGLang (or router)',
    )
    parser.add_argument("--model", type=Path, help="sglang: the model's folder on this machine (default: the pool's)")
    parser.add_argument(
        "--engine-arg",
        action="append",
        default=[],
        metavar="ARG",
        help="sglang: a further flag, as --engine-arg=--tp=2",
    )
    parser.add_argument("--engine-port", type=int, default=0, help="sglang: its port (default: any free one)")
    parser.add_argument(
        "--service",
        default=os.environ.get("ROLLWAY_SERVICE", DEFAULT_SERVICE),
        help=f"gRPC URL of the service (else ROLLWAY_SERVICE, else {DEFAULT_SERVICE}); key: ROLLWAY_API_KEY",
    )
    parser.add_argument("--name", default="", help="the worker's name in its pool; it takes it back when it restarts")
    parser.add_argument("--slots", type=int, help="rollouts at once (default: what the engine runs at once)")
    parser.add_argument(
        "--deterministic",
        action="store_true",
        help="the same ids at any load (embedded: in float64; sglang: its deterministic mode)",
    )
    parser.add_argument("--threads", type=int, default=1, help="embedded: torch threads")
    parser.add_argument("--database", help="work on this database instead of asking a service")
    parser.add_argument("--tenant", default="default", help="with --database: whose pool")
    parser.add_argument("--json-logs", action="store_true")
    return parser.parse_args(arguments)


@asynccontextmanager
async def _direct(settings: Settings, tenant: str) -> AsyncIterator[ControlPlane]:
    # Only here: a worker that asks a service has no use for a database, nor its libraries.
    from rollway_service.composition import build_context  # noqa: PLC0415
    from rollway_service.operations.keys import ensure_tenant  # noqa: PLC0415
    from rollway_service.store import migrate  # noqa: PLC0415
    from rollway_workers.control_direct import DirectControlPlane  # noqa: PLC0415

    try:
        await migrate.require_head(settings.url)
    except migrate.DatabaseUnusable as error:
        raise WorkerRefused(str(error)) from None
    context = build_context(settings)
    try:
        yield DirectControlPlane(context, await ensure_tenant(context, tenant))
    finally:
        await context.database.dispose()


@asynccontextmanager
async def _remote(url: str) -> AsyncIterator[ControlPlane]:
    try:
        control = RemoteControlPlane(url, checked_key(find_key(url, None)))
    except RollwayError as error:
        raise WorkerRefused(f"--service {error}") from None
    try:
        yield control
    finally:
        await control.close()


def stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _until_pool(control: ControlPlane, pool: str, stop: asyncio.Event) -> None:
    """Wait until the service answers and has the pool.

    Raises:
        WorkerRefused: the key is none of this service's.
    """
    while not stop.is_set():
        try:
            await control.describe_pool(pool)
        except (Unauthenticated, Forbidden) as error:
            raise WorkerRefused(f"{error.detail} (ROLLWAY_API_KEY, or the key file that `rollway up` writes)") from None
        except NotFound as error:
            log.info("waiting_for_pool", pool=pool, reason=error.detail)
        except ServiceUnreachable as error:
            log.warning("waiting_for_service", reason=str(error))
        else:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_POOL_POLL_S):
                await stop.wait()


async def serve(arguments: argparse.Namespace) -> None:
    settings = Settings(database_url=arguments.database)
    stop = asyncio.Event()
    stop_on_signals(stop)
    options = WorkerOptions(
        pool=arguments.pool,
        engine=arguments.engine,
        name=arguments.name,
        slots=arguments.slots,
        is_deterministic=arguments.deterministic,
        threads=arguments.threads,
        model_path=arguments.model.absolute() if arguments.model is not None else None,
        engine_arguments=tuple(arguments.engine_arg),
        engine_port=arguments.engine_port,
    )
    opened = _direct(settings, arguments.tenant) if arguments.database else _remote(arguments.service)
    async with opened as control:
        await _until_pool(control, options.pool, stop)
        if stop.is_set():
            return
        started = asyncio.Event()
        working = asyncio.create_task(run_worker(control, HuggingFaceTokenizers(), settings, options, stop, started))
        stopping = asyncio.create_task(stop.wait())
        await asyncio.wait([working, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not started.is_set() and not working.done():
            # An engine may take minutes to start, and nobody waits for it any more.
            working.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await working


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    configure_logging(as_json=parsed.json_logs)
    try:
        asyncio.run(serve(parsed))
    except WorkerRefused as error:
        log.error("worker_refused", reason=str(error))
        return 1
    return 0
