"""Local wake-ups: whoever took a ticket before looking misses nothing, and work starts without waiting for a poll."""

import asyncio

import pytest

from rollway_service.dispatch.local import LocalWakeUps
from rollway_service.dispatch.ports import job_topic, pool_topic, run_topic
from rollway_workers.control_direct import DirectControlPlane
from rollway_workers.engines.scripted import Answer
from tests.builders import token_tasks
from tests.stack import running_stack, until

LONG_S = 60.0
FIELDS = {"group_size": 1, "sampling": {"max_new_tokens": 4}}


async def waiting(wakeups, topic, timeout_s=LONG_S):
    task = asyncio.create_task(wakeups.wait(topic, wakeups.ticket(topic), timeout_s))
    await asyncio.sleep(0)
    return task


async def test_a_wake_up_wakes_all_that_wait_on_its_topic_and_nobody_else():
    wakeups = LocalWakeUps()
    first, second, other = [await waiting(wakeups, topic) for topic in ("a", "a", "b")]
    wakeups.wake("a")
    assert await asyncio.gather(first, second) == [True, True]
    assert not other.done()
    other.cancel()


async def test_a_wake_up_between_ticket_and_wait_is_not_missed():
    wakeups = LocalWakeUps()
    ticket = wakeups.ticket("a")
    wakeups.wake("a")
    assert await wakeups.wait("a", ticket, LONG_S)
    assert not await wakeups.wait("a", wakeups.ticket("a"), 0.01)
    assert not await wakeups.wait("a", wakeups.ticket("a"), 0)


async def test_waiting_ends_without_a_wake_up_and_leaves_nothing_behind():
    wakeups = LocalWakeUps()
    assert not await (await waiting(wakeups, "a", 0.01))
    gone = await waiting(wakeups, "a")
    gone.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gone
    assert not wakeups._waiting
    wakeups.wake("a")


async def test_wake_ups_that_nobody_awaits_do_no_harm():
    wakeups = LocalWakeUps()
    for _ in range(3):
        wakeups.wake("a")
    later = await waiting(wakeups, "a")
    assert not later.done()
    wakeups.wake("a")
    assert await later


@pytest.fixture
def slow_polls(monkeypatch):
    """No poll comes within the test: only wake-ups make things go on."""
    monkeypatch.setattr("rollway_service.operations.leases._POLL_S", LONG_S)
    monkeypatch.setattr("rollway_service.operations.progress._WATCH_POLL_S", LONG_S)


async def test_work_leases_and_watches_go_on_by_wake_ups_alone(database_url, tmp_path, slow_polls):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("woken", model="tiny")
        job = await run.submit(**FIELDS)

        async def watched():
            return [progress async for progress in job.watch()][-1]

        watching = asyncio.create_task(watched())
        leasing = asyncio.create_task(run.lease(groups=1, wait_s=50))
        pool = await anext(stack.client.pools())
        for topic in (pool_topic(pool.id), run_topic(run.id), job_topic(job.id)):
            await until(lambda topic=topic: stack.context.wakeups._waiting.get(topic))
        await job.append(token_tasks(1), close=True)
        batch = await asyncio.wait_for(leasing, 30)
        assert len(batch.groups) == 1
        assert (await asyncio.wait_for(watching, 30)).groups_ready == 1


async def test_the_end_of_the_data_wakes_who_waits_for_a_batch(database_url, tmp_path, slow_polls):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("end", model="tiny")
        job = await run.submit(token_tasks(1), **FIELDS)
        await run.lease(groups=1, wait_s=30)
        leasing = asyncio.create_task(run.lease(groups=1, wait_s=50))
        await until(lambda: stack.context.wakeups._waiting.get(run_topic(run.id)))
        await job.close()
        assert not (await asyncio.wait_for(leasing, 30)).groups


async def test_a_batch_that_is_given_back_wakes_the_next_trainer(sqlite_url, tmp_path, slow_polls):
    async with running_stack(sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("back", model="tiny")
        await run.submit(token_tasks(1), close=True, **FIELDS)
        first = await run.lease(groups=1, wait_s=30, consumer="one")
        leasing = asyncio.create_task(run.lease(groups=1, wait_s=50, consumer="two"))
        await until(lambda: stack.context.wakeups._waiting.get(run_topic(run.id)))
        await first.give_back()
        second = await asyncio.wait_for(leasing, 30)
        assert [group.header.group_id for group in second.groups] == [group.header.group_id for group in first.groups]


async def test_cancelled_work_is_told_to_its_worker(database_url, tmp_path):
    """The engine's request is aborted long before it would have ended."""

    def respond(call):
        return Answer([20] * 200, finish="length", chunk_tokens=1, chunk_delay_s=0.5)

    async with running_stack(database_url, tmp_path, responder=respond) as stack:
        run = await stack.client.start_run("told", model="tiny")
        job = await run.submit(token_tasks(1), group_size=2, sampling={"max_new_tokens": 200}, close=True)
        await until(lambda: len(stack.engine.running) == 2)
        await job.cancel()
        await until(lambda: not stack.engine.running)
        assert (await job.refresh()).state == "cancelled"
        assert job.info.progress.rollouts_cancelled == 2


async def test_a_heartbeat_that_was_answered_before_a_claim_takes_nothing_of_it(sqlite_url, tmp_path, monkeypatch):
    answered, arrives, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    heartbeat = DirectControlPlane.heartbeat

    async def slow_heartbeat(self, *arguments, **named):
        reply = await heartbeat(self, *arguments, **named)
        answered.set()
        await arrives.wait()
        return reply

    async def respond(call):
        await may_end.wait()
        return Answer([20, 21], finish="length")

    monkeypatch.setattr(DirectControlPlane, "heartbeat", slow_heartbeat)
    async with running_stack(sqlite_url, tmp_path, responder=respond, session_lease_s=30.0) as stack:
        await until(answered.is_set)
        run = await stack.client.start_run("meanwhile", model="tiny")
        job = await run.submit(token_tasks(1), close=True, group_size=2, sampling={"max_new_tokens": 4})
        await until(lambda: len(stack.engine.calls) == 2)
        arrives.set()
        await asyncio.sleep(0.2)
        may_end.set()
        await job.wait(20)
        assert [rollout.attempts async for rollout in stack.client.rollouts(job_id=job.id)] == [1, 1]
        assert len(stack.engine.calls) == 2
