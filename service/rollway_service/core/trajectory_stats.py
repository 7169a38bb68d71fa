"""Facts of a trajectory, read off the layout alone: no array is touched.

What a worker says of its tokens is not trusted where it can be derived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from rollway.arrays import check_path
from rollway.container import ContainerError
from rollway.types import TreeLayout
from rollway.types.base import INT32_MAX


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


def check_layout(layout: TreeLayout, num_token_ids: int, num_logprobs: int) -> None:
    """Raise ContainerError unless nodes, spans and array lengths agree.

    Args:
        layout: of the tree.
        num_token_ids: length of the token array.
        num_logprobs: length of the log-prob array (tokens of model nodes).
    """
    if not len(layout.parents) == len(layout.origins) == len(layout.lengths) == len(layout.turns):
        raise ContainerError("the columns of the node table differ in length")
    for index, (parent, length) in enumerate(zip(layout.parents, layout.lengths, strict=True)):
        if not -1 <= parent < index or length < 0:
            raise ContainerError(f"node {index} has parent {parent} and length {length}")
    if layout.num_tokens != num_token_ids:
        raise ContainerError(f"nodes hold {layout.num_tokens} tokens, the array {num_token_ids}")
    model = _model_ranges(layout)
    num_model = sum(end - start for start, end in model)
    if num_model != num_logprobs:
        raise ContainerError(f"model nodes hold {num_model} tokens, but there are {num_logprobs} log-probs")
    _check_cover(layout.weight_versions, model, "weight_version")
    _check_cover(layout.kv_versions, model, "kv_version")
    trainable = sum(end - start for start, end in layout.trainable)
    if any(start >= end for start, end in layout.trainable) or _overlap(layout.trainable, model) != trainable:
        raise ContainerError("a trainable range is empty or lies outside the model nodes")
    if any(after < before for (_, before), (after, _) in pairwise(layout.trainable)):
        raise ContainerError("trainable ranges overlap or are out of order: tokens would count twice")


def trajectory_stats(layout: TreeLayout, path: Sequence[int]) -> TrajectoryStats:
    """Counts and versions along one root-to-leaf path."""
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


def _model_ranges(layout: TreeLayout) -> list[tuple[int, int]]:
    starts = [0, *accumulate(layout.lengths)]
    return [
        (starts[index], starts[index + 1])
        for index, origin in enumerate(layout.origins)
        if origin == "model" and layout.lengths[index]
    ]


def _cut(ranges: Sequence[Sequence[int]], start: int, end: int) -> list[tuple[int, int]]:
    return [(max(a, start), min(b, end)) for a, b in ranges if max(a, start) < min(b, end)]


def _overlap(ranges: Sequence[Sequence[int]], others: Sequence[Sequence[int]]) -> int:
    return sum(b - a for start, end in others for a, b in _cut(ranges, start, end))


def _check_cover(spans: Sequence[Sequence[int]], model: Sequence[tuple[int, int]], what: str) -> None:
    """Spans must cover the model ranges exactly: in order, without gap or overlap, non-negative values."""
    position = 0
    for start, end, value in spans:
        if start < position or start >= end or not 0 <= value <= INT32_MAX:
            raise ContainerError(f"{what} span [{start}, {end}) of {value} is out of order, empty or no version")
        position = end
    covered = sum(end - start for start, end, _ in spans)
    if covered != sum(end - start for start, end in model) or _overlap([span[:2] for span in spans], model) != covered:
        raise ContainerError(f"{what} spans leave a gap or cover tokens that the model did not sample")
