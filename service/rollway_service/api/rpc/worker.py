"""The workers' door: `rollway.worker.v1`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from grpc import aio

from rollway.proto.worker.v1 import worker_pb2 as pb
from rollway.proto.worker.v1 import worker_pb2_grpc
from rollway_service.api.rpc.door import Door, time_left_s
from rollway_service.dispatch.ports import pool_topic
from rollway_service.operations import claims, sessions
from rollway_service.operations import worker_wire as wire

_MAX_NEWS_WAIT_S = 30.0


class WorkerService(Door, worker_pb2_grpc.WorkerServiceServicer):
    """Decodes, asks the operation, encodes. Sessions and pools of other tenants are as if they did not exist."""

    # Workers call many times a second; a key that is revoked works so much longer.
    known_for_s = 5.0

    async def _own(self, message: Any, call: aio.ServicerContext[Any, Any]) -> str:
        """The request's session, if it is the caller's."""
        caller = await self.caller(call)
        await sessions.check_owner(self.context, caller.tenant_id, message.session_id)
        return str(message.session_id)

    async def DescribePool(self, message: pb.DescribePoolRequest, call: Any) -> pb.PoolFacts:  # noqa: N802
        caller = await self.caller(call)
        return wire.pool_to_wire(await sessions.describe_pool(self.context, caller.tenant_id, message.name))

    async def OpenSession(self, message: pb.OpenSessionRequest, call: Any) -> pb.SessionOpened:  # noqa: N802
        caller = await self.caller(call)
        hello = wire.hello_from_wire(message)
        return wire.session_to_wire(await sessions.open_session(self.context, caller.tenant_id, hello))

    async def Heartbeat(self, message: pb.HeartbeatRequest, call: Any) -> pb.HeartbeatReply:  # noqa: N802
        session_id = await self._own(message, call)
        version = message.active_version if message.HasField("active_version") else None
        reply = await sessions.heartbeat(self.context, session_id, active_version=version, slots=message.slots)
        return wire.heartbeat_to_wire(reply)

    async def Claim(self, message: pb.ClaimRequest, call: Any) -> AsyncIterator[pb.ClaimPart]:  # noqa: N802
        session_id = await self._own(message, call)
        version = message.active_version if message.HasField("active_version") else None
        found = await claims.claim(self.context, session_id, limit=message.limit, active_version=version)
        for part in wire.claims_to_wire(found):
            yield part

    async def Checkpoint(self, message: pb.CheckpointRequest, call: Any) -> pb.NotOwned:  # noqa: N802
        session_id = await self._own(message, call)
        pieces = [wire.piece_from_wire(piece) for piece in message.pieces]
        return pb.NotOwned(work_item_ids=await claims.checkpoint(self.context, session_id, pieces))

    async def Finish(self, message: pb.FinishRequest, call: Any) -> pb.NotOwned:  # noqa: N802
        session_id = await self._own(message, call)
        finished = [wire.finished_from_wire(rollout) for rollout in message.rollouts]
        return pb.NotOwned(work_item_ids=await claims.finish(self.context, session_id, finished))

    async def Release(self, message: pb.ReleaseRequest, call: Any) -> pb.Released:  # noqa: N802
        session_id = await self._own(message, call)
        await claims.release(self.context, session_id, dict(message.fences), message.reason)
        return pb.Released()

    async def CloseSession(self, message: pb.CloseSessionRequest, call: Any) -> pb.SessionClosed:  # noqa: N802
        await sessions.close_session(self.context, await self._own(message, call))
        return pb.SessionClosed()

    async def WaitForNews(self, message: pb.WaitForNewsRequest, call: Any) -> pb.News:  # noqa: N802
        caller = await self.caller(call)
        await sessions.check_pool(self.context, caller.tenant_id, message.pool_id)
        topic, wakeups = pool_topic(message.pool_id), self.context.wakeups
        ticket = message.ticket if message.HasField("ticket") else wakeups.ticket(topic)
        wait_s = time_left_s(call, min(message.timeout_s, _MAX_NEWS_WAIT_S))
        has_news = await wakeups.wait(topic, ticket, wait_s)
        return pb.News(ticket=wakeups.ticket(topic), has_news=has_news)


def add_worker_service(context: Any, server: aio.Server) -> None:
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(WorkerService(context), server)
