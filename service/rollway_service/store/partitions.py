"""Range partitions by id of the large tables on PostgreSQL, one for each stretch of time.

Rows whose partition is missing go to the default partition, so a steward that was away loses nothing. Retention drops
whole partitions. What lies in the default one is deleted in small pieces, and so is all on SQLite, which has none.
"""

from __future__ import annotations

from sqlalchemy import Column, MetaData, String, Table, delete, insert, literal, select, update

from rollway_service.core.ids import id_bound
from rollway_service.store.columns import now_s
from rollway_service.store.database import Transaction
from rollway_service.store.tables import PARTITIONED, array_blobs, partitions

PARTITION_S = 24 * 3600.0
_AHEAD = 2
_DELETE_CHUNK = 500


def partition_name(table: str, from_s: float) -> str:
    return f"{table}_p{int(from_s // PARTITION_S)}"


async def ensure_partitions(transaction: Transaction) -> list[str]:
    """Make the partitions of now and of the stretches ahead; returns the names of new ones."""
    if transaction.dialect != "postgresql":
        return []
    now = await transaction.now_s()
    known = {row["name"] for row in await transaction.all(select(partitions.c.name))}
    made = []
    for table, kind in PARTITIONED.items():
        for ahead in range(_AHEAD + 1):
            from_s = (now // PARTITION_S + ahead) * PARTITION_S
            name = partition_name(table, from_s)
            if name in known or not await _range_is_free(transaction, table, id_bound(kind, from_s)):
                continue
            bounds = f"FROM ('{id_bound(kind, from_s)}') TO ('{id_bound(kind, from_s + PARTITION_S)}')"
            await transaction.connection.exec_driver_sql(
                f'CREATE TABLE IF NOT EXISTS "{name}" PARTITION OF "{table}" FOR VALUES {bounds}'
            )
            await transaction.execute(
                insert(partitions).values(
                    name=name, table_name=table, from_s=from_s, to_s=from_s + PARTITION_S, created_at_s=now_s()
                )
            )
            made.append(name)
    return made


def _default_partition(table: str) -> Table:
    return Table(f"{table}_default", MetaData(), Column("id", String))


async def _range_is_free(transaction: Transaction, table: str, bound: str) -> bool:
    """Rows of the stretch that already lie in the default partition keep it from being made: leave them there."""
    default = _default_partition(table)
    in_default = select(literal(1)).select_from(default).where(default.c.id >= bound)
    return not await transaction.scalar(select(in_default.exists()))


async def drop_partitions(transaction: Transaction, table: str, older_than_s: float) -> list[str]:
    """Drop the table's partitions that end before `now - older_than_s`."""
    rows = await transaction.all(
        select(partitions.c.name).where(
            partitions.c.table_name == table,
            partitions.c.dropped_at_s.is_(None),
            partitions.c.to_s <= now_s() - older_than_s,
        )
    )
    names = [row["name"] for row in rows]
    for name in names:
        await transaction.connection.exec_driver_sql(f'DROP TABLE IF EXISTS "{name}"')
        await transaction.execute(update(partitions).where(partitions.c.name == name).values(dropped_at_s=now_s()))
    return names


async def delete_arrays(transaction: Transaction, older_than_s: float) -> int:
    """Delete a piece of the arrays older than that which lie in no partition; returns how many went."""
    bound = id_bound(PARTITIONED["array_blobs"], await transaction.now_s() - older_than_s)
    table = array_blobs if transaction.dialect != "postgresql" else _default_partition("array_blobs")
    old = select(table.c.id).where(table.c.id < bound).limit(_DELETE_CHUNK)
    return await transaction.execute(delete(table).where(table.c.id.in_(old)))
