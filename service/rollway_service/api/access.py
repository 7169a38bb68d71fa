"""Who is calling, and what every route is given."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Query, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from rollway_service.operations.context import Caller, Context
from rollway_service.operations.keys import authenticate

_bearer = HTTPBearer(auto_error=False, description="An API key: rw_<prefix>_<secret>")


def _context(request: Request) -> Context:
    context: Context = request.app.state.context
    return context


ContextOf = Annotated[Context, Depends(_context)]


async def _caller(
    context: ContextOf, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
) -> Caller:
    return await authenticate(context, None if credentials is None else credentials.credentials)


CallerOf = Annotated[Caller, Depends(_caller)]
IdempotencyKey = Annotated[
    str | None, Header(alias="Idempotency-Key", description="the same key and body again answers the same")
]
CursorOf = Annotated[str | None, Query(max_length=64, description="next_cursor of the page before")]
LimitOf = Annotated[int, Query(ge=1, le=1000)]
