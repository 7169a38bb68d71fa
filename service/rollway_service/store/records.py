"""What came of the work: rollouts, trees and trajectories. Written once, when a rollout ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, insert, select, update

from rollway_service.core.states import sources
from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.jobs import for_update
from rollway_service.store.paging import Cursor, page
from rollway_service.store.rows import RolloutRow, TrajectoryRow, TreeRow, as_row, as_row_or_none
from rollway_service.store.tables import rollouts, trajectories, trees


async def insert_rollouts(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    await transaction.insert_many(insert(rollouts).values(ended_at_s=now_s()), rows)


async def insert_trees(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    await transaction.insert_many(insert(trees).values(created_at_s=now_s()), rows)


async def insert_trajectories(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    await transaction.insert_many(insert(trajectories).values(created_at_s=now_s()), rows)


async def rollout_by_id(
    transaction: Transaction, tenant_id: str, rollout_id: str, *, lock: bool = False
) -> RolloutRow | None:
    statement = select(rollouts).where(rollouts.c.id == rollout_id, rollouts.c.tenant_id == tenant_id)
    if lock:
        statement = for_update(transaction, statement)
    return as_row_or_none(RolloutRow, await transaction.one(statement))


async def rollouts_by_ids(transaction: Transaction, rollout_ids: Sequence[str]) -> dict[str, RolloutRow]:
    rows = await transaction.all(select(rollouts).where(rollouts.c.id.in_(rollout_ids))) if rollout_ids else []
    return {row["id"]: as_row(RolloutRow, row) for row in rows}


async def rollouts_of_groups(transaction: Transaction, group_ids: Sequence[str]) -> list[RolloutRow]:
    """In order of group and member."""
    if not group_ids:
        return []
    rows = await transaction.all(
        select(rollouts)
        .where(rollouts.c.group_id.in_(group_ids))
        .order_by(rollouts.c.group_id, rollouts.c.member_index)
    )
    return [as_row(RolloutRow, row) for row in rows]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one member of a group."""

    state: str
    reward: float | None
    num_sampled: int


async def group_outcomes(transaction: Transaction, group_id: str) -> list[Outcome]:
    """Members of a group that have ended, in order."""
    sampled = (
        select(trajectories.c.rollout_id, func.sum(trajectories.c.num_sampled).label("num_sampled"))
        .where(trajectories.c.group_id == group_id)
        .group_by(trajectories.c.rollout_id)
        .subquery()
    )
    rows = await transaction.all(
        select(rollouts.c.state, rollouts.c.reward, func.coalesce(sampled.c.num_sampled, 0).label("num_sampled"))
        .outerjoin(sampled, sampled.c.rollout_id == rollouts.c.id)
        .where(rollouts.c.group_id == group_id)
        .order_by(rollouts.c.member_index)
    )
    return [Outcome(row["state"], row["reward"], int(row["num_sampled"])) for row in rows]


@dataclass(frozen=True, slots=True)
class UsableSample:
    """A trajectory that may be trained on, with the weight versions of its trainable tokens."""

    group_id: str
    rollout_id: str
    versions: list[int]
    num_trainable: int


async def usable_versions(transaction: Transaction, group_ids: Sequence[str]) -> list[UsableSample]:
    if not group_ids:
        return []
    rows = await transaction.all(
        select(
            trajectories.c.group_id,
            trajectories.c.rollout_id,
            trajectories.c.versions,
            trajectories.c.num_trainable,
        )
        .join(rollouts, rollouts.c.id == trajectories.c.rollout_id)
        .where(trajectories.c.group_id.in_(group_ids), rollouts.c.state == "completed")
    )
    return [as_row(UsableSample, row) for row in rows]


async def end_rewards(
    transaction: Transaction,
    rollout_id: str,
    target: str,
    *,
    rewards: list[dict[str, Any]],
    reward: float | None,
    failure: dict[str, Any] | None,
) -> bool:
    """Compare-and-set the end of a rollout that waited for rewards."""
    rows = await transaction.execute(
        update(rollouts)
        .where(rollouts.c.id == rollout_id, rollouts.c.state.in_(sources("rollout", target)))
        .values(state=target, rewards=rewards, reward=reward, failure=failure)
    )
    return rows == 1


