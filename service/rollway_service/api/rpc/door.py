"""What every RPC is given: who calls, and errors that become statuses."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import structlog
from google.protobuf.message import DecodeError
from grpc import aio

from rollway_service.api.rpc.problems import GRPC_STATUS, problem_metadata, told_error
from rollway_service.core.errors import InvalidRequest
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.keys import authenticate

log = structlog.get_logger()

IDEMPOTENCY_KEY = "idempotency-key"
_BEARER = "bearer "
_OURS = "/rollway."
_MAX_KNOWN = 1000


class Door:
    """Base of servicers: the parts of the service, and who is calling. `known_for_s`: how long a key is not asked again."""

    known_for_s = 0.0

    def __init__(self, context: Context) -> None:
        self.context = context
        self._known: dict[str, tuple[float, Caller]] = {}

    async def caller(self, call: aio.ServicerContext[Any, Any]) -> Caller:
        """Who calls, by the metadata `authorization: Bearer <key>`. Raises Unauthenticated."""
        value = str(metadata_of(call).get("authorization", ""))
        token = value[len(_BEARER) :] if value.lower().startswith(_BEARER) else ""
        now_s = time.monotonic()
        known_at_s, caller = self._known.get(token, (0.0, None))
        if caller is None or now_s - known_at_s >= self.known_for_s:
            caller = await authenticate(self.context, token)
            while len(self._known) >= _MAX_KNOWN:
                self._known.pop(next(iter(self._known)))
            self._known[token] = (now_s, caller)
        return caller


def metadata_of(call: aio.ServicerContext[Any, Any]) -> dict[str, Any]:
    return dict(call.invocation_metadata() or ())


def time_left_s(call: aio.ServicerContext[Any, Any], wanted_s: float) -> float:
    """As long as was asked for, and no longer than the caller will wait, less what the answer needs for its way."""
    left_s = call.time_remaining()
    return wanted_s if left_s is None else max(0.0, min(wanted_s, left_s - min(1.0, left_s / 4)))


class Problems(aio.ServerInterceptor):  # type: ignore[misc]
    """Turns what an RPC raises into a status with a problem; nothing that is raised ends anything but its call."""

    async def intercept_service(
        self, continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Any]], details: grpc.HandlerCallDetails
    ) -> Any:
        handler = await continuation(details)
        if handler is None or not details.method.startswith(_OURS):
            return handler
        asks = "stream" if handler.request_streaming else "unary"
        answers = "stream" if handler.response_streaming else "unary"
        wrap = _streamed if handler.response_streaming else _single
        wrapped = wrap(getattr(handler, f"{asks}_{answers}"))
        make = getattr(grpc, f"{asks}_{answers}_rpc_method_handler")
        return make(wrapped, _lenient(handler.request_deserializer), handler.response_serializer)


def _lenient(deserializer: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    """Bytes that are no message become the error that says so: grpc itself would answer UNKNOWN and log a traceback."""

    def deserialize(data: bytes) -> Any:
        try:
            return deserializer(data)
        except DecodeError as error:
            return InvalidRequest(f"the request is not the message that this call takes: {error}")

    return deserialize


def _single(behavior: Callable[[Any, Any], Awaitable[Any]]) -> Callable[[Any, Any], Awaitable[Any]]:
    async def told(request: Any, call: aio.ServicerContext[Any, Any]) -> Any:
        try:
            return await behavior(_read(request), call)
        except Exception as error:  # noqa: BLE001 - told as a status below
            await _abort(call, error)

    return told


def _streamed(behavior: Callable[[Any, Any], AsyncIterator[Any]]) -> Callable[[Any, Any], AsyncIterator[Any]]:
    async def told(request: Any, call: aio.ServicerContext[Any, Any]) -> AsyncIterator[Any]:
        try:
            async for message in behavior(_read(request), call):
                yield message
        except Exception as error:  # noqa: BLE001 - told as a status below
            await _abort(call, error)

    return told


def _read(request: Any) -> Any:
    if isinstance(request, InvalidRequest):
        raise request
    return request


async def _abort(call: aio.ServicerContext[Any, Any], error: Exception) -> None:
    if isinstance(error, aio.AbortError):
        raise error
    found = told_error(error)
    if found is None:
        log.error("unexpected_error", exc_info=error)
        await call.abort(grpc.StatusCode.INTERNAL, "the service failed at this request; its log says why")
    else:
        await call.abort(GRPC_STATUS[found.code], found.detail, problem_metadata(found))
