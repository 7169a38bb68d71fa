"""Claims, fences, checkpoints and ends: over the control plane in this process and over gRPC, on both databases."""

import asyncio

import pytest

from rollway.types import RewardsPost, RolloutFailure, TasksAppend
from rollway_service.core.checkpoint import LoopState, encode_checkpoint, restore
from rollway_service.core.errors import Conflict, FieldInvalid, InvalidRequest, StaleFence, WrongState
from rollway_service.core.tree import PackedTree
from rollway_service.operations import jobs, queries, rewards, steward
from rollway_service.operations.messages import CheckpointPiece
from tests.builders import a_finished, a_tree, token_tasks


@pytest.fixture(params=["direct", "remote"], autouse=True)
def carrier(request):
    """How workers of these tests reach the service."""
    return request.param


async def claim(bench, session_id, limit=10, version=0):
    return (await bench.control.claim(session_id, limit=limit, active_version=version)).items


async def finish(bench, session_id, items, **fields):
    return await bench.control.finish(session_id, [a_finished(item, **fields) for item in items])


def a_checkpoint(item, sequence=0):
    return CheckpointPiece(item.work_item_id, item.fence, sequence, 3, encode_checkpoint(a_tree(), LoopState()))


async def test_concurrent_claims_never_give_the_same_item_twice(two):
    first, second = two
    await first.submit(20, group_size=4)
    one, other = await first.session("w1"), await second.session("w2")

    async def take_all(bench, session_id):
        taken = []
        while items := await claim(bench, session_id, limit=7):
            taken += items
        return taken

    results = await asyncio.gather(*(take_all(*pair) for pair in [(first, one), (second, other)] * 3))
    ids = [item.work_item_id for taken in results for item in taken]
    assert len(ids) == len(set(ids)) == 80


async def test_only_the_current_owner_may_end_an_item_and_exactly_once(two):
    """Case B20: claim, expire, claim again, submit both: one row, the late one is told so."""
    first, second = two
    job = await first.submit(1, group_size=1)
    one, other = await first.session("w1"), await second.session("w2")
    (old,) = await claim(first, one)
    await first.expire_session(one)
    await steward.requeue_lost_work(second.context)
    (new,) = await claim(second, other)
    assert (new.work_item_id, new.fence, new.attempts) == (old.work_item_id, old.fence + 1, 2)
    assert await finish(first, one, [old]) == [old.work_item_id]
    assert await finish(second, other, [new], reward=0.5) == []
    assert await finish(second, other, [new]) == []
    assert await finish(second, other, [new], tree=a_tree(sampled=4)) == [new.work_item_id]
    progress = (await first.job(job.id)).progress
    assert (progress.rollouts_completed, progress.reward_sum) == (1, 0.5)
    assert progress.wasted_tokens == 3 + 4
    found = await queries.list_rollouts(first.context, first.caller, filters={}, cursor=None, limit=10)
    assert [rollout.id for rollout in found.items] == [new.rollout_id]


async def test_both_owners_ending_at_once_store_one_rollout(two):
    first, second = two
    job = await first.submit(4, group_size=2)
    one, other = await first.session("w1"), await second.session("w2")
    items = await claim(first, one, limit=8)
    await asyncio.gather(*(finish(bench, one, items) for bench in (first, second) * 3))
    progress = (await first.job(job.id)).progress
    assert (progress.rollouts_completed, progress.groups_ready) == (8, 4)
    assert other


async def test_a_checkpoint_of_a_former_owner_is_refused_and_the_new_one_goes_on_from_the_last(two):
    first, second = two
    await first.submit(1, group_size=1)
    one, other = await first.session("w1"), await second.session("w2")
    (old,) = await claim(first, one)
    assert await first.control.checkpoint(one, [a_checkpoint(old)]) == []
    await first.expire_session(one)
    await steward.requeue_lost_work(first.context)
    (new,) = await claim(second, other)
    assert await first.control.checkpoint(one, [a_checkpoint(old, 1)]) == [old.work_item_id]
    tree, _ = restore(new.checkpoints)
    assert tree.pack().layout == a_tree().layout
    rollout = await queries.read_rollout(first.context, first.caller, new.rollout_id)
    assert (rollout.state, rollout.checkpointed_tokens) == ("running", 3)


async def test_a_session_whose_lease_has_run_out_may_do_nothing(bench):
    await bench.submit(1)
    session_id = await bench.session()
    await bench.expire_session(session_id)
    with pytest.raises(StaleFence):
        await claim(bench, session_id)
    with pytest.raises(StaleFence):
        await bench.control.heartbeat(session_id, active_version=0, slots=1)


