"""The end of rollouts, and with the last of them the end of their group.

Every way in which a rollout can end (its worker, a deadline, a lost worker, a cancelled job) comes through
`end_rollouts`, in one transaction that also moves the group and the job on. Rows are locked in one order everywhere:
work items, groups, rollouts, runs, counters, jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rollway.types import JobCreate, RolloutFailure, Timings, Usage
from rollway_service.core.checkpoint import restore
from rollway_service.dispatch.ports import job_topic, pool_topic, run_topic
from rollway_service.operations.context import Context
from rollway_service.operations.group_ends import GroupEnd, conclude_group
from rollway_service.operations.messages import FinishedRollout, FinishedTrajectory
from rollway_service.operations.records import RolloutRecord, build_record, outcome_counts, posted_rewards
from rollway_service.operations.work_rows import decision_json, member_row
from rollway_service.policies.control.member_failure import decide_member
from rollway_service.policies.views import MemberFailureView
from rollway_service.store import jobs, models, records, work
from rollway_service.store.ports import Transaction
from rollway_service.store.rows import GroupRow, JobRow, RolloutRow, WorkItemRow


@dataclass(frozen=True, slots=True)
class RolloutEnd:
    """A work item and how it ended."""

    item: WorkItemRow
    finished: FinishedRollout


@dataclass(slots=True)
class JobChange:
    """What a transaction adds to the counters of one job."""

    counts: Counter[str] = field(default_factory=Counter)
    reward_sum: float = 0.0
    drops: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    has_news: bool = False

    def add(self, counts: Mapping[str, float]) -> None:
        for name, value in counts.items():
            if name == "reward_sum":
                self.reward_sum += value
            else:
                self.counts[name] += int(value)

    def add_group(self, end: GroupEnd) -> None:
        self.has_news = True
        self.counts[f"groups_{end.state}"] += 1
        if end.state == "ready" and end.is_delivered:
            self.counts["bytes_ready"] += end.num_bytes
        if end.state in {"dropped", "failed"} and end.reason is not None:
            self.drops[end.reason] += 1


async def end_rollouts(context: Context, transaction: Transaction, ends: Sequence[RolloutEnd]) -> None:
    """Store the rollouts and move their groups and jobs on.

    The caller has locked the items and checked who owns them.

    Raises:
        InvalidRequest: what a worker says of a tree contradicts itself.
    """
    if not ends:
        return
    job_rows = await jobs.jobs_by_ids(transaction, sorted({end.item.job_id for end in ends}))
    specs = {job_id: JobCreate.model_validate(row.spec) for job_id, row in job_rows.items()}
    groups = await work.lock_groups(transaction, sorted({end.item.group_id for end in ends}))
    newest = await models.latest_versions(transaction, sorted({row.model_id for row in job_rows.values()}))
    made = [
        build_record(
            end.item,
            job_rows[end.item.job_id],
            specs[end.item.job_id],
            groups[end.item.group_id].task_index,
            end.finished,
            newest_version=newest[job_rows[end.item.job_id].model_id],
        )
        for end in ends
    ]
    await work.end_items(transaction, [record.item.id for record in made if record.state != "cancelled"], "done")
    await work.end_items(transaction, [record.item.id for record in made if record.state == "cancelled"], "cancelled")
    await _store(context, transaction, made, specs)
    changes = {job_id: JobChange() for job_id in job_rows}
    for group_id in sorted(groups):
        members = [record for record in made if record.item.group_id == group_id]
        job = job_rows[groups[group_id].job_id]
        change = changes[job.id]
        for record in members:
            change.add(record.counts)
            if record.failure is not None:
                change.failures[record.failure.kind] += 1
        await _advance_group(context, transaction, groups[group_id], job, specs[job.id], members, change)
    await apply_changes(context, transaction, job_rows, changes)


async def _store(
    context: Context, transaction: Transaction, made: Sequence[RolloutRecord], specs: Mapping[str, JobCreate]
) -> None:
    with_tree = [record for record in made if record.tree is not None and record.array is not None]
    refs = await context.arrays.put(transaction, [record.array for record in with_tree if record.array is not None])
    trees = [{**(record.tree or {}), "array_ref": dict(ref)} for record, ref in zip(with_tree, refs, strict=True)]
    await records.insert_trees(transaction, trees)
    waiting = [record for record in made if record.state == "awaiting_reward"]
    if waiting:
        now_s = await transaction.now_s()
        for record in waiting:
            longest_s = max(reward.deadline_s for reward in posted_rewards(specs[record.item.job_id]))
            record.rollout["rewards_deadline_at_s"] = now_s + longest_s
    await records.insert_rollouts(transaction, [record.rollout for record in made])
    await records.insert_trajectories(transaction, [row for record in made for row in record.trajectories])


async def _advance_group(
    context: Context,
    transaction: Transaction,
    group: GroupRow,
    job: JobRow,
    spec: JobCreate,
    members: Sequence[RolloutRecord],
    change: JobChange,
) -> None:
    """Count members that have ended, replace failed ones, and conclude the group with its last."""
    refills: list[WorkItemRow] = []
    decisions = list(group.decisions)
    is_past_deadline = any(record.failure is not None for record in members) and (
        await transaction.now_s() >= group.deadline_at_s or job.state == "cancelled"
    )
    for record in members:
        if record.failure is None or record.state == "cancelled":
            continue
        view = MemberFailureView(
            refills=group.refills + len(refills),
            is_repeatable=record.finished.is_repeatable,
            is_past_deadline=is_past_deadline,
        )
        decision = decide_member(view, spec.member_failure)
        decisions.append(decision_json("member_failure", decision, rollout_id=record.item.rollout_id))
        if decision.action == "refill":
            refills.append(record.item)
    await work.insert_work_items(
        transaction,
        [member_row(job, spec, item, group.task_index, group.members + index) for index, item in enumerate(refills)],
    )
    if refills:
        change.counts["rollouts_refilled"] += len(refills)
        transaction.after_commit(lambda: context.wakeups.wake(pool_topic(job.pool_id)))
    members_open = group.members_open - len(members) + len(refills)
    rewards_open = group.rewards_open + sum(record.state == "awaiting_reward" for record in members)
    num_bytes = group.bytes + sum(record.num_bytes for record in members)
    await work.update_group(
        transaction,
        group.id,
        members=group.members + len(refills),
        members_open=members_open,
        rewards_open=rewards_open,
        refills=group.refills + len(refills),
        decisions=decisions,
        bytes=num_bytes,
    )
    if members_open == 0 and rewards_open == 0:
        change.add_group(await conclude_group(transaction, group, job, spec, decisions, num_bytes))


async def apply_changes(
    context: Context, transaction: Transaction, job_rows: Mapping[str, JobRow], changes: Mapping[str, JobChange]
) -> None:
    """Write the counters, complete jobs that are done, and wake who may be waiting."""
    for job_id in sorted(changes):
        change, job = changes[job_id], job_rows[job_id]
        counts: dict[str, float] = {**change.counts, "reward_sum": change.reward_sum}
        counters = await jobs.add_counts(transaction, job_id, counts, drops=change.drops, failures=change.failures)
        wake = [job_topic(job_id)]
        if change.has_news:
            wake += [run_topic(job.run_id), pool_topic(job.pool_id)]
            if counters.groups_ended >= counters.tasks:
                await jobs.set_job_state(transaction, job_id, "completed")
        for topic in wake:
            transaction.after_commit(lambda topic=topic: context.wakeups.wake(topic))  # type: ignore[misc]


def ended_by_service(
    item: WorkItemRow, payloads: Sequence[bytes], failure: RolloutFailure, *, is_repeatable: bool = True
) -> RolloutEnd:
    """The end of a rollout whose worker cannot tell it: what its checkpoints hold is kept."""
    stop_reason = {"deadline": "deadline", "cancelled": "aborted"}.get(failure.kind, "error")
    tree, state = restore(payloads)
    finished = FinishedRollout(
        work_item_id=item.id,
        fence=item.fence,
        tree=tree.pack() if tree.nodes else None,
        trajectories=[
            FinishedTrajectory(
                path=tree.path(len(tree.nodes) - 1),
                stop_reason=stop_reason,  # type: ignore[arg-type]
                stop_detail=failure.detail,
                finish_reasons=[reason for reason, _ in state.generations],
                findings=state.finding_labels(),
            )
        ]
        if tree.nodes
        else [],
        failure=failure,
        is_repeatable=is_repeatable,
        usage=Usage(
            prompt_tokens=sum(node.num_tokens for node in tree.nodes if node.origin == "prompt"),
            cached_tokens=state.cached_tokens,
            sampled_tokens=sum(node.num_tokens for node in tree.nodes if node.is_model),
            wasted_tokens=state.wasted_tokens,
            requests=state.requests,
        ),
        timings=Timings(generate_s=state.generate_s),
        nonfinite_logprobs=state.nonfinite,
        missing_logprobs=state.missing,
    )
    return RolloutEnd(item, finished)


async def end_by_service(
    context: Context, transaction: Transaction, items: Sequence[WorkItemRow], failure: RolloutFailure
) -> None:
    """End locked items on behalf of the service, keeping what their checkpoints hold."""
    payloads = await work.checkpoints_of(transaction, [item.id for item in items])
    await end_rollouts(
        context, transaction, [ended_by_service(item, payloads.get(item.id, []), failure) for item in items]
    )


async def cancel_groups(context: Context, transaction: Transaction, group_ids: Sequence[str]) -> None:
    """Cancel open groups with all members that are in flight or wait for rewards."""
    items = await work.items_of_groups(transaction, group_ids, ("queued", "claimed"), lock=True)
    failure = RolloutFailure(kind="cancelled", detail="the job was cancelled")
    await end_by_service(context, transaction, items, failure)
    for rollout in await records.rollouts_awaiting(transaction, group_ids=group_ids):
        await end_awaited(context, transaction, rollout, "cancelled", rollout.rewards, None, failure)


async def cancel_open_groups(context: Context, job_id: str) -> None:
    """Cancel what is left open of a cancelled job."""
    async with context.database.transaction() as transaction:
        await cancel_groups(context, transaction, await work.open_groups_of_job(transaction, job_id))


async def end_awaited(
    context: Context,
    transaction: Transaction,
    rollout: RolloutRow,
    target: str,
    rewards: list[dict[str, object]],
    reward: float | None,
    failure: RolloutFailure | None,
) -> bool:
    """End a rollout that waited for posted rewards, and its group if it was the last. False when it had ended."""
    groups = await work.lock_groups(transaction, [rollout.group_id])
    group = groups[rollout.group_id]
    job_rows = await jobs.jobs_by_ids(transaction, [rollout.job_id])
    job = job_rows[rollout.job_id]
    spec = JobCreate.model_validate(job.spec)
    ended = await records.end_rewards(
        transaction,
        rollout.id,
        target,
        rewards=rewards,
        reward=reward,
        failure=None if failure is None else failure.model_dump(mode="json"),
    )
    if not ended:
        return False
    change = JobChange()
    change.add(outcome_counts(target, reward, failure, has_rewards=True))
    if failure is not None:
        change.failures[failure.kind] += 1
    await work.update_group(transaction, group.id, rewards_open=group.rewards_open - 1)
    if group.members_open == 0 and group.rewards_open == 1:
        change.add_group(await conclude_group(transaction, group, job, spec, list(group.decisions), group.bytes))
    await apply_changes(context, transaction, job_rows, {job.id: change})
    return True
