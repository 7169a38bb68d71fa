"""The rollout tree: nodes that hold only the tokens they add.

A chain rollout is a tree of one path. Ids are appended exactly as they were sent or sampled and never change; the
mask is made with the ids. A sampled token is trainable when its log-prob was observed and is finite, and only then.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from safetensors.numpy import save

from rollway.arrays import NO_VERSION, expand_tree, ranges_of, spans_of
from rollway.container import Float32Array, Int32Array, read_container
from rollway.types import Origin, TreeLayout


@dataclass(slots=True)
class Node:
    """One run of tokens of one origin. Log-probs and versions are kept for `model` nodes only."""

    parent: int
    origin: Origin
    turn: int
    token_ids: list[Int32Array] = field(default_factory=list)
    logprobs: list[Float32Array] = field(default_factory=list)
    weight_versions: list[Int32Array] = field(default_factory=list)
    kv_versions: list[Int32Array] = field(default_factory=list)
    num_tokens: int = 0

    @property
    def is_model(self) -> bool:
        return self.origin == "model"


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment of a growing tree: number of nodes, and tokens in the last of them."""

    num_nodes: int = 0
    last_node_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PackedTree:
    """Bytes and layout of a tree, or of what a tree gained since a mark.

    `first_node` is the index of the first node listed; `continues` says that it was there before and only grew.
    `base_tokens`: tokens of the tree's last node at the mark.
    """

    container: bytes
    layout: TreeLayout
    first_node: int = 0
    continues: bool = False
    base_tokens: int = 0

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.container).hexdigest()