async def test_a_worker_that_starts_again_ends_its_older_session_and_its_work_is_queued(bench):
    await bench.submit(1, group_size=2)
    old = await bench.session("same")
    held = await claim(bench, old)
    new = await bench.session("same")
    assert {item.work_item_id for item in await claim(bench, new)} == {item.work_item_id for item in held}
    with pytest.raises(StaleFence):
        await claim(bench, old)


async def test_a_heartbeat_tells_what_is_still_ours_and_which_weights_to_run(bench, tmp_path):
    job = await bench.submit(1, group_size=2)
    session_id = await bench.session()
    items = await claim(bench, session_id)
    reply = await bench.control.heartbeat(session_id, active_version=0, slots=4)
    assert reply.held == {item.work_item_id: item.fence for item in items}
    assert (reply.target.version, reply.target.source) == (0, str(tmp_path))
    await jobs.cancel_job(bench.context, bench.caller, job.id)
    reply = await bench.control.heartbeat(session_id, active_version=0, slots=4)
    assert reply.held == {}


async def test_items_wait_for_weights_that_fit(bench):
    await bench.submit(1, group_size=1, version={"exact_version": 0})
    session_id = await bench.session()
    assert await claim(bench, session_id, version=1) == []
    assert len(await claim(bench, session_id, version=0)) == 1


async def test_higher_priority_and_then_older_work_is_claimed_first(bench):
    low = await bench.submit(1, group_size=1, priority=10)
    high = await bench.submit(1, group_size=1, priority=90)
    session_id = await bench.session()
    items = await claim(bench, session_id, limit=2)
    assert [item.job_id for item in items] == [high.id, low.id]


async def test_a_rollout_that_loses_too_many_workers_fails_with_the_cause(bench):
    job = await bench.submit(1, group_size=1, limits={"max_attempts": 2}, member_failure={"policy": "shrink"})
    for attempt in range(2):
        session_id = await bench.session(f"w{attempt}")
        (item,) = await claim(bench, session_id)
        if attempt == 0:
            await bench.control.checkpoint(session_id, [a_checkpoint(item)])
        await bench.expire_session(session_id)
        await steward.requeue_lost_work(bench.context)
    found = await queries.list_rollouts(bench.context, bench.caller, filters={}, cursor=None, limit=10)
    (rollout,) = found.items
    assert (rollout.state, rollout.failure.kind, rollout.attempts) == ("failed", "worker_lost", 2)
    # What its checkpoint held is kept.
    (trajectory_id,) = rollout.trajectory_ids
    trajectory = await queries.get_trajectory(
        bench.context, bench.caller, trajectory_id, with_arrays=True, with_text=False
    )
    assert trajectory.num_sampled == 3
    assert (await bench.job(job.id)).state == "completed"


async def test_a_failed_member_is_replaced_with_a_seed_of_its_own_up_to_the_limit(bench):
    job = await bench.submit(1, group_size=1, member_failure={"policy": "refill", "max_refills": 1})
    session_id = await bench.session()
    (first,) = await claim(bench, session_id)
    failure = RolloutFailure(kind="engine", detail="broken")
    await finish(bench, session_id, [first], reward=None, failure=failure)
    (second,) = await claim(bench, session_id)
    assert (second.member_index, second.group_id) == (1, first.group_id)
    assert second.seed != first.seed
    await finish(bench, session_id, [second], reward=None, failure=failure)
    assert await claim(bench, session_id) == []
    progress = (await bench.job(job.id)).progress
    assert (progress.groups_failed, progress.rollouts_failed, progress.rollouts_refilled) == (1, 2, 1)
    assert progress.drops == {"too_few_members": 1}
    assert progress.failures == {"engine": 2}


async def test_a_failure_that_would_come_again_is_not_refilled(bench):
    await bench.submit(1, group_size=1)
    session_id = await bench.session()
    (item,) = await claim(bench, session_id)
    failure = RolloutFailure(kind="request", detail="refused")
    await finish(bench, session_id, [item], reward=None, failure=failure, is_repeatable=False)
    assert await claim(bench, session_id) == []


@pytest.mark.parametrize(("policy", "state"), [("shrink", "ready"), ("drop", "failed")])
async def test_a_group_goes_on_without_a_failed_member_or_fails_with_it(bench, policy, state):
    job = await bench.submit(1, group_size=3, member_failure={"policy": policy})
    session_id = await bench.session()
    items = await claim(bench, session_id)
    await finish(bench, session_id, items[:1], reward=None, failure=RolloutFailure(kind="engine", detail="x"))
    await finish(bench, session_id, items[1:])
    page = await queries.list_groups(bench.context, bench.caller, job.id, state=None, cursor=None, limit=10)
    assert (page.items[0].state, page.items[0].num_usable, page.items[0].num_failed) == (state, 2, 1)


