"""Leases, acknowledgements, rewinds and staleness, on both databases and with two real connections."""

import asyncio

import pytest

from rollway.types import (
    BatchConsumed,
    BatchExtend,
    BatchLease,
    BatchReturn,
    CheckpointMark,
    Rewind,
    VersionPublish,
)
from rollway_service.core.errors import FieldInvalid, NotFound, StaleFence
from rollway_service.operations import claims, consumption, leases, steward, weights
from rollway_service.operations.batch_frames import batch_containers
from tests.builders import a_finished

DIGEST = "sha256:" + "0" * 64


async def make_ready(bench, groups=4, *, group_size=2, version=0, **fields):
    """A job whose groups are all ready."""
    job = await bench.submit(groups, group_size=group_size, **fields)
    session_id = await bench.session()
    items = (await claims.claim(bench.context, session_id, limit=groups * group_size, active_version=version)).items
    await claims.finish(bench.context, session_id, [a_finished(item, version=version) for item in items])
    return job


async def publish(bench, parent=None):
    request = VersionPublish(source="/w", digest=DIGEST, trainer_step=1, parent=parent)
    return (await weights.publish_version(bench.context, bench.caller, "m", request)).version


async def lease(bench, **fields):
    return await leases.lease_batch(
        bench.context, bench.caller, bench.run.id, BatchLease.model_validate({"groups": 2} | fields)
    )


async def consume(bench, batch, step=0, **fields):
    request = BatchConsumed(step=step, **fields)
    return await consumption.consume_batch(bench.context, bench.caller, batch.header.batch_id, request)


async def containers(bench, batch):
    return [container async for container in batch_containers(bench.context, batch)]


def group_ids(batch):
    return [group.group_id for group in batch.header.groups]


async def test_concurrent_consumers_share_the_groups_without_overlap(two):
    first, second = two
    await make_ready(first, 12)
    batches = await asyncio.gather(*(lease(bench, groups=2, consumer=f"c{n}") for n, bench in enumerate(two * 3)))
    taken = [group_id for batch in batches for group_id in group_ids(batch)]
    assert len(taken) == len(set(taken)) == 12
    assert second


async def test_consumer_groups_each_see_everything_even_when_they_come_late(bench):
    await make_ready(bench, 3)
    first = await lease(bench, groups=3)
    await consume(bench, first)
    late = await lease(bench, groups=3, consumer_group="late")
    assert group_ids(late) == group_ids(first)


async def test_partial_batches_come_only_at_the_end_of_the_data(bench):
    """Case B25: 5 groups, pulls of 4: 4, 1, then done."""
    await make_ready(bench, 5)
    assert len(group_ids(first := await lease(bench, groups=4))) == 4
    await consume(bench, first)
    assert len(group_ids(last := await lease(bench, groups=4))) == 1
    await consume(bench, last)
    assert (await lease(bench, groups=4)).header.end_of_data


async def test_a_batch_waits_to_be_full_while_more_may_come(bench):
    await make_ready(bench, 1, close=False)
    waiting = await lease(bench, groups=2)
    assert not waiting.header.end_of_data
    assert waiting.header.waiting_for.startswith("groups: 1 groups (2 samples) of the wanted 2 groups are ready")
    assert len(group_ids(await lease(bench, groups=2, allow_partial=True))) == 1


async def test_the_end_waits_for_leases_of_others_that_may_come_back(bench):
    await make_ready(bench, 2)
    held = await lease(bench, groups=2, consumer="a")
    other = await lease(bench, groups=2, consumer="b")
    assert (other.header.end_of_data, other.header.waiting_for[:7]) == (False, "leases:")
    # Its own leases do not hold a consumer up.
    assert (await lease(bench, groups=2, consumer="a")).header.end_of_data
    await consumption.return_batch(bench.context, bench.caller, held.header.batch_id, BatchReturn())
    assert group_ids(await lease(bench, groups=2, consumer="b")) == group_ids(held)


async def test_samples_are_counted_in_whole_groups(bench):
    await make_ready(bench, 3, group_size=4)
    assert len(group_ids(await lease(bench, groups=None, samples=9))) == 2
    with pytest.raises(FieldInvalid, match="never split"):
        await lease(bench, groups=None, samples=3)


