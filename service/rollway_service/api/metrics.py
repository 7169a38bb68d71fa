"""Prometheus metrics, read from the database when scraped, so that every process of the service tells the same."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from rollway_service.operations.context import Context
from rollway_service.operations.totals import read_totals

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def render_metrics(context: Context) -> bytes:
    """All metrics as text. Counts are totals since the database was made."""
    totals = await read_totals(context)
    registry = CollectorRegistry()
    for name, value in totals.counts.items():
        Gauge(f"rollway_{name}", _HELP.get(name, name.replace("_", " ")), registry=registry).set(value)
    for name, labelled in (("drops", totals.drops), ("failures", totals.failures)):
        gauge = Gauge(f"rollway_{name}_by_reason", f"{name} by reason", ["reason"], registry=registry)
        for reason, value in labelled.items():
            gauge.labels(reason=reason).set(value)
    return generate_latest(registry)


_HELP = {
    "nonfinite_logprobs": "sampled tokens whose log-prob was infinite or NaN; they are not trainable",
    "missing_logprobs": "sampled tokens for which the engine gave no log-prob; they are not trainable",
    "wasted_tokens": "sampled tokens that no trainer will see",
    "reward_failure_ratio": "rollouts whose checker failed, of all whose reward was due",
}