async def test_an_end_without_a_sampled_token_is_no_sample(bench):
    """Case B20: a submit with no sampled tokens does not count as complete."""
    job = await bench.submit(1, group_size=1, member_failure={"policy": "shrink"})
    session_id = await bench.session()
    (item,) = await claim(bench, session_id)
    await finish(bench, session_id, [item], tree=a_tree(sampled=0))
    progress = (await bench.job(job.id)).progress
    assert (progress.rollouts_completed, progress.rollouts_failed, progress.groups_ready) == (0, 1, 0)
    assert progress.failures == {"no_sampled_tokens": 1}


@pytest.mark.parametrize(
    "spoil",
    [
        {"weight_versions": [[4, 6, 0]]},
        {"weight_versions": [[4, 6, 0], [5, 7, 1]]},
        {"trainable": [[0, 7]]},
        {"lengths": [4, 2]},
        {"parents": [-1, 5]},
    ],
    ids=["gap", "overlap", "mask on the prompt", "short", "no parent"],
)
async def test_a_tree_that_contradicts_itself_is_refused_and_nothing_is_stored(bench, spoil):
    job = await bench.submit(1, group_size=1)
    session_id = await bench.session()
    (item,) = await claim(bench, session_id)
    good = a_tree()
    bad = PackedTree(good.container, good.layout.model_copy(update=spoil))
    with pytest.raises(InvalidRequest):
        await finish(bench, session_id, [item], tree=bad)
    assert (await bench.job(job.id)).progress.rollouts_completed == 0
    assert await finish(bench, session_id, [item]) == []


async def test_a_group_is_ready_once_whoever_ends_its_last_member(two):
    first, second = two
    job = await first.submit(6, group_size=2)
    session_id = await first.session()
    items = await claim(first, session_id, limit=12)
    await asyncio.gather(
        *(finish(bench, session_id, [item]) for bench, item in zip((first, second) * 6, items, strict=True))
    )
    progress = (await first.job(job.id)).progress
    assert (progress.groups_ready, progress.rollouts_completed) == (6, 12)
    assert (await first.job(job.id)).state == "completed"


async def test_posted_rewards_hold_the_group_until_the_last_has_come(bench):
    job = await bench.submit(
        1, group_size=2, rewards=[{"kind": "posted", "name": "a"}, {"kind": "posted", "name": "b", "weight": 2.0}]
    )
    session_id = await bench.session()
    items = await claim(bench, session_id)
    await finish(bench, session_id, items, reward=None)
    assert (await bench.job(job.id)).progress.groups_open == 1

    async def post(rollout_id, **posted):
        return await rewards.post_rewards(
            bench.context, bench.caller, rollout_id, RewardsPost.model_validate({"rewards": [posted]})
        )

    one, other = (item.rollout_id for item in items)
    assert (await post(one, name="a", value=1.0)).state == "awaiting_reward"
    assert (await post(one, name="a", value=1.0)).state == "awaiting_reward"
    with pytest.raises(Conflict):
        await post(one, name="a", value=0.0)
    assert (await post(one, name="b", value=0.5)).reward == 2.0
    with pytest.raises(FieldInvalid, match="unknown"):
        await post(one, name="unknown", value=1.0)
    failed = await post(other, name="a", failure="my checker broke")
    assert failed.state == "awaiting_reward"
    failed = await post(other, name="b", value=1.0)
    assert (failed.state, failed.reward, failed.failure.kind) == ("failed", None, "reward")
    progress = (await bench.job(job.id)).progress
    assert (progress.rollouts_scored, progress.rollouts_unscored, progress.rollouts_refilled) == (1, 1, 0)


async def test_rewards_that_are_not_posted_in_time_leave_the_rollout_unscored(bench):
    job = await bench.submit(1, group_size=1, rewards=[{"kind": "posted"}], member_failure={"policy": "shrink"})
    session_id = await bench.session()
    items = await claim(bench, session_id)
    await finish(bench, session_id, items, reward=None)
    await bench.sql("UPDATE rollouts SET rewards_deadline_at_s = 1")
    await steward.end_overdue_rewards(bench.context)
    rollout = await queries.read_rollout(bench.context, bench.caller, items[0].rollout_id)
    assert (rollout.state, rollout.failure.kind, rollout.reward) == ("failed", "reward", None)
    assert (await bench.job(job.id)).state == "completed"


