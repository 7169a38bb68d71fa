"""The control plane of a service, over gRPC: a worker needs an API key, and no database.

Every call has a deadline, and keepalive pings find a peer that is gone without a word. The channel connects again by
itself; what failed meanwhile is raised and tried again by whoever called.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from grpc import aio

from rollway._async.channels import open_channel
from rollway.proto.v1 import common_pb2
from rollway.proto.worker.v1 import worker_pb2 as pb
from rollway.proto.worker.v1 import worker_pb2_grpc
from rollway_service.core.errors import FieldError, ServiceError, error_class
from rollway_service.operations import worker_wire as wire
from rollway_service.operations.messages import (
    CheckpointPiece,
    Claims,
    FinishedRollout,
    HeartbeatReply,
    PoolFacts,
    SessionOpened,
    WorkerHello,
)

_PROBLEM_KEY = "rollway-problem-bin"
_CALL_S = 15.0
_WRITE_S = 60.0
_NEWS_S = 20.0
_NEWS_GRACE_S = 5.0
_MAX_ANSWER_BYTES = 2**30
_CALL_BYTES = 16 * 2**20
"""A write is cut into calls of about this size; one rollout is never cut."""


class ServiceUnreachable(ConnectionError):
    """The service did not answer; what was asked may or may not have happened."""


def _told(url: str, error: aio.AioRpcError) -> Exception:
    """What the service meant, as the error that it raised there."""
    for key, value in error.trailing_metadata() or ():
        if key == _PROBLEM_KEY:
            problem = common_pb2.Problem.FromString(value)
            errors = tuple(FieldError(item.path, item.message) for item in problem.errors)
            return error_class(problem.code)(problem.detail, errors=errors)
    return ServiceUnreachable(f"{url}: {error.code().name.lower()}: {error.details()}")


def _parts(messages: Sequence[Any]) -> Iterator[list[Any]]:
    part: list[Any] = []
    size = 0
    for message in messages:
        length = message.ByteSize()
        if part and size + length > _CALL_BYTES:
            yield part
            part, size = [], 0
        part.append(message)
        size += length
    if part:
        yield part


class RemoteControlPlane:
    """Asks the service at `url` with an API key, for the tenant that the key belongs to."""

    def __init__(self, url: str, key: str | None) -> None:
        self._url = url
        self._channel = open_channel(url, ("grpc.max_receive_message_length", _MAX_ANSWER_BYTES))
        self._stub = worker_pb2_grpc.WorkerServiceStub(self._channel)
        self._metadata = () if key is None else (("authorization", f"Bearer {key}"),)
        self._tickets: dict[str, int] = {}

    async def close(self) -> None:
        await self._channel.close()

    @asynccontextmanager
    async def _told(self) -> AsyncIterator[None]:
        try:
            yield
        except aio.AioRpcError as error:
            raise _told(self._url, error) from None

    async def _ask(self, name: str, message: Any, timeout_s: float = _CALL_S) -> Any:
        async with self._told():
            return await getattr(self._stub, name)(message, timeout=timeout_s, metadata=self._metadata)

    async def describe_pool(self, name: str) -> PoolFacts:
        return wire.pool_from_wire(await self._ask("DescribePool", pb.DescribePoolRequest(name=name)))

    async def open_session(self, hello: WorkerHello) -> SessionOpened:
        return wire.session_from_wire(await self._ask("OpenSession", wire.hello_to_wire(hello)))

    async def heartbeat(self, session_id: str, *, active_version: int | None, slots: int) -> HeartbeatReply:
        message = pb.HeartbeatRequest(session_id=session_id, active_version=active_version, slots=slots)
        return wire.heartbeat_from_wire(await self._ask("Heartbeat", message))

    async def claim(self, session_id: str, *, limit: int, active_version: int | None) -> Claims:
        message = pb.ClaimRequest(session_id=session_id, limit=limit, active_version=active_version)
        async with self._told():
            parts = [part async for part in self._stub.Claim(message, timeout=_CALL_S, metadata=self._metadata)]
        return wire.claims_from_wire(parts)

    async def checkpoint(self, session_id: str, pieces: Sequence[CheckpointPiece]) -> list[str]:
        lost: list[str] = []
        for part in _parts([wire.piece_to_wire(piece) for piece in pieces]):
            message = pb.CheckpointRequest(session_id=session_id, pieces=part)
            lost += (await self._ask("Checkpoint", message, _WRITE_S)).work_item_ids
        return lost

    async def finish(self, session_id: str, finished: Sequence[FinishedRollout]) -> list[str]:
        lost: list[str] = []
        for part in _parts([wire.finished_to_wire(rollout) for rollout in finished]):
            message = pb.FinishRequest(session_id=session_id, rollouts=part)
            lost += (await self._ask("Finish", message, _WRITE_S)).work_item_ids
        return lost

    async def release(self, session_id: str, fences: Mapping[str, int], reason: str) -> None:
        await self._ask("Release", pb.ReleaseRequest(session_id=session_id, fences=dict(fences), reason=reason))

    async def close_session(self, session_id: str) -> None:
        await self._ask("CloseSession", pb.CloseSessionRequest(session_id=session_id))

    def news_ticket(self, pool_id: str) -> int:
        """The ticket of the last answer; -1 before the first, which means from now on."""
        return self._tickets.get(pool_id, -1)

    async def wait_for_news(self, pool_id: str, ticket: int, timeout_s: float) -> bool:
        wait_s = min(timeout_s, _NEWS_S)
        message = pb.WaitForNewsRequest(pool_id=pool_id, ticket=None if ticket < 0 else ticket, timeout_s=wait_s)
        news = await self._ask("WaitForNews", message, wait_s + _NEWS_GRACE_S)
        self._tickets[pool_id] = news.ticket
        return bool(news.has_news)


def is_refusal(error: Exception) -> bool:
    """True for an answer that will be the same next time: the key is wrong, or may not."""
    return isinstance(error, ServiceError) and error.code in {"unauthenticated", "forbidden"}
