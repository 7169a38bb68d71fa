"""Facts read off a layout agree with the arrays themselves."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rollway.arrays import MODEL_CODE, expand_tree, sample_arrays
from rollway.container import ContainerError, read_container
from rollway.types import TreeLayout
from rollway_service.core.trajectory_stats import trajectory_stats
from tests.builders import a_tree
from tests.strategies import trees

SPAN_FIELDS = ("weight_versions", "kv_versions", "trainable")


@given(trees(), st.data())
@settings(deadline=None, max_examples=200)
def test_counts_and_versions_are_those_of_the_arrays_whatever_a_worker_says(tree, data):
    """One number of the layout may be changed: then it is refused, or both say the same of it."""
    packed = tree.pack()
    layout = packed.layout.model_dump()
    field = data.draw(st.sampled_from(["nothing", "parents", "lengths", *SPAN_FIELDS]))
    if field != "nothing":
        assume(layout[field])
        rows = layout[field]
        row = data.draw(st.integers(0, len(rows) - 1))
        change = data.draw(st.sampled_from([-2, -1, 1, 2, 2**40]))
        if field in SPAN_FIELDS:
            rows[row][data.draw(st.integers(0, len(rows[row]) - 1))] += change
        else:
            rows[row] += change
    changed = TreeLayout.model_validate(layout)
    try:
        arrays = expand_tree(changed, *read_container(packed.container))
    except ContainerError:
        assert field != "nothing"
        return
    for node in range(len(changed.parents)):
        path = [node]
        while changed.parents[path[0]] != -1:
            path.insert(0, changed.parents[path[0]])
        sample, stats = sample_arrays(arrays, path), trajectory_stats(changed, path)
        versions = sorted(set(sample.weight_versions[sample.loss_mask == 1].tolist()))
        assert stats.num_tokens == len(sample.token_ids)
        assert stats.num_sampled == int((sample.origins == MODEL_CODE).sum())
        assert stats.num_trainable == int(sample.loss_mask.sum())
        assert list(stats.versions) == versions
        assert (stats.oldest_version, stats.newest_version) == (
            (versions[0], versions[-1]) if versions else (None,) * 2
        )


def test_a_path_that_is_none_has_no_facts():
    with pytest.raises(ContainerError, match="not a walk"):
        trajectory_stats(a_tree().layout, [1])


def test_versions_of_tokens_that_are_not_trainable_do_not_count():
    layout = a_tree(prompt=1, sampled=4).layout.model_copy(
        update={"weight_versions": [[1, 3, 5], [3, 5, 6]], "trainable": [[3, 4]]}
    )
    stats = trajectory_stats(layout, [0, 1])
    assert (stats.versions, stats.num_trainable, stats.num_sampled) == ((6,), 1, 4)
