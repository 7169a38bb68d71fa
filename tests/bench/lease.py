"""Samples a second leased, checked and acknowledged through the SDK, against a plain SELECT of the same bytes."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator

import asyncpg

from tests.bench.figures import Figure, Options, machine
from tests.bench.long_rollouts import GROUP_SIZE, Bench, running

BATCH_GROUPS = 8


def measure(options: Options) -> Iterator[Figure]:
    groups, cycles = (64, 3) if options.is_short else (256, 15) if options.is_full else (128, 7)
    with running() as bench:
        bench.roll_out(groups)
        leased, selected = asyncio.run(_cycles(bench, cycles))
    ratio = statistics.median(ours / plain for ours, plain in zip(leased, selected, strict=True))
    how = (
        f"{statistics.median(leased):,.0f} against {statistics.median(selected):,.0f} samples/s of 256 + 1,024 tokens,"
        f" batches of {BATCH_GROUPS} groups of {GROUP_SIZE}, one trainer over loopback HTTP, lease + consumed, durable"
        f" Postgres, median of {cycles} interleaved cycles, {machine()}"
    )
    yield Figure("lease.ratio_to_select", round(ratio, 3), "x", ">= 0.8", how)


async def _cycles(bench: Bench, cycles: int) -> tuple[list[float], list[float]]:
    """Samples/s of each cycle: leased, and selected."""
    connection = await asyncpg.connect(bench.database_url)
    statement = await connection.prepare(
        "SELECT a.data FROM trees t JOIN array_blobs a ON a.id = t.id WHERE t.group_id = ANY($1::text[])"
    )
    await asyncio.to_thread(bench.run.lease(groups=1).give_back)
    leased, selected = [], []
    for _ in range(cycles + 1):
        batches, rate = await asyncio.to_thread(_lease_all, bench)
        leased.append(rate)
        started_s = time.perf_counter()
        samples = 0
        for group_ids in batches:
            samples += len(await statement.fetch(group_ids))
        selected.append(samples / (time.perf_counter() - started_s))
    await connection.close()
    return leased[1:], selected[1:]


def _lease_all(bench: Bench) -> tuple[list[list[str]], float]:
    """Group ids of each batch, and samples/s."""
    bench.run.rewind(None)
    batches = []
    samples = 0
    started_s = time.perf_counter()
    for batch in bench.run.batches(groups=BATCH_GROUPS):
        batches.append([group.header.group_id for group in batch])
        samples += len(batch.samples)
    return batches, samples / (time.perf_counter() - started_s)
