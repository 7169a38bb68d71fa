"""Admission on both databases: never past a gate, never a task twice, whoever asks at once."""

import asyncio

import pytest

from rollway.types import BatchConsumed, BatchLease, Rewind, TasksAppend, VersionPublish
from rollway_service.core.errors import BacklogFull
from rollway_service.operations import claims, consumption, jobs, leases, weights
from tests.builders import a_finished, token_tasks


async def work(bench, session_id, limit=64, version=0):
    """Claim and end up to `limit` rollouts; returns how many there were."""
    items = (await claims.claim(bench.context, session_id, limit=limit, active_version=version)).items
    await claims.finish(bench.context, session_id, [a_finished(item, version=version) for item in items])
    return len(items)


async def work_dry(bench, session_id):
    done = 0
    while count := await work(bench, session_id):
        done += count
    return done


async def consume_one(bench, step, groups=1):
    batch = await leases.lease_batch(bench.context, bench.caller, bench.run.id, BatchLease(groups=groups))
    request = BatchConsumed(step=step)
    await consumption.consume_batch(bench.context, bench.caller, batch.header.batch_id, request)
    return [group.task_index for group in batch.header.groups]


async def publish(bench, parent=None):
    request = VersionPublish(source="/w", digest="sha256:" + "0" * 64, trainer_step=1, parent=parent)
    await weights.publish_version(bench.context, bench.caller, "m", request)


async def test_concurrent_admissions_admit_each_task_once_and_respect_the_bound(two):
    first, second = two
    job = await first.submit(40, group_size=1, admission={"max_ahead_groups": 25})
    sessions = [await first.session("w1"), await second.session("w2")]
    await asyncio.gather(*(work_dry(bench, session) for bench, session in zip(two * 2, sessions * 2, strict=True)))
    progress = (await first.job(job.id)).progress
    assert (progress.groups_admitted, progress.groups_ready, progress.backlog) == (25, 25, 15)
    assert progress.waiting_for.startswith("max_ahead_groups: 25 of 25")


async def test_a_slow_trainer_bounds_what_is_made_and_then_gets_all_of_it_once(bench):
    """Case B26: bound 100, 150 pushed: 100 are made; as the trainer consumes, the rest arrive, each once."""
    job = await bench.submit(150, group_size=1, admission={"max_ahead_groups": 100})
    session_id = await bench.session()
    assert await work_dry(bench, session_id) == 100
    seen = []
    for step in range(150):
        seen += await consume_one(bench, step)
        await work_dry(bench, session_id)
    assert sorted(seen) == list(range(150))
    assert (await bench.job(job.id)).state == "completed"


async def test_a_full_backlog_refuses_with_nothing_stored(bench):
    job = await bench.submit(90, limits={"max_backlog_tasks": 100}, close=False)
    append = TasksAppend.model_validate({"tasks": token_tasks(20)})
    with pytest.raises(BacklogFull, match="max_backlog_tasks = 100"):
        await jobs.append_tasks(bench.context, bench.caller, job.id, append)
    assert (await bench.job(job.id)).progress.tasks == 90


async def test_the_staleness_gate_follows_the_trainers_version(bench):
    job = await bench.submit(
        20, group_size=1, admission={"max_staleness_versions": 1, "groups_per_step": 3, "max_ahead_groups": 100}
    )
    session_id = await bench.session()
    for published, admitted in enumerate((6, 9, 12)):
        await work_dry(bench, session_id)
        progress = (await bench.job(job.id)).progress
        assert progress.groups_admitted == admitted
        assert progress.waiting_for.startswith(f"staleness_gate: {admitted} of ({published} published + 1 + 1) x 3")
        await consume_one(bench, published, groups=3)
        assert await work(bench, session_id) == 0
        await publish(bench)


async def test_a_trainer_that_publishes_without_consuming_gets_no_further_ahead(bench):
    """What is ready would only grow stale behind more of it."""
    job = await bench.submit(
        20, group_size=1, admission={"max_staleness_versions": 1, "groups_per_step": 3, "max_ahead_groups": 100}
    )
    session_id = await bench.session()
    for _ in range(3):
        await work_dry(bench, session_id)
        await publish(bench)
    progress = (await bench.job(job.id)).progress
    assert progress.groups_admitted == 6
    assert progress.waiting_for == "staleness_gate: 6 of (1 + 1) x 3 groups wait for the trainer"


