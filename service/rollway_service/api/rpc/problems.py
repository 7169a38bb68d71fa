"""The gRPC doors' error table: every ServiceError becomes a status, with the problem in the trailing metadata."""

from __future__ import annotations

import grpc
from pydantic import ValidationError

from rollway.proto.codec import CodecError
from rollway.proto.v1 import common_pb2
from rollway_service.api.problems import invalid, passing_fault, problem_of, validation_errors
from rollway_service.core.errors import FieldInvalid, ServiceError

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
    "answer_too_large": grpc.StatusCode.RESOURCE_EXHAUSTED,
    "internal": grpc.StatusCode.INTERNAL,
}


def told_error(error: Exception) -> ServiceError | None:
    """The error that a caller is told of; None for a fault of ours."""
    if isinstance(error, ServiceError):
        return error
    if isinstance(error, ValidationError):
        return invalid(validation_errors(error))
    if isinstance(error, CodecError):
        return FieldInvalid(error.path.replace("$.body", "$", 1), error.message)
    return passing_fault(error)


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
