"""Requests and their answers: authentication, safe retries, problems as errors."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from rollway._sync.waiting import sleep
from rollway.errors import ConnectionFailed, RollwayError, error_of
from rollway.framing import BATCH_MEDIA_TYPE
from rollway.local_keys import checked_key, checked_url, find_key, find_url
from rollway.types import PROBLEM_MEDIA_TYPE, JobProgress, Problem

T = TypeVar("T", bound=BaseModel)

_RETRIED_STATUS = frozenset({429, 502, 503, 504})
_FIRST_BACKOFF_S = 0.2
_MAX_BACKOFF_S = 10.0
MAX_RETRY_AFTER_S = 60.0
"""A proxy may ask for hours; a trainer would rather be told."""


def new_key() -> str:
    """A fresh idempotency key: with it, a request may be sent again without being done again."""
    return uuid.uuid4().hex


class Transport(Protocol):
    """Sends requests to one service, named as REST names them, over whatever carries them."""

    base_url: str

    def close(self) -> None: ...

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
        """One request and its answer; sent again after faults of the way or the service where that is safe.

        Raises:
            ConnectionFailed: no answer. ApiError: the service's own problem.
        """
        ...

    def frame(self, path: str, body: BaseModel, *, timeout_s: float) -> bytes:
        """One request whose answer is the frame of a batch. Raises as `call`."""
        ...

    def progress(self, path: str) -> Iterator[JobProgress]:
        """What a watch tells, until it ends. Raises as `call`."""
        ...


def open_transport(base_url: str | None, api_key: str | None, *, timeout_s: float, max_tries: int) -> Transport:
    """The transport for the URL's scheme: http, https, grpc or grpcs. Raises RollwayError for another."""
    url = checked_url(find_url(base_url))
    key = checked_key(find_key(url, api_key))
    if not url.startswith("grpc"):
        return RestTransport(url, key, timeout_s=timeout_s, max_tries=max_tries)
    try:
        from rollway._sync.grpc_transport import GrpcTransport  # noqa: PLC0415 - grpcio is an extra
    except ImportError as error:
        raise RollwayError(f"gRPC is not installed here ({error}): pip install 'rollway[grpc]'") from error
    return GrpcTransport(url, key, timeout_s=timeout_s, max_tries=max_tries)


class RestTransport:
    """REST over HTTP."""

    def __init__(self, base_url: str, key: str | None, *, timeout_s: float, max_tries: int) -> None:
        self.base_url = base_url
        self.max_tries = max_tries
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self._http = httpx.Client(
            base_url=self.base_url, headers=headers, timeout=httpx.Timeout(timeout_s, connect=10.0)
        )

    def close(self) -> None:
        self._http.close()

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
        headers = {} if key is None else {"Idempotency-Key": key}
        response = self._send(method, path, body=body, params=params, headers=headers)
        return answer.model_validate_json(response.content)

    def frame(self, path: str, body: BaseModel, *, timeout_s: float) -> bytes:
        headers = {"Accept": BATCH_MEDIA_TYPE}
        return (self._send("POST", path, body=body, headers=headers, timeout_s=timeout_s)).content

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> httpx.Response:
        sent = dict(headers or {})
        content = None
        if body is not None:
            content = body.model_dump_json(exclude_unset=True).encode()
            sent["Content-Type"] = "application/json"
        clean = {name: value for name, value in (params or {}).items() if value is not None}
        timeout: Any = httpx.USE_CLIENT_DEFAULT if timeout_s is None else httpx.Timeout(timeout_s, connect=10.0)
        for attempt in range(1, self.max_tries + 1):
            is_last = attempt == self.max_tries
            try:
                response = self._http.request(
                    method, path, content=content, params=clean, headers=sent, timeout=timeout
                )
            except httpx.ConnectError as error:
                if is_last:
                    raise ConnectionFailed(f"{self.base_url} cannot be reached: {error}") from error
                wait_s = backoff_s(attempt)
            except httpx.HTTPError as error:
                if is_last:
                    raise ConnectionFailed(f"{method} {path}: {type(error).__name__}: {error}") from error
                wait_s = backoff_s(attempt)
            else:
                if response.status_code < 400:
                    return response
                error_to_raise = error_of(_problem(response), _retry_after_s(response))
                if is_last or response.status_code not in _RETRIED_STATUS:
                    raise error_to_raise
                wait_s = max(min(error_to_raise.retry_after_s or 0.0, MAX_RETRY_AFTER_S), backoff_s(attempt))
            sleep(wait_s)
        raise AssertionError("unreachable")

    def progress(self, path: str) -> Iterator[JobProgress]:
        try:
            with self._http.stream("GET", path, timeout=httpx.Timeout(60.0, connect=10.0)) as response:
                if response.status_code >= 400:
                    response.read()
                    raise error_of(_problem(response), _retry_after_s(response))
                name = "message"
                for line in response.iter_lines():
                    if line.startswith("event:"):
                        name = line[6:].strip()
                    elif line.startswith("data:") and name == "progress":
                        yield JobProgress.model_validate_json(line[5:])
        except httpx.HTTPError as error:
            raise ConnectionFailed(f"GET {path}: {type(error).__name__}: {error}") from error


def backoff_s(attempt: int) -> float:
    return min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)


def _retry_after_s(response: httpx.Response) -> float | None:
    value = response.headers.get("retry-after", "")
    return float(value) if value.isdecimal() else None


def _problem(response: httpx.Response) -> Problem:
    if response.headers.get("content-type", "").startswith(PROBLEM_MEDIA_TYPE):
        try:
            return Problem.model_validate_json(response.content)
        except ValidationError:
            pass
    detail = response.text[:500] or response.reason_phrase
    return Problem(type="about:blank", title="error", status=response.status_code, code="unknown", detail=detail)