class Tree:
    """A tree that grows. Not thread-safe."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []

    def add(self, origin: Origin, token_ids: Sequence[int] | Int32Array = (), *, parent: int, turn: int) -> int:
        """Append a node under `parent` (-1: a root) and return its index. A `model` node starts empty."""
        if not -1 <= parent < len(self.nodes):
            raise ValueError(f"no node {parent} to be a parent")
        node = Node(parent=parent, origin=origin, turn=turn)
        if len(token_ids):
            if node.is_model:
                raise ValueError("tokens of a model node come through extend_sampled, with their log-probs")
            node.token_ids.append(np.asarray(token_ids, dtype=np.int32))
            node.num_tokens = len(token_ids)
        self.nodes.append(node)
        return len(self.nodes) - 1

    def extend_sampled(
        self,
        index: int,
        token_ids: Int32Array,
        logprobs: Float32Array,
        weight_versions: Int32Array,
        kv_versions: Int32Array,
    ) -> None:
        """Append sampled tokens to a `model` node.

        Args:
            index: the node; it must be a leaf.
            token_ids: shape (T,), int32, as sampled.
            logprobs: shape (T,), float32, nats; NaN where none was observed. Infinite values count as not observed.
            weight_versions: shape (T,), int32, the weights that sampled each token.
            kv_versions: shape (T,), int32, the oldest weights whose keys and values it attended to.
        """
        node = self.nodes[index]
        if not node.is_model:
            raise ValueError(f"node {index} is of origin {node.origin}; only model nodes are sampled")
        if not len(token_ids) == len(logprobs) == len(weight_versions) == len(kv_versions):
            raise ValueError("ids, log-probs and versions differ in length")
        if len(token_ids) == 0:
            return
        node.token_ids.append(token_ids.astype(np.int32, copy=False))
        node.logprobs.append(np.where(np.isfinite(logprobs), logprobs, np.nan).astype(np.float32))
        node.weight_versions.append(weight_versions.astype(np.int32, copy=False))
        node.kv_versions.append(kv_versions.astype(np.int32, copy=False))
        node.num_tokens += len(token_ids)

    def correct_versions(self, index: int, weight_versions: Int32Array, kv_versions: Int32Array) -> None:
        """Set the versions of the last tokens of a `model` node, where an engine tells the true ones only at the end.

        Args:
            index: the node.
            weight_versions, kv_versions: shape (T,), int32, of its last T tokens.
        """
        node = self.nodes[index]
        keep = node.num_tokens - len(weight_versions)
        if keep < 0:
            raise ValueError(
                f"node {index} has {node.num_tokens} tokens, versions for {len(weight_versions)} were given"
            )
        node.weight_versions = [_joined(node.weight_versions, np.int32)[:keep], weight_versions.astype(np.int32)]
        node.kv_versions = [_joined(node.kv_versions, np.int32)[:keep], kv_versions.astype(np.int32)]

    def path(self, leaf: int) -> list[int]:
        """Node indices from the root to `leaf`."""
        walk = []
        while leaf != -1:
            walk.append(leaf)
            leaf = self.nodes[leaf].parent
        return walk[::-1]

    def path_ids(self, leaf: int) -> Int32Array:
        """Token ids from the root to `leaf`, shape (T,), int32: what an engine must be given to go on from there."""
        parts = [part for index in self.path(leaf) for part in self.nodes[index].token_ids]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int32)

    def num_sampled(self, leaf: int) -> int:
        return sum(self.nodes[index].num_tokens for index in self.path(leaf) if self.nodes[index].is_model)

    def mark(self) -> Mark:
        return Mark(len(self.nodes), self.nodes[-1].num_tokens) if self.nodes else Mark()

    def pack(self, since: Mark = Mark()) -> PackedTree:
        """The whole tree, or what it gained since `since` (of a tree that only grew at its end)."""
        continues = since.num_nodes > 0 and self.nodes[since.num_nodes - 1].num_tokens > since.last_node_tokens
        first = since.num_nodes - 1 if continues else since.num_nodes
        skips = [
            since.last_node_tokens if continues and index == first else 0 for index in range(first, len(self.nodes))
        ]
        nodes = self.nodes[first:]
        token_ids = _joined([part for node in nodes for part in node.token_ids], np.int32)[sum(skips) :]
        model = [node for node in nodes if node.is_model]
        model_skip = sum(skips) if nodes and nodes[0].is_model else 0
        logprobs = _joined([part for node in model for part in node.logprobs], np.float32)[model_skip:]
        lengths = [node.num_tokens - skip for node, skip in zip(nodes, skips, strict=True)]
        is_model = np.repeat(np.array([node.is_model for node in nodes], dtype=np.bool_), lengths)
        observed = np.full(len(token_ids), np.nan, dtype=np.float32)
        observed[is_model] = logprobs
        layout = TreeLayout.model_construct(
            parents=[node.parent for node in nodes],
            origins=[node.origin for node in nodes],
            lengths=lengths,
            turns=[node.turn for node in nodes],
            weight_versions=_version_spans([n.weight_versions for n in model], is_model, model_skip),
            kv_versions=_version_spans([n.kv_versions for n in model], is_model, model_skip),
            trainable=ranges_of(np.isfinite(observed)),
        )
        container = save({"token_ids": token_ids, "behavior_logprobs": logprobs})
        return PackedTree(container, layout, first, continues, since.last_node_tokens)

    def apply(self, packed: PackedTree) -> None:
        """Append what `pack(since=...)` gave for a tree in the state of this one.

        Raises:
            ValueError: the piece goes on from another state, or contradicts itself; nothing was appended.
        """
        layout = packed.layout
        token_ids, logprobs = read_container(packed.container)
        roots = layout.model_copy(update={"parents": [-1] * len(layout.parents)})
        arrays = expand_tree(roots, token_ids, logprobs)
        self._check_piece(packed)
        for position, origin in enumerate(layout.origins):
            where = slice(arrays.starts[position], arrays.starts[position + 1])
            grown = packed.continues and position == 0
            if origin == "model":
                index = (
                    packed.first_node
                    if grown
                    else self.add(origin, parent=layout.parents[position], turn=layout.turns[position])
                )
                self.extend_sampled(
                    index,
                    arrays.token_ids[where].copy(),
                    arrays.observed_logprobs[where],
                    arrays.weight_versions[where],
                    arrays.kv_versions[where],
                )
            else:
                self.add(
                    origin, arrays.token_ids[where].copy(), parent=layout.parents[position], turn=layout.turns[position]
                )

    def _check_piece(self, packed: PackedTree) -> None:
        """Raise ValueError unless a piece, well-formed in itself, fits this tree to its last node."""
        expected = len(self.nodes) - (1 if packed.continues else 0)
        if packed.first_node != expected or packed.base_tokens != self.mark().last_node_tokens:
            raise ValueError(
                f"the piece goes on from node {packed.first_node} and {packed.base_tokens} tokens, the tree is at"
                f" {expected} and {self.mark().last_node_tokens}"
            )
        if packed.continues and not (self.nodes and self.nodes[-1].is_model and packed.layout.origins[:1] == ["model"]):
            raise ValueError(f"node {packed.first_node} is no model node and cannot grow")
        for index, parent in enumerate(packed.layout.parents, start=packed.first_node):
            if not -1 <= parent < index:
                raise ValueError(f"node {index} of the piece has the parent {parent}, which does not come before it")


def _joined(parts: list[Int32Array] | list[Float32Array], dtype: type[np.generic]) -> np.ndarray:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=dtype)


def _version_spans(columns: list[list[Int32Array]], is_model: np.ndarray, skip: int) -> list[list[int]]:
    """Spans over all tokens from the per-token versions of the model nodes."""
    values = np.full(len(is_model), NO_VERSION, dtype=np.int32)
    values[is_model] = _joined([part for column in columns for part in column], np.int32)[skip:]
    return [span for span in spans_of(values) if span[2] != NO_VERSION]
