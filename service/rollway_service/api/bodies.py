"""Request bodies: strict JSON with the path of what is wrong, and a size limit that is named when it is passed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Coroutine
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rollway_service.api.problems import problem_response
from rollway_service.core.errors import FieldInvalid, InvalidRequest

MAX_JSON_DEPTH = 64
_MAYBE_HUGE = re.compile(rb"[0-9]{19}")
"""Digits of which orjson may make a float in silence: integers beyond 64 bits."""


def parse_json(body: bytes) -> Any:
    """Parse strict JSON.

    Raises:
        InvalidRequest: not JSON, or it holds NaN, an infinity, a lone surrogate or an integer beyond 64 bits; with the
            JSON path where known.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        _find_fault(body)
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    if _MAYBE_HUGE.search(body):
        _find_fault(body)
    return value


def _find_fault(body: bytes) -> None:
    """Name the value that strict JSON refuses and lenient parsers take."""
    try:
        lenient = json.loads(body)
    except (ValueError, RecursionError):
        return
    _walk(lenient, "$", 0)


def _walk(value: Any, path: str, depth: int) -> None:
    if depth > MAX_JSON_DEPTH:
        raise FieldInvalid(path, f"is nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, float) and not math.isfinite(value):
        raise FieldInvalid(path, f"is {value}, which JSON does not have; send null")
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        raise FieldInvalid(path, "is outside the range of int64")
    if isinstance(value, str) and any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldInvalid(path, "holds a lone surrogate, which is not valid Unicode; send replaced or escaped text")
    if isinstance(value, list):
        for index, item in enumerate(value):
            _walk(item, f"{path}[{index}]", depth + 1)
    if isinstance(value, dict):
        for key, item in value.items():
            _walk(key, path, depth + 1)
            _walk(item, f"{path}.{key}", depth + 1)


class _StrictRequest(Request):
    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            self._json = parse_json(await self.body())
        return self._json


class UnsupportedMediaType(InvalidRequest):
    """Bodies are JSON: send Content-Type: application/json."""

    code = "unsupported_media_type"


def _is_json(content_type: str) -> bool:
    media_type = content_type.partition(";")[0].strip().lower()
    return media_type == "application/json" or (media_type.startswith("application/") and media_type.endswith("+json"))


class StrictRoute(APIRoute):
    """A route whose JSON body is read by `parse_json`."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def strict(request: Request) -> Response:
            strict_request = _StrictRequest(request.scope, request.receive)
            # Read here: whatever is raised while FastAPI reads a body becomes "error parsing the body".
            if self.body_field is not None and await strict_request.body():
                content_type = request.headers.get("content-type", "")
                if not _is_json(content_type):
                    raise UnsupportedMediaType(f"Content-Type: {content_type!r}; send JSON as application/json")
                await strict_request.json()
            return await handler(strict_request)

        return strict


class BodyTooLarge(InvalidRequest):
    """The body is larger than this service takes."""

    code = "body_too_large"


class BodyLimit:
    """ASGI middleware that stops reading a body at the limit, whatever Content-Length says."""

    def __init__(self, app: ASGIApp, max_body_bytes: int) -> None:
        self.app = app
        self.max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = Headers(scope=scope).get("content-length", "0")
        if announced.isdecimal() and int(announced) > self.max_body_bytes:
            await problem_response(self._error(f"{announced} bytes"))(scope, receive, send)
            return
        seen, is_started = 0, False

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.max_body_bytes:
                raise self._error("more")
            return message

        async def started(message: Message) -> None:
            nonlocal is_started
            is_started = True
            await send(message)

        try:
            await self.app(scope, counted, started)
        except BodyTooLarge as error:
            if is_started:
                raise
            await problem_response(error)(scope, receive, send)

    def _error(self, size: str) -> BodyTooLarge:
        return BodyTooLarge(
            f"the body has {size}, the limit is {self.max_body_bytes} bytes (ROLLWAY_MAX_BODY_BYTES);"
            " send tasks in several appends"
        )
