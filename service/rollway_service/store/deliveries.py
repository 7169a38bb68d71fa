"""Who has been given which group: consumer groups, leased batches, deliveries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, insert, or_, select, update

from rollway_service.core.ids import id_bound
from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.jobs import for_update
from rollway_service.store.rows import BatchRow, DeliveryRow, as_row, as_row_or_none
from rollway_service.store.tables import batches, consumer_groups, deliveries, groups, jobs

DELIVERED_PURPOSES = ("train", "data")


async def consumer_group_id(transaction: Transaction, run_id: str, name: str) -> str | None:
    found: str | None = await transaction.scalar(
        select(consumer_groups.c.id).where(consumer_groups.c.run_id == run_id, consumer_groups.c.name == name)
    )
    return found


async def consumer_group_ids(transaction: Transaction, run_id: str) -> list[str]:
    rows = await transaction.all(select(consumer_groups.c.id).where(consumer_groups.c.run_id == run_id))
    return [row["id"] for row in rows]


async def insert_consumer_group(transaction: Transaction, *, id: str, tenant_id: str, run_id: str, name: str) -> None:  # noqa: A002
    """A consumer group that is offered every group that is ready already. The run must be locked."""
    await transaction.execute(
        insert(consumer_groups).values(id=id, tenant_id=tenant_id, run_id=run_id, name=name, created_at_s=now_s())
    )
    rows = await transaction.all(
        select(groups.c.id, groups.c.job_id, groups.c.ready_order, groups.c.bytes)
        .join(jobs, jobs.c.id == groups.c.job_id)
        .where(groups.c.run_id == run_id, groups.c.state == "ready", jobs.c.purpose.in_(DELIVERED_PURPOSES))
    )
    await offer(
        transaction,
        [
            {
                "consumer_group_id": id,
                "group_id": row["id"],
                "tenant_id": tenant_id,
                "run_id": run_id,
                "job_id": row["job_id"],
                "ready_order": row["ready_order"],
                "num_bytes": row["bytes"],
            }
            for row in rows
        ],
    )


async def offer(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    defaults = {"state": "offered", "fence": 0, "stale_rollouts": [], "stale_versions": []}
    await transaction.insert_many(insert(deliveries), [defaults | row for row in rows])


async def offered(
    transaction: Transaction, consumer_group: str, job_ids: Sequence[str], *, after: str | None, limit: int
) -> list[DeliveryRow]:
    """Offered deliveries of these jobs in the order in which the groups became ready, locked; busy ones skipped."""
    statement = select(deliveries).where(
        deliveries.c.consumer_group_id == consumer_group,
        deliveries.c.state == "offered",
        deliveries.c.job_id.in_(job_ids),
    )
    if after is not None:
        statement = statement.where(deliveries.c.ready_order > after)
    statement = statement.order_by(deliveries.c.ready_order).limit(limit)
    if transaction.dialect == "postgresql":
        statement = statement.with_for_update(skip_locked=True)
    return [as_row(DeliveryRow, row) for row in await transaction.all(statement)]


async def count_offered(transaction: Transaction, consumer_group: str, job_ids: Sequence[str]) -> int:
    """Offered groups of these jobs, those included that another transaction is about to take."""
    return int(
        await transaction.scalar(
            select(func.count()).where(
                deliveries.c.consumer_group_id == consumer_group,
                deliveries.c.state == "offered",
                deliveries.c.job_id.in_(job_ids),
            )
        )
    )


async def insert_batch(transaction: Transaction, *, lease_s: float, **values: Any) -> float:
    """Store a leased batch and return when its lease runs out."""
    statement = (
        insert(batches)
        .values(state="leased", created_at_s=now_s(), expires_at_s=now_s() + lease_s, **values)
        .returning(batches.c.expires_at_s)
    )
    return float(await transaction.scalar(statement))


async def lease_deliveries(transaction: Transaction, consumer_group: str, group_ids: Sequence[str], batch: str) -> None:
    """Give offered deliveries, which this transaction has locked, to a batch."""
    await transaction.execute(
        update(deliveries)
        .where(
            deliveries.c.consumer_group_id == consumer_group,
            deliveries.c.group_id.in_(group_ids),
            deliveries.c.state == "offered",
        )
        .values(state="leased", batch_id=batch, fence=deliveries.c.fence + 1)
    )


async def note_stale(
    transaction: Transaction, consumer_group: str, group_id: str, rollout_ids: list[str], versions: list[int]
) -> None:
    """Remember which members a lease left out and which versions it masked, so that the batch can be built again."""
    await transaction.execute(
        update(deliveries)
        .where(deliveries.c.consumer_group_id == consumer_group, deliveries.c.group_id == group_id)
        .values(stale_rollouts=rollout_ids, stale_versions=versions)
    )


async def drop_deliveries(transaction: Transaction, consumer_group: str, group_ids: Sequence[str]) -> None:
    if group_ids:
        await transaction.execute(
            update(deliveries)
            .where(
                deliveries.c.consumer_group_id == consumer_group,
                deliveries.c.group_id.in_(group_ids),
                deliveries.c.state == "offered",
            )
            .values(state="dropped")
        )


async def batch_by_id(
    transaction: Transaction, tenant_id: str, batch_id: str, *, lock: bool = False
) -> BatchRow | None:
    statement = select(batches).where(batches.c.id == batch_id, batches.c.tenant_id == tenant_id)
    if lock:
        statement = for_update(transaction, statement)
    return as_row_or_none(BatchRow, await transaction.one(statement))


async def batch_by_request(transaction: Transaction, consumer_group: str, request_id: str) -> BatchRow | None:
    statement = select(batches).where(batches.c.consumer_group_id == consumer_group, batches.c.request_id == request_id)
    return as_row_or_none(BatchRow, await transaction.one(statement))


async def set_batch(transaction: Transaction, batch_id: str, **values: Any) -> None:
    await transaction.execute(
        update(batches).where(batches.c.id == batch_id, batches.c.state == "leased").values(**values)
    )


async def extend_batch(transaction: Transaction, batch_id: str, lease_s: float) -> float:
    statement = (
        update(batches)
        .where(batches.c.id == batch_id)
        .values(expires_at_s=now_s() + lease_s)
        .returning(batches.c.expires_at_s)
    )
    return float(await transaction.scalar(statement))


async def deliveries_of_batch(transaction: Transaction, batch_id: str, *, lock: bool = False) -> list[DeliveryRow]:
    """Deliveries that the batch still holds, in the order they were offered."""
    statement = (
        select(deliveries)
        .where(deliveries.c.batch_id == batch_id, deliveries.c.state == "leased")
        .order_by(deliveries.c.ready_order)
    )
    return [
        as_row(DeliveryRow, row)
        for row in await transaction.all(for_update(transaction, statement) if lock else statement)
    ]


async def consume(transaction: Transaction, batch_id: str, group_ids: Sequence[str], step: int) -> None:
    await transaction.execute(
        update(deliveries)
        .where(deliveries.c.batch_id == batch_id, deliveries.c.group_id.in_(group_ids), deliveries.c.state == "leased")
        .values(state="consumed", step=step)
    )


async def count_consumed_of(transaction: Transaction, batch_id: str) -> int:
    """Groups that count as consumed through this batch; none after a rewind has taken them back."""
    return int(
        await transaction.scalar(
            select(func.count()).where(
                deliveries.c.batch_id == batch_id, deliveries.c.state.in_(("consumed", "checkpointed"))
            )
        )
    )


async def offer_again(transaction: Transaction, batch_id: str, group_ids: Sequence[str] | None = None) -> int:
    """Take leased deliveries of a batch back on offer (all, or of these groups)."""
    statement = update(deliveries).where(deliveries.c.batch_id == batch_id, deliveries.c.state == "leased")
    if group_ids is not None:
        statement = statement.where(deliveries.c.group_id.in_(group_ids))
    return await transaction.execute(
        statement.values(state="offered", batch_id=None, stale_rollouts=[], stale_versions=[])
    )


async def mark_checkpointed(transaction: Transaction, consumer_group: str, step: int) -> int:
    return await transaction.execute(
        update(deliveries)
        .where(
            deliveries.c.consumer_group_id == consumer_group,
            deliveries.c.state == "consumed",
            deliveries.c.step <= step,
        )
        .values(state="checkpointed")
    )


def _consumed_later(consumer_group: str, step: int | None) -> ColumnElement[bool]:
    later = and_(deliveries.c.consumer_group_id == consumer_group, deliveries.c.state.in_(("consumed", "checkpointed")))
    return later if step is None else and_(later, deliveries.c.step > step)


async def consumed_after(transaction: Transaction, consumer_group: str, step: int | None) -> list[DeliveryRow]:
    """What was consumed after `step` (None: ever), locked."""
    statement = select(deliveries).where(_consumed_later(consumer_group, step)).order_by(deliveries.c.ready_order)
    return [as_row(DeliveryRow, row) for row in await transaction.all(for_update(transaction, statement))]


async def rewind(transaction: Transaction, consumer_group: str, step: int | None) -> int:
    """Offer again what was consumed after `step` (None: ever) and what is leased; returns how many groups."""
    leased = and_(deliveries.c.consumer_group_id == consumer_group, deliveries.c.state == "leased")
    values: dict[str, Any] = {
        "state": "offered",
        "batch_id": None,
        "step": None,
        "stale_rollouts": [],
        "stale_versions": [],
    }
    offered_again = await transaction.execute(
        update(deliveries).where(or_(_consumed_later(consumer_group, step), leased)).values(**values)
    )
    await transaction.execute(
        update(batches)
        .where(batches.c.consumer_group_id == consumer_group, batches.c.state == "leased")
        .values(state="returned")
    )
    return offered_again


async def expired_batches(transaction: Transaction, limit: int) -> list[BatchRow]:
    statement = (
        select(batches)
        .where(batches.c.state == "leased", batches.c.expires_at_s <= now_s())
        .order_by(batches.c.id)
        .limit(limit)
    )
    return [as_row(BatchRow, row) for row in await transaction.all(for_update(transaction, statement))]


async def still_wanted(transaction: Transaction, run_id: str, group_ids: Sequence[str]) -> set[str]:
    """Groups of a run that some consumer group has not consumed yet.

    Holds, until the transaction ends, a lock that all who ask about this run take: of two consumer groups that consume
    the same group at the same moment, the second sees what the first did.
    """
    if not group_ids:
        return set()
    if transaction.dialect == "postgresql":
        await transaction.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(run_id, 0))))
    rows = await transaction.all(
        select(deliveries.c.group_id)
        .where(deliveries.c.group_id.in_(group_ids), deliveries.c.state.in_(("offered", "leased")))
        .distinct()
    )
    return {row["group_id"] for row in rows}


async def leased_elsewhere(transaction: Transaction, consumer_group: str, job_ids: Sequence[str], consumer: str) -> int:
    """Groups of these jobs that other consumers hold leased: they may come back."""
    held = exists().where(
        and_(batches.c.id == deliveries.c.batch_id, batches.c.consumer != consumer, batches.c.state == "leased")
    )
    return int(
        await transaction.scalar(
            select(func.count())
            .select_from(deliveries)
            .where(
                deliveries.c.consumer_group_id == consumer_group,
                deliveries.c.state == "leased",
                deliveries.c.job_id.in_(job_ids),
                held,
            )
        )
    )


async def drop_ready_before(transaction: Transaction, older_than_s: float) -> int:
    """Groups that nobody took within the arrays' retention are no longer offered.

    Counted from their admission, which comes before any array of theirs: what is offered can always be delivered.
    """
    bound = id_bound("group", await transaction.now_s() - older_than_s)
    return await transaction.execute(
        update(deliveries).where(deliveries.c.state == "offered", deliveries.c.group_id < bound).values(state="dropped")
    )
