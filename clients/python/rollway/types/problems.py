"""Errors on the wire: RFC 9457 problem details with a stable `code`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from rollway.types.base import Response

PROBLEM_MEDIA_TYPE = "application/problem+json"


class FieldProblem(Response):
    path: Annotated[str, Field(description="JSON path of the value that is wrong, e.g. $.tasks[3].token_ids[0]")]
    message: str


class Problem(Response):
    type: str
    title: str
    status: int
    code: str
    detail: str
    retryable: bool = False
    errors: list[FieldProblem] = []
