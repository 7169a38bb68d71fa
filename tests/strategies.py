"""Things that properties are tried on, for Hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from rollway.types import Origin
from rollway_service.core.tree import Tree

hostile_text = st.text(
    st.one_of(
        st.sampled_from("\0\ue00001\\u\"' \ufffd\u0085\u2028😊삼"),
        st.characters(exclude_categories=("Cs",)),
    ),
    max_size=20,
)
"""Valid Unicode that stores and codecs stumble over: NUL, the store's own mark, escapes, wide characters."""

hostile_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | hostile_text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hostile_text, inner, max_size=4),
    max_leaves=12,
)

observed_logprobs = st.one_of(
    st.floats(-50, 0, width=32),
    st.sampled_from([0.0, float("nan"), float("-inf"), float("inf")]),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """One step of a growing tree. A model step goes on in the last node when it can and `goes_on` says so."""

    origin: Origin
    parent: int
    goes_on: bool
    token_ids: list[int]
    logprobs: list[float]
    versions: list[int]

    def apply(self, tree: Tree) -> None:
        if self.origin != "model":
            tree.add(self.origin, self.token_ids, parent=self._parent(tree), turn=len(tree.nodes))
            return
        goes_on = self.goes_on and bool(tree.nodes) and tree.nodes[-1].is_model
        leaf = len(tree.nodes) - 1 if goes_on else tree.add("model", parent=self._parent(tree), turn=len(tree.nodes))
        versions = np.array(self.versions, dtype=np.int32)
        ids, logprobs = np.array(self.token_ids, dtype=np.int32), np.array(self.logprobs, dtype=np.float32)
        tree.extend_sampled(leaf, ids, logprobs, versions, versions // 2)

    def _parent(self, tree: Tree) -> int:
        return self.parent % (len(tree.nodes) + 1) - 1


@st.composite
def growths(draw: st.DrawFn, logprobs: st.SearchStrategy[float] = observed_logprobs) -> Growth:
    count = draw(st.integers(0, 5))
    return Growth(
        origin=draw(st.sampled_from(["prompt", "model", "model", "forced", "environment"])),
        parent=draw(st.integers(0, 20)),
        goes_on=draw(st.booleans()),
        token_ids=draw(st.lists(st.integers(0, 2**31 - 1), min_size=count, max_size=count)),
        logprobs=draw(st.lists(logprobs, min_size=count, max_size=count)),
        versions=draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)),
    )


@st.composite
def trees(draw: st.DrawFn, logprobs: st.SearchStrategy[float] = observed_logprobs) -> Tree:
    """Trees of any shape, with observed, missing and infinite log-probs."""
    tree = Tree()
    for growth in draw(st.lists(growths(logprobs), min_size=1, max_size=8)):
        growth.apply(tree)
    return tree
