"""Rows of new groups and members. Pure."""

from __future__ import annotations

from typing import Any

from rollway.types import JobCreate
from rollway_service.core.ids import new_id
from rollway_service.core.seeds import derive_seed
from rollway_service.policies.decisions import Decision
from rollway_service.store.rows import JobRow, WorkItemRow

MAX_PRIORITY = 100


def decision_json(policy: str, decision: Decision, **extra: Any) -> dict[str, Any]:
    """A decision as it is stored: policy, action, reason, and the propensity where chance was involved."""
    stored: dict[str, Any] = {"policy": policy, "action": decision.action, "reason": decision.reason, **extra}
    if decision.propensity is not None:
        stored["propensity"] = decision.propensity
    return stored


def group_row(job: JobRow, spec: JobCreate, task_id: str, task_index: int, now_s: float) -> dict[str, Any]:
    return {
        "id": new_id("group"),
        "tenant_id": job.tenant_id,
        "run_id": job.run_id,
        "job_id": job.id,
        "task_id": task_id,
        "task_index": task_index,
        "state": "open",
        "size": spec.group_size,
        "members": spec.group_size,
        "members_open": spec.group_size,
        "rewards_open": 0,
        "refills": 0,
        "decisions": [],
        "bytes": 0,
        "deadline_at_s": now_s + spec.limits.group_deadline_s,
    }


def _member(
    job: JobRow, spec: JobCreate, group_id: str, task_id: str, task_index: int, member_index: int
) -> dict[str, Any]:
    return {
        "id": new_id("work_item"),
        "tenant_id": job.tenant_id,
        "run_id": job.run_id,
        "job_id": job.id,
        "pool_id": job.pool_id,
        "group_id": group_id,
        "task_id": task_id,
        "rollout_id": new_id("rollout"),
        "member_index": member_index,
        "seed": derive_seed(job.seed, task_index, member_index),
        "state": "queued",
        "rank": MAX_PRIORITY - job.priority,
        "fence": 0,
        "session_id": None,
        "attempts": 0,
        "min_version": spec.version.min_version,
        "exact_version": spec.version.exact_version,
        "deadline_s": spec.limits.rollout_deadline_s,
    }


def group_members(job: JobRow, spec: JobCreate, group: dict[str, Any]) -> list[dict[str, Any]]:
    """The first members of a new group."""
    return [
        _member(job, spec, group["id"], group["task_id"], group["task_index"], index) for index in range(group["size"])
    ]


def member_row(job: JobRow, spec: JobCreate, failed: WorkItemRow, task_index: int, member_index: int) -> dict[str, Any]:
    """A new member in place of a failed one, with an index and a seed of its own."""
    return _member(job, spec, failed.group_id, failed.task_id, task_index, member_index)
