"""The control plane in this process, over the database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rollway_service.dispatch.ports import pool_topic
from rollway_service.operations import claims, sessions
from rollway_service.operations.context import Context
from rollway_service.operations.messages import (
    CheckpointPiece,
    Claims,
    FinishedRollout,
    HeartbeatReply,
    PoolFacts,
    SessionOpened,
    WorkerHello,
)


class DirectControlPlane:
    """Operations called in this process, for the tenant that owns the pool."""

    def __init__(self, context: Context, tenant_id: str) -> None:
        self._context = context
        self._tenant_id = tenant_id

    async def describe_pool(self, name: str) -> PoolFacts:
        return await sessions.describe_pool(self._context, self._tenant_id, name)

    async def open_session(self, hello: WorkerHello) -> SessionOpened:
        return await sessions.open_session(self._context, self._tenant_id, hello)

    async def heartbeat(self, session_id: str, *, active_version: int | None, slots: int) -> HeartbeatReply:
        return await sessions.heartbeat(self._context, session_id, active_version=active_version, slots=slots)

    async def claim(self, session_id: str, *, limit: int, active_version: int | None) -> Claims:
        return await claims.claim(self._context, session_id, limit=limit, active_version=active_version)

    async def checkpoint(self, session_id: str, pieces: Sequence[CheckpointPiece]) -> list[str]:
        return await claims.checkpoint(self._context, session_id, pieces)

    async def finish(self, session_id: str, finished: Sequence[FinishedRollout]) -> list[str]:
        return await claims.finish(self._context, session_id, finished)

    async def release(self, session_id: str, fences: Mapping[str, int], reason: str) -> None:
        await claims.release(self._context, session_id, dict(fences), reason)

    async def close_session(self, session_id: str) -> None:
        await sessions.close_session(self._context, session_id)

    def news_ticket(self, pool_id: str) -> int:
        return self._context.wakeups.ticket(pool_topic(pool_id))

    async def wait_for_news(self, pool_id: str, ticket: int, timeout_s: float) -> bool:
        return await self._context.wakeups.wait(pool_topic(pool_id), ticket, timeout_s)
