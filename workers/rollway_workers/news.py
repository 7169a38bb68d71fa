"""How a worker hears that something happened in its pool: work was queued, weights published, items cancelled.

News only make things faster: claims and heartbeats come by themselves all the same.
"""

from __future__ import annotations

from typing import Protocol

from rollway_workers.control_plane import ControlPlane

_LOOK_S = 2.0
"""How soon a broker that is gone or back is noticed."""


class News(Protocol):
    """News of one pool."""

    async def wait(self, timeout_s: float) -> bool:
        """Wait for what happened since the last call. True when something did, or may have; may raise."""
        ...


class ControlPlaneNews:
    """Long-polls the control plane."""

    def __init__(self, control: ControlPlane, pool_id: str) -> None:
        self._control = control
        self._pool_id = pool_id

    async def wait(self, timeout_s: float) -> bool:
        ticket = self._control.news_ticket(self._pool_id)
        return await self._control.wait_for_news(self._pool_id, ticket, timeout_s)


class Listening(Protocol):
    """A broker that hears the pool's news while it is connected."""

    @property
    def is_connected(self) -> bool: ...

    async def wait_for_news(self, timeout_s: float) -> bool: ...


class BrokerNews:
    """News from the broker while it is connected, else from `fallback`."""

    def __init__(self, broker: Listening, fallback: News) -> None:
        self._broker = broker
        self._fallback = fallback

    async def wait(self, timeout_s: float) -> bool:
        wait_s = min(timeout_s, _LOOK_S)
        if self._broker.is_connected:
            return await self._broker.wait_for_news(wait_s)
        return await self._fallback.wait(wait_s)
