"""Routes of jobs, groups, rollouts and trajectories."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from rollway.types import (
    Group,
    Job,
    JobCreate,
    JobProgress,
    Page,
    RewardsPost,
    Rollout,
    StopReason,
    TasksAppend,
    TasksAppended,
    Trajectory,
    Tree,
)
from rollway_service.api.access import CallerOf, ContextOf, CursorOf, IdempotencyKey, LimitOf
from rollway_service.api.bodies import StrictRoute
from rollway_service.operations import jobs, progress, queries, rewards

router = APIRouter(route_class=StrictRoute)

JobStateQuery = Annotated[Literal["open", "closed", "completed", "cancelled"] | None, Query()]
GroupStateQuery = Annotated[Literal["open", "ready", "dropped", "failed", "cancelled"] | None, Query()]
IdQuery = Annotated[str | None, Query(pattern=r"^[a-z]{3}_[0-9a-f]{32}$", description="an id, whole")]


@router.post("/jobs", status_code=201, tags=["jobs"])
async def submit_job(context: ContextOf, caller: CallerOf, body: JobCreate, key: IdempotencyKey = None) -> Job:
    return await jobs.submit_job(context, caller, body, key=key)


@router.get("/jobs", tags=["jobs"])
async def list_jobs(
    context: ContextOf,
    caller: CallerOf,
    run_id: IdQuery = None,
    purpose: Annotated[Literal["train", "eval", "data"] | None, Query()] = None,
    state: JobStateQuery = None,
    cursor: CursorOf = None,
    limit: LimitOf = 100,
) -> Page[Job]:
    return await jobs.list_jobs(
        context, caller, run_id=run_id, purpose=purpose, state=state, cursor=cursor, limit=limit
    )


@router.get("/jobs/{job_id}", tags=["jobs"])
async def get_job(context: ContextOf, caller: CallerOf, job_id: str) -> Job:
    return await jobs.get_job(context, caller, job_id)


@router.post("/jobs/{job_id}/tasks", status_code=201, tags=["jobs"])
async def append_tasks(
    context: ContextOf, caller: CallerOf, job_id: str, body: TasksAppend, key: IdempotencyKey = None
) -> TasksAppended:
    return await jobs.append_tasks(context, caller, job_id, body, key=key)


@router.post("/jobs/{job_id}/close", tags=["jobs"])
async def close_job(context: ContextOf, caller: CallerOf, job_id: str) -> Job:
    return await jobs.close_job(context, caller, job_id)


@router.post("/jobs/{job_id}/pause", tags=["jobs"])
async def pause_job(context: ContextOf, caller: CallerOf, job_id: str) -> Job:
    return await jobs.pause_job(context, caller, job_id, paused=True)


@router.post("/jobs/{job_id}/resume", tags=["jobs"])
async def resume_job(context: ContextOf, caller: CallerOf, job_id: str) -> Job:
    return await jobs.pause_job(context, caller, job_id, paused=False)


@router.post("/jobs/{job_id}/cancel", tags=["jobs"])
async def cancel_job(context: ContextOf, caller: CallerOf, job_id: str) -> Job:
    return await jobs.cancel_job(context, caller, job_id)


@router.get(
    "/jobs/{job_id}/watch",
    tags=["jobs"],
    response_class=StreamingResponse,
    responses={200: {"model": JobProgress, "content": {"text/event-stream": {}}}},
)
async def watch_job(context: ContextOf, caller: CallerOf, job_id: str) -> StreamingResponse:
    """Server-sent events: `progress` with a JobProgress whenever it changed, and `end` when the job has ended."""
    await jobs.get_job(context, caller, job_id)
    events = _events(progress.watch_job(context, caller, job_id))
    return StreamingResponse(events, media_type="text/event-stream", headers={"Cache-Control": "no-store"})


async def _events(watch: AsyncIterator[JobProgress | None]) -> AsyncIterator[str]:
    async for found in watch:
        yield ": still here\n\n" if found is None else f"event: progress\ndata: {found.model_dump_json()}\n\n"
    yield "event: end\ndata: {}\n\n"


@router.get("/jobs/{job_id}/groups", tags=["groups"])
async def list_groups(
    context: ContextOf,
    caller: CallerOf,
    job_id: str,
    state: GroupStateQuery = None,
    cursor: CursorOf = None,
    limit: LimitOf = 100,
) -> Page[Group]:
    return await queries.list_groups(context, caller, job_id, state=state, cursor=cursor, limit=limit)


@router.get("/groups/{group_id}", tags=["groups"])
async def get_group(context: ContextOf, caller: CallerOf, group_id: str) -> Group:
    return await queries.get_group(context, caller, group_id)


@router.get("/rollouts", tags=["rollouts"])
async def list_rollouts(
    context: ContextOf,
    caller: CallerOf,
    run_id: IdQuery = None,
    job_id: IdQuery = None,
    group_id: IdQuery = None,
    state: Annotated[Literal["awaiting_reward", "completed", "failed", "cancelled"] | None, Query()] = None,
    cursor: CursorOf = None,
    limit: LimitOf = 100,
) -> Page[Rollout]:
    filters = {"run_id": run_id, "job_id": job_id, "group_id": group_id, "state": state}
    return await queries.list_rollouts(context, caller, filters=filters, cursor=cursor, limit=limit)


@router.get("/rollouts/{rollout_id}", tags=["rollouts"])
async def get_rollout(context: ContextOf, caller: CallerOf, rollout_id: str) -> Rollout:
    return await queries.read_rollout(context, caller, rollout_id)


@router.get("/rollouts/{rollout_id}/tree", tags=["rollouts"])
async def get_rollout_tree(context: ContextOf, caller: CallerOf, rollout_id: str) -> Tree:
    return await queries.get_rollout_tree(context, caller, rollout_id)


@router.post("/rollouts/{rollout_id}/rewards", tags=["rewards"])
async def post_rewards(context: ContextOf, caller: CallerOf, rollout_id: str, body: RewardsPost) -> Rollout:
    return await rewards.post_rewards(context, caller, rollout_id, body)


@router.get("/trajectories", tags=["trajectories"])
async def list_trajectories(
    context: ContextOf,
    caller: CallerOf,
    run_id: IdQuery = None,
    job_id: IdQuery = None,
    group_id: IdQuery = None,
    rollout_id: IdQuery = None,
    stop_reason: Annotated[StopReason | None, Query()] = None,
    min_version: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    max_version: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
    cursor: CursorOf = None,
    limit: LimitOf = 100,
) -> Page[Trajectory]:
    """Trajectories without arrays, newest first. Versions bound the oldest and newest trainable token."""
    filters = {
        "run_id": run_id,
        "job_id": job_id,
        "group_id": group_id,
        "rollout_id": rollout_id,
        "stop_reason": stop_reason,
        "oldest_version__ge": min_version,
        "newest_version__le": max_version,
    }
    return await queries.list_trajectories(context, caller, filters=filters, cursor=cursor, limit=limit)


@router.get("/trajectories/{trajectory_id}", tags=["trajectories"])
async def get_trajectory(
    context: ContextOf,
    caller: CallerOf,
    trajectory_id: str,
    arrays: Annotated[bool, Query(description="with token ids, log-probs, masks and versions")] = False,
    text: Annotated[bool, Query(description="with the decoded text, a view of the ids")] = False,
) -> Trajectory:
    return await queries.get_trajectory(context, caller, trajectory_id, with_arrays=arrays, with_text=text)
