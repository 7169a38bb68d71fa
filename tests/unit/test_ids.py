"""Ids: prefixed, in order of time, and told apart from all else."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.core.ids import PREFIXES, id_bound, id_time_s, is_id, new_id


def test_every_kind_has_a_prefix_of_three_letters_of_its_own():
    assert len(set(PREFIXES.values())) == len(PREFIXES)
    assert all(len(prefix) == 3 and prefix.isalpha() and prefix.islower() for prefix in PREFIXES.values())


@pytest.mark.parametrize("kind", PREFIXES)
def test_an_id_is_of_its_kind_and_of_no_other(kind):
    value = new_id(kind)
    assert [other for other in PREFIXES if is_id(other, value)] == [kind]


def test_ids_sort_by_the_time_they_were_made():
    made = [new_id("group") for _ in range(2000)]
    assert made == sorted(made)
    assert len(set(made)) == len(made)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "run_",
        "run_" + "0" * 31,
        "run_" + "0" * 33,
        "run_" + "0" * 32 + "\n",
        "run_" + "0" * 31 + "\0",
        " run_" + "0" * 32,
        "run_" + "G" * 32,
        "run_" + "A" * 32,
        "job_" + "0" * 32,
        "run_" + "\u0660" * 32,
        "run" + "0" * 33,
    ],
)
def test_what_looks_like_an_id_is_none(value):
    assert not is_id("run", value)
    assert is_id("run", "run_" + "0" * 32)


def test_an_id_tells_when_it_was_made():
    before_s = time.time()
    value = new_id("rollout")
    assert before_s - 0.002 <= id_time_s(value) <= time.time() + 0.002


@given(st.floats(0, 4e9), st.floats(0, 4e9))
@settings(deadline=None, max_examples=80)
def test_bounds_cut_time_into_ranges(one_s, other_s):
    early_s, late_s = sorted((one_s, other_s))
    assert id_bound("tree", early_s) <= id_bound("tree", late_s)
    assert is_id("tree", id_bound("tree", late_s))
    assert id_time_s(id_bound("tree", late_s)) == pytest.approx(late_s, abs=0.0011)


def test_an_id_lies_between_the_bounds_of_its_time():
    value = new_id("tree")
    made_s = id_time_s(value)
    assert id_bound("tree", made_s) <= value < id_bound("tree", made_s + 0.002)
    assert id_bound("tree", -5.0) == "tre_" + "0" * 32