@pytest.mark.parametrize("is_rewound", [False, True])
async def test_going_back_to_a_checkpoint_neither_closes_the_gate_nor_opens_it_wide(bench, is_rewound):
    """Five steps, then back to version 1: the trainer goes on, and what is made is bounded as before."""
    job = await bench.submit(
        60, group_size=1, admission={"max_staleness_versions": 1, "groups_per_step": 2, "max_ahead_groups": 100}
    )
    session_id = await bench.session()
    for step in range(5):
        await work(bench, session_id, version=step)
        await consume_one(bench, step, groups=2)
        await publish(bench)
    await work(bench, session_id, version=5)
    await publish(bench, parent=1)
    if is_rewound:
        await consumption.rewind(bench.context, bench.caller, bench.run.id, Rewind(step=0))
    before = (await bench.job(job.id)).progress.groups_admitted
    for step, version in enumerate((6, 7, 8), start=1):
        lease = BatchLease(groups=2, max_staleness=1)
        batch = await leases.lease_batch(bench.context, bench.caller, bench.run.id, lease)
        if not batch.header.groups:
            assert await work(bench, session_id, version=version) > 0
            batch = await leases.lease_batch(bench.context, bench.caller, bench.run.id, lease)
        assert {sample.newest_version for group in batch.header.groups for sample in group.samples} <= {1, 6, 7, 8}
        request = BatchConsumed(step=step)
        await consumption.consume_batch(bench.context, bench.caller, batch.header.batch_id, request)
        await publish(bench)
    # Two groups for each step, and those that replace what was out and is now off the lineage: (1 + 1) x 2 at most.
    assert (await bench.job(job.id)).progress.groups_admitted <= before + 3 * 2 + 4


async def test_groups_that_no_trainer_will_see_never_starve_it(bench):
    """Dropped and stale groups make room at the gate; else it would close for good."""
    job = await bench.submit(
        30,
        group_size=1,
        rewards=[{"kind": "exact"}],
        recipe={"filters": [{"name": "zero_spread"}]},
        admission={"max_staleness_versions": 0, "groups_per_step": 2, "max_ahead_groups": 4},
    )
    session_id = await bench.session()
    assert await work_dry(bench, session_id) == 30
    assert (await bench.job(job.id)).progress.drops == {"zero_reward_spread": 30}


async def test_stale_drops_at_a_lease_make_room_at_the_gate(bench):
    job = await bench.submit(
        8, group_size=1, admission={"max_staleness_versions": 0, "groups_per_step": 2, "max_ahead_groups": 4}
    )
    session_id = await bench.session()
    assert await work_dry(bench, session_id) == 2
    await publish(bench)
    lease = BatchLease(groups=2, max_staleness=0)
    batch = await leases.lease_batch(bench.context, bench.caller, bench.run.id, lease)
    assert (batch.header.stale_dropped, batch.header.groups) == (2, [])
    assert await work(bench, session_id, version=1) == 2
    progress = (await bench.job(job.id)).progress
    assert (progress.groups_stale, progress.groups_admitted) == (2, 4)


async def test_a_paused_job_admits_nothing_and_a_resumed_one_goes_on(bench):
    job = await bench.submit(2, group_size=1)
    session_id = await bench.session()
    await jobs.pause_job(bench.context, bench.caller, job.id, paused=True)
    assert await work(bench, session_id) == 0
    assert (await bench.job(job.id)).progress.waiting_for.startswith("paused")
    await jobs.pause_job(bench.context, bench.caller, job.id, paused=False)
    assert await work_dry(bench, session_id) == 2


async def test_jobs_of_one_priority_take_turns(bench):
    one = await bench.submit(10, group_size=1)
    other = await bench.submit(10, group_size=1)
    session_id = await bench.session()
    items = (await claims.claim(bench.context, session_id, limit=6, active_version=0)).items
    counts = {job.id: sum(item.job_id == job.id for item in items) for job in (one, other)}
    assert counts == {one.id: 3, other.id: 3}


async def test_work_that_no_worker_can_do_does_not_block_other_jobs(bench):
    await publish(bench)
    await bench.submit(500, group_size=1, version={"exact_version": 0}, priority=90)
    other = await bench.submit(3, group_size=1)
    session_id = await bench.session(version=1)
    done = 0
    for _ in range(60):
        done += await work(bench, session_id, limit=16, version=1)
        if done == 3:
            break
    assert done == 3
    assert (await bench.job(other.id)).state == "completed"
