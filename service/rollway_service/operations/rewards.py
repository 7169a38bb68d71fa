"""Rewards that come from outside."""

from __future__ import annotations

from rollway.types import JobCreate, RewardFailure, RewardsPost, RewardValue, Rollout
from rollway_service.core.errors import Conflict, FieldInvalid, NotFound, WrongState
from rollway_service.core.ids import is_id
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.queries import read_rollout
from rollway_service.operations.records import posted_rewards, reward_failure, total_reward
from rollway_service.operations.rollout_ends import end_awaited
from rollway_service.store import jobs, records, work
from rollway_service.store.rows import RolloutRow


def _merge(rollout: RolloutRow, spec: JobCreate, request: RewardsPost) -> tuple[list[RewardValue], bool]:
    """Stored rewards with the posted ones, and whether anything is new."""
    specs = {reward.label: reward for reward in posted_rewards(spec)}
    merged = {reward.name: reward for reward in map(RewardValue.model_validate, rollout.rewards)}
    is_new = False
    for index, post in enumerate(request.rewards):
        if post.name not in specs:
            known = ", ".join(sorted(specs)) or "none"
            raise FieldInvalid(
                f"$.rewards[{index}].name", f"{post.name!r} is no posted reward of the job; it has: {known}"
            )
        failure = None if post.failure is None else RewardFailure(kind="infra", detail=post.failure)
        value = RewardValue(
            name=post.name, value=post.value, weight=specs[post.name].weight, source="posted", failure=failure
        )
        if post.name not in merged:
            is_new = True
            merged[post.name] = value
        elif merged[post.name] != value:
            raise Conflict(f"$.rewards[{index}]: another value of {post.name!r} was posted before")
    return list(merged.values()), is_new


async def post_rewards(context: Context, caller: Caller, rollout_id: str, request: RewardsPost) -> Rollout:
    """Store posted rewards; with the last one the rollout ends, and maybe its group. Posting the same again is fine."""
    async with context.database.transaction() as transaction:
        found = is_id("rollout", rollout_id)
        rollout = await records.rollout_by_id(transaction, caller.tenant_id, rollout_id) if found else None
        if rollout is None:
            if found and await work.item_of_rollout(transaction, caller.tenant_id, rollout_id) is not None:
                raise WrongState(f"rollout {rollout_id} is still running; post rewards when it has ended")
            raise NotFound.of("rollout", rollout_id)
        await work.lock_groups(transaction, [rollout.group_id])
        rollout = await records.rollout_by_id(transaction, caller.tenant_id, rollout_id, lock=True)
        assert rollout is not None
        spec = JobCreate.model_validate((await jobs.jobs_by_ids(transaction, [rollout.job_id]))[rollout.job_id].spec)
        merged, is_new = _merge(rollout, spec, request)
        if is_new:
            if rollout.state != "awaiting_reward":
                raise WrongState(f"rollout {rollout_id} is {rollout.state}; it does not wait for rewards")
            rewards = [value.model_dump(mode="json") for value in merged]
            missing = {reward.label for reward in posted_rewards(spec)} - {value.name for value in merged}
            if missing:
                await records.set_rewards(transaction, rollout_id, rewards)
            else:
                failure = reward_failure(merged)
                target = "completed" if failure is None else "failed"
                await end_awaited(context, transaction, rollout, target, rewards, total_reward(merged), failure)
    return await read_rollout(context, caller, rollout_id)
