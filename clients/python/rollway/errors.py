"""Errors of the SDK.

RollwayError
├─ ConnectionFailed        the service could not be reached, or hung up; what was asked may or may not have happened
├─ ApiError                the service answered with a problem; see `status`, `code`, `detail`, `errors`
│  ├─ BadRequest           it will never accept this (400, 413, 422)
│  ├─ NotAuthorized        no valid API key, or one that may not (401, 403)
│  ├─ NotFound             no such thing, or not yours (404)
│  ├─ Conflict             another state than expected (409): `stale_fence`, `wrong_state`, `idempotency_conflict` ...
│  └─ Busy                 try again later (429, 503)
└─ BatchCorrupt            a batch arrived cut short or altered; it is safe to lease it again
"""

from __future__ import annotations

from rollway.types import Problem


class RollwayError(Exception):
    """Base of all errors of the SDK."""


class ConnectionFailed(RollwayError):
    """The service could not be reached."""


class BatchCorrupt(RollwayError):
    """A batch arrived cut short or altered."""


class ApiError(RollwayError):
    """The service answered with a problem."""

    def __init__(self, problem: Problem, retry_after_s: float | None = None) -> None:
        self.problem = problem
        self.status = problem.status
        self.code = problem.code
        self.detail = problem.detail
        self.errors = problem.errors
        self.retry_after_s = retry_after_s
        super().__init__(f"{problem.status} {problem.code}: {problem.detail}")


class BadRequest(ApiError):
    """The service will never accept this request."""


class NotAuthorized(ApiError):
    """No valid API key, or one that may not do this."""


class NotFound(ApiError):
    """There is no such thing, or it is not yours."""


class Conflict(ApiError):
    """The request conflicts with what is stored."""


class Busy(ApiError):
    """The service is at a limit; try again later."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: BadRequest,
    401: NotAuthorized,
    403: NotAuthorized,
    404: NotFound,
    409: Conflict,
    413: BadRequest,
    422: BadRequest,
    429: Busy,
    503: Busy,
}


def error_of(problem: Problem, retry_after_s: float | None) -> ApiError:
    return _BY_STATUS.get(problem.status, ApiError)(problem, retry_after_s)
