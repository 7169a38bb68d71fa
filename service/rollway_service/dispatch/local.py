"""Wake-ups inside one process and one event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict

_MAX_COUNTS = 10_000


class LocalWakeUps:
    """The number of the latest wake-up of each topic, and the futures of those who wait on it.

    Numbers rise over all topics. Of topics beyond the latest 10,000 only the newest forgotten number is kept: a wait on
    one of them may end too early, which costs a look, and never too late.
    """

    def __init__(self) -> None:
        self._last = 0
        self._forgotten = 0
        self._numbers: dict[str, int] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)

    async def open(self) -> None:
        """Nothing to start."""

    async def close(self) -> None:
        """Nothing to stop."""

    def wake(self, topic: str) -> None:
        self._last += 1
        self._numbers.pop(topic, None)
        self._numbers[topic] = self._last
        if len(self._numbers) > _MAX_COUNTS:
            self._forgotten = self._numbers.pop(next(iter(self._numbers)))
        for future in self._waiting.pop(topic, set()):
            if not future.done():
                future.set_result(None)

    def ticket(self, topic: str) -> int:
        return self._numbers.get(topic, self._forgotten)

    async def wait(self, topic: str, ticket: int, timeout_s: float) -> bool:
        if self.ticket(topic) != ticket:
            return True
        if timeout_s <= 0:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[topic].add(future)
        try:
            # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the wake-up.
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        else:
            return True
        finally:
            waiting = self._waiting.get(topic)
            if waiting is not None:
                waiting.discard(future)
                if not waiting:
                    del self._waiting[topic]
