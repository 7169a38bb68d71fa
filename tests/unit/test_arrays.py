"""Spans to arrays: equal lengths, mask only where it is true, and no span set that leaves a doubt (case B16)."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway.arrays import (
    MODEL_CODE,
    NO_VERSION,
    check_path,
    expand_spans,
    expand_tree,
    pad_right,
    ranges_of,
    sample_arrays,
    spans_of,
)
from rollway.container import ContainerError, read_container
from rollway.types import TreeLayout
from tests.builders import a_tree

NAN = math.nan
CHAIN = {
    "parents": [-1, 0],
    "origins": ["prompt", "model"],
    "lengths": [2, 3],
    "turns": [0, 0],
    "weight_versions": [[2, 4, 7], [4, 5, 8]],
    "kv_versions": [[2, 5, 7]],
    "trainable": [[2, 3], [4, 5]],
}


def expanded(logprobs=(-0.5, NAN, -1.5), num_ids=5, **changes):
    layout = TreeLayout.model_validate(CHAIN | changes)
    return expand_tree(layout, np.arange(num_ids, dtype=np.int32), np.array(logprobs, dtype=np.float32))


@given(st.lists(st.integers(0, 2), max_size=40), st.integers(0, 100))
@settings(deadline=None, max_examples=80)
def test_spans_are_the_runs_of_the_values_and_give_them_back(values, offset):
    array = np.array(values, dtype=np.int32)
    spans = spans_of(array, offset)
    assert [value for start, end, value in spans for _ in range(end - start)] == values
    assert [span[0] for span in spans] == ([offset, *(span[1] for span in spans[:-1])] if values else [])
    assert all(before[2] != after[2] for before, after in pairwise(spans))
    assert expand_spans(spans_of(array), np.ones(len(values), dtype=bool), "v").tolist() == values


@given(st.lists(st.booleans(), max_size=40), st.integers(0, 100))
@settings(deadline=None, max_examples=60)
def test_ranges_hold_exactly_the_true_positions(flags, offset):
    ranges = ranges_of(np.array(flags, dtype=bool), offset)
    positions = [position - offset for start, end in ranges for position in range(start, end)]
    assert positions == [index for index, flag in enumerate(flags) if flag]


def test_two_spans_of_one_answer_are_told_apart_token_by_token():
    versions = expand_spans([[0, 57, 7], [57, 128, 8]], np.ones(128, dtype=bool), "weight_version")
    assert versions.tolist() == [7] * 57 + [8] * 71


@pytest.mark.parametrize(
    ("spans", "words"),
    [
        ([[0, 57, 7], [58, 128, 8]], "no span covers token 57"),
        ([[0, 57, 7], [56, 128, 8]], "overlap or are out of order at token 56"),
        ([[57, 128, 8], [0, 57, 7]], "overlap or are out of order at token 0"),
        ([[0, 57, 7], [57, 127, 8]], "no span covers token 127"),
        ([[1, 128, 7]], "no span covers token 0"),
        ([[0, 129, 7]], "lies outside the 128 tokens"),
        ([[-1, 128, 7]], "lies outside"),
        ([[0, 0, 7], [0, 128, 7]], "lies outside"),
        ([[0, 128, -1]], "the value -1, which is no version"),
        ([[0, 128, 2**31]], "which is no version"),
        ([], "no span covers token 0"),
    ],
)
def test_spans_with_a_gap_an_overlap_or_a_short_end_are_refused(spans, words):
    with pytest.raises(ContainerError, match=words):
        expand_spans(spans, np.ones(128, dtype=bool), "weight_version")


def test_a_span_over_tokens_that_the_model_did_not_sample_is_refused():
    with pytest.raises(ContainerError, match="covers the foreign token 1"):
        expand_spans([[1, 4, 7]], np.array([False, False, True, True]), "weight_version")


def test_a_chain_becomes_arrays_of_one_length():
    sample = sample_arrays(expanded(), [0, 1])
    assert sample.token_ids.tolist() == [0, 1, 2, 3, 4]
    assert sample.behavior_logprobs.tolist() == [0.0, 0.0, -0.5, 0.0, -1.5]
    assert sample.loss_mask.tolist() == [0, 0, 1, 0, 1]
    assert sample.weight_versions.tolist() == [-1, -1, 7, 7, 8]
    assert sample.kv_versions.tolist() == [-1, -1, 7, 7, 7]
    assert (sample.origins == MODEL_CODE).tolist() == [False, False, True, True, True]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"lengths": [2]}, "columns of the node table differ"),
        ({"turns": [0, 0, 0]}, "columns of the node table differ"),
        ({"parents": [-1, 1]}, "node 1 has the parent 1"),
        ({"parents": [-2, 0]}, "node 0 has the parent -2"),
        ({"lengths": [-1, 6]}, "node 0 has the negative length -1"),
        ({"lengths": [2, 4]}, "nodes hold 6 tokens, the array 5"),
        ({"lengths": [3, 2]}, "model nodes hold 2 tokens, but there are 3 log-probs"),
        ({"trainable": [[4, 6]]}, "lies outside the 5 tokens"),
        ({"trainable": [[1, 3]]}, "token 1 is marked trainable without an observed log-prob"),
        ({"trainable": [[2, 5]]}, "token 3 is marked trainable without"),
        ({"trainable": [[2, 3], [2, 3]]}, "overlap or are out of order at token 2"),
        ({"trainable": [[4, 5], [2, 3]]}, "overlap or are out of order at token 2"),
        ({"weight_versions": [[2, 4, 7]]}, "weight_version: no span covers token 4"),
        ({"kv_versions": [[1, 5, 7]]}, "kv_version: a span covers the foreign token 1"),
    ],
)
def test_a_layout_that_contradicts_its_arrays_is_refused(changes, words):
    with pytest.raises(ContainerError, match=words):
        expanded(**changes)


@pytest.mark.parametrize("value", [NAN, math.inf, -math.inf])
def test_no_log_prob_that_is_not_finite_is_ever_trainable(value):
    with pytest.raises(ContainerError, match="token 2 is marked trainable without"):
        expanded(logprobs=(value, -1.0, -1.5))


@pytest.mark.parametrize(
    ("stale", "mask", "logprobs"),
    [([], [0, 0, 1, 0, 1], [-0.5, -1.5]), ([7], [0, 0, 0, 0, 1], [0.0, -1.5]), ([7, 8], [0] * 5, [0.0, 0.0])],
)
def test_stale_versions_lose_mask_and_log_prob_but_keep_their_version(stale, mask, logprobs):
    sample = sample_arrays(expanded(), [0, 1], mask_versions=stale)
    assert sample.loss_mask.tolist() == mask
    assert sample.behavior_logprobs[[2, 4]].tolist() == logprobs
    assert sample.weight_versions.tolist() == [NO_VERSION, NO_VERSION, 7, 7, 8]
    assert sample.loss_mask.dtype == np.uint8


def test_a_path_over_nodes_that_lie_apart_takes_their_tokens_in_order():
    packed = a_tree(prompt=2, sampled=2)
    layout = packed.layout.model_copy(
        update={
            "parents": [-1, 0, 0],
            "origins": ["prompt", "environment", "model"],
            "lengths": [2, 1, 1],
            "turns": [0, 0, 0],
            "weight_versions": [[3, 4, 5]],
            "kv_versions": [[3, 4, 5]],
            "trainable": [[3, 4]],
        }
    )
    token_ids, logprobs = read_container(packed.container)
    sample = sample_arrays(expand_tree(layout, token_ids, logprobs[:1]), [0, 2])
    assert sample.token_ids.tolist() == [10, 11, 21]
    assert sample.weight_versions.tolist() == [-1, -1, 5]
    assert sample.behavior_logprobs.tolist() == [0.0, 0.0, -0.5]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ([], "path is empty"),
        ([1], "node 1 is no child of -1"),
        ([0, 0], "node 0 is no child of 0"),
        ([0, 2], "node 2 is no child"),
        ([-1], "node -1 is no child"),
    ],
)
def test_a_path_must_walk_from_a_root(path, words):
    with pytest.raises(ContainerError, match=words):
        check_path(TreeLayout.model_validate(CHAIN), path)


def test_rows_are_padded_on_the_right_in_their_own_type():
    padded = pad_right([np.array([1, 2], dtype=np.int32), np.array([3], dtype=np.int32)], -1)
    assert padded.tolist() == [[1, 2], [3, -1]]
    assert padded.dtype == np.int32
    with pytest.raises(ValueError, match="no rows"):
        pad_right([], 0)