async def test_an_expired_lease_is_offered_again_and_a_late_acknowledgement_is_refused(bench):
    await make_ready(bench, 2)
    late = await lease(bench, consumer="slow")
    await bench.sql("UPDATE batches SET expires_at_s = 1")
    await steward.offer_expired_batches(bench.context)
    again = await lease(bench, consumer="quick")
    assert group_ids(again) == group_ids(late)
    for act in (
        consume(bench, late),
        consumption.extend_batch(bench.context, bench.caller, late.header.batch_id, BatchExtend()),
        consumption.return_batch(bench.context, bench.caller, late.header.batch_id, BatchReturn()),
    ):
        with pytest.raises(StaleFence):
            await act
    assert (await consume(bench, again)).state == "consumed"


async def test_acknowledging_twice_for_the_same_step_changes_nothing(bench):
    job = await make_ready(bench, 2)
    batch = await lease(bench)
    await asyncio.gather(*(consume(bench, batch, step=3) for _ in range(4)))
    assert (await bench.job(job.id)).progress.groups_consumed == 2


async def test_a_group_that_two_consumer_groups_consume_at_once_counts_as_consumed(two):
    first, second = two
    job = await make_ready(first, 24)
    for step in range(12):
        batches = [await lease(first, consumer_group=name) for name in ("a", "b")]
        await asyncio.gather(*(consume(bench, batch, step=step) for bench, batch in zip(two, batches, strict=True)))
    assert (await second.job(job.id)).progress.groups_consumed == 24


async def test_extending_keeps_a_lease(bench):
    await make_ready(bench, 2)
    batch = await lease(bench, lease_s=1.0)
    extended = await consumption.extend_batch(
        bench.context, bench.caller, batch.header.batch_id, BatchExtend(lease_s=500.0)
    )
    assert extended.expires_at_s > batch.header.expires_at_s + 400


async def test_parts_of_a_batch_may_be_consumed_and_returned(bench):
    await make_ready(bench, 2)
    batch = await lease(bench)
    one, other = group_ids(batch)
    assert (await consume(bench, batch, group_ids=[one])).state == "leased"
    state = await consumption.return_batch(
        bench.context, bench.caller, batch.header.batch_id, BatchReturn(group_ids=[other])
    )
    assert state.state == "returned"
    rest = await lease(bench)
    assert group_ids(rest) == [other]
    with pytest.raises(FieldInvalid, match="does not hold"):
        await consume(bench, rest, group_ids=[one])


async def test_the_same_request_id_answers_the_same_batch(bench):
    await make_ready(bench, 4)
    first, again = [await lease(bench, request_id="r1") for _ in range(2)]
    other = await lease(bench, request_id="r2")
    assert first.header.batch_id == again.header.batch_id
    assert group_ids(first) == group_ids(again)
    assert await containers(bench, first) == await containers(bench, again)
    assert not set(group_ids(first)) & set(group_ids(other))


async def test_a_rewound_trainer_gets_the_same_batches_again(bench):
    job = await make_ready(bench, 4)
    batches = []
    for step in range(2):
        batches.append(await lease(bench))
        await consume(bench, batches[-1], step=step)
    await consumption.mark_checkpointed(bench.context, bench.caller, bench.run.id, CheckpointMark(step=0))
    again = await consumption.rewind(bench.context, bench.caller, bench.run.id, Rewind(step=0))
    assert again.groups_offered_again == 2
    assert (await bench.job(job.id)).progress.groups_consumed == 2
    replayed = await lease(bench)
    assert group_ids(replayed) == group_ids(batches[1])
    assert await containers(bench, replayed) == await containers(bench, batches[1])
    await consumption.rewind(bench.context, bench.caller, bench.run.id, Rewind(step=None))
    assert (await bench.job(job.id)).progress.groups_consumed == 0
    assert [group_ids(await lease(bench)) for _ in range(2)] == [group_ids(batch) for batch in batches]


async def test_an_acknowledgement_from_before_a_rewind_is_refused_after_it(bench):
    await make_ready(bench, 2)
    batch = await lease(bench)
    await consume(bench, batch, step=1)
    await consumption.rewind(bench.context, bench.caller, bench.run.id, Rewind(step=0))
    with pytest.raises(StaleFence):
        await consume(bench, batch, step=1)
    assert group_ids(await lease(bench)) == group_ids(batch)


async def test_rewinding_takes_leases_back_too(bench):
    await make_ready(bench, 2)
    batch = await lease(bench)
    await consumption.rewind(bench.context, bench.caller, bench.run.id, Rewind(step=None))
    with pytest.raises(StaleFence):
        await consume(bench, batch)
    assert group_ids(await lease(bench)) == group_ids(batch)


