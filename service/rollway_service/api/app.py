"""The HTTP application: all routers, error table, limits."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Response

import rollway
from rollway.types import Problem
from rollway_service.api.access import ContextOf
from rollway_service.api.bodies import BodyLimit
from rollway_service.api.metrics import CONTENT_TYPE, render_metrics
from rollway_service.api.problems import add_error_handlers
from rollway_service.api.rest import batches, fleet, training, work
from rollway_service.operations.context import Context

_PROBLEMS: dict[int | str, dict[str, object]] = {
    code: {"model": Problem} for code in (401, 404, 409, 413, 415, 422, 429, 503)
}

_health = APIRouter(tags=["health"])


@_health.get("/healthz")
async def healthz() -> dict[str, str]:
    """The process runs."""
    return {"status": "ok"}


@_health.get("/readyz")
async def readyz(context: ContextOf) -> dict[str, str]:
    """The database answers."""
    async with context.database.snapshot() as transaction:
        await transaction.now_s()
    return {"status": "ready", "version": rollway.__version__}


@_health.get("/metrics", response_class=Response)
async def metrics(context: ContextOf) -> Response:
    return Response(await render_metrics(context), media_type=CONTENT_TYPE)


def create_app(context: Context | None, *, max_body_bytes: int = 64 * 2**20) -> FastAPI:
    """The application over these parts; without them, only its schema is of use."""
    app = FastAPI(
        title="Rollway",
        version=rollway.__version__,
        description="Rollouts as a service for LLM reinforcement learning.",
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.context = context
    app.add_middleware(BodyLimit, max_body_bytes=max_body_bytes)
    add_error_handlers(app)
    app.include_router(_health)
    for router in (training.router, work.router, batches.router, fleet.router):
        app.include_router(router, prefix="/v1", responses=_PROBLEMS)
    return app
