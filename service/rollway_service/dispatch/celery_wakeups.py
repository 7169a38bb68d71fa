"""Wake-ups across processes, by Celery over a broker.

`wake` wakes this process at once and marks the topic; one thread sends what is marked, each topic once however often it
was woken meanwhile. The broker may be away or hang: messages are dropped, the thread waits, and nobody else does.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from typing import Any

import structlog

from rollway_service.dispatch.broker import NEWS_TASK, SERVICE_NEWS, fanout, heard_on, make_celery, pool_news, send
from rollway_service.dispatch.consumer import ConsumerThread
from rollway_service.dispatch.local import LocalWakeUps

_GATHER_S = 0.005
_APART_S = 0.1
"""Messages of one topic are so far apart: a message costs every process that hears it a millisecond or two."""
_PAUSE_AFTER_FAILURE_S = 1.0
_CLOSE_S = 3.0
_POOL_PREFIX = "pool:"

log = structlog.get_logger()


class CeleryWakeUps:
    """The `WakeUps` of a service process that shares its work with others."""

    def __init__(self, broker_url: str, namespace: str) -> None:
        self._local = LocalWakeUps()
        self._broker = (broker_url, namespace)
        self._sender_id = f"{socket.gethostname()}-{os.getpid()}-{id(self):x}"
        self._dirty: set[str] = set()
        self._lock = threading.Lock()
        self._has_dirty = threading.Event()
        self._is_closing = False
        self._thread: threading.Thread | None = None
        self._consumer: ConsumerThread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.messages_sent = 0

    @property
    def is_connected(self) -> bool:
        return self._consumer is not None and self._consumer.is_connected

    async def open(self) -> None:
        """Start sending and hearing, on the running loop. Does not wait for the broker."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._send_dirty, name="rollway-wake-ups", daemon=True)
        self._thread.start()
        self._consumer = ConsumerThread(
            make_celery(*self._broker),
            f"service@{self._sender_id}",
            [heard_on(SERVICE_NEWS)],
            {NEWS_TASK: self._on_news},
        )
        self._consumer.start()

    async def close(self) -> None:
        self._is_closing = True
        self._has_dirty.set()
        if self._consumer is not None:
            await asyncio.to_thread(self._consumer.stop)
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, _CLOSE_S)

    def wake(self, topic: str) -> None:
        self._local.wake(topic)
        with self._lock:
            self._dirty.add(topic)
        self._has_dirty.set()

    def ticket(self, topic: str) -> int:
        return self._local.ticket(topic)

    async def wait(self, topic: str, ticket: int, timeout_s: float) -> bool:
        return await self._local.wait(topic, ticket, timeout_s)

    def _on_news(self, topic: str, sender_id: str) -> None:
        """In the consumer's thread. What this process sent itself woke it long ago."""
        if sender_id != self._sender_id and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._local.wake, topic)

    def _send_dirty(self) -> None:
        app = make_celery(*self._broker)
        sent_at_s: dict[str, float] = {}
        is_failing = False
        while not self._is_closing:
            self._has_dirty.wait(_APART_S if self._dirty else None)
            self._has_dirty.clear()
            # More of the same burst is on its way; after it, one message does for all.
            time.sleep(_GATHER_S)
            topics = self._take_due(sent_at_s)
            try:
                for topic in topics:
                    self._send(app, topic)
                is_failing = False
            except Exception as error:  # noqa: BLE001 - a hint is lost, which only costs time
                if not is_failing:
                    log.warning("wake_ups_not_sent", error=repr(error), meaning="others find the work by polling")
                is_failing = True
                time.sleep(_PAUSE_AFTER_FAILURE_S)

    def _take_due(self, sent_at_s: dict[str, float]) -> list[str]:
        """Topics to send now: those that were not sent a moment ago; the others stay marked."""
        now_s = time.monotonic()
        for topic in [topic for topic, sent_s in sent_at_s.items() if now_s - sent_s >= _APART_S]:
            del sent_at_s[topic]
        with self._lock:
            due = sorted(self._dirty - sent_at_s.keys())
            self._dirty.difference_update(due)
        sent_at_s.update(dict.fromkeys(due, now_s))
        return due

    def _send(self, app: Any, topic: str) -> None:
        arguments = (topic, self._sender_id)
        send(app, NEWS_TASK, arguments, to=fanout(SERVICE_NEWS))
        self.messages_sent += 1
        if topic.startswith(_POOL_PREFIX):
            send(app, NEWS_TASK, arguments, to=fanout(pool_news(topic.removeprefix(_POOL_PREFIX))))
            self.messages_sent += 1
