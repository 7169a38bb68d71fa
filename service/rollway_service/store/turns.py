"""Turns at a repeated duty that several processes would do: each turn is one process's."""

from __future__ import annotations

from sqlalchemy.dialects import postgresql, sqlite

from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.tables import steward_turns


async def take_turn(transaction: Transaction, name: str, interval_s: float) -> int | None:
    """The number of the turn, from 0, or None when the last one was taken less than `interval_s` ago.

    The database's clock judges, so it does not matter whose is wrong.
    """
    dialect = postgresql if transaction.dialect == "postgresql" else sqlite
    statement = dialect.insert(steward_turns).values(name=name, turn=0, taken_at_s=now_s())
    found = await transaction.scalar(
        statement.on_conflict_do_update(
            index_elements=["name"],
            set_={"turn": steward_turns.c.turn + 1, "taken_at_s": now_s()},
            where=steward_turns.c.taken_at_s <= now_s() - interval_s,
        ).returning(steward_turns.c.turn)
    )
    return None if found is None else int(found)
