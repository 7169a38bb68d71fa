"""What every operation is given: the parts of the service, and who asks."""

from __future__ import annotations

from dataclasses import dataclass, field

from rollway_service.config import Settings
from rollway_service.core.lineage import Lineage
from rollway_service.dispatch.ports import WakeUps
from rollway_service.store import models as model_store
from rollway_service.store.ports import ArrayStore, Database, Transaction
from rollway_service.tokenization.ports import Tokenizers

_MAX_CACHED_LINEAGES = 256
_MAX_CACHED_OWNERS = 10_000


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: a tenant, by one of its keys."""

    tenant_id: str
    key_id: str
    scopes: frozenset[str]


@dataclass(frozen=True, slots=True)
class Context:
    """The parts that operations work with, put together in the composition root."""

    database: Database
    arrays: ArrayStore
    wakeups: WakeUps
    tokenizers: Tokenizers
    settings: Settings
    lineages: dict[tuple[str, int], Lineage] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)

    def remember_owner(self, thing_id: str, tenant_id: str) -> None:
        """Keep whose a session or pool is: it never changes."""
        while len(self.owners) >= _MAX_CACHED_OWNERS:
            self.owners.pop(next(iter(self.owners)))
        self.owners[thing_id] = tenant_id

    async def lineage(self, transaction: Transaction, model_id: str, latest_version: int) -> Lineage:
        """The model's lineage up to its latest version; it only ever grows, so it is kept by that version."""
        key = (model_id, latest_version)
        if key not in self.lineages:
            while len(self.lineages) >= _MAX_CACHED_LINEAGES:
                self.lineages.pop(next(iter(self.lineages)))
            self.lineages[key] = await model_store.lineage(transaction, model_id)
        return self.lineages[key]
