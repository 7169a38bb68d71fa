"""Reward workers: a Celery prefork pool that checks answers for rollout workers (`rollway rewards`).

Each check has a hard limit: its process is killed at it. Messages are acknowledged late, so that a reward worker that
dies leaves its checks to the others; a check that kills its process twice is told as lost, and not tried for ever.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Iterable
from typing import Any

import orjson
import structlog
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery import Celery, Task
from celery.signals import worker_process_init
from celery.worker.request import Request
from celery.worker.state import task_ready

from rollway_service.config import Settings
from rollway_service.dispatch.broker import (
    BEGUN,
    CHECK_TASK,
    CHECKED_TASK,
    REWARDS_QUEUE,
    fanout,
    make_celery,
    send,
    work_queue,
)
from rollway_service.logs import configure_logging
from rollway_workers.rewards.checker_pool import PRELOAD
from rollway_workers.rewards.checker_process import answer, limit_myself
from rollway_workers.rewards.slow_checks import registered_functions

_TASKS_PER_CHILD = 5_000

log = structlog.get_logger()


def _told(outcome: dict[str, Any]) -> dict[str, Any]:
    """An answer of a checker process as an outcome."""
    if "error" in outcome:
        return {"kind": "error", "detail": outcome["error"]}
    return {"kind": "value", "value": outcome["value"]}


class _CheckRequest(Request):  # type: ignore[misc]
    """Answers for checks whose process is gone; this runs in the parent."""

    def on_timeout(self, soft: bool, timeout: float) -> None:
        super().on_timeout(soft, timeout)
        if not soft:
            self._reply({"kind": "timeout", "detail": f"killed after {timeout} s"})

    def on_failure(self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False) -> Any:
        # The pool wraps errors to carry their tracebacks.
        error = getattr(exc_info.exception, "exc", exc_info.exception)
        is_lost = isinstance(error, WorkerLostError)
        if is_lost and (self.delivery_info or {}).get("redelivered"):
            self._reply({"kind": "lost", "detail": f"the checker process died twice: {error}"})
            task_ready(self)
            self.acknowledge()
            return None
        if not is_lost and not isinstance(error, TimeLimitExceeded):
            self._reply({"kind": "lost", "detail": f"the check did not run: {error!r}"[:500]})
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def _reply(self, outcome: dict[str, Any]) -> None:
        _request, check_id, reply_to, _timeout_s = self.args
        try:
            send(self.app, CHECKED_TASK, (check_id, outcome), to=fanout(reply_to))
        except Exception as error:  # noqa: BLE001 - whoever asked does it by itself when no answer comes
            log.warning("answer_not_sent", check_id=check_id, error=repr(error))


class _CheckTask(Task):  # type: ignore[misc]
    Request = _CheckRequest


def make_reward_app(settings: Settings) -> Celery:
    """The Celery application of reward workers."""
    app = make_celery(
        settings.broker_url,
        settings.broker_namespace,
        task_queues=[work_queue(REWARDS_QUEUE)],
        task_acks_late=True,
        task_reject_on_worker_lost=True,
        worker_max_tasks_per_child=_TASKS_PER_CHILD,
    )

    functions = set(registered_functions(settings.reward_functions).values())

    @app.task(name=CHECK_TASK, base=_CheckTask, shared=False)  # type: ignore[untyped-decorator]
    def check(request_json: str, check_id: str, reply_to: str, _timeout_s: float) -> None:
        send(app, CHECKED_TASK, (check_id, {"kind": BEGUN}), to=fanout(reply_to))
        request = orjson.loads(request_json)
        # A message names code to run: only what the operator registered here too.
        if request.get("kind") == "python" and request.get("target") not in functions:
            outcome = {"kind": "error", "detail": f"{request.get('target')} is not registered at this reward worker"}
        else:
            outcome = _told(answer(request))
        send(app, CHECKED_TASK, (check_id, outcome), to=fanout(reply_to))

    return app


def _preload(functions: Iterable[str]) -> None:
    """Import what checks need ahead of the fork: start-up is no part of any check's time."""
    for module in (*PRELOAD, *(target.partition(":")[0] for target in functions)):
        try:
            importlib.import_module(module)
        except Exception as error:  # noqa: BLE001 - the checks that need it will say so, one by one
            log.warning("not_preloaded", module=module, error=repr(error))


def _on_child(**_arguments: Any) -> None:
    limit_myself()


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rollway rewards", description="Check answers for rollout workers.")
    parser.add_argument("--broker", help="broker URL (else ROLLWAY_BROKER_URL)")
    parser.add_argument("--processes", type=int, help="checks at once (else ROLLWAY_REWARD_PROCESSES)")
    parser.add_argument("--name", default="rewards", help="its name for remote control: rewards@NAME")
    parser.add_argument("--json-logs", action="store_true")
    parsed = parser.parse_args(arguments)
    settings = Settings(broker_url=parsed.broker, reward_processes=parsed.processes)
    configure_logging(as_json=parsed.json_logs)
    if not settings.broker_url:
        sys.stderr.write("rollway: no broker: set ROLLWAY_BROKER_URL, or --broker redis://host:6379/0\n")
        return 1
    _preload(registered_functions(settings.reward_functions).values())
    worker_process_init.connect(_on_child)
    worker = make_reward_app(settings).Worker(
        hostname=f"rewards@{parsed.name}",
        pool="prefork",
        concurrency=settings.reward_processes,
        without_gossip=True,
        without_mingle=True,
        loglevel="WARNING",
        quiet=True,
        optimization="fair",
    )
    log.info("reward_worker_started", name=parsed.name, processes=settings.reward_processes)
    worker.start()
    return int(worker.exitcode or 0)


if __name__ == "__main__":
    sys.exit(main())
