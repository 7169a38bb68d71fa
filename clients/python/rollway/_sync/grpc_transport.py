"""gRPC (`rollway.v1`) behind the same client: requests are named as REST names them, and become RPCs here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from pydantic import BaseModel

from rollway._sync.channels import open_channel
from rollway._sync.transport import MAX_RETRY_AFTER_S, backoff_s
from rollway._sync.waiting import sleep
from rollway.channel_options import target_of
from rollway.errors import ApiError, RollwayError
from rollway.proto.codec import decode, fill
from rollway.proto.problems import error_from, is_worth_repeating
from rollway.proto.v1 import rollway_pb2
from rollway.proto.verbs import Verb, find_verb
from rollway.types import JobProgress

T = TypeVar("T", bound=BaseModel)

_SERVICE = rollway_pb2.DESCRIPTOR.services_by_name["Rollway"]
_WATCH_S = 24 * 3600.0


class GrpcTransport:
    """Calls one service over one channel, which connects again by itself."""

    def __init__(self, base_url: str, key: str | None, *, timeout_s: float, max_tries: int) -> None:
        self.base_url = base_url
        self.max_tries = max_tries
        self._timeout_s = timeout_s
        self._metadata = () if key is None else (("authorization", f"Bearer {key}"),)
        self._channel: Any = None
        target_of(base_url)

    def close(self) -> None:
        if self._channel is not None:
            self._channel.close()

    def _opened(self) -> Any:
        """The channel, opened at the first call: an async one belongs to the loop that runs then."""
        if self._channel is None:
            self._channel = open_channel(self.base_url)
        return self._channel

    def call(
        self,
        answer: type[T],
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> T:
        verb, values = _found(method, path)
        message = _request(verb, values, body, params)
        timeout_s = self._timeout_s + float((params or {}).get("wait_converged_s") or 0.0)
        for attempt in range(1, self.max_tries + 1):
            try:
                return self._once(verb, message, answer, key, timeout_s)
            except grpc.RpcError as error:
                self._wait_or_raise(verb, error, attempt)
        raise AssertionError("unreachable")

    def _once(self, verb: Verb, message: Message, answer: type[T], key: str | None, timeout_s: float) -> T:
        metadata = self._metadata if key is None else (*self._metadata, ("idempotency-key", key))
        if verb.answer == "message":
            found = self._unary(verb)(message, timeout=timeout_s, metadata=metadata)
        else:
            pieces = [piece.data for piece in self._stream(verb)(message, timeout=timeout_s, metadata=metadata)]
            kind = rollway_pb2.DESCRIPTOR.pool.FindMessageTypeByName(f"rollway.v1.{answer.__name__}")
            found = GetMessageClass(kind).FromString(b"".join(pieces))
        return decode(found, answer)

    def frame(self, path: str, body: BaseModel, *, timeout_s: float) -> bytes:
        verb, values = _found("POST", path)
        message = _request(verb, values, body, None)
        for attempt in range(1, self.max_tries + 1):
            try:
                stream = self._stream(verb)(message, timeout=timeout_s, metadata=self._metadata)
                return b"".join([piece.data for piece in stream])
            except grpc.RpcError as error:
                self._wait_or_raise(verb, error, attempt)
        raise AssertionError("unreachable")

    def progress(self, path: str) -> Iterator[JobProgress]:
        verb, values = _found("GET", path)
        message = _request(verb, values, None, None)
        try:
            for found in self._stream(verb)(message, timeout=_WATCH_S, metadata=self._metadata):
                yield decode(found, JobProgress)
        except grpc.RpcError as error:
            raise error_from(self.base_url, verb.rpc, error) from error

    def _unary(self, verb: Verb) -> Any:
        return self._opened().unary_unary(*_method(verb))

    def _stream(self, verb: Verb) -> Any:
        return self._opened().unary_stream(*_method(verb))

    def _wait_or_raise(self, verb: Verb, error: grpc.RpcError, attempt: int) -> None:
        found = error_from(self.base_url, verb.rpc, error)
        if attempt == self.max_tries or not is_worth_repeating(found):
            raise found from error
        asked_s = found.retry_after_s if isinstance(found, ApiError) else None
        sleep(max(min(asked_s or 0.0, MAX_RETRY_AFTER_S), backoff_s(attempt)) + random.uniform(0.0, 0.01))


def _found(method: str, path: str) -> tuple[Verb, dict[str, str]]:
    try:
        return find_verb(method, path)
    except LookupError:
        # Nothing that this client asks for is REST's alone: what breaks a path is a name with a slash in it.
        raise RollwayError(f"{method} {path}: a name with '/' cannot be asked for by it; use the id") from None


def _method(verb: Verb) -> tuple[str, Any, Any]:
    """(path, request serializer, answer parser) of an RPC."""
    method = _SERVICE.methods_by_name[verb.rpc]
    path = f"/{_SERVICE.full_name}/{verb.rpc}"
    return path, GetMessageClass(method.input_type).SerializeToString, GetMessageClass(method.output_type).FromString


def _request(
    verb: Verb, values: Mapping[str, str], body: BaseModel | None, params: Mapping[str, Any] | None
) -> Message:
    kind = _SERVICE.methods_by_name[verb.rpc].input_type
    message: Message = GetMessageClass(kind)()
    for name, value in {**values, **(params or {})}.items():
        _set_parameter(message, verb, name, value)
    if body is not None:
        message.body.SetInParent()
        fill(message.body, body.model_dump(exclude_unset=True))
    return message


def _set_parameter(message: Message, verb: Verb, name: str, value: Any) -> None:
    field = message.DESCRIPTOR.fields_by_name.get(name)
    if field is None:
        known = ", ".join(sorted(message.DESCRIPTOR.fields_by_name))
        raise RollwayError(f"{verb.rpc} has no parameter {name!r}; there are: {known}")
    try:
        # A number in a REST path is text here.
        is_number = field.type == FieldDescriptor.TYPE_INT64 and isinstance(value, str)
        fill(message, {name: int(value) if is_number else value})
    except (TypeError, ValueError) as error:
        raise RollwayError(f"{verb.rpc}: {name}={value!r}: {error}") from None
