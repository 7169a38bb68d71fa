"""Facts of a trajectory, read off the layout alone: no array is touched.

What a worker says of its tokens is not trusted where it can be derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from rollway.arrays import check_path
from rollway.types import TreeLayout


@dataclass(frozen=True, slots=True)
class TrajectoryStats:
    """`versions`: weight versions of trainable tokens, sorted; empty when none is trainable."""

    num_tokens: int
    num_sampled: int
    num_trainable: int
    versions: tuple[int, ...]

    @property
    def oldest_version(self) -> int | None:
        return self.versions[0] if self.versions else None

    @property
    def newest_version(self) -> int | None:
        return self.versions[-1] if self.versions else None


def trajectory_stats(layout: TreeLayout, path: Sequence[int]) -> TrajectoryStats:
    """Counts and versions along one root-to-leaf path of a layout that `expand_tree` takes."""
    check_path(layout, path)
    starts = [0, *accumulate(layout.lengths)]
    on_path = [(starts[node], starts[node + 1]) for node in path]
    model = [(starts[node], starts[node + 1]) for node in path if layout.origins[node] == "model"]
    versions = {
        value
        for start, end, value in layout.weight_versions
        if _overlap([[start, end]], model) and _overlap(_cut(layout.trainable, start, end), on_path)
    }
    return TrajectoryStats(
        num_tokens=sum(end - start for start, end in on_path),
        num_sampled=sum(end - start for start, end in model),
        num_trainable=_overlap(layout.trainable, on_path),
        versions=tuple(sorted(versions)),
    )


def _cut(ranges: Sequence[Sequence[int]], start: int, end: int) -> list[tuple[int, int]]:
    return [(max(a, start), min(b, end)) for a, b in ranges if max(a, start) < min(b, end)]


def _overlap(ranges: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> int:
    return sum(b - a for start, end in others for a, b in _cut(ranges, start, end))
