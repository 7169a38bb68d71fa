"""What Rollway itself costs a rollout: processor time of service and worker, and transactions."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.bench.figures import Figure, Options, machine
from tests.bench.long_rollouts import GROUP_SIZE, Bench, cpu_s, postgres_cpu_s, running


def measure(options: Options) -> Iterator[Figure]:
    groups = 32 if options.is_short else 512 if options.is_full else 128
    with running() as bench:
        bench.roll_out(8)
        before = _counters(bench)
        started_s = time.monotonic()
        bench.roll_out(groups)
        wall_s = time.monotonic() - started_s
        rollouts = groups * GROUP_SIZE
        took = {name: (value - before[name]) / rollouts for name, value in _counters(bench).items()}
    how = f"scripted engine, 256 + 1,024 tokens, groups of {GROUP_SIZE}, durable Postgres, Redis, worker over gRPC, {machine()}, {rollouts} rollouts"
    apart = (
        f"service {took['service_s'] * 1e3:.2f} + worker {took['worker_s'] * 1e3:.2f} ms; apart: Postgres"
        f" {took['postgres_s'] * 1e3:.2f}, Redis {took['redis_s'] * 1e3:.2f} ms; {rollouts / wall_s:.0f} rollouts/s"
    )
    cpu_ms = (took["service_s"] + took["worker_s"]) * 1e3
    yield Figure("overhead.cpu_ms_per_rollout", round(cpu_ms, 2), "ms", "<= 5", f"{how}; {apart}")
    per_rollout = round(took["transactions"], 2)
    yield Figure("overhead.transactions_per_rollout", per_rollout, "transactions", "<= 6", f"{how}; Postgres's count")


def _counters(bench: Bench) -> dict[str, float]:
    # Backends report their counts at most once a second.
    time.sleep(1.5)
    transactions = bench.postgres.sql("SELECT xact_commit FROM pg_stat_database WHERE datname = 'bench'")
    return {
        "service_s": cpu_s(bench.service),
        "worker_s": cpu_s(bench.worker),
        "postgres_s": postgres_cpu_s(bench.postgres),
        "redis_s": cpu_s(bench.redis.process),
        "transactions": float(transactions),
    }
