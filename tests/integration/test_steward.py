"""The steward beside a running service: whatever nobody ends is ended, once, and nothing else is touched."""

import asyncio
import contextlib

import pytest
from sqlalchemy import text

from rollway.errors import Conflict
from rollway_service.composition import build_context
from rollway_service.operations import claims, sessions, steward
from rollway_service.operations.messages import WorkerHello
from rollway_service.store.turns import take_turn
from rollway_workers.engines.scripted import Answer, Fault
from tests.builders import token_tasks
from tests.stack import running_stack, until

SAMPLING = {"max_new_tokens": 4}


@contextlib.asynccontextmanager
async def at_work(stack):
    """The steward's own loop."""
    task = asyncio.create_task(steward.run_steward(stack.context))
    yield task
    assert not task.done()
    task.cancel()


async def sql(stack, statement, **values):
    async with stack.context.database.transaction() as transaction:
        return await transaction.connection.execute(text(statement), values)


async def test_a_member_that_never_ends_holds_its_group_until_the_deadline_alone(postgres_url, tmp_path):
    """Case B24: four members, one hangs: until the deadline it is named, then the group is delivered as three."""

    def respond(call):
        hang = Fault("hang") if len(stack.engine.calls) == 2 else None
        return Answer([20, 21], finish="length", fault=hang)

    async with running_stack(postgres_url, tmp_path, responder=respond) as stack, at_work(stack):
        run = await stack.client.start_run("hanging", model="tiny")
        job = await run.submit(
            token_tasks(1),
            group_size=4,
            sampling=SAMPLING,
            limits={"group_deadline_s": 3.0},
            member_failure={"policy": "shrink"},
            close=True,
        )

        async def three_ended():
            found = [group async for group in stack.client.groups(job.id)]
            return found[0] if found and found[0].num_usable == 3 else None

        group = await until(three_ended)
        assert group.state == "open"
        (missing,) = group.pending_rollout_ids
        assert (await stack.client.rollout(missing)).state == "running"
        ended = await job.wait(30)
        assert (ended.progress.groups_ready, ended.progress.failures) == (1, {"deadline": 1})
        assert (await stack.client.rollout(missing)).failure.kind == "deadline"
        assert len((await run.lease(groups=1, wait_s=5)).samples) == 3
        await until(lambda: not stack.engine.running)


async def test_work_that_no_worker_takes_ends_at_its_deadline(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path, with_worker=False) as stack, at_work(stack):
        run = await stack.client.start_run("nobody", model="tiny")
        job = await run.submit(
            token_tasks(1), group_size=2, sampling=SAMPLING, limits={"group_deadline_s": 0.5}, close=True
        )
        progress = (await job.refresh()).progress
        assert progress.waiting_for.startswith("workers: no live worker")
        # Groups are admitted when a worker asks; this one takes a rollout and never works on it.
        pool = await anext(stack.client.pools())
        hello = WorkerHello(pool.id, "idle", 4, {"kind": "test"}, 0)
        session = await sessions.open_session(stack.context, stack.caller.tenant_id, hello)
        await claims.claim(stack.context, session.session_id, limit=1, active_version=0)
        ended = await job.wait(30)
        assert ended.progress.groups_failed == 1
        assert ended.progress.failures == {"deadline": 2}
        assert (await run.lease(groups=1)).header.end_of_data


async def test_a_worker_without_heartbeats_loses_its_work_to_another(database_url, tmp_path):
    hung = []

    def respond(call):
        if len(hung) < 2:
            hung.append(call)
            return Answer([20, 21], finish="length", fault=Fault("hang"))
        return Answer([20, 21], finish="length")

    async with running_stack(database_url, tmp_path, responder=respond, session_lease_s=20.0) as stack:
        run = await stack.client.start_run("lost", model="tiny")
        job = await run.submit(token_tasks(1), group_size=2, sampling=SAMPLING, close=True)
        await until(lambda: len(hung) == 2)
        await sql(stack, "UPDATE worker_sessions SET expires_at_s = 1")
        async with at_work(stack):
            await stack.start_worker(name="w2")
            ended = await job.wait(30)
            assert (ended.progress.groups_ready, ended.progress.rollouts_completed) == (1, 2)
            rollouts = [found async for found in stack.client.rollouts(job_id=job.id)]
            assert [rollout.attempts for rollout in rollouts] == [2, 2]


