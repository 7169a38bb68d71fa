"""The steward as a Celery task, sent by beat: decode, operation, encode, as at every door."""

from __future__ import annotations

import asyncio

from celery import Celery

from rollway_service.dispatch.broker import STEWARD_QUEUE, SWEEP_TASK
from rollway_service.operations.context import Context
from rollway_service.operations.steward import sweep_in_turn


def add_sweep(app: Celery, context: Context, runner: asyncio.Runner) -> None:
    """Register the sweep with its schedule. `runner` keeps one loop for all sweeps, which the database pool needs."""

    @app.task(name=SWEEP_TASK, shared=False)  # type: ignore[untyped-decorator]
    def sweep() -> None:
        runner.run(sweep_in_turn(context))

    interval_s = context.settings.steward_interval_s
    app.conf.beat_schedule = {
        "sweep": {
            "task": SWEEP_TASK,
            "schedule": interval_s,
            # Sweeps that waited while nobody took them are one sweep late, not many sweeps due.
            "options": {"queue": STEWARD_QUEUE, "expires": 2 * interval_s},
        }
    }
