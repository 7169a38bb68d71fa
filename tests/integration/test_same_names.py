"""The same thing asked for by many at once: it is made once, and nobody gets an error of the service's."""

import asyncio
import collections

from rollway_service.operations import sessions
from rollway_service.operations.messages import WorkerHello
from tests.builders import token_tasks
from tests.stack import running_stack

AT_ONCE = 8


async def at_once(stack, path, body):
    """The answers to the same request, sent by many at once; statuses are counted."""
    answers = await asyncio.gather(*(stack.http.post(path, json=body) for _ in range(AT_ONCE)))
    return collections.Counter(answer.status_code for answer in answers), [answer.json() for answer in answers]


async def test_models_and_pools_of_one_name_are_made_once(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        bodies = {
            "/v1/models": {"name": "new", "source": str(tmp_path), "vocab_size": 300},
            "/v1/pools": {"name": "new", "model": "tiny"},
        }
        for path, body in bodies.items():
            statuses, answers = await at_once(stack, path, body)
            assert statuses == {201: 1, 409: AT_ONCE - 1}, answers
            assert sum(answer.get("code") == "already_exists" for answer in answers) == AT_ONCE - 1


async def test_runs_that_need_the_same_new_pool_share_it(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        statuses, answers = await at_once(stack, "/v1/runs", {"name": "r", "model": "tiny", "pool": "shared"})
        assert statuses == {201: AT_ONCE}, answers
        assert len({answer["id"] for answer in answers}) == AT_ONCE
        assert sorted([pool.name async for pool in stack.client.pools()]) == ["shared", "tiny"]


async def test_workers_of_one_name_take_it_from_each_other(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        pool = await anext(stack.client.pools())
        hello = WorkerHello(pool.id, "same", 4, {"kind": "test"}, 0)
        opened = await asyncio.gather(
            *(sessions.open_session(stack.context, stack.caller.tenant_id, hello) for _ in range(AT_ONCE))
        )
        assert sorted(session.epoch for session in opened) == list(range(1, AT_ONCE + 1))
        (worker,) = [found async for found in stack.client.workers()]
        assert (worker.name, worker.epoch, worker.state) == ("same", AT_ONCE, "live")


async def test_a_lease_that_is_sent_again_while_the_first_is_answered_gives_the_same_batch(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("again", model="tiny")
        job = await run.submit(token_tasks(AT_ONCE), group_size=1, sampling={"max_new_tokens": 4}, close=True)
        await job.wait(30)
        leases = await asyncio.gather(*(run.lease(groups=1, request_id="same", wait_s=5) for _ in range(AT_ONCE)))
        assert len({batch.id for batch in leases}) == 1
        assert len({group.header.group_id for batch in leases for group in batch.groups}) == 1
        assert len((await run.lease(groups=AT_ONCE, wait_s=5)).groups) == AT_ONCE - 1
