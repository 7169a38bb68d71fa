"""Errors that a caller is told about. `code` is stable; a door maps it to a status.

ServiceError
├─ InvalidRequest ── FieldInvalid
├─ Unauthenticated, Forbidden
├─ NotFound
├─ Conflict ── IdempotencyConflict, StaleFence, WrongState, AlreadyExists
├─ VersionUnavailable (retryable)
└─ Busy (retryable) ── BacklogFull
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class FieldError:
    """`path` is a JSON path into the request, e.g. $.tasks[3].token_ids[0]."""

    path: str
    message: str


class ServiceError(Exception):
    """The service cannot do what was asked."""

    code: ClassVar[str] = "internal"
    retryable: ClassVar[bool] = False
    retry_after_s: ClassVar[float | None] = None

    def __init__(self, detail: str | None = None, *, errors: tuple[FieldError, ...] = ()) -> None:
        self.detail = detail or (type(self).__doc__ or "").strip()
        self.errors = errors
        super().__init__(self.detail)


class InvalidRequest(ServiceError):
    """The request is not valid."""

    code = "invalid_request"


class FieldInvalid(InvalidRequest):
    """A value in the request is not valid."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}", errors=(FieldError(path, message),))


class Unauthenticated(ServiceError):
    """No valid API key: send `Authorization: Bearer <key>`."""

    code = "unauthenticated"


class Forbidden(ServiceError):
    """The API key may not do this."""

    code = "forbidden"


class NotFound(ServiceError):
    """There is no such thing, or it is not yours."""

    code = "not_found"

    @classmethod
    def of(cls, kind: str, value: str) -> NotFound:
        return cls(f"no {kind} {value!r}")


class Conflict(ServiceError):
    """The request conflicts with what is stored."""

    code = "conflict"


class AlreadyExists(Conflict):
    """Something of that name exists already."""

    code = "already_exists"


class IdempotencyConflict(Conflict):
    """This Idempotency-Key was used for another body; use a new key for a new request."""

    code = "idempotency_conflict"


class StaleFence(Conflict):
    """Someone else owns this now; a late write was refused and changed nothing."""

    code = "stale_fence"


class WrongState(Conflict):
    """The thing is not in a state that allows this."""

    code = "wrong_state"


class TokenizerMismatch(ServiceError):
    """The tokenizer is not the one that was named."""

    code = "tokenizer_mismatch"


class VersionUnavailable(ServiceError):
    """No weights fit the version constraint yet; try again after the next publish."""

    code = "version_unavailable"
    retryable = True
    retry_after_s = 1.0


class Busy(ServiceError):
    """The service is at a limit; try again later."""

    code = "busy"
    retryable = True
    retry_after_s = 1.0


class BacklogFull(Busy):
    """The job's backlog is full; nothing was stored. Send the tasks again when some have been admitted."""

    code = "backlog_full"
    retry_after_s = 2.0


def error_class(code: str) -> type[ServiceError]:
    """The class of a stable code; ServiceError itself for one that is not known here."""
    waiting: list[type[ServiceError]] = [ServiceError]
    while waiting:
        found = waiting.pop(0)
        if found.code == code:
            return found
        waiting += found.__subclasses__()
    return ServiceError
