"""Wake-ups inside one process and one event loop."""

from __future__ import annotations

import asyncio
from collections import defaultdict


class LocalWakeUps:
    """A counter per topic, and the futures of those who wait on it."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = defaultdict(int)
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)

    def wake(self, topic: str) -> None:
        self._counts[topic] += 1
        for future in self._waiting.pop(topic, set()):
            if not future.done():
                future.set_result(None)

    def ticket(self, topic: str) -> int:
        return self._counts[topic]

    async def wait(self, topic: str, ticket: int, timeout_s: float) -> bool:
        if self._counts[topic] != ticket:
            return True
        if timeout_s <= 0:
            return False
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[topic].add(future)
        try:
            await asyncio.wait_for(future, timeout_s)
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
