"""A worker's ear at the broker: news of its pool, answers of reward workers, remote control.

The Celery consumer runs in a thread beside the worker's loop. While the broker is away, news come by long-poll.
"""

from __future__ import annotations

import asyncio
import socket
import uuid
from collections.abc import Callable
from typing import Any

from rollway_service.dispatch.broker import (
    CHECKED_TASK,
    NEWS_TASK,
    heard_on,
    make_celery,
    pool_news,
    replies_to,
)
from rollway_service.dispatch.consumer import ConsumerThread
from rollway_service.dispatch.local import LocalWakeUps
from rollway_workers.host import WorkerHost

_NEWS = "news"

OnChecked = Callable[[str, dict[str, Any]], None]


class WorkerBroker:
    """The worker's connection to the broker. `name` is the worker's; `celery inspect` shows it as worker@name."""

    def __init__(self, broker_url: str, namespace: str, *, name: str, pool_id: str) -> None:
        self.app = make_celery(broker_url, namespace)
        self.reply_to = replies_to(f"{socket.gethostname()}-{uuid.uuid4().hex}")
        self._loop = asyncio.get_running_loop()
        self._wakeups = LocalWakeUps()
        self._on_checked: OnChecked | None = None
        self._host: WorkerHost | None = None
        self._consumer = ConsumerThread(
            self.app,
            f"worker@{name}",
            [heard_on(pool_news(pool_id)), heard_on(self.reply_to)],
            {NEWS_TASK: self._on_news, CHECKED_TASK: self._on_checked_message},
            {"drain": self._drain, "resume": self._resume, "pause": self._pause, "status": self._status},
            on_connected=self._on_connected,
        )

    @property
    def is_connected(self) -> bool:
        return self._consumer.is_connected

    def start(self) -> None:
        self._consumer.start()

    async def stop(self) -> None:
        await asyncio.to_thread(self._consumer.stop)

    def obey(self, host: WorkerHost) -> None:
        """Let remote control command this host."""
        self._host = host

    def hand_answers_to(self, on_checked: OnChecked) -> None:
        """Give answers of reward workers to this, on the loop."""
        self._on_checked = on_checked

    async def wait_for_news(self, timeout_s: float) -> bool:
        return await self._wakeups.wait(_NEWS, self._wakeups.ticket(_NEWS), timeout_s)

    def _soon(self, call: Callable[..., Any], *arguments: Any) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_news(self, _topic: str, _sender_id: str) -> None:
        self._soon(self._wakeups.wake, _NEWS)

    def _on_connected(self) -> None:
        # Whatever was said while nobody listened is unknown: look.
        self._soon(self._wakeups.wake, _NEWS)

    def _on_checked_message(self, check_id: str, outcome: dict[str, Any]) -> None:
        if self._on_checked is not None:
            self._soon(self._on_checked, check_id, outcome)

    def _drain(self) -> str:
        return self._command("drain", "takes no more work; what runs is finished")

    def _resume(self) -> str:
        return self._command("resume", "takes work again")

    def _pause(self) -> str:
        return self._command("pause", "takes no more work, and its engine is paused")

    def _command(self, name: str, answer: str) -> str:
        if self._host is None:
            return "has not started yet"
        self._soon(getattr(self._host, name))
        return answer

    def _status(self) -> dict[str, Any]:
        return {} if self._host is None else self._host.status()
