"""Small sums from reasoning-gym as tasks. Held-out problems never overlap those trained on, by construction.

A problem is held out when a hash of its question says so (one in five), whatever seed it came from: the space of small
sums is so small that two seeds share many of them. Both sides are drawn from one distribution, so a problem may come
more than once on its side.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import reasoning_gym

from rollway.types import Task

CONFIG = {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 2}
HELD_OUT_SEED = 987_654_321
TRAINING_SEED = 5_000_000
_HELD_OUT_OF = 5
_PIECE = 512


def is_held_out(question: str) -> bool:
    return hashlib.sha256(question.encode()).digest()[0] % _HELD_OUT_OF == 0


def _entries(seed: int, *, held_out: bool) -> Iterator[dict[str, Any]]:
    """Endless entries of one side; reasoning-gym's item i uses seed + i, so pieces stride by their size."""
    for start in count(seed, _PIECE):
        dataset = reasoning_gym.create_dataset("chain_sum", size=_PIECE, seed=start, **CONFIG)
        entries = (dataset[index] for index in range(_PIECE))
        yield from (entry for entry in entries if is_held_out(entry["question"]) == held_out)


def _task(entry: dict[str, Any]) -> Task:
    return Task.model_validate(
        {
            "messages": [{"role": "user", "content": entry["question"]}],
            "reference": {"question": entry["question"], "answer": entry["answer"]},
        }
    )


def held_out_tasks(number: int) -> list[Task]:
    return [_task(entry) for entry in islice(_entries(HELD_OUT_SEED, held_out=True), number)]


class TrainingTasks:
    """Endless training tasks."""

    def __init__(self) -> None:
        self._entries = _entries(TRAINING_SEED, held_out=False)

    def take(self, number: int) -> list[Task]:
        return [_task(entry) for entry in islice(self._entries, number)]
