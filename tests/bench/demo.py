"""The demo as `make demo` runs it: does the policy learn, and how soon?"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console

from rollway.demo.run import run_demo
from rollway.demo.trainer import Config
from tests.bench.figures import Figure, Options, machine, not_measured

_GOALS = (("demo.sampled_accuracy_ratio", "x", ">= 1.7"), ("demo.wall_s", "s", "<= 300"))


def measure(options: Options) -> Iterator[Figure]:
    if options.is_short:
        for name, unit, goal in _GOALS:
            yield not_measured(name, unit, goal, "the demo takes minutes; run it without --short")
        return
    config = Config()
    with tempfile.TemporaryDirectory() as out:
        outcome = run_demo(Path(out), config, console=Console(file=io.StringIO()))
    how = (
        f"{outcome.report.before:.3f} -> {outcome.report.after:.3f} on {config.held_out} held-out problems,"
        f" {config.steps} steps of {config.groups_per_step} groups of {config.group_size}, SQLite, {machine()}"
    )
    for (name, unit, goal), value in zip(_GOALS, (outcome.accuracy_ratio, outcome.wall_s), strict=True):
        yield Figure(name, round(value, 3), unit, goal, how)
