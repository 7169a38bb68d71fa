"""Routes of pools and workers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from rollway.types import Page, Pool, PoolCreate, Worker
from rollway_service.api.access import CallerOf, ContextOf, CursorOf, IdempotencyKey, LimitOf
from rollway_service.api.bodies import StrictRoute
from rollway_service.operations import pools

router = APIRouter(route_class=StrictRoute, tags=["pools"])


@router.post("/pools", status_code=201)
async def create_pool(context: ContextOf, caller: CallerOf, body: PoolCreate, key: IdempotencyKey = None) -> Pool:
    return await pools.create_pool(context, caller, body, key=key)


@router.get("/pools")
async def list_pools(context: ContextOf, caller: CallerOf, cursor: CursorOf = None, limit: LimitOf = 100) -> Page[Pool]:
    return await pools.list_pools(context, caller, cursor=cursor, limit=limit)


@router.get("/pools/{pool}")
async def get_pool(context: ContextOf, caller: CallerOf, pool: str) -> Pool:
    return await pools.get_pool(context, caller, pool)


@router.get("/workers")
async def list_workers(
    context: ContextOf,
    caller: CallerOf,
    pool: Annotated[str | None, Query(max_length=200)] = None,
    cursor: CursorOf = None,
    limit: LimitOf = 100,
) -> Page[Worker]:
    return await pools.list_workers(context, caller, pool=pool, cursor=cursor, limit=limit)
