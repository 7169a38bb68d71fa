"""The tree: invariants i to iii over trees of any shape, and what it refuses."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway.arrays import MODEL_CODE, NO_VERSION, expand_tree, sample_arrays
from rollway.container import read_container
from rollway_service.core.tree import Mark, Tree
from tests.strategies import Growth, growths, observed_logprobs, trees

ONE = np.array([1], dtype=np.int32)
HALF = np.array([-0.5], dtype=np.float32)


def leaves_of(tree):
    parents = {node.parent for node in tree.nodes}
    return [index for index in range(len(tree.nodes)) if index not in parents]


def expanded(tree):
    packed = tree.pack()
    return expand_tree(packed.layout, *read_container(packed.container))


@given(trees())
@settings(deadline=None, max_examples=100)
def test_all_arrays_of_a_sample_have_the_length_of_its_path(tree):
    arrays = expanded(tree)
    for leaf in leaves_of(tree):
        sample = sample_arrays(arrays, tree.path(leaf))
        expected = len(tree.path_ids(leaf))
        assert sample.token_ids.tolist() == tree.path_ids(leaf).tolist()
        for column in (sample.behavior_logprobs, sample.loss_mask, sample.weight_versions, sample.kv_versions):
            assert column.shape == (expected,)


@given(trees())
@settings(deadline=None, max_examples=100)
def test_mask_is_1_exactly_where_the_model_sampled_and_a_finite_log_prob_was_seen(tree):
    arrays = expanded(tree)
    for leaf in leaves_of(tree):
        nodes = [tree.nodes[index] for index in tree.path(leaf)]
        unseen = [[np.full(node.num_tokens, np.nan)] for node in nodes]
        seen = np.concatenate([p for node, none in zip(nodes, unseen, strict=True) for p in node.logprobs or none])
        sample = sample_arrays(arrays, tree.path(leaf))
        finite = np.isfinite(seen)
        assert sample.loss_mask.tolist() == finite.astype(int).tolist()
        assert sample.behavior_logprobs.tolist() == np.where(finite, np.nan_to_num(seen), 0.0).tolist()
        assert ((sample.weight_versions == NO_VERSION) == (sample.origins != MODEL_CODE)).all()


@given(trees())
@settings(deadline=None, max_examples=80)
def test_each_sampled_token_of_a_tree_is_trainable_once_or_was_not_observed(tree):
    layout = tree.pack().layout
    finite = sum(int(np.isfinite(part).sum()) for node in tree.nodes for part in node.logprobs)
    assert sum(end - start for start, end in layout.trainable) == finite
    assert all(before[1] < after[0] for before, after in pairwise(layout.trainable))


@given(st.lists(st.lists(observed_logprobs, max_size=6), min_size=1, max_size=5))
@settings(deadline=None, max_examples=60)
def test_over_the_leaves_of_a_group_that_shares_its_prompt_each_token_is_trainable_once(members):
    tree = Tree()
    root = tree.add("prompt", [1, 2, 3], parent=-1, turn=0)
    for logprobs in members:
        leaf = tree.add("model", parent=root, turn=0)
        version = np.zeros(len(logprobs), dtype=np.int32)
        tree.extend_sampled(leaf, version, np.array(logprobs, dtype=np.float32), version, version)
    arrays = expanded(tree)
    trainable = sum(int(sample_arrays(arrays, tree.path(leaf)).loss_mask.sum()) for leaf in leaves_of(tree))
    assert trainable == sum(np.isfinite(value) for logprobs in members for value in logprobs)


@given(st.lists(growths(), min_size=1, max_size=8), st.data())
@settings(deadline=None, max_examples=100)
def test_a_tree_grows_from_its_gains(steps, data):
    """Whenever marks are taken, the gains since each, applied in order, give the same bytes and layout."""
    tree, copy, mark = Tree(), Tree(), Mark()
    for growth in steps:
        growth.apply(tree)
        if data.draw(st.booleans()):
            copy.apply(tree.pack(since=mark))
            mark = tree.mark()
    copy.apply(tree.pack(since=mark))
    whole, again = tree.pack(), copy.pack()
    assert again.container == whole.container
    assert again.layout == whole.layout


@given(st.lists(growths(), min_size=1, max_size=8))
@settings(deadline=None, max_examples=30)
def test_what_was_sampled_never_changes_as_the_tree_grows(steps):
    tree, before = Tree(), []
    for growth in steps:
        growth.apply(tree)
        now = [np.concatenate([[], *node.token_ids]).tolist() for node in tree.nodes]
        assert all(new[: len(old)] == old for old, new in zip(before, now, strict=False))
        before = now


def test_a_gain_must_fit_where_the_tree_stands():
    tree, other = Tree(), Tree()
    tree.add("prompt", [1, 2], parent=-1, turn=0)
    mark = tree.mark()
    tree.add("environment", [3], parent=0, turn=0)
    gain = tree.pack(since=mark)
    with pytest.raises(ValueError, match=r"the piece .*node 1.* the tree is at 0"):
        other.apply(gain)
    tree.apply(tree.pack(since=tree.mark()))
    assert len(tree.nodes) == 2


def test_versions_told_at_the_end_replace_those_of_the_last_tokens_only():
    tree = Tree()
    leaf = tree.add("model", parent=-1, turn=0)
    for _ in range(3):
        tree.extend_sampled(leaf, ONE, HALF, ONE * 4, ONE * 4)
    tree.correct_versions(leaf, np.array([5, 6], dtype=np.int32), np.array([4, 5], dtype=np.int32))
    layout = tree.pack().layout
    assert layout.weight_versions == [[0, 1, 4], [1, 2, 5], [2, 3, 6]]
    assert layout.kv_versions == [[0, 2, 4], [2, 3, 5]]
    with pytest.raises(ValueError, match="has 3 tokens, versions for 4"):
        tree.correct_versions(leaf, np.zeros(4, dtype=np.int32), np.zeros(4, dtype=np.int32))


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda tree: tree.add("prompt", [1], parent=2, turn=0), "no node 2 to be a parent"),
        (lambda tree: tree.add("prompt", [1], parent=-2, turn=0), "no node -2"),
        (lambda tree: tree.add("model", [1], parent=0, turn=0), "come through extend_sampled"),
        (lambda tree: tree.extend_sampled(0, ONE, HALF, ONE, ONE), "only model nodes are sampled"),
        (lambda tree: tree.extend_sampled(1, ONE, HALF[:0], ONE, ONE), "differ in length"),
        (lambda tree: tree.extend_sampled(1, ONE, HALF, ONE, ONE[:0]), "differ in length"),
    ],
)
def test_what_would_break_the_alignment_is_refused(act, words):
    tree = Tree()
    Growth("prompt", 0, False, [7, 8], [], []).apply(tree)
    tree.add("model", parent=0, turn=0)
    with pytest.raises(ValueError, match=words):
        act(tree)
    assert [node.num_tokens for node in tree.nodes] == [2, 0]


def test_walks_and_counts_follow_one_branch():
    tree = Tree()
    root = tree.add("prompt", [1, 2], parent=-1, turn=0)
    one, two = (tree.add("model", parent=root, turn=0) for _ in range(2))
    tree.extend_sampled(two, ONE * 9, HALF, ONE, ONE)
    assert tree.path(two) == [0, 2]
    assert tree.path_ids(two).tolist() == [1, 2, 9]
    assert (tree.num_sampled(one), tree.num_sampled(two), tree.num_sampled(root)) == (0, 1, 0)
    assert Tree().path_ids(-1).tolist() == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"continues": True, "first_node": 1}, "cannot grow"),
        ({"first_node": 1}, "goes on from node 1"),
        ({"base_tokens": 1}, "and 1 tokens, the tree is at 2 and 2"),
        ({"layout": {"parents": [0, 3]}}, "node 3 of the piece has the parent 3"),
        ({"layout": {"parents": [-2, 0]}}, "node 2 of the piece has the parent -2"),
        ({"layout": {"lengths": [1, 2]}}, "nodes hold 3 tokens, the array 2"),
    ],
)
def test_a_gain_that_does_not_fit_leaves_the_tree_as_it_was(changes, words):
    tree = Tree()
    for growth in (Growth("prompt", 0, False, [1], [], []), Growth("prompt", 1, False, [2, 3], [], [])):
        growth.apply(tree)
    before, mark = tree.pack(), tree.mark()
    ahead = Tree()
    ahead.apply(before)
    for growth in (Growth("forced", 2, False, [4], [], []), Growth("forced", 3, False, [5], [], [])):
        growth.apply(ahead)
    gain = ahead.pack(since=mark)
    layout = gain.layout.model_copy(update=changes.get("layout", {}))
    with pytest.raises(ValueError, match=words):
        tree.apply(replace(gain, **changes | {"layout": layout}))
    assert tree.pack() == before
    tree.apply(gain)
    assert tree.pack() == ahead.pack()
