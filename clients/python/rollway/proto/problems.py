"""Errors of gRPC calls as the SDK's: the service's own problem where there is one."""

from __future__ import annotations

import grpc
from google.protobuf.message import DecodeError

from rollway.errors import ApiError, ConnectionFailed, RollwayError, error_of
from rollway.proto.v1 import common_pb2
from rollway.types import FieldProblem, Problem

_KEY = "rollway-problem-bin"
_TOO_LARGE = "message larger than max"


def error_from(url: str, what: str, error: grpc.RpcError) -> RollwayError:
    """What went wrong with a call."""
    for key, value in error.trailing_metadata() or ():
        if key == _KEY:
            try:
                return _told(common_pb2.Problem.FromString(value))
            except DecodeError:
                break
    code, detail = error.code(), error.details() or ""
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in detail:
        return _too_large(what, detail)
    if code in {grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.INTERNAL}:
        return error_of(_problem(500, "internal", f"{what}: {detail}"), None)
    return ConnectionFailed(f"{what} at {url}: {code.name.lower()}: {detail}")


def is_worth_repeating(error: RollwayError) -> bool:
    """Whether the same call may work later: no answer, or a service that is busy."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, ApiError) and error.status in {429, 503})


def _told(message: common_pb2.Problem) -> ApiError:
    problem = _problem(message.status, message.code, message.detail)
    errors = [FieldProblem(path=item.path, message=item.message) for item in message.errors]
    problem = problem.model_copy(
        update={"type": message.type, "title": message.title, "retryable": message.retryable, "errors": errors}
    )
    return error_of(problem, message.retry_after_s if message.HasField("retry_after_s") else None)


def _too_large(what: str, detail: str) -> ApiError:
    """grpc's own words name both sizes; ours say what to do. Who received too much is in front: CLIENT or SERVER."""
    if "CLIENT" in detail:
        hint = "ask for less at once"
    else:
        hint = "the service's limit is ROLLWAY_MAX_BODY_BYTES; send tasks in several appends"
    return error_of(_problem(413, "body_too_large", f"{what}: {detail}; {hint}"), None)


def _problem(status: int, code: str, detail: str) -> Problem:
    return Problem(
        type=f"urn:rollway:problem:{code}", title=code.replace("_", " "), status=status, code=code, detail=detail
    )