async def test_a_batch_that_is_not_acknowledged_in_time_is_offered_again(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack, at_work(stack):
        run = await stack.client.start_run("expired", model="tiny")
        await run.submit(token_tasks(1), group_size=1, sampling=SAMPLING, close=True)
        late = await run.lease(groups=1, wait_s=20, lease_s=0.5, consumer="late")
        again = await run.lease(groups=1, wait_s=20, consumer="next")
        assert [group.header.group_id for group in again.groups] == [group.header.group_id for group in late.groups]
        with pytest.raises(Conflict):
            await late.consumed(step=0)
        assert (await again.consumed(step=0)).state == "consumed"


async def test_rewards_that_are_not_posted_in_time_are_no_zeros(postgres_url, tmp_path):
    async with running_stack(postgres_url, tmp_path) as stack, at_work(stack):
        run = await stack.client.start_run("unposted", model="tiny")
        job = await run.submit(
            token_tasks(1),
            group_size=2,
            sampling=SAMPLING,
            rewards=[{"kind": "posted", "deadline_s": 0.5}],
            member_failure={"policy": "shrink"},
            close=True,
        )
        progress = (await job.wait(30)).progress
        assert (progress.rollouts_scored, progress.rollouts_unscored, progress.groups_failed) == (0, 2, 1)
        for rollout in [found async for found in stack.client.rollouts(job_id=job.id)]:
            assert (rollout.reward, rollout.rewards[0].failure.kind) == (None, "missing")
            with pytest.raises(Conflict):
                await stack.client.post_rewards(rollout.id, [{"name": "posted", "value": 1.0}])


async def test_a_cancellation_that_was_cut_in_two_is_finished(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path, responder=lambda _: Answer([], fault=Fault("hang"))) as stack:
        run = await stack.client.start_run("cut", model="tiny")
        job = await run.submit(token_tasks(1), group_size=2, sampling=SAMPLING, close=True)
        await until(lambda: len(stack.engine.running) == 2)
        await sql(stack, "UPDATE jobs SET state = 'cancelled' WHERE id = :id", id=job.id)
        await stack.sweep()
        progress = (await job.refresh()).progress
        assert (progress.groups_cancelled, progress.rollouts_cancelled, progress.groups_open) == (1, 2, 0)
        await until(lambda: not stack.engine.running)


async def test_two_stewards_at_once_end_everything_once(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        other = build_context(stack.context.settings)
        run = await stack.client.start_run("two", model="tiny")
        job = await run.submit(
            token_tasks(4), group_size=2, sampling=SAMPLING, rewards=[{"kind": "posted"}], close=True,
            member_failure={"policy": "shrink"},
        )  # fmt: skip

        async def all_wait():
            waiting = [found async for found in stack.client.rollouts(job_id=job.id, state="awaiting_reward")]
            return len(waiting) == 8

        await until(all_wait)
        await sql(stack, "UPDATE rollouts SET rewards_deadline_at_s = 1")
        # On SQLite there is one process and so one steward; two that are in turn must do no more than one.
        sweeps = [steward.sweep(stack.context), steward.sweep(other)]
        if stack.context.database.is_sqlite:
            for sweep in sweeps:
                await sweep
        else:
            await asyncio.gather(*sweeps)
        await other.database.dispose()
        progress = (await job.refresh()).progress
        assert (progress.rollouts_unscored, progress.groups_failed, progress.failures) == (8, 4, {"reward": 8})
        assert job.info.state == "completed"


async def test_a_duty_that_fails_leaves_the_others_their_turn(sqlite_url, tmp_path, monkeypatch):
    async def broken(context):
        raise RuntimeError("a fault of ours")

    duties = (steward.Duty(broken), *steward.DUTIES)
    monkeypatch.setattr(steward, "DUTIES", duties)
    async with running_stack(sqlite_url, tmp_path) as stack, at_work(stack):
        run = await stack.client.start_run("broken", model="tiny")
        await run.submit(token_tasks(1), group_size=1, sampling=SAMPLING, close=True)
        await run.lease(groups=1, wait_s=20, lease_s=0.3, consumer="late")
        assert (await run.lease(groups=1, wait_s=20)).groups


async def test_a_steward_with_nothing_to_do_changes_nothing(postgres_url, tmp_path):
    async with running_stack(postgres_url, tmp_path) as stack:
        run = await stack.client.start_run("calm", model="tiny")
        job = await run.submit(token_tasks(2), group_size=2, sampling=SAMPLING, rewards=[{"kind": "posted"}])
        batch = await run.lease(groups=1)

        async def all_wait():
            return (await job.refresh()).progress.groups_open == 2 and len(
                [found async for found in stack.client.rollouts(job_id=job.id, state="awaiting_reward")]
            ) == 4

        await until(all_wait)
        before = await job.refresh()
        for _ in range(3):
            await stack.sweep()
        assert await job.refresh() == before
        assert not batch.groups


async def test_several_stewards_sweep_no_more_often_than_one(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False, steward_interval_s=30.0) as stack:
        turns = await asyncio.gather(*(steward.sweep_in_turn(stack.context) for _ in range(8)))
        assert sorted(turns) == [False] * 7 + [True]
        assert await steward.sweep_in_turn(stack.context) is False
        async with stack.context.database.transaction() as transaction:
            assert await take_turn(transaction, "sweep", 0.0) == 1
            assert await take_turn(transaction, "sweep", 60.0) is None
            assert await take_turn(transaction, "other", 60.0) == 0
