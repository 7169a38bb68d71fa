"""Slow checks on reward workers, asked for and answered by Celery messages.

A check is asked for again elsewhere when no answer comes: messages may be lost, a flushed Redis forgets them all. Then
the worker's own checkers do it.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import orjson
import structlog

from rollway_service.dispatch.broker import BEGUN, CHECK_TASK, REWARDS_QUEUE, send
from rollway_workers.broker import WorkerBroker
from rollway_workers.rewards.ports import CheckerFailed, CheckerLost, Checkers, CheckTimeout

_QUEUE_S = 5.0
"""How long a check may wait until a reward worker begins it, before the worker does it itself."""
_GRACE_S = 5.0
_AVOID_S = 10.0
"""After a check that nobody answered, so long no other is asked for: none waits in vain but the first."""

log = structlog.get_logger()


@dataclass(slots=True)
class _Asked:
    """A check that was asked for."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: asyncio.Future[dict[str, Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class CeleryCheckers:
    """Asks reward workers; `own` does what they do not answer."""

    def __init__(self, broker: WorkerBroker, own: Checkers) -> None:
        self._broker = broker
        self._own = own
        self._waiting: dict[str, _Asked] = {}
        self._avoid_until_s = 0.0
        broker.hand_answers_to(self._on_checked)

    async def warm(self) -> None:
        """Nothing to get ready: the own checkers start when they are needed."""

    async def run(self, request: dict[str, Any], timeout_s: float) -> float:
        is_worth_asking = self._broker.is_connected and time.monotonic() >= self._avoid_until_s
        outcome = await self._ask(request, timeout_s) if is_worth_asking else None
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
        check_id, asked = uuid.uuid4().hex, _Asked()
        self._waiting[check_id] = asked
        try:
            async with asyncio.timeout(_QUEUE_S):
                await asyncio.to_thread(self._send, check_id, request, timeout_s)
                await asked.begun.wait()
            async with asyncio.timeout(timeout_s + _GRACE_S):
                return await asked.outcome
        except Exception as error:  # noqa: BLE001 - whatever the broker does, the check is done here
            self._avoid_until_s = time.monotonic() + _AVOID_S
            log.warning("no_reward_worker_answered", error=repr(error), meaning="this worker checks by itself")
            return None
        finally:
            self._waiting.pop(check_id, None)

    def _send(self, check_id: str, request: dict[str, Any], timeout_s: float) -> None:
        # As text: Celery's own JSON gives some objects of the user's another meaning.
        arguments = (orjson.dumps(request).decode(), check_id, self._broker.reply_to, timeout_s)
        send(self._broker.app, CHECK_TASK, arguments, to=REWARDS_QUEUE, time_limit=timeout_s, expires=_QUEUE_S)

    def _on_checked(self, check_id: str, outcome: dict[str, Any]) -> None:
        asked = self._waiting.get(check_id)
        # An answer may come twice, or after somebody stopped waiting.
        if asked is None:
            return
        asked.begun.set()
        if outcome["kind"] != BEGUN and not asked.outcome.done():
            asked.outcome.set_result(outcome)

    async def close(self) -> None:
        await self._own.close()
