"""The steward's sweep: what must happen even when nobody asks. Every step is safe to repeat and to run twice at once.

Each step is a transaction of its own, so that one that fails leaves the others their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import structlog
from sqlalchemy.exc import DBAPIError

from rollway.types import RewardFailure, RewardValue, RolloutFailure
from rollway_service.dispatch.ports import run_topic
from rollway_service.operations.context import Context
from rollway_service.operations.rollout_ends import cancel_open_groups, end_awaited, end_by_service
from rollway_service.operations.sessions import requeue_items
from rollway_service.store import deliveries, fleet, jobs, partitions, records, work
from rollway_service.store.turns import take_turn

_PIECE = 200
_HOUSEKEEPING_EVERY = 60
_TURNS = "sweep"
_INTERVAL_SHARE = 0.9
"""A turn that comes a little early is taken: timers of several processes never agree."""

log = structlog.get_logger()


async def requeue_lost_work(context: Context) -> None:
    """Sessions whose lease has run out are lost; their work is queued again, or fails after too many tries."""
    async with context.database.transaction() as transaction:
        lost = await fleet.end_sessions(transaction, "lost")
        items = await work.items_of_sessions(transaction, lost)
        await requeue_items(context, transaction, items, "its worker was lost: no heartbeat within the lease")


async def end_overdue_rollouts(context: Context) -> None:
    """Rollouts past their own deadline whose worker did not end them."""
    async with context.database.transaction() as transaction:
        items = await work.items_past_deadline(transaction, context.settings.deadline_grace_s, _PIECE)
        failure = RolloutFailure(kind="deadline", detail="limits.rollout_deadline_s passed; its worker did not end it")
        await end_by_service(context, transaction, items, failure)


async def end_overdue_groups(context: Context) -> None:
    """Members that are still open when their group's deadline passes fail; the group goes on with the rest."""
    async with context.database.transaction() as transaction:
        overdue = await work.open_groups_past_deadline(transaction, _PIECE)
        items = await work.items_of_groups(transaction, overdue, ("queued", "claimed"), lock=True)
        failure = RolloutFailure(kind="deadline", detail="limits.group_deadline_s passed")
        await end_by_service(context, transaction, items, failure)


async def end_overdue_rewards(context: Context) -> None:
    """Rollouts whose posted rewards did not come in time are not scored; that is no reward of 0."""
    async with context.database.transaction() as transaction:
        for rollout in await records.rollouts_awaiting(transaction, limit=_PIECE):
            missing = RewardValue(
                name="posted",
                value=None,
                weight=0.0,
                source="posted",
                failure=RewardFailure(kind="missing", detail="no reward was posted within deadline_s"),
            )
            rewards = [*rollout.rewards, missing.model_dump(mode="json")]
            failure = RolloutFailure(kind="reward", detail="no reward was posted within deadline_s")
            await end_awaited(context, transaction, rollout, "failed", rewards, None, failure)


async def offer_expired_batches(context: Context) -> None:
    """Batches whose lease has run out go back on offer."""
    async with context.database.transaction() as transaction:
        for batch in await deliveries.expired_batches(transaction, _PIECE):
            await deliveries.offer_again(transaction, batch.id)
            await deliveries.set_batch(transaction, batch.id, state="expired")
            transaction.after_commit(lambda run_id=batch.run_id: context.wakeups.wake(run_topic(run_id)))  # type: ignore[misc]


async def finish_cancelled_jobs(context: Context) -> None:
    """Cancelling is two transactions; if the second was lost, it happens here."""
    async with context.database.snapshot() as transaction:
        unfinished = await jobs.cancelled_with_open_groups(transaction)
    for job_id in unfinished:
        await cancel_open_groups(context, job_id)


async def keep_house(context: Context) -> None:
    """Partitions ahead of time, and retention of arrays."""
    async with context.database.transaction() as transaction:
        await partitions.ensure_partitions(transaction)
    retention_s = context.settings.array_retention_s
    async with context.database.transaction() as transaction:
        await deliveries.drop_ready_before(transaction, retention_s)
        if transaction.dialect == "postgresql":
            await partitions.drop_partitions(transaction, "array_blobs", retention_s)
    while await _delete_arrays(context):
        pass


async def _delete_arrays(context: Context) -> int:
    async with context.database.transaction() as transaction:
        return await partitions.delete_arrays(transaction, context.settings.array_retention_s)


@dataclass(frozen=True, slots=True)
class Duty:
    """A step of the sweep and how many sweeps apart it is done."""

    step: Callable[[Context], Coroutine[Any, Any, None]]
    every: int = 1


DUTIES = (
    Duty(requeue_lost_work),
    Duty(end_overdue_rollouts),
    Duty(end_overdue_groups),
    Duty(end_overdue_rewards),
    Duty(offer_expired_batches),
    Duty(finish_cancelled_jobs, every=10),
    Duty(keep_house, every=_HOUSEKEEPING_EVERY),
)


async def sweep(context: Context, sweep_index: int = 0) -> None:
    """Do every duty that is due. Whatever goes wrong fails a step, which is due again, and not the sweep."""
    for duty in DUTIES:
        if sweep_index % duty.every:
            continue
        try:
            await duty.step(context)
        except (DBAPIError, OSError, TimeoutError) as error:
            log.warning("steward_step_failed", step=duty.step.__name__, error=str(error))
        except Exception:
            # A fault of ours, and no reason to leave everybody else's deadlines and leases unattended.
            log.exception("steward_step_failed", step=duty.step.__name__)


async def sweep_in_turn(context: Context) -> bool:
    """Sweep, unless another process has done so within the interval. True when it was this one's turn."""
    try:
        async with context.database.transaction() as transaction:
            turn = await take_turn(transaction, _TURNS, context.settings.steward_interval_s * _INTERVAL_SHARE)
    except (DBAPIError, OSError, TimeoutError) as error:
        log.warning("steward_turn_failed", error=str(error))
        return False
    if turn is None:
        return False
    await sweep(context, turn)
    return True


async def run_steward(context: Context) -> None:
    """Sweep until cancelled. Every service process does, so that sweeps go on when beat and its broker are away."""
    while True:
        try:
            await sweep_in_turn(context)
        except Exception:
            log.exception("steward_turn_failed")
        await asyncio.sleep(context.settings.steward_interval_s)
