"""The gRPC doors' error table: every ServiceError becomes a status, with the problem in the trailing metadata."""

from __future__ import annotations

import grpc
from pydantic import ValidationError

from rollway.proto.v1 import common_pb2
from rollway_service.api.problems import passing_fault, problem_of
from rollway_service.core.errors import FieldError, InvalidRequest, ServiceError

PROBLEM_KEY = "rollway-problem-bin"

GRPC_STATUS: dict[str, grpc.StatusCode] = {
    "invalid_request": grpc.StatusCode.INVALID_ARGUMENT,
    "body_too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "unsupported_media_type": grpc.StatusCode.INVALID_ARGUMENT,
    "unauthenticated": grpc.StatusCode.UNAUTHENTICATED,
    "forbidden": grpc.StatusCode.PERMISSION_DENIED,
    "not_found": grpc.StatusCode.NOT_FOUND,
    "conflict": grpc.StatusCode.FAILED_PRECONDITION,
    "already_exists": grpc.StatusCode.ALREADY_EXISTS,
    "idempotency_conflict": grpc.StatusCode.FAILED_PRECONDITION,
    "stale_fence": grpc.StatusCode.ABORTED,
    "wrong_state": grpc.StatusCode.FAILED_PRECONDITION,
    "tokenizer_mismatch": grpc.StatusCode.INVALID_ARGUMENT,
    "version_unavailable": grpc.StatusCode.UNAVAILABLE,
    "busy": grpc.StatusCode.UNAVAILABLE,
    "backlog_full": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "not_acceptable": grpc.StatusCode.INVALID_ARGUMENT,
    "internal": grpc.StatusCode.INTERNAL,
}


def told_error(error: Exception) -> ServiceError | None:
    """The error that a caller is told of; None for a fault of ours."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ValidationError):
        errors = tuple(FieldError(_path(item["loc"]), item["msg"]) for item in error.errors()[:20])
        detail = "; ".join(f"{item.path}: {item.message}" for item in errors[:3])
        return InvalidRequest(detail, errors=errors)
    return passing_fault(error)


def _path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def problem_metadata(error: ServiceError) -> tuple[tuple[str, bytes], ...]:
    """Trailing metadata with the whole problem."""
    problem = problem_of(error)
    message = common_pb2.Problem(
        type=problem.type,
        title=problem.title,
        status=problem.status,
        code=problem.code,
        detail=problem.detail,
        retryable=problem.retryable,
        errors=[common_pb2.FieldProblem(path=item.path, message=item.message) for item in problem.errors],
        retry_after_s=error.retry_after_s,
    )
    return ((PROBLEM_KEY, message.SerializeToString()),)
