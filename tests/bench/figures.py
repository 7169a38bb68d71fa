"""What a bench prints: one JSON line per figure."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value. `goal` is None for what is only reported; `value` is None where it could not be measured."""

    figure: str
    value: float | None
    unit: str
    goal: str | None
    how: str

    def line(self) -> str:
        return json.dumps(asdict(self))


def not_measured(figure: str, unit: str, goal: str | None, why: str) -> Figure:
    return Figure(figure, None, unit, goal, f"not measured: {why}")


def machine() -> str:
    return f"{len(os.sched_getaffinity(0))} cores"


@dataclass(frozen=True, slots=True)
class Options:
    """`is_short`: a quick look, under a minute; `is_full`: as long as the figure deserves."""

    is_short: bool = False
    is_full: bool = False
