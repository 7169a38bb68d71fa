"""The REST door's error table: every ServiceError becomes an RFC 9457 problem."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import ValidationError
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException

from rollway.types import PROBLEM_MEDIA_TYPE, FieldProblem, Problem
from rollway_service.core.errors import Busy, FieldError, InvalidRequest, ServiceError

STATUS: dict[str, int] = {
    "invalid_request": 422,
    "body_too_large": 413,
    "unsupported_media_type": 415,
    "unauthenticated": 401,
    "forbidden": 403,
    "not_found": 404,
    "conflict": 409,
    "already_exists": 409,
    "idempotency_conflict": 409,
    "stale_fence": 409,
    "wrong_state": 409,
    "tokenizer_mismatch": 422,
    "version_unavailable": 409,
    "busy": 503,
    "backlog_full": 429,
    "not_acceptable": 406,
    "answer_too_large": 413,
    "internal": 500,
}

log = structlog.get_logger()


def _problem(status: int, code: str, detail: str, *, headers: dict[str, str] | None = None) -> Response:
    problem = Problem(
        type=f"urn:rollway:problem:{code}", title=code.replace("_", " "), status=status, code=code, detail=detail
    )
    return Response(problem.model_dump_json(), status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


def problem_of(error: ServiceError) -> Problem:
    """The problem details of an error, the same at every door."""
    return Problem(
        type=f"urn:rollway:problem:{error.code}",
        title=error.code.replace("_", " "),
        status=STATUS[error.code],
        code=error.code,
        detail=error.detail,
        retryable=error.retryable,
        errors=[FieldProblem(path=item.path, message=item.message) for item in error.errors],
    )


def problem_response(error: ServiceError) -> Response:
    problem = problem_of(error)
    status = problem.status
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(max(1, round(error.retry_after_s)))
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    return Response(problem.model_dump_json(), status, headers=headers, media_type=PROBLEM_MEDIA_TYPE)


def json_path(location: Sequence[Any], context: dict[str, Any]) -> str:
    """A pydantic location as a JSON path: ("body", "tasks", 3, "key") becomes $.tasks[3].key."""
    start, *parts = location or ("body",)
    path = "$" if start == "body" else f"{start}:"
    before: Any = None
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part not in _UNION_TAGS or not isinstance(before, int):
            path += f".{part}" if path != f"{start}:" else str(part)
        before = part
    return path + str(context.get("suffix", ""))


_UNION_TAGS = frozenset({"exact", "numeric", "regex", "math", "reasoning_gym", "python", "posted"})
"""Pydantic names the member of a discriminated union in locations; the document has no such step."""


def validation_errors(
    error: RequestValidationError | ValidationError,
    locate: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple,
) -> tuple[FieldError, ...]:
    """Each fault with its path. `locate` says where in a request a location lies: its first part is body, path or query."""
    found = []
    for item in error.errors():
        context = item.get("ctx", {})
        message = str(context.get("message", item["msg"])).removeprefix("Value error, ")
        found.append(FieldError(json_path(locate(item["loc"]), context), message))
    return tuple(found)


async def _on_service_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)
    return problem_response(error)


async def _on_validation_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    return problem_response(invalid(validation_errors(error)))


def invalid(errors: Sequence[FieldError]) -> InvalidRequest:
    """One error that names the first of these."""
    detail = "; ".join(f"{item.path}: {item.message}" for item in errors[:3])
    return InvalidRequest(detail, errors=tuple(errors[:20]))


async def _on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    code = HTTPStatus(error.status_code).phrase.lower().replace(" ", "_").replace("-", "_")
    detail = f"{request.method} {request.url.path}: {error.detail}"
    return _problem(error.status_code, code, detail, headers=dict(error.headers or {}))


_PASSING_SQLSTATES = ("08", "40", "53", "55P03", "57", "58")
"""PostgreSQL's classes of what passes: connection lost, deadlock, no resources, locked, shutting down, disk."""


def passing_fault(error: Exception) -> Busy | None:
    """What a caller is told of a database that is away for the moment; None when the fault is another."""
    if isinstance(error, DBAPIError) and not isinstance(error, OperationalError | InterfaceError):
        state = getattr(error.orig, "sqlstate", None) or ""
        if not (error.connection_invalidated or state.startswith(_PASSING_SQLSTATES)):
            return None
    if isinstance(error, DBAPIError | PoolTimeout | ConnectionError):
        return Busy("the database does not answer at the moment; try again")
    return None


async def _on_database_error(request: Request, error: Exception) -> Response:
    busy = passing_fault(error)
    if busy is None:
        return await _on_any_error(request, error)
    log.warning("database_unavailable", path=request.url.path, error=str(error))
    return problem_response(busy)


async def _on_any_error(request: Request, error: Exception) -> Response:
    log.error("unexpected_error", path=request.url.path, exc_info=error)
    return _problem(500, "internal", "the service failed at this request; its log says why")


def add_error_handlers(app: FastAPI) -> None:
    app.add_exception_handler(ServiceError, _on_service_error)
    app.add_exception_handler(RequestValidationError, _on_validation_error)
    app.add_exception_handler(HTTPException, _on_http_error)
    for kind in (DBAPIError, PoolTimeout, ConnectionError):
        app.add_exception_handler(kind, _on_database_error)
    app.add_exception_handler(Exception, _on_any_error)
