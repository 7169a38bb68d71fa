"""A worker as a process of its own: `python -m rollway_workers --pool NAME --engine URL`.

It talks to the database directly; a control plane over the network comes with gRPC.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal

import structlog

from rollway_service.composition import build_context, configure_logging
from rollway_service.config import Settings
from rollway_service.core.errors import NotFound
from rollway_service.local_setup import DEFAULT_TENANT
from rollway_service.operations.keys import ensure_tenant
from rollway_service.store import migrate
from rollway_workers.assembly import EMBEDDED, WorkerOptions, WorkerRefused, run_worker
from rollway_workers.control_plane import DirectControlPlane

_POOL_POLL_S = 2.0

log = structlog.get_logger()


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rollway worker", description=__doc__)
    parser.add_argument("--pool", required=True, help="the pool to serve")
    parser.add_argument("--engine", default=EMBEDDED, help='"embedded", or the base URL of a running SGLang')
    parser.add_argument("--name", default="", help="the worker's name in its pool; it takes it back when it restarts")
    parser.add_argument("--slots", type=int, help="rollouts at once (default: what the engine runs at once)")
    parser.add_argument("--deterministic", action="store_true", help="embedded: float64, the same ids at any load")
    parser.add_argument("--threads", type=int, default=1, help="embedded: torch threads")
    parser.add_argument("--tenant", default=DEFAULT_TENANT)
    parser.add_argument("--database", help="database URL (else ROLLWAY_DATABASE_URL)")
    parser.add_argument("--json-logs", action="store_true")
    return parser.parse_args(arguments)


async def _check_store(settings: Settings) -> None:
    try:
        await migrate.require_head(settings.url)
    except migrate.DatabaseUnusable as error:
        raise WorkerRefused(str(error)) from None


def stop_on_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def serve(arguments: argparse.Namespace) -> None:
    settings = Settings(database_url=arguments.database)
    await _check_store(settings)
    context = build_context(settings)
    stop = asyncio.Event()
    stop_on_signals(stop)
    try:
        control = DirectControlPlane(context, await ensure_tenant(context, arguments.tenant))
        options = WorkerOptions(
            pool=arguments.pool,
            engine=arguments.engine,
            name=arguments.name,
            slots=arguments.slots,
            is_deterministic=arguments.deterministic,
            threads=arguments.threads,
        )
        while not stop.is_set():
            try:
                await control.describe_pool(options.pool)
            except NotFound as error:
                log.info("waiting_for_pool", pool=options.pool, reason=error.detail)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), _POOL_POLL_S)
            else:
                await run_worker(control, context.tokenizers, settings, options, stop)
                return
    finally:
        await context.database.dispose()


def main(arguments: list[str] | None = None) -> int:
    parsed = parse_arguments(arguments)
    configure_logging(as_json=parsed.json_logs)
    try:
        asyncio.run(serve(parsed))
    except WorkerRefused as error:
        log.error("worker_refused", reason=str(error))
        return 1
    return 0
