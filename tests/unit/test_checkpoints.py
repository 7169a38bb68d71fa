"""Checkpoints: applied in order they give back tree and loop state exactly."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.core.checkpoint import LoopState, encode_checkpoint, restore
from rollway_service.core.tree import Mark, Tree
from tests.builders import a_tree
from tests.strategies import growths


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
