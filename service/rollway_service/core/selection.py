"""Which members of a ready group a trainer may be given, judged when the batch is handed out. Pure.

Age is counted from the oldest trainable token of a sample, at the moment of the lease, not when it was made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from rollway.types.batches import StaleAction
from rollway_service.core.lineage import Lineage

Verdict = Literal["deliver", "drop", "withhold"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A usable sample of a group: the weight versions of its trainable tokens, and how many there are."""

    rollout_id: str
    versions: tuple[int, ...]
    num_trainable: int


@dataclass(frozen=True, slots=True)
class Selection:
    """What to do with a group: `stale_rollouts` are left out, tokens of `masked_versions` get mask 0."""

    verdict: Verdict
    stale_rollouts: tuple[str, ...] = ()
    masked_versions: tuple[int, ...] = ()


def select_members(
    candidates: Sequence[Candidate],
    lineage: Lineage,
    *,
    trainer_version: int,
    max_staleness: int | None,
    action: StaleAction,
    min_members: int,
) -> Selection:
    """Judge the members of one group against the trainer's version.

    A sample is stale when its oldest trainable token is more than `max_staleness` publishes behind `trainer_version`,
    or off its lineage. `drop` leaves stale samples out, and the group when fewer than `min_members` remain; `withhold`
    keeps the whole group for others; `mask` delivers all, and masks the stale tokens, unless no token is left.
    """
    stale = {
        candidate.rollout_id: lineage.stale(candidate.versions, trainer_version, max_staleness)
        for candidate in candidates
    }
    stale = {rollout_id: versions for rollout_id, versions in stale.items() if versions}
    if not stale:
        return Selection("deliver")
    if action == "withhold":
        return Selection("withhold")
    if action == "mask":
        masked = tuple(sorted({version for versions in stale.values() for version in versions}))
        is_left = any(set(candidate.versions) - set(masked) for candidate in candidates)
        return Selection("deliver", masked_versions=masked) if is_left else Selection("drop")
    if len(candidates) - len(stale) < max(1, min_members):
        return Selection("drop")
    return Selection("deliver", stale_rollouts=tuple(sorted(stale)))