async def test_a_group_past_its_deadline_goes_on_with_what_it_has(bench):
    job = await bench.submit(1, group_size=3)
    session_id = await bench.session()
    items = await claim(bench, session_id)
    await finish(bench, session_id, items[:2])
    await bench.sql("UPDATE groups SET deadline_at_s = 1")
    await steward.end_overdue_groups(bench.context)
    page = await queries.list_groups(bench.context, bench.caller, job.id, state="ready", cursor=None, limit=10)
    assert (page.items[0].num_usable, page.items[0].num_failed) == (2, 1)
    assert await finish(bench, session_id, items[2:]) == [items[2].work_item_id]


async def test_a_rollout_past_its_deadline_is_ended_for_its_worker(bench):
    job = await bench.submit(1, group_size=1, member_failure={"policy": "shrink"})
    session_id = await bench.session()
    (item,) = await claim(bench, session_id)
    await bench.control.checkpoint(session_id, [a_checkpoint(item)])
    await bench.sql("UPDATE work_items SET deadline_at_s = 1")
    await steward.end_overdue_rollouts(bench.context)
    rollout = await queries.read_rollout(bench.context, bench.caller, item.rollout_id)
    assert (rollout.state, rollout.failure.kind) == ("failed", "deadline")
    assert rollout.usage.sampled_tokens == 3
    assert (await bench.job(job.id)).progress.groups_failed == 1


async def test_cancelling_ends_what_is_open_and_keeps_what_is_ready(bench):
    job = await bench.submit(2, group_size=2)
    session_id = await bench.session()
    items = await claim(bench, session_id)
    ready = [item for item in items if item.task_index == 0]
    rest = [item for item in items if item.task_index == 1]
    await finish(bench, session_id, ready)
    await finish(bench, session_id, rest[:1])
    cancelled = await jobs.cancel_job(bench.context, bench.caller, job.id)
    assert cancelled.state == "cancelled"
    progress = cancelled.progress
    assert (progress.groups_ready, progress.groups_cancelled, progress.groups_open) == (1, 1, 0)
    assert (progress.rollouts_completed, progress.rollouts_cancelled) == (3, 1)
    assert await finish(bench, session_id, rest[1:]) == [rest[1].work_item_id]
    with pytest.raises(WrongState):
        await jobs.append_tasks(
            bench.context, bench.caller, job.id, TasksAppend.model_validate({"tasks": token_tasks(1)})
        )


async def test_log_probs_that_were_not_observed_come_back_as_null_without_a_mask(bench):
    await bench.submit(1, group_size=1)
    session_id = await bench.session()
    (item,) = await claim(bench, session_id)
    await finish(bench, session_id, [item], tree=a_tree(logprobs=[-0.1, float("nan"), -0.3]))
    found = await queries.get_rollout_tree(bench.context, bench.caller, item.rollout_id)
    assert found.nodes[1].behavior_logprobs == [pytest.approx(-0.1), None, pytest.approx(-0.3)]
    assert found.nodes[1].loss_mask == [1, 0, 1]
    assert found.nodes[0].behavior_logprobs is None


async def test_tokens_of_a_version_that_was_never_published_are_not_trained_on(bench):
    job = await bench.submit(1, group_size=2, member_failure={"policy": "shrink"})
    session_id = await bench.session()
    true, untrue = await claim(bench, session_id)
    await finish(bench, session_id, [true])
    await finish(bench, session_id, [untrue], tree=a_tree(version=3))
    progress = (await bench.job(job.id)).progress
    assert (progress.rollouts_completed, progress.failures) == (1, {"engine": 1})


async def test_a_member_that_was_not_scored_fails_and_is_no_sample(bench):
    """Case B30: an answer that was cut off has no reward; a trainer would average NaN."""
    job = await bench.submit(1, group_size=2, rewards=[{"kind": "exact"}], member_failure={"policy": "shrink"})
    session_id = await bench.session()
    scored, cut = await claim(bench, session_id)
    await finish(bench, session_id, [scored])
    await finish(bench, session_id, [cut], reward=None)
    progress = (await bench.job(job.id)).progress
    assert (progress.rollouts_scored, progress.failures, progress.groups_ready) == (1, {"reward": 1}, 1)


async def test_a_job_says_what_its_open_groups_wait_for(bench):
    job = await bench.submit(1, group_size=1, version={"exact_version": 0}, rewards=[{"kind": "posted"}])
    session_id = await bench.session(version=1)
    found = await bench.control.claim(session_id, limit=1, active_version=1)
    assert found.items == []
    assert (await bench.job(job.id)).progress.waiting_for.startswith("workers: 1 rollouts are queued")
    other = await bench.session("w2")
    (item,) = await claim(bench, other)
    assert (await bench.job(job.id)).progress.waiting_for is None
    await finish(bench, other, [item], reward=None)
    assert (await bench.job(job.id)).progress.waiting_for.startswith("rewards: the rollouts of 1 groups have ended")
