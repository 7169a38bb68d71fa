"""Groups, work items and their checkpoints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import delete, func, insert, or_, select, update
from sqlalchemy.dialects import postgresql, sqlite

from rollway_service.core.states import sources
from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.jobs import for_update
from rollway_service.store.paging import Cursor, page
from rollway_service.store.rows import GroupRow, WorkItemRow, as_row, as_row_or_none
from rollway_service.store.tables import checkpoints, groups, work_items


async def insert_groups(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    await transaction.insert_many(insert(groups).values(created_at_s=now_s()), rows)


async def insert_work_items(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    await transaction.insert_many(insert(work_items).values(created_at_s=now_s()), rows)


async def group_by_id(transaction: Transaction, tenant_id: str, group_id: str) -> GroupRow | None:
    statement = select(groups).where(groups.c.id == group_id, groups.c.tenant_id == tenant_id)
    return as_row_or_none(GroupRow, await transaction.one(statement))


async def groups_by_ids(transaction: Transaction, group_ids: Sequence[str]) -> dict[str, GroupRow]:
    rows = await transaction.all(select(groups).where(groups.c.id.in_(group_ids))) if group_ids else []
    return {row["id"]: as_row(GroupRow, row) for row in rows}


async def lock_groups(transaction: Transaction, group_ids: Sequence[str]) -> dict[str, GroupRow]:
    """The groups, locked in the order of their ids, so that two transactions never wait for each other."""
    statement = select(groups).where(groups.c.id.in_(group_ids)).order_by(groups.c.id)
    rows = await transaction.all(for_update(transaction, statement))
    return {row["id"]: as_row(GroupRow, row) for row in rows}


async def update_group(transaction: Transaction, group_id: str, **values: Any) -> None:
    """Change a group that this transaction has locked and that is open."""
    await transaction.execute(update(groups).where(groups.c.id == group_id, groups.c.state == "open").values(**values))


async def end_group(transaction: Transaction, group_id: str, target: str, **values: Any) -> bool:
    """Compare-and-set the end of a group; False when it had ended before."""
    rows = await transaction.execute(
        update(groups)
        .where(groups.c.id == group_id, groups.c.state.in_(sources("group", target)))
        .values(state=target, ended_at_s=now_s(), **values)
    )
    return rows == 1


async def list_groups(transaction: Transaction, job_id: str, cursor: Cursor, state: str | None) -> list[GroupRow]:
    statement = select(groups).where(groups.c.job_id == job_id)
    if state is not None:
        statement = statement.where(groups.c.state == state)
    return [as_row(GroupRow, row) for row in await page(transaction, statement, groups.c.id, cursor)]


async def open_groups_past_deadline(transaction: Transaction, limit: int) -> list[str]:
    rows = await transaction.all(
        select(groups.c.id)
        .where(groups.c.state == "open", groups.c.deadline_at_s <= now_s())
        .order_by(groups.c.deadline_at_s)
        .limit(limit)
    )
    return [row["id"] for row in rows]


async def open_groups_of_job(transaction: Transaction, job_id: str) -> list[str]:
    rows = await transaction.all(select(groups.c.id).where(groups.c.job_id == job_id, groups.c.state == "open"))
    return [row["id"] for row in rows]


async def claim(
    transaction: Transaction, *, pool_id: str, session_id: str, limit: int, active_version: int | None
) -> list[WorkItemRow]:
    """Give up to `limit` queued items that fit the version to a session: highest priority first, then oldest."""
    version = -1 if active_version is None else active_version
    chosen = (
        select(work_items.c.id)
        .where(
            work_items.c.pool_id == pool_id,
            work_items.c.state == "queued",
            or_(work_items.c.min_version.is_(None), work_items.c.min_version <= version),
            or_(work_items.c.exact_version.is_(None), work_items.c.exact_version == version),
        )
        .order_by(work_items.c.rank, work_items.c.id)
        .limit(limit)
    )
    if transaction.dialect == "postgresql":
        chosen = chosen.with_for_update(skip_locked=True)
    rows = await transaction.all(
        update(work_items)
        .where(work_items.c.id.in_(chosen.scalar_subquery()), work_items.c.state == "queued")
        .values(
            state="claimed",
            session_id=session_id,
            fence=work_items.c.fence + 1,
            attempts=work_items.c.attempts + 1,
            claimed_at_s=now_s(),
            deadline_at_s=func.coalesce(work_items.c.deadline_at_s, now_s() + work_items.c.deadline_s),
        )
        .returning(work_items)
    )
    items = [as_row(WorkItemRow, row) for row in rows]
    return sorted(items, key=lambda item: (item.rank, item.id))


async def owned_items(transaction: Transaction, session_id: str, fences: Mapping[str, int]) -> dict[str, WorkItemRow]:
    """Those of these items that the session still owns under these fences, locked."""
    statement = (
        select(work_items)
        .where(work_items.c.id.in_(sorted(fences)), work_items.c.session_id == session_id)
        .where(work_items.c.state == "claimed")
        .order_by(work_items.c.id)
    )
    rows = await transaction.all(for_update(transaction, statement))
    return {row["id"]: as_row(WorkItemRow, row) for row in rows if row["fence"] == fences[row["id"]]}


async def items_by_ids(transaction: Transaction, item_ids: Sequence[str]) -> dict[str, WorkItemRow]:
    rows = await transaction.all(select(work_items).where(work_items.c.id.in_(item_ids))) if item_ids else []
    return {row["id"]: as_row(WorkItemRow, row) for row in rows}


async def items_of_groups(
    transaction: Transaction, group_ids: Sequence[str], states: Sequence[str], *, lock: bool = False
) -> list[WorkItemRow]:
    if not group_ids:
        return []
    statement = (
        select(work_items)
        .where(work_items.c.group_id.in_(group_ids), work_items.c.state.in_(states))
        .order_by(work_items.c.id)
    )
    rows = await transaction.all(for_update(transaction, statement) if lock else statement)
    return [as_row(WorkItemRow, row) for row in rows]


async def item_of_rollout(transaction: Transaction, tenant_id: str, rollout_id: str) -> WorkItemRow | None:
    statement = select(work_items).where(work_items.c.rollout_id == rollout_id, work_items.c.tenant_id == tenant_id)
    return as_row_or_none(WorkItemRow, await transaction.one(statement))


async def count_in_flight(transaction: Transaction, pool_id: str, job_id: str) -> tuple[int, int]:
    """(queued, claimed) work items of a job; each is counted on the small index of its state."""
    of_job = select(func.count()).where(work_items.c.pool_id == pool_id, work_items.c.job_id == job_id)
    queued = await transaction.scalar(of_job.where(work_items.c.state == "queued"))
    claimed = await transaction.scalar(of_job.where(work_items.c.state == "claimed"))
    return int(queued), int(claimed)


async def held_by_session(transaction: Transaction, session_id: str) -> dict[str, int]:
    """Item ids and fences that the session owns."""
    rows = await transaction.all(
        select(work_items.c.id, work_items.c.fence).where(
            work_items.c.session_id == session_id, work_items.c.state == "claimed"
        )
    )
    return {row["id"]: row["fence"] for row in rows}


async def items_of_sessions(transaction: Transaction, session_ids: Sequence[str]) -> list[WorkItemRow]:
    """Items that these sessions own, locked."""
    if not session_ids:
        return []
    statement = (
        select(work_items)
        .where(work_items.c.session_id.in_(session_ids), work_items.c.state == "claimed")
        .order_by(work_items.c.id)
    )
    return [as_row(WorkItemRow, row) for row in await transaction.all(for_update(transaction, statement))]


async def items_past_deadline(transaction: Transaction, grace_s: float, limit: int) -> list[WorkItemRow]:
    """Claimed items whose own deadline passed more than `grace_s` ago: their worker should have ended them."""
    statement = (
        select(work_items)
        .where(work_items.c.state == "claimed", work_items.c.deadline_at_s <= now_s() - grace_s)
        .order_by(work_items.c.id)
        .limit(limit)
    )
    return [as_row(WorkItemRow, row) for row in await transaction.all(for_update(transaction, statement))]


async def requeue(
    transaction: Transaction, item_ids: Sequence[str], *, error: str | None, uncount: bool = False
) -> None:
    """Put claimed items back on the queue. `uncount`: the attempt did not fail, it was handed back."""
    if not item_ids:
        return
    values: dict[str, Any] = {"state": "queued", "session_id": None, "last_error": error}
    if uncount:
        values["attempts"] = work_items.c.attempts - 1
    await transaction.execute(
        update(work_items).where(work_items.c.id.in_(item_ids), work_items.c.state == "claimed").values(**values)
    )


async def end_items(transaction: Transaction, item_ids: Sequence[str], target: str) -> None:
    """Compare-and-set the end of items, and forget their checkpoints."""
    if not item_ids:
        return
    await transaction.execute(
        update(work_items)
        .where(work_items.c.id.in_(item_ids), work_items.c.state.in_(sources("work_item", target)))
        .values(state=target)
    )
    await transaction.execute(delete(checkpoints).where(checkpoints.c.work_item_id.in_(item_ids)))


async def insert_checkpoints(transaction: Transaction, rows: Sequence[dict[str, Any]]) -> None:
    """Keep checkpoints. One that is there already is replaced: its owner sends it again when the answer was lost."""
    if not rows:
        return
    dialect = postgresql if transaction.dialect == "postgresql" else sqlite
    statement = dialect.insert(checkpoints).values(created_at_s=now_s())
    replaced = {name: statement.excluded[name] for name in ("fence", "sampled_tokens", "payload", "created_at_s")}
    await transaction.insert_many(
        statement.on_conflict_do_update(index_elements=["work_item_id", "sequence"], set_=replaced), rows
    )


async def checkpoints_of(transaction: Transaction, item_ids: Sequence[str]) -> dict[str, list[bytes]]:
    """Checkpoint payloads of items, in order."""
    if not item_ids:
        return {}
    rows = await transaction.all(
        select(checkpoints.c.work_item_id, checkpoints.c.payload)
        .where(checkpoints.c.work_item_id.in_(item_ids))
        .order_by(checkpoints.c.work_item_id, checkpoints.c.sequence)
    )
    found: dict[str, list[bytes]] = {}
    for row in rows:
        found.setdefault(row["work_item_id"], []).append(row["payload"])
    return found


async def checkpointed_tokens(transaction: Transaction, item_id: str) -> int:
    return int(
        await transaction.scalar(
            select(func.coalesce(func.sum(checkpoints.c.sampled_tokens), 0)).where(
                checkpoints.c.work_item_id == item_id
            )
        )
    )
