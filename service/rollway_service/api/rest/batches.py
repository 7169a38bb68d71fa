"""Routes of batches: lease, acknowledge, return, extend, rewind."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import StreamingResponse

from rollway.framing import BATCH_MEDIA_TYPE
from rollway.types import (
    BatchConsumed,
    BatchExtend,
    BatchHeader,
    BatchLease,
    BatchReturn,
    BatchState,
    CheckpointMark,
    Rewind,
    Rewound,
)
from rollway_service.api.access import CallerOf, ContextOf
from rollway_service.api.bodies import StrictRoute
from rollway_service.api.frames import frame_length, frame_parts, start_of
from rollway_service.core.errors import InvalidRequest
from rollway_service.operations import consumption, leases
from rollway_service.operations.batch_frames import LeasedBatch
from rollway_service.operations.batch_json import lease_as_json
from rollway_service.operations.context import Context

router = APIRouter(route_class=StrictRoute, tags=["batches"])
_JSON = "application/json"


class NotAcceptable(InvalidRequest):
    """Batches come as application/vnd.rollway.batch or application/json."""

    code = "not_acceptable"


def _chosen_type(accept: str) -> str:
    """The first offered type that the client accepts; the frame where it does not mind."""
    accepted = [part.split(";")[0].strip().lower() for part in accept.split(",")]
    for kind in accepted:
        if kind in {BATCH_MEDIA_TYPE, "*/*", "application/*", ""}:
            return BATCH_MEDIA_TYPE
        if kind == _JSON:
            return _JSON
    raise NotAcceptable(f"Accept: {accept!r}; batches come as {BATCH_MEDIA_TYPE} or {_JSON}")


def _frame(context: Context, batch: LeasedBatch) -> Response:
    start = start_of(batch)
    length = str(frame_length(batch, start))
    parts = frame_parts(context, batch, start)
    return StreamingResponse(parts, media_type=BATCH_MEDIA_TYPE, headers={"Content-Length": length})


@router.post(
    "/runs/{run_id}/batches",
    response_class=Response,
    responses={200: {"model": BatchHeader, "content": {BATCH_MEDIA_TYPE: {}}}},
)
async def lease_batch(
    context: ContextOf,
    caller: CallerOf,
    run_id: str,
    body: BatchLease,
    accept: Annotated[str, Header()] = "*/*",
) -> Response:
    """Lease a batch: `application/vnd.rollway.batch` (framed arrays), or JSON with the arrays in each sample."""
    if _chosen_type(accept) == _JSON:
        return Response(await lease_as_json(context, caller, run_id, body), media_type=_JSON)
    return _frame(context, await leases.lease_batch(context, caller, run_id, body))


@router.post("/batches/{batch_id}/consumed")
async def consume_batch(context: ContextOf, caller: CallerOf, batch_id: str, body: BatchConsumed) -> BatchState:
    return await consumption.consume_batch(context, caller, batch_id, body)


@router.post("/batches/{batch_id}/return")
async def return_batch(context: ContextOf, caller: CallerOf, batch_id: str, body: BatchReturn) -> BatchState:
    return await consumption.return_batch(context, caller, batch_id, body)


@router.post("/batches/{batch_id}/extend")
async def extend_batch(context: ContextOf, caller: CallerOf, batch_id: str, body: BatchExtend) -> BatchState:
    return await consumption.extend_batch(context, caller, batch_id, body)


@router.post("/runs/{run_id}/checkpointed")
async def mark_checkpointed(context: ContextOf, caller: CallerOf, run_id: str, body: CheckpointMark) -> Rewound:
    return await consumption.mark_checkpointed(context, caller, run_id, body)


@router.post("/runs/{run_id}/rewind")
async def rewind(context: ContextOf, caller: CallerOf, run_id: str, body: Rewind) -> Rewound:
    return await consumption.rewind(context, caller, run_id, body)
