"""Seeds: in every engine's range, different for each member and branch, the same for the same job (B33, B34)."""

from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.core.seeds import SEED_BITS, derive_seed

job_seeds = st.integers(-(2**63), 2**63 - 1)
indices = st.integers(0, 2**31 - 1)


@given(job_seeds, indices, indices, st.lists(indices, max_size=4))
@settings(deadline=None, max_examples=200)
def test_derived_seeds_are_in_range_and_exact_in_json(job_seed, task_index, member_index, fork_path):
    seed = derive_seed(job_seed, task_index, member_index, fork_path)
    assert 0 <= seed < 2**SEED_BITS <= 2**53
    assert int(float(seed)) == seed
    assert derive_seed(job_seed, task_index, member_index, fork_path) == seed


@given(job_seeds, st.integers(0, 100_000))
@settings(deadline=None, max_examples=50)
def test_members_of_a_group_have_seeds_of_their_own(job_seed, task_index):
    assert len({derive_seed(job_seed, task_index, member) for member in range(64)}) == 64


@given(job_seeds, indices, indices, st.lists(indices, min_size=1, max_size=4, unique=True))
@settings(deadline=None, max_examples=50)
def test_branches_differ_from_each_other_and_from_where_they_left(job_seed, task_index, member_index, nodes):
    paths = [nodes[:count] for count in range(len(nodes) + 1)]
    assert len({derive_seed(job_seed, task_index, member_index, path) for path in paths}) == len(paths)


def test_eight_members_of_seed_7_are_the_same_eight_each_time():
    seeds = [derive_seed(7, 0, member) for member in range(8)]
    assert len(set(seeds)) == 8
    assert seeds == [derive_seed(7, 0, member) for member in range(8)]
    assert derive_seed(7, 0, 0) == 1290329395248284, "stored jobs are repeated by this number"


def test_no_index_can_take_the_place_of_another():
    words = [(1, 2, 3), (1, 3, 2), (2, 1, 3), (3, 2, 1), (1, 2, 4), (-1, 2, 3)]
    assert len({derive_seed(*word) for word in words}) == len(words)
    assert derive_seed(1, 2, 3, [4]) != derive_seed(1, 2, 3)
