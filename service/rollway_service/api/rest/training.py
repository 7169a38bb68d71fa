"""Routes of runs, models and weight versions."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from rollway.types import Model, ModelCreate, Page, Run, RunCreate, VersionPublish, WeightVersion
from rollway_service.api.access import CallerOf, ContextOf, CursorOf, IdempotencyKey, LimitOf
from rollway_service.api.bodies import StrictRoute
from rollway_service.operations import models, runs, weights

router = APIRouter(route_class=StrictRoute)


@router.post("/runs", status_code=201, tags=["runs"])
async def create_run(context: ContextOf, caller: CallerOf, body: RunCreate, key: IdempotencyKey = None) -> Run:
    return await runs.create_run(context, caller, body, key=key)


@router.get("/runs", tags=["runs"])
async def list_runs(context: ContextOf, caller: CallerOf, cursor: CursorOf = None, limit: LimitOf = 100) -> Page[Run]:
    return await runs.list_runs(context, caller, cursor=cursor, limit=limit)


@router.get("/runs/{run_id}", tags=["runs"])
async def get_run(context: ContextOf, caller: CallerOf, run_id: str) -> Run:
    return await runs.get_run(context, caller, run_id)


@router.post("/models", status_code=201, tags=["models"])
async def register_model(context: ContextOf, caller: CallerOf, body: ModelCreate, key: IdempotencyKey = None) -> Model:
    return await models.register_model(context, caller, body, key=key)


@router.get("/models", tags=["models"])
async def list_models(
    context: ContextOf, caller: CallerOf, cursor: CursorOf = None, limit: LimitOf = 100
) -> Page[Model]:
    return await models.list_models(context, caller, cursor=cursor, limit=limit)


@router.get("/models/{model}", tags=["models"])
async def get_model(context: ContextOf, caller: CallerOf, model: str) -> Model:
    return await models.get_model(context, caller, model)


@router.post("/models/{model}/versions", status_code=201, tags=["models"])
async def publish_version(
    context: ContextOf, caller: CallerOf, model: str, body: VersionPublish, key: IdempotencyKey = None
) -> WeightVersion:
    return await weights.publish_version(context, caller, model, body, key=key)


@router.get("/models/{model}/versions", tags=["models"])
async def list_versions(
    context: ContextOf, caller: CallerOf, model: str, cursor: CursorOf = None, limit: LimitOf = 100
) -> Page[WeightVersion]:
    return await weights.list_versions(context, caller, model, cursor=cursor, limit=limit)


@router.get("/models/{model}/versions/{version}", tags=["models"])
async def get_version(
    context: ContextOf,
    caller: CallerOf,
    model: str,
    version: Annotated[int, Path(ge=0, le=2**31 - 1)],
    wait_converged_s: Annotated[
        float, Query(ge=0, le=60, description="wait until all live workers of the model run it")
    ] = 0.0,
) -> WeightVersion:
    return await weights.wait_until_converged(context, caller, model, version, wait_converged_s)