async def set_rewards(transaction: Transaction, rollout_id: str, rewards: list[dict[str, Any]]) -> None:
    """Store some of the rewards of a rollout that still waits for others."""
    await transaction.execute(
        update(rollouts)
        .where(rollouts.c.id == rollout_id, rollouts.c.state == "awaiting_reward")
        .values(rewards=rewards)
    )


async def rollouts_awaiting(
    transaction: Transaction, *, group_ids: Sequence[str] | None = None, limit: int = 1000
) -> list[RolloutRow]:
    """Rollouts that wait for posted rewards: of these groups, or past their deadline."""
    statement = select(rollouts).where(rollouts.c.state == "awaiting_reward")
    if group_ids is None:
        statement = statement.where(rollouts.c.rewards_deadline_at_s <= now_s())
    else:
        statement = statement.where(rollouts.c.group_id.in_(group_ids))
    rows = await transaction.all(statement.order_by(rollouts.c.id).limit(limit))
    return [as_row(RolloutRow, row) for row in rows]


async def list_rollouts(
    transaction: Transaction, tenant_id: str, cursor: Cursor, filters: Mapping[str, str | None]
) -> list[RolloutRow]:
    statement = select(rollouts).where(rollouts.c.tenant_id == tenant_id)
    for column, value in filters.items():
        if value is not None:
            statement = statement.where(rollouts.c[column] == value)
    return [as_row(RolloutRow, row) for row in await page(transaction, statement, rollouts.c.id, cursor)]


async def list_trajectories(
    transaction: Transaction, tenant_id: str, cursor: Cursor, filters: Mapping[str, Any]
) -> list[TrajectoryRow]:
    """Trajectories with these column values; keys may end in `__ge` or `__le`. None means any."""
    statement = select(trajectories).where(trajectories.c.tenant_id == tenant_id)
    for name, value in filters.items():
        if value is None:
            continue
        column, _, operator = name.partition("__")
        compared = trajectories.c[column]
        if operator == "ge":
            statement = statement.where(compared >= value)
        elif operator == "le":
            statement = statement.where(compared <= value)
        else:
            statement = statement.where(compared == value)
    return [as_row(TrajectoryRow, row) for row in await page(transaction, statement, trajectories.c.id, cursor)]


async def trajectory_by_id(transaction: Transaction, tenant_id: str, trajectory_id: str) -> TrajectoryRow | None:
    statement = select(trajectories).where(trajectories.c.id == trajectory_id, trajectories.c.tenant_id == tenant_id)
    return as_row_or_none(TrajectoryRow, await transaction.one(statement))


async def trajectories_of_rollouts(transaction: Transaction, rollout_ids: Sequence[str]) -> list[TrajectoryRow]:
    if not rollout_ids:
        return []
    rows = await transaction.all(
        select(trajectories).where(trajectories.c.rollout_id.in_(rollout_ids)).order_by(trajectories.c.id)
    )
    return [as_row(TrajectoryRow, row) for row in rows]


async def trajectories_of_groups(transaction: Transaction, group_ids: Sequence[str]) -> list[TrajectoryRow]:
    if not group_ids:
        return []
    rows = await transaction.all(
        select(trajectories).where(trajectories.c.group_id.in_(group_ids)).order_by(trajectories.c.id)
    )
    return [as_row(TrajectoryRow, row) for row in rows]


async def tree_by_id(transaction: Transaction, tree_id: str) -> TreeRow | None:
    return as_row_or_none(TreeRow, await transaction.one(select(trees).where(trees.c.id == tree_id)))


async def trees_of_groups(transaction: Transaction, group_ids: Sequence[str]) -> dict[str, TreeRow]:
    rows = await transaction.all(select(trees).where(trees.c.group_id.in_(group_ids))) if group_ids else []
    return {row["id"]: as_row(TreeRow, row) for row in rows}
