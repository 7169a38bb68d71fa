"""Facts read off a layout agree with the arrays themselves, and so does what is refused."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollway.arrays import MODEL_CODE, expand_tree, sample_arrays
from rollway.container import ContainerError, container_shape, read_container
from rollway.types import TreeLayout
from rollway_service.core.trajectory_stats import check_layout, trajectory_stats
from tests.builders import a_tree
from tests.strategies import trees

SPAN_FIELDS = ("weight_versions", "kv_versions", "trainable")


@given(trees())
@settings(deadline=None, max_examples=100)
def test_counts_and_versions_are_those_of_the_arrays(tree):
    packed = tree.pack()
    arrays = expand_tree(packed.layout, *read_container(packed.container))
    for leaf in range(len(tree.nodes)):
        path = tree.path(leaf)
        sample, stats = sample_arrays(arrays, path), trajectory_stats(packed.layout, path)
        versions = sorted(set(sample.weight_versions[sample.loss_mask == 1].tolist()))
        assert stats.num_tokens == len(sample.token_ids)
        assert stats.num_sampled == int((sample.origins == MODEL_CODE).sum())
        assert stats.num_trainable == int(sample.loss_mask.sum())
        assert list(stats.versions) == versions
        assert (stats.oldest_version, stats.newest_version) == (
            (versions[0], versions[-1]) if versions else (None,) * 2
        )


@given(trees())
@settings(deadline=None, max_examples=60)
def test_what_a_tree_packs_is_accepted(tree):
    packed = tree.pack()
    layout = TreeLayout.model_validate(packed.layout.model_dump())
    num_tokens, num_logprobs = container_shape(packed.container)
    check_layout(layout, num_tokens, num_logprobs)
    with pytest.raises(ContainerError, match="nodes hold"):
        check_layout(layout, num_tokens + 1, num_logprobs)
    with pytest.raises(ContainerError, match="model nodes hold"):
        check_layout(layout, num_tokens, num_logprobs + 1)


@given(trees(logprobs=st.just(-1.0)), st.data())
@settings(deadline=None, max_examples=200)
def test_a_layout_with_one_number_changed_is_refused_by_both_sides_or_by_none(tree, data):
    """What the service accepts the client must be able to read, or a batch with it is lost for good."""
    packed = tree.pack()
    layout = packed.layout.model_dump()
    field = data.draw(st.sampled_from(["parents", "lengths", *SPAN_FIELDS]))
    assume(layout[field])
    row = data.draw(st.integers(0, len(layout[field]) - 1))
    change = data.draw(st.sampled_from([-2, -1, 1, 2, 2**40]))
    if field in SPAN_FIELDS:
        layout[field][row][data.draw(st.integers(0, len(layout[field][row]) - 1))] += change
    else:
        layout[field][row] += change
    changed = TreeLayout.model_validate(layout)
    token_ids, logprobs = read_container(packed.container)
    is_refused = []
    for check in (
        lambda: expand_tree(changed, token_ids, logprobs),
        lambda: check_layout(changed, len(token_ids), len(logprobs)),
    ):
        try:
            check()
            is_refused.append(False)
        except ContainerError:
            is_refused.append(True)
    assert is_refused[0] == is_refused[1]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"turns": [0]}, "columns of the node table differ"),
        ({"parents": [-1, 1]}, "node 1 has parent 1"),
        ({"lengths": [5, 2]}, "model nodes hold 2 tokens, but there are 3 log-probs"),
        ({"weight_versions": [[4, 6, 1]]}, "leave a gap or cover tokens that the model did not sample"),
        ({"weight_versions": [[4, 6, 1], [5, 7, 1]]}, "out of order, empty or no version"),
        ({"weight_versions": [[3, 6, 1]]}, "cover tokens that the model did not sample"),
        ({"weight_versions": [[4, 7, -1]]}, "no version"),
        ({"kv_versions": [[4, 7, 2**31]]}, "kv_version span"),
        ({"trainable": [[3, 5]]}, "lies outside the model nodes"),
        ({"trainable": [[4, 4]]}, "empty or lies outside"),
        ({"trainable": [[4, 7], [4, 7]]}, "tokens would count twice"),
        ({"trainable": [[6, 7], [4, 5]]}, "out of order"),
    ],
)
def test_a_layout_that_contradicts_itself_is_refused(changes, words):
    layout = a_tree(prompt=4, sampled=3).layout.model_copy(update=changes)
    with pytest.raises(ContainerError, match=words):
        check_layout(layout, 7, 3)


def test_a_path_that_is_none_has_no_facts():
    with pytest.raises(ContainerError, match="not a walk"):
        trajectory_stats(a_tree().layout, [1])


def test_versions_of_tokens_that_are_not_trainable_do_not_count():
    layout = a_tree(prompt=1, sampled=4).layout.model_copy(
        update={"weight_versions": [[1, 3, 5], [3, 5, 6]], "trainable": [[3, 4]]}
    )
    stats = trajectory_stats(layout, [0, 1])
    assert (stats.versions, stats.num_trainable, stats.num_sampled) == ((6,), 1, 4)
