"""Checkpoints: applied in order they give back tree and loop state exactly."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.core.checkpoint import LoopState, encode_checkpoint, restore
from rollway_service.core.tree import Mark, Tree
from tests.builders import a_tree
from tests.strategies import Growth, growths


@given(st.lists(growths(), min_size=1, max_size=6))
@settings(deadline=None, max_examples=80)
def test_a_checkpoint_after_each_step_gives_back_the_whole(steps):
    tree, mark, payloads = Tree(), Mark(), []
    state = LoopState()
    for index, growth in enumerate(steps):
        growth.apply(tree)
        state.requests = index + 1
        payloads.append(encode_checkpoint(tree.pack(since=mark), state))
        mark = tree.mark()
    found, found_state = restore(payloads)
    assert found.pack().container == tree.pack().container
    assert found.pack().layout == tree.pack().layout
    assert found_state == state


@given(st.lists(growths(), min_size=2, max_size=6), st.data())
@settings(deadline=None, max_examples=40)
def test_a_restored_tree_goes_on_like_the_first(steps, data):
    cut = data.draw(st.integers(1, len(steps)))
    tree = Tree()
    for growth in steps[:cut]:
        growth.apply(tree)
    copy, _ = restore([encode_checkpoint(tree.pack(), LoopState())])
    for growth in steps[cut:]:
        growth.apply(tree)
        growth.apply(copy)
    assert copy.pack().container == tree.pack().container
    assert copy.pack().layout == tree.pack().layout


def test_the_loop_state_of_the_last_checkpoint_counts():
    first = LoopState(generations=[("abort", 3)], requests=1)
    last = LoopState(
        generations=[("abort", 3), ("stop", 2)],
        requests=2,
        cached_tokens=5,
        wasted_tokens=7,
        nonfinite=1,
        missing=2,
        generate_s=0.25,
        findings={"stream_cut": 1},
    )
    tree = Tree()
    tree.apply(a_tree())
    nothing_new = tree.pack(since=tree.mark())
    found, state = restore([encode_checkpoint(tree.pack(), first), encode_checkpoint(nothing_new, last)])
    assert state == last
    assert found.pack().container == tree.pack().container


def test_without_checkpoints_all_begins_anew():
    tree, state = restore([])
    assert (tree.nodes, state) == ([], LoopState())


def test_findings_are_counted_by_name_and_told_in_order():
    state = LoopState()
    for finding, count in (("stream_cut", 1), ("missing_logprobs", 3), ("stream_cut", 1), ("nothing", 0)):
        state.note(finding, count)
    assert state.finding_labels() == ["missing_logprobs:3", "stream_cut:2"]


TWO_NODES = [Growth("prompt", 0, False, [1, 2], [], []), Growth("model", 1, False, [3], [-1.0], [0])]
MORE = [Growth("model", 1, True, [4, 5], [-1.0, -2.0], [1, 1]), Growth("model", 1, True, [6], [-3.0], [1])]


def payloads_of(steps):
    """A checkpoint after each step, and the containers of the whole tree after each."""
    tree, mark, payloads, wholes = Tree(), Mark(), [], []
    for index, growth in enumerate(steps):
        growth.apply(tree)
        payloads.append(encode_checkpoint(tree.pack(since=mark), LoopState(requests=index + 1)))
        wholes.append(tree.pack().container)
        mark = tree.mark()
    return payloads, wholes


@given(st.integers(0, 3), st.data())
@settings(deadline=None, max_examples=100)
def test_a_checkpoint_whose_bytes_have_changed_is_left_out_with_all_that_go_on_from_it(damaged, data):
    payloads, wholes = payloads_of(TWO_NODES + MORE)
    payload = bytearray(payloads[damaged])
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    payloads[damaged] = bytes(payload)
    tree, state = restore(payloads)
    assert tree.pack().container == (wholes[damaged - 1] if damaged else Tree().pack().container)
    assert (state.requests, state.findings) == (damaged, {"checkpoint_unreadable": len(payloads) - damaged})


@pytest.mark.parametrize("lost", range(3))
def test_after_a_lost_checkpoint_nothing_is_put_in_the_wrong_place(lost):
    payloads, wholes = payloads_of(TWO_NODES + MORE)
    del payloads[lost]
    tree, state = restore(payloads)
    assert tree.pack().container == (wholes[lost - 1] if lost else Tree().pack().container)
    assert state.findings == {"checkpoint_unreadable": 3 - lost}


def test_a_checkpoint_that_contradicts_itself_leaves_the_tree_as_it_was():
    payloads, wholes = payloads_of(TWO_NODES)
    tree, _ = restore(payloads)
    mark = tree.mark()
    for growth in (Growth("environment", 2, False, [7], [], []), Growth("forced", 3, False, [8], [], [])):
        growth.apply(tree)
    gain = tree.pack(since=mark)
    forged = replace(gain, layout=gain.layout.model_copy(update={"parents": [1, 9]}))
    found, state = restore([*payloads, encode_checkpoint(forged, LoopState(requests=9))])
    assert found.pack().container == wholes[-1]
    assert (state.requests, state.findings) == (2, {"checkpoint_unreadable": 1})