async def test_nothing_can_be_rewound_that_was_never_leased(bench):
    with pytest.raises(NotFound, match="consumer group"):
        await consumption.rewind(bench.context, bench.caller, bench.run.id, Rewind(step=None, consumer_group="none"))


@pytest.mark.parametrize(
    ("bound", "published", "is_served"), [(0, 0, True), (0, 1, False), (1, 1, True), (1, 2, False)]
)
async def test_staleness_is_judged_when_the_batch_is_handed_out(bench, bound, published, is_served):
    """Case B17: made at one version, pulled at another; accepted iff the distance is within the bound."""
    job = await make_ready(bench, 2)
    for _ in range(published):
        await publish(bench)
    batch = await lease(bench, max_staleness=bound)
    assert bool(group_ids(batch)) is is_served
    progress = (await bench.job(job.id)).progress
    assert progress.groups_stale == (0 if is_served else 2)
    assert progress.drops == ({} if is_served else {"stale": 2})


async def test_only_the_member_that_is_too_old_is_left_out(bench):
    await bench.submit(1, group_size=3, member_failure={"policy": "shrink", "min_members": 2})
    session_id = await bench.session()
    items = (await claims.claim(bench.context, session_id, limit=3, active_version=0)).items
    for _ in range(3):
        await publish(bench)
    finished = [a_finished(item, version=version) for item, version in zip(items, (0, 2, 3), strict=True)]
    await claims.finish(bench.context, session_id, finished)
    batch = await lease(bench, groups=1, max_staleness=1)
    (group,) = batch.header.groups
    assert (len(group.samples), group.stale_members) == (2, 1)
    assert {sample.oldest_version for sample in group.samples} == {2, 3}


async def test_withheld_groups_stay_for_others(bench):
    await make_ready(bench, 2)
    await publish(bench)
    mine = await lease(bench, max_staleness=0, stale="withhold")
    assert (mine.header.withheld_groups, mine.header.end_of_data) == (2, True)
    assert len(group_ids(await lease(bench, max_staleness=1, stale="withhold"))) == 2


async def test_masked_samples_keep_their_tokens_and_lose_the_mask(bench):
    await bench.submit(1, group_size=2)
    session_id = await bench.session()
    items = (await claims.claim(bench.context, session_id, limit=2, active_version=0)).items
    await publish(bench)
    finished = [a_finished(item, version=version) for item, version in zip(items, (0, 1), strict=True)]
    await claims.finish(bench.context, session_id, finished)
    batch = await lease(bench, groups=1, max_staleness=0, stale="mask")
    (group,) = batch.header.groups
    assert [sample.stale_versions for sample in group.samples] == [[0], []]
    assert group.stale_members == 0


async def test_after_a_rollback_samples_of_the_abandoned_branch_are_never_served(bench):
    await publish(bench)
    await publish(bench)
    await make_ready(bench, 1, version=2)
    assert await publish(bench, parent=1) == 3
    await make_ready(bench, 1, version=3)
    batch = await lease(bench, groups=2, max_staleness=5)
    (group,) = batch.header.groups
    assert {sample.oldest_version for sample in group.samples} == {3}
    assert {sample.staleness for sample in group.samples} == {0}


async def test_staleness_of_samples_counts_publishes_along_the_lineage(bench):
    await publish(bench)
    await make_ready(bench, 1, version=1)
    for parent in (1, 1, 3):
        await publish(bench, parent=parent)
    batch = await lease(bench, groups=1)
    assert batch.header.trainer_version == 4
    assert {sample.staleness for sample in batch.header.groups[0].samples} == {2}


async def test_tags_and_jobs_narrow_a_lease_and_evaluations_are_never_in_it(bench):
    tagged = await make_ready(bench, 1, tags=["hard"])
    await make_ready(bench, 1)
    evaluation = await make_ready(bench, 1, purpose="eval")
    data = await make_ready(bench, 1, purpose="data")
    assert [group.job_id for group in (await lease(bench, groups=1, tags=["hard"])).header.groups] == [tagged.id]
    assert [group.job_id for group in (await lease(bench, groups=1, job_ids=[data.id])).header.groups] == [data.id]
    with pytest.raises(FieldInvalid):
        await lease(bench, job_ids=[evaluation.id])
    rest = await lease(bench, groups=9)
    assert {group.job_id for group in rest.header.groups} & {evaluation.id, data.id} == set()


async def test_a_trainer_version_that_does_not_exist_is_refused(bench):
    await make_ready(bench, 1)
    with pytest.raises(FieldInvalid, match="latest is 0"):
        await lease(bench, trainer_version=7)
