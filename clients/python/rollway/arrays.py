"""Samples as arrays: a root-to-leaf path of a tree, expanded from the container and its layout.

Every array of a sample has one value per token. The four facts that a trainer relies on hold by construction:
equal lengths; `loss_mask` 1 only on tokens of `model` nodes with a finite log-prob; versions only on those nodes;
`behavior_logprobs` 0.0 wherever the mask is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from rollway.container import ContainerError, Float32Array, Int32Array
from rollway.types.base import INT32_MAX
from rollway.types.rollouts import Origin, TreeLayout

ORIGINS: tuple[Origin, ...] = get_args(Origin)
MODEL_CODE = ORIGINS.index("model")
NO_VERSION = -1

UInt8Array = NDArray[np.uint8]
BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class SampleArrays:
    """One trajectory as arrays, all of shape (T,).

    token_ids: int32. behavior_logprobs: float32, nats, 0.0 where loss_mask is 0. loss_mask: uint8, 1 = sampled by the
    model and trainable. weight_versions, kv_versions: int32, -1 off the model's own tokens. origins: uint8, index into
    `ORIGINS`.
    """

    token_ids: Int32Array
    behavior_logprobs: Float32Array
    loss_mask: UInt8Array
    weight_versions: Int32Array
    kv_versions: Int32Array
    origins: UInt8Array


@dataclass(frozen=True, slots=True)
class TreeArrays:
    """All tokens of a tree in node order; observed_logprobs (N,) float32 is NaN where none was observed."""

    layout: TreeLayout
    starts: tuple[int, ...]
    token_ids: Int32Array
    observed_logprobs: Float32Array
    loss_mask: UInt8Array
    weight_versions: Int32Array
    kv_versions: Int32Array
    origins: UInt8Array


def expand_spans(spans: Sequence[Sequence[int]], covered: BoolArray, what: str) -> Int32Array:
    """Values per token from half-open [start, end, value] spans.

    Args:
        spans: in order; together they must cover exactly the tokens where `covered` is true.
        covered: shape (N,), bool.
        what: name used in errors.
    Returns: shape (N,), int32, -1 where not covered.
    Raises:
        ContainerError: a gap, an overlap, a span outside or one that ends short.
    """
    values = np.full(len(covered), NO_VERSION, dtype=np.int32)
    for start, end, value in spans:
        if not 0 <= start < end <= len(covered):
            raise ContainerError(f"{what} span [{start}, {end}) lies outside the {len(covered)} tokens")
        if not 0 <= value <= INT32_MAX:
            raise ContainerError(f"{what} span [{start}, {end}) has the value {value}, which is no version")
        values[start:end] = value
    for (_, before, *_), (after, *_) in pairwise(spans):
        if after < before:
            raise ContainerError(f"{what} spans overlap or are out of order at token {after}")
    wrong = np.flatnonzero((values >= 0) != covered)
    if len(wrong):
        kind = "no span covers" if covered[wrong[0]] else "a span covers the foreign"
        raise ContainerError(f"{what}: {kind} token {int(wrong[0])}")
    return values


def expand_tree(layout: TreeLayout, token_ids: Int32Array, logprobs: Float32Array) -> TreeArrays:
    """Per-token arrays of a whole tree.

    Args:
        layout: nodes and spans.
        token_ids: shape (N,), int32, tokens of all nodes in node order.
        logprobs: shape (M,), float32, of the tokens of `model` nodes in node order, NaN = not observed.
    Raises:
        ContainerError: layout and arrays disagree.
    """
    _check_nodes(layout)
    if layout.num_tokens != len(token_ids):
        raise ContainerError(f"nodes hold {layout.num_tokens} tokens, the array {len(token_ids)}")
    codes = np.array([ORIGINS.index(origin) for origin in layout.origins], dtype=np.uint8)
    origins = np.repeat(codes, layout.lengths)
    is_model = origins == MODEL_CODE
    if int(is_model.sum()) != len(logprobs):
        raise ContainerError(f"model nodes hold {int(is_model.sum())} tokens, but there are {len(logprobs)} log-probs")
    observed = np.full(len(token_ids), np.nan, dtype=np.float32)
    observed[is_model] = logprobs
    loss_mask = np.zeros(len(token_ids), dtype=np.uint8)
    position = 0
    for start, end in layout.trainable:
        if not 0 <= start < end <= len(token_ids):
            raise ContainerError(f"trainable range [{start}, {end}) lies outside the {len(token_ids)} tokens")
        if start < position:
            raise ContainerError(f"trainable ranges overlap or are out of order at token {start}")
        loss_mask[start:end] = 1
        position = end
    untrue = np.flatnonzero((loss_mask == 1) & ~(is_model & np.isfinite(observed)))
    if len(untrue):
        raise ContainerError(f"token {int(untrue[0])} is marked trainable without an observed log-prob")
    starts = np.concatenate(([0], np.cumsum(layout.lengths))).tolist()
    return TreeArrays(
        layout=layout,
        starts=tuple(starts),
        token_ids=token_ids,
        observed_logprobs=observed,
        loss_mask=loss_mask,
        weight_versions=expand_spans(layout.weight_versions, is_model, "weight_version"),
        kv_versions=expand_spans(layout.kv_versions, is_model, "kv_version"),
        origins=origins,
    )


def _check_nodes(layout: TreeLayout) -> None:
    count = len(layout.parents)
    if not count == len(layout.origins) == len(layout.lengths) == len(layout.turns):
        raise ContainerError("the columns of the node table differ in length")
    for index, (parent, length) in enumerate(zip(layout.parents, layout.lengths, strict=True)):
        if not -1 <= parent < index:
            raise ContainerError(f"node {index} has the parent {parent}, which does not come before it")
        if length < 0:
            raise ContainerError(f"node {index} has the negative length {length}")


def check_path(layout: TreeLayout, path: Sequence[int]) -> None:
    """Raise ContainerError unless `path` walks from a root, parent by parent."""
    parent = -1
    for node in path:
        if not 0 <= node < len(layout.parents) or layout.parents[node] != parent:
            raise ContainerError(f"path {list(path)} is not a walk from a root: node {node} is no child of {parent}")
        parent = node
    if not path:
        raise ContainerError("path is empty")


def sample_arrays(tree: TreeArrays, path: Sequence[int], *, mask_versions: Sequence[int] = ()) -> SampleArrays:
    """Arrays of one root-to-leaf path.

    Args:
        tree: the whole tree.
        path: node indices, root first.
        mask_versions: tokens of these weight versions get mask 0 (a lease with `stale: mask`).
    """
    check_path(tree.layout, path)
    spans = [(tree.starts[node], tree.starts[node + 1]) for node in path]
    if all(before[1] == after[0] for before, after in pairwise(spans)):
        where: slice | NDArray[np.intp] = slice(spans[0][0], spans[-1][1])
    else:
        where = np.concatenate([np.arange(start, end) for start, end in spans])
    loss_mask = tree.loss_mask[where]
    versions = tree.weight_versions[where]
    if len(mask_versions):
        loss_mask = np.where(np.isin(versions, mask_versions), 0, loss_mask).astype(np.uint8)
    return SampleArrays(
        token_ids=tree.token_ids[where],
        behavior_logprobs=np.where(loss_mask == 1, tree.observed_logprobs[where], np.float32(0.0)),
        loss_mask=loss_mask,
        weight_versions=versions,
        kv_versions=tree.kv_versions[where],
        origins=tree.origins[where],
    )


def spans_of(values: Int32Array, offset: int = 0) -> list[list[int]]:
    """Run-length [start, end, value] spans of an int array of shape (T,), positions counted from `offset`."""
    if len(values) == 0:
        return []
    edges = np.flatnonzero(np.diff(values)) + 1
    starts = np.concatenate(([0], edges))
    ends = np.concatenate((edges, [len(values)]))
    return [
        [offset + int(start), offset + int(end), int(values[start])] for start, end in zip(starts, ends, strict=True)
    ]


def ranges_of(flags: BoolArray, offset: int = 0) -> list[list[int]]:
    """Half-open [start, end] ranges where `flags` (shape (T,), bool) is true, positions counted from `offset`."""
    return [[start, end] for start, end, value in spans_of(flags.astype(np.int32), offset) if value == 1]


Scalar = TypeVar("Scalar", bound=np.generic)


def pad_right(rows: Sequence[NDArray[Scalar]], fill: float) -> NDArray[Scalar]:
    """Stack 1-D arrays of one dtype into (B, T), padded on the right with `fill`."""
    if not rows:
        raise ValueError("no rows to pad")
    width = max(len(row) for row in rows)
    padded = np.full((len(rows), width), fill, dtype=rows[0].dtype)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    return padded
