"""Totals over all jobs, for metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from rollway_service.operations.context import Context
from rollway_service.store import jobs


@dataclass(slots=True)
class Totals:
    counts: dict[str, float] = field(default_factory=dict)
    drops: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


async def read_totals(context: Context) -> Totals:
    """Sums of all job counters; `reward_failure_ratio` is 0 when no reward was due."""
    totals = Totals()
    async with context.database.snapshot() as transaction:
        totals.counts = await jobs.sum_counters(transaction)
        for drops, failures in await jobs.reasons(transaction):
            totals.drops.update(drops)
            totals.failures.update(failures)
    due = totals.counts["rollouts_scored"] + totals.counts["rollouts_unscored"]
    totals.counts["reward_failure_ratio"] = totals.counts["rollouts_unscored"] / due if due else 0.0
    return totals
