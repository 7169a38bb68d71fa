"""The public door over gRPC, `rollway.v1`: each RPC calls what its REST route calls, so that both are the same API."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import grpc
from fastapi.routing import APIRoute
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc import aio
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from rollway.proto.codec import encode, read
from rollway.proto.v1 import rollway_pb2
from rollway.proto.verbs import VERBS, Verb
from rollway_service.api.bodies import BodyTooLarge, parse_json
from rollway_service.api.frames import frame_parts, start_of
from rollway_service.api.problems import invalid, validation_errors
from rollway_service.api.rest import batches, fleet, training, work
from rollway_service.api.rpc.door import IDEMPOTENCY_KEY, Door, metadata_of, time_left_s
from rollway_service.core.errors import InvalidRequest
from rollway_service.operations import jobs, leases, progress
from rollway_service.operations.context import Context

SERVICE = "rollway.v1.Rollway"
MAX_ANSWER_BYTES = 4 * 2**20 - 4096
"""What clients receive unless they are told otherwise, less what wraps it."""
_PIECE_BYTES = 2**20
_GIVEN_BY_THE_DOOR = frozenset({"context", "caller", "key", "accept"})
_WAITS = frozenset({"wait_converged_s"})


class AnswerTooLarge(InvalidRequest):
    """The answer is larger than a gRPC message may be; ask for a smaller page."""

    code = "answer_too_large"


_ECHOING = frozenset({"CreateRun", "RegisterModel", "PublishVersion", "SubmitJob", "CreatePool"})
"""What answers with the free JSON that it was sent."""
_MAX_ECHO_BYTES = 3 * 2**20


def _check_echo(message: Message) -> None:
    """Refuse, before anything is done, what could be stored and then not be told: tasks are not in the answer."""
    size = message.body.ByteSize() - sum(task.ByteSize() for task in getattr(message.body, "tasks", ()))
    if size > _MAX_ECHO_BYTES:
        raise BodyTooLarge(
            f"the request has {size} bytes without its tasks, and its answer must fit a gRPC message: the limit is"
            f" {_MAX_ECHO_BYTES}; keep large metadata elsewhere, or send it over REST"
        )


@dataclass(frozen=True, slots=True)
class _Route:
    """A verb with its REST function, the types of its request, and its messages."""

    verb: Verb
    endpoint: Callable[..., Awaitable[Any]]
    arguments: type[BaseModel]
    takes_key: bool
    request: type[Message]
    answer: type[Message]

    def located(self, location: tuple[Any, ...]) -> tuple[Any, ...]:
        """A place in the arguments as REST names it: in its body, path or query."""
        if location[0] == "body":
            return location
        return ("path" if f"{{{location[0]}}}" in self.verb.path else "query", *location)


def _routes() -> list[_Route]:
    endpoints = {
        (method, f"/v1{route.path}"): route.endpoint
        for router in (training.router, work.router, batches.router, fleet.router)
        for route in router.routes
        if isinstance(route, APIRoute)
        for method in route.methods or ()
    }
    methods = rollway_pb2.DESCRIPTOR.services_by_name["Rollway"].methods_by_name
    return [
        _Route(
            verb=verb,
            endpoint=endpoints[verb.method, verb.path],
            arguments=_arguments(verb, endpoints[verb.method, verb.path]),
            takes_key="key" in inspect.signature(endpoints[verb.method, verb.path]).parameters,
            request=GetMessageClass(methods[verb.rpc].input_type),
            answer=GetMessageClass(methods[verb.rpc].output_type),
        )
        for verb in VERBS
    ]


def _arguments(verb: Verb, endpoint: Callable[..., Any]) -> type[BaseModel]:
    """What the REST function is given by its caller, with the bounds that it names."""
    parameters = inspect.signature(endpoint, eval_str=True).parameters
    fields: dict[str, Any] = {
        name: (parameter.annotation, ... if parameter.default is parameter.empty else parameter.default)
        for name, parameter in parameters.items()
        if name not in _GIVEN_BY_THE_DOOR
    }
    return create_model(f"{verb.rpc}Arguments", __config__=ConfigDict(extra="forbid"), **fields)


class PublicDoor(Door):
    """Decodes a request, calls the function of its route, encodes the answer."""

    def handler(self, route: _Route) -> grpc.RpcMethodHandler:
        special = {"WatchJob": self._watch, "LeaseBatch": self._lease}.get(route.verb.rpc)
        behavior = special or {"message": self._message, "pieces": self._pieces}[route.verb.answer]

        def bound(message: Message, call: Any) -> Any:
            return behavior(route, message, call)

        make = grpc.unary_unary_rpc_method_handler
        if route.verb.answer != "message":
            make = grpc.unary_stream_rpc_method_handler
        return make(
            bound,
            request_deserializer=route.request.FromString,
            response_serializer=route.answer.SerializeToString,
        )

    def _given(self, route: _Route, message: Message, call: aio.ServicerContext[Any, Any]) -> dict[str, Any]:
        values = read(message, loads=lambda text: parse_json(text.encode()))
        try:
            given = route.arguments.model_validate(values)
        except ValidationError as error:
            raise invalid(validation_errors(error, route.located)) from None
        found = {name: getattr(given, name) for name in route.arguments.model_fields}
        for name in _WAITS & found.keys():
            found[name] = time_left_s(call, found[name])
        if route.takes_key:
            found["key"] = metadata_of(call).get(IDEMPOTENCY_KEY)
        return found

    async def _answer(self, route: _Route, message: Message, call: Any) -> Any:
        caller = await self.caller(call)
        return await route.endpoint(context=self.context, caller=caller, **self._given(route, message, call))

    async def _message(self, route: _Route, message: Message, call: Any) -> Message:
        if route.verb.rpc in _ECHOING:
            _check_echo(message)
        caller = await self.caller(call)
        given = self._given(route, message, call)
        while True:
            answer = encode(await route.endpoint(context=self.context, caller=caller, **given), route.answer)
            if answer.ByteSize() <= MAX_ANSWER_BYTES:
                return answer
            if given.get("limit", 1) <= 1:
                raise AnswerTooLarge(
                    f"the answer has {answer.ByteSize()} bytes, a gRPC message has at most {MAX_ANSWER_BYTES}; read it over"
                    " REST"
                )
            # A page may be shorter than its limit; the cursor goes on from there.
            given["limit"] = max(1, given["limit"] // 4)

    async def _pieces(self, route: _Route, message: Message, call: Any) -> AsyncIterator[Message]:
        value = await self._answer(route, message, call)
        answer_type = GetMessageClass(
            rollway_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"rollway.v1.{type(value).__name__}")
        )
        for piece in _cut(encode(value, answer_type).SerializeToString()):
            yield route.answer(data=piece)

    async def _lease(self, route: _Route, message: Message, call: Any) -> AsyncIterator[Message]:
        caller = await self.caller(call)
        given = self._given(route, message, call)
        request = given["body"].model_copy(update={"wait_s": time_left_s(call, given["body"].wait_s)})
        batch = await leases.lease_batch(self.context, caller, given["run_id"], request)
        async for part in frame_parts(self.context, batch, start_of(batch)):
            for piece in _cut(part):
                yield route.answer(data=piece)

    async def _watch(self, route: _Route, message: Message, call: Any) -> AsyncIterator[Message]:
        caller = await self.caller(call)
        job_id = self._given(route, message, call)["job_id"]
        await jobs.get_job(self.context, caller, job_id)
        async for found in progress.watch_job(self.context, caller, job_id):
            # Between changes REST keeps its connection with comments; HTTP/2 has pings for that.
            if found is not None:
                yield encode(found, route.answer)


def _cut(data: bytes) -> list[bytes]:
    """Pieces of at most 1 MiB; one that is empty for no bytes at all."""
    return [data[start : start + _PIECE_BYTES] for start in range(0, len(data) or 1, _PIECE_BYTES)]


def add_public_service(context: Context, server: aio.Server) -> None:
    door = PublicDoor(context)
    handlers = {route.verb.rpc: door.handler(route) for route in _routes()}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
