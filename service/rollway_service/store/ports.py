"""What the rest of the service knows of storage: transactions, and an array store.

There is one SQL store for both databases, so `Transaction` is a class and not a port. Arrays are a port: bytes that
go in once and come out as they are, wherever they lie.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from rollway_service.store.database import Database, Transaction

ArrayRef = Mapping[str, Any]
"""Where bytes lie, as the array store that wrote them understands it; JSON."""

__all__ = ["ArrayRef", "ArrayStore", "Database", "NewArray", "Transaction"]


class NewArray(Protocol):
    """Bytes to be stored, under the id of their tree."""

    @property
    def tree_id(self) -> str: ...

    @property
    def tenant_id(self) -> str: ...

    @property
    def run_id(self) -> str: ...

    @property
    def data(self) -> bytes: ...


class ArrayStore(Protocol):
    """Keeps containers. `put` belongs to the transaction: rolled back, nothing remains that could be found."""

    async def put(self, transaction: Transaction, arrays: Sequence[NewArray]) -> list[ArrayRef]:
        """Store the bytes and return one reference each, in order."""
        ...

    async def get(self, transaction: Transaction, refs: Mapping[str, ArrayRef]) -> dict[str, bytes]:
        """Bytes by tree id. What retention has taken is absent."""
        ...

    async def missing(self, transaction: Transaction, refs: Mapping[str, ArrayRef]) -> list[str]:
        """Tree ids whose bytes retention has taken, sorted; reads no bytes."""
        ...
