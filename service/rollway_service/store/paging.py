"""Cursor pagination by id, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select
from sqlalchemy.engine import RowMapping

from rollway_service.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Cursor:
    """Rows older than the id `after` (None: from the newest), at most `limit`."""

    after: str | None
    limit: int


async def page(
    transaction: Transaction, statement: Select[Any], key: ColumnElement[str], cursor: Cursor
) -> Sequence[RowMapping]:
    if cursor.after is not None:
        statement = statement.where(key < cursor.after)
    return await transaction.all(statement.order_by(key.desc()).limit(cursor.limit))
