"""The steward as a process of its own (`rollway steward`): Celery beat and the worker that does its sweeps.

It needs the database and the broker. Service processes sweep too when their turn comes, so nothing depends on it; with
it, sweeps do not share a processor with requests.
"""

from __future__ import annotations

import argparse
import asyncio
import sys

import structlog
from celery.beat import EmbeddedService

from rollway_service.api.celery_tasks import add_sweep
from rollway_service.composition import build_context
from rollway_service.config import Settings
from rollway_service.dispatch.broker import STEWARD_QUEUE, make_celery, work_queue
from rollway_service.logs import configure_logging
from rollway_service.store import migrate

log = structlog.get_logger()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rollway steward", description="Sweep by Celery beat.")
    parser.add_argument("--database", help="database URL (else ROLLWAY_DATABASE_URL)")
    parser.add_argument("--broker", help="broker URL (else ROLLWAY_BROKER_URL)")
    parser.add_argument("--name", default="steward", help="its name for remote control: steward@NAME")
    parser.add_argument("--json-logs", action="store_true")
    parsed = parser.parse_args(arguments)
    settings = Settings(database_url=parsed.database, broker_url=parsed.broker)
    configure_logging(as_json=parsed.json_logs)
    if not settings.broker_url:
        sys.stderr.write("rollway: no broker: set ROLLWAY_BROKER_URL, or --broker redis://host:6379/0\n")
        return 1
    with asyncio.Runner() as runner:
        try:
            runner.run(migrate.require_head(settings.url))
        except migrate.DatabaseUnusable as error:
            sys.stderr.write(f"rollway: {error}\n")
            return 1
        context = build_context(settings)
        runner.run(context.wakeups.open())
        app = make_celery(settings.broker_url, settings.broker_namespace, task_queues=[work_queue(STEWARD_QUEUE)])
        add_sweep(app, context, runner)
        worker = app.Worker(
            hostname=f"steward@{parsed.name}",
            pool="solo",
            without_gossip=True,
            without_mingle=True,
            loglevel="WARNING",
            quiet=True,
        )
        log.info("steward_started", name=parsed.name, interval_s=settings.steward_interval_s)
        # A thread: as a process of its own, beat would outlive a steward that is killed, and send for ever.
        beat = EmbeddedService(app, thread=True, scheduler_cls="celery.beat:Scheduler")
        beat.start()
        worker.start()
        beat.stop()
        runner.run(context.wakeups.close())
        runner.run(context.database.dispose())
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
