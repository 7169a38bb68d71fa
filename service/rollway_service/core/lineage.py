"""Lineage of weight versions: staleness counts publishes along the parents of the trainer's version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lineage:
    """Versions of one model; `parents[v]` is the version that v was trained from, None for the first."""

    parents: Mapping[int, int | None]

    def distance(self, trainer_version: int, version: int) -> int | None:
        """Publishes from `version` to `trainer_version`; None when `version` is not its ancestor.

        A version newer than the trainer's, or on a branch that a rollback left, is no ancestor.
        """
        steps = 0
        current: int | None = trainer_version
        while current is not None and current >= version:
            if current == version:
                return steps
            current = self.parents.get(current)
            steps += 1
        return None

    def stale(self, versions: Iterable[int], trainer_version: int, max_staleness: int | None) -> list[int]:
        """Those of `versions` that a trainer at `trainer_version` must not train on, sorted.

        Too old by more than `max_staleness` publishes, or off its lineage. With no bound, only the latter.
        """
        found = []
        for version in sorted(set(versions)):
            distance = self.distance(trainer_version, version)
            if distance is None or (max_staleness is not None and distance > max_staleness):
                found.append(version)
        return found
