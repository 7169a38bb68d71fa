"""The control plane as workers see it: sessions, claims, checkpoints, ends.

`control_remote.py` asks a service over gRPC, the normal way; `control_direct.py` calls the operations in this process
and needs the database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rollway_service.operations.messages import (
    CheckpointPiece,
    Claims,
    FinishedRollout,
    HeartbeatReply,
    PoolFacts,
    SessionOpened,
    WorkerHello,
)


class ControlPlane(Protocol):
    """What a worker asks of the service. All calls may raise; the worker tries again.

    `StaleFence` from a call with a session means that the session is over.
    """

    async def describe_pool(self, name: str) -> PoolFacts: ...

    async def open_session(self, hello: WorkerHello) -> SessionOpened: ...

    async def heartbeat(self, session_id: str, *, active_version: int | None, slots: int) -> HeartbeatReply: ...

    async def claim(self, session_id: str, *, limit: int, active_version: int | None) -> Claims: ...

    async def checkpoint(self, session_id: str, pieces: Sequence[CheckpointPiece]) -> list[str]:
        """Returns the items that are no longer the session's."""
        ...

    async def finish(self, session_id: str, finished: Sequence[FinishedRollout]) -> list[str]:
        """Returns the items that are no longer the session's."""
        ...

    async def release(self, session_id: str, fences: Mapping[str, int], reason: str) -> None: ...

    async def close_session(self, session_id: str) -> None: ...

    def news_ticket(self, pool_id: str) -> int:
        """A moment in the pool's news; see `wait_for_news`."""
        ...

    async def wait_for_news(self, pool_id: str, ticket: int, timeout_s: float) -> bool:
        """Wait until something happened in the pool after the ticket, or the timeout. True when it did."""
        ...
