"""The end of a group: are enough members usable, do the filters keep it, who is offered it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rollway.types import JobCreate
from rollway_service.core.ids import new_id
from rollway_service.operations.work_rows import decision_json
from rollway_service.policies.control.member_failure import decide_group
from rollway_service.policies.recipes import apply_filters
from rollway_service.policies.views import GroupView
from rollway_service.store import deliveries, jobs, records, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import GroupRow, JobRow


@dataclass(frozen=True, slots=True)
class GroupEnd:
    """How a group ended; `is_delivered` when trainers are offered it."""

    state: str
    reason: str | None
    num_bytes: int
    is_delivered: bool


async def conclude_group(
    transaction: Transaction,
    group: GroupRow,
    job: JobRow,
    spec: JobCreate,
    decisions: list[dict[str, Any]],
    num_bytes: int,
) -> GroupEnd:
    """Decide about a locked group whose members have all ended, and offer it to the run's consumer groups."""
    outcomes = await records.group_outcomes(transaction, group.id)
    usable = [outcome for outcome in outcomes if outcome.state == "completed"]
    view = GroupView(
        size=group.size,
        num_failed=sum(outcome.state == "failed" for outcome in outcomes),
        rewards_G=np.array([np.nan if o.reward is None else o.reward for o in usable], dtype=np.float64),
        num_tokens_G=np.array([outcome.num_sampled for outcome in usable], dtype=np.int64),
    )
    state, reason = "ready", None
    if job.state == "cancelled":
        state, reason = "cancelled", "job_cancelled"
    if state == "ready":
        decision = decide_group(view, spec.member_failure)
        decisions.append(decision_json("member_failure", decision))
        if decision.action == "fail_group":
            state, reason = "failed", decision.reason
    if state == "ready" and spec.purpose != "eval":
        for policy, filtered in apply_filters(spec.recipe, view):
            decisions.append(decision_json(policy, filtered))
            if filtered.action == "drop":
                state, reason = "dropped", filtered.reason
    ready_order = new_id("group") if state == "ready" else None
    await work.end_group(
        transaction,
        group.id,
        state,
        usable=len(usable),
        failed=view.num_failed,
        reason=reason,
        decisions=decisions,
        ready_order=ready_order,
    )
    is_delivered = state == "ready" and spec.purpose in deliveries.DELIVERED_PURPOSES
    if is_delivered:
        await _offer(transaction, group, job, ready_order, num_bytes)
    return GroupEnd(state, reason, num_bytes, is_delivered)


async def _offer(
    transaction: Transaction, group: GroupRow, job: JobRow, ready_order: str | None, num_bytes: int
) -> None:
    await jobs.share_run(transaction, job.run_id)
    consumer_groups = await deliveries.consumer_group_ids(transaction, job.run_id)
    owner = {"group_id": group.id, "tenant_id": group.tenant_id, "run_id": group.run_id, "job_id": group.job_id}
    rows = [
        {"consumer_group_id": consumer_group, "ready_order": ready_order, "num_bytes": num_bytes, **owner}
        for consumer_group in consumer_groups
    ]
    await deliveries.offer(transaction, rows)
