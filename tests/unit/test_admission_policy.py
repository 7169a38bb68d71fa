"""How far a job may run ahead, and how jobs share a pool."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway.types import Admission
from rollway_service.policies.control.admission import allowance, share_pool
from rollway_service.policies.views import AheadView, JobShareView

GATE = {"max_staleness_versions": 1, "groups_per_step": 4, "max_ahead_groups": 100}


def a_job(job_id, *, priority=50, group_size=2, allowed=100, queued=0):
    return JobShareView(job_id, priority, group_size, allowed, queued)


@pytest.mark.parametrize(
    ("config", "published", "counted", "ahead", "held_bytes", "groups", "gate"),
    [
        ({"max_ahead_groups": 10}, 0, 0, 0, 0, 10, "max_ahead_groups"),
        ({"max_ahead_groups": 10}, 0, 50, 7, 0, 3, "max_ahead_groups: 7 of 10 groups"),
        ({"max_ahead_groups": 10}, 0, 50, 12, 0, 0, "max_ahead_groups"),
        (GATE, 0, 0, 0, 0, 8, "staleness_gate: 0 of (0 published + 1 + 1) x 4"),
        (GATE, 0, 8, 8, 0, 0, "staleness_gate: 8 of"),
        (GATE, 1, 8, 0, 0, 4, "staleness_gate: 8 of (1 published + 1 + 1) x 4"),
        (GATE, 9, 8, 6, 0, 2, "staleness_gate: 6 of (1 + 1) x 4 groups wait for the trainer"),
        (GATE, 9, 8, 20, 0, 0, "staleness_gate: 20 of (1 + 1) x 4 groups wait for the trainer"),
        (GATE, 0, 9, 9, 0, 0, "staleness_gate"),
        (GATE | {"max_staleness_versions": 0}, 0, 0, 0, 0, 4, "staleness_gate: 0 of (0 published + 0 + 1) x 4"),
        (GATE | {"max_ahead_groups": 3}, 0, 0, 0, 0, 3, "max_ahead_groups"),
        ({"max_ahead_bytes": 100}, 0, 0, 0, 99, 4096, "max_ahead_groups"),
        ({"max_ahead_bytes": 100}, 0, 0, 0, 100, 0, "max_ahead_bytes: 100 of 100 bytes"),
    ],
)
def test_the_tightest_gate_holds_and_says_so(config, published, counted, ahead, held_bytes, groups, gate):
    found = allowance(AheadView(published, counted, ahead, held_bytes), Admission(**config))
    assert found.groups == groups
    assert found.held_by.startswith(gate)


@given(st.integers(0, 5), st.integers(1, 10), st.integers(0, 8))
@settings(deadline=None, max_examples=60)
def test_a_trainer_never_finds_more_than_its_bound_of_staleness(bound, per_step, published):
    """Admit all that is allowed: the last group is consumed at most `bound` publishes later."""
    view = AheadView(published, published * per_step, 0, 0)
    admitted = allowance(
        view, Admission(max_staleness_versions=bound, groups_per_step=per_step, max_ahead_groups=10_000)
    ).groups
    steps_until_last = (admitted - 1) // per_step
    assert steps_until_last <= bound
    assert admitted == (bound + 1) * per_step


@pytest.mark.parametrize(
    ("jobs", "room", "target", "shares"),
    [
        ([], 10, 100, {}),
        ([a_job("a")], 0, 100, {"a": 0}),
        ([a_job("a")], 6, 100, {"a": 3}),
        ([a_job("a")], 5, 100, {"a": 3}),
        ([a_job("a"), a_job("b")], 6, 100, {"a": 2, "b": 1}),
        ([a_job("a", allowed=1), a_job("b")], 8, 100, {"a": 1, "b": 3}),
        ([a_job("a", priority=10), a_job("b", priority=90)], 4, 100, {"a": 0, "b": 2}),
        ([a_job("a", priority=10), a_job("b", priority=90, allowed=1)], 4, 100, {"a": 1, "b": 1}),
        ([a_job("a", queued=100), a_job("b", queued=98)], 8, 100, {"a": 0, "b": 1}),
        ([a_job("a", allowed=0)], 8, 100, {"a": 0}),
        ([a_job("a", group_size=64)], 1, 100, {"a": 1}),
    ],
)
def test_a_pool_is_shared_by_priority_and_in_turns(jobs, room, target, shares):
    assert share_pool(jobs, room, target) == shares


job_views = st.builds(
    JobShareView,
    job_id=st.uuids().map(str),
    priority=st.integers(0, 3),
    group_size=st.integers(1, 8),
    groups_allowed=st.integers(0, 20),
    rollouts_queued=st.integers(0, 40),
)


@given(st.lists(job_views, max_size=6), st.integers(0, 60), st.integers(1, 40))
@settings(deadline=None, max_examples=120)
def test_no_gate_is_passed_and_no_room_is_left_while_work_may_join(jobs, room, target):
    shares = share_pool(jobs, room, target)
    joined = sum(shares[job.job_id] * job.group_size for job in jobs)
    assert all(0 <= shares[job.job_id] <= job.groups_allowed for job in jobs)
    assert joined < room + max((job.group_size for job in jobs), default=1)
    could_take = [
        job
        for job in jobs
        if shares[job.job_id] < job.groups_allowed
        and job.rollouts_queued + shares[job.job_id] * job.group_size < target
    ]
    assert joined >= room or not could_take
