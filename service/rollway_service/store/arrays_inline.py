"""Arrays as rows of the database, beside the metadata they belong to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import insert, select

from rollway_service.store.database import Transaction, chunks
from rollway_service.store.ports import ArrayRef, NewArray
from rollway_service.store.tables import array_blobs

_INLINE: ArrayRef = {"store": "inline"}
_READ_CHUNK = 500


class InlineArrays:
    """The `ArrayStore` that needs nothing but the database."""

    async def put(self, transaction: Transaction, arrays: Sequence[NewArray]) -> list[ArrayRef]:
        rows = [
            {"id": array.tree_id, "tenant_id": array.tenant_id, "run_id": array.run_id, "data": array.data}
            for array in arrays
        ]
        await transaction.insert_many(insert(array_blobs), rows)
        return [_INLINE] * len(rows)

    async def get(self, transaction: Transaction, refs: Mapping[str, ArrayRef]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for ids in chunks(sorted(refs), _READ_CHUNK):
            rows = await transaction.all(select(array_blobs.c.id, array_blobs.c.data).where(array_blobs.c.id.in_(ids)))
            found.update({row["id"]: row["data"] for row in rows})
        return found

    async def missing(self, transaction: Transaction, refs: Mapping[str, ArrayRef]) -> list[str]:
        absent = set(refs)
        for ids in chunks(sorted(refs), _READ_CHUNK):
            rows = await transaction.all(select(array_blobs.c.id).where(array_blobs.c.id.in_(ids)))
            absent.difference_update(row["id"] for row in rows)
        return sorted(absent)
