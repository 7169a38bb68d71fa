"""Slow checks on reward workers, asked for and answered by Celery messages.

A check is asked for again elsewhere when no answer comes: messages may be lost, a flushed Redis forgets them all. Then
the worker's own checkers do it.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import structlog

from rollway_service.dispatch.broker import CHECK_TASK, REWARDS_QUEUE, send
from rollway_workers.broker import WorkerBroker
from rollway_workers.rewards.ports import CheckerFailed, CheckerLost, Checkers, CheckTimeout

_QUEUE_S = 10.0
"""How long a check may wait for a reward worker before the worker does it itself."""

log = structlog.get_logger()


class CeleryCheckers:
    """Asks reward workers; `own` does what they do not answer."""

    def __init__(self, broker: WorkerBroker, own: Checkers) -> None:
        self._broker = broker
        self._own = own
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        broker.hand_answers_to(self._on_checked)

    async def warm(self) -> None:
        """Nothing to get ready: the own checkers start when they are needed."""

    async def run(self, request: dict[str, Any], timeout_s: float) -> float:
        outcome = await self._ask(request, timeout_s) if self._broker.is_connected else None
        if outcome is None:
            return await self._own.run(request, timeout_s)
        if outcome["kind"] == "timeout":
            raise CheckTimeout(outcome["detail"])
        if outcome["kind"] == "lost":
            raise CheckerLost(outcome["detail"])
        if outcome["kind"] == "error":
            raise CheckerFailed(outcome["detail"])
        return float(outcome["value"])

    async def _ask(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any] | None:
        """The outcome, or None when nobody answered in time."""
        check_id = uuid.uuid4().hex
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[check_id] = future
        try:
            async with asyncio.timeout(_QUEUE_S):
                await asyncio.to_thread(self._send, check_id, request, timeout_s)
            async with asyncio.timeout(timeout_s + _QUEUE_S):
                return await future
        except Exception as error:  # noqa: BLE001 - whatever the broker does, the check is done here
            log.warning("no_reward_worker_answered", error=repr(error), meaning="this worker checks by itself")
            return None
        finally:
            self._waiting.pop(check_id, None)

    def _send(self, check_id: str, request: dict[str, Any], timeout_s: float) -> None:
        arguments = (request, check_id, self._broker.reply_to, timeout_s)
        send(self._broker.app, CHECK_TASK, arguments, to=REWARDS_QUEUE, time_limit=timeout_s, expires=_QUEUE_S)

    def _on_checked(self, check_id: str, outcome: dict[str, Any]) -> None:
        future = self._waiting.get(check_id)
        # An answer may come twice, or after somebody stopped waiting.
        if future is not None and not future.done():
            future.set_result(outcome)

    async def close(self) -> None:
        await self._own.close()
