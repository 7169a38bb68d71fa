"""Celery, Redis and gRPC carry the work of a whole deployment; each part fails alone, and nothing is lost or doubled."""

import asyncio
import json
import signal
import subprocess
import sys

import pytest

from rollway_service.dispatch.broker import make_celery
from tests.builders import token_tasks
from tests.distributed import deployed
from tests.e2e.test_worker_deaths import TOKENS, assert_whole, checkpointed, scripted_engine
from tests.processes import running_service, until_logged
from tests.servers import free_port
from tests.stack import until

MATH = [{"kind": "math", "name": "m", "timeout_s": 30}]


async def submit(client, tasks=4, rewards=(), tokens=TOKENS, **fields):
    run = await client.start_run("carriers", model="tiny")
    job = await run.submit(
        [task | {"reference": "1"} for task in token_tasks(tasks)],
        group_size=2,
        sampling={"max_new_tokens": tokens, "seed": 3},
        rewards=list(rewards),
        close=True,
        **fields,
    )
    return run, job


def python_reward(function, timeout_s=30.0, **arguments):
    return [{"kind": "python", "name": "p", "function": function, "timeout_s": timeout_s, "arguments": arguments}]


DRAINED = "takes no more work; what runs is finished"


async def rollway_control(redis, *arguments):
    """Exit code and answers of `rollway control`."""
    command = [sys.executable, "-m", "rollway_service.control", *arguments, "--broker", redis.url]
    process = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output, _ = await process.communicate()
    return process.returncode, [json.loads(line) for line in output.splitlines()]


async def rewards_of(client):
    return [reward async for rollout in client.rollouts() for reward in rollout.rewards]


async def test_a_job_is_carried_by_celery_and_grpc(postgres_url, redis, tmp_path):
    """The samples are those of an engine that is asked directly, so those of any other carrier too."""
    async with scripted_engine() as engine, deployed(tmp_path, postgres_url, redis) as found:
        with found.reward_worker() as rewards, found.steward(), found.worker(engine.url, "one") as worker:
            await until_logged(rewards, "reward_worker_started")
            run, job = await submit(found.client, rewards=MATH)
            await job.wait(60)
            await assert_whole(found.client, run, engine)
            assert all(reward.failure is None for reward in await rewards_of(found.client))
            assert "no_reward_worker_answered" not in worker.log.read_text()


@pytest.mark.parametrize("how", ["flush", "kill", "hang"])
async def test_work_goes_on_whatever_redis_does(postgres_url, redis, tmp_path, how):
    async with scripted_engine() as engine, deployed(tmp_path, postgres_url, redis) as found:
        with found.worker(engine.url, "one") as worker, found.steward():
            await until_logged(worker, "broker_connected")
            run, job = await submit(found.client)
            await until(lambda: checkpointed(found.client, job.id), within_s=40)
            getattr(redis, how)()
            await job.wait(60)
            await assert_whole(found.client, run, engine)
            # What is submitted without a broker is found by polling.
            _, second = await submit(found.client, tasks=1, tokens=16)
            await second.wait(60)
            if how == "kill":
                redis.start()
            if how == "hang":
                redis.unhang()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_checks_of_a_reward_worker_that_ends_are_done_by_others(postgres_url, redis, tmp_path, number):
    functions = "slow=tests.reward_functions:takes_a_second"
    async with (
        scripted_engine() as engine,
        deployed(tmp_path, postgres_url, redis, reward_functions=functions) as found,
    ):
        with found.worker(engine.url, "one"), found.reward_worker("first") as first:
            await until_logged(first, "reward_worker_started")
            _, job = await submit(found.client, tokens=16, rewards=python_reward("slow"))
            await asyncio.sleep(1.5)
            first.signal(number)
            with found.reward_worker("second"):
                await job.wait(90)
            rewards = await rewards_of(found.client)
            assert [(reward.value, reward.failure) for reward in rewards] == [(0.5, None)] * 8


async def test_checks_are_killed_at_their_limit_and_a_fatal_one_is_not_tried_for_ever(postgres_url, redis, tmp_path):
    functions = "hang=tests.reward_functions:hangs,die=tests.reward_functions:ends_its_process"
    async with (
        scripted_engine() as engine,
        deployed(tmp_path, postgres_url, redis, reward_functions=functions, reward_processes="2") as found,
    ):
        with found.worker(engine.url, "one"), found.reward_worker() as rewards:
            await until_logged(rewards, "reward_worker_started")
            _, hung = await submit(found.client, tasks=1, tokens=8, rewards=python_reward("hang", timeout_s=1.0))
            await hung.wait(60)
            assert {reward.failure.kind for reward in await rewards_of(found.client)} == {"timeout"}
            _, lost = await submit(found.client, tasks=1, tokens=8, rewards=python_reward("die"))
            await lost.wait(60)
            assert {reward.failure.kind for reward in await rewards_of(found.client)} == {"timeout", "infra"}
            _, fine = await submit(found.client, tasks=1, tokens=8, rewards=MATH)
            await fine.wait(60)
            with redis.client() as client:
                assert client.llen("rollway:rewards") == 0


async def test_without_a_reward_worker_the_worker_checks_by_itself(postgres_url, redis, tmp_path):
    """References that Celery's own JSON would change arrive as they are, by either way."""
    functions = "echo=tests.reward_functions:is_a_plain_object"
    odd = {"__type__": "uuid", "__value__": "00000000000000000000000000000001"}
    async with (
        scripted_engine() as engine,
        deployed(tmp_path, postgres_url, redis, reward_functions=functions) as found,
    ):
        with found.worker(engine.url, "one") as worker:
            await until_logged(worker, "broker_connected")
            for name in ("alone", "helped"):
                run = await found.client.start_run(name, model="tiny")
                tasks = [task | {"reference": odd} for task in token_tasks(2)]
                fields = {"group_size": 2, "sampling": {"max_new_tokens": 8}, "rewards": python_reward("echo")}
                if name == "alone":
                    job = await run.submit(tasks, close=True, **fields)
                    await job.wait(60)
                    assert "no_reward_worker_answered" in worker.log.read_text()
                else:
                    with found.reward_worker() as rewards:
                        await until_logged(rewards, "reward_worker_started")
                        job = await run.submit(tasks, close=True, **fields)
                        await job.wait(60)
                assert (await job.refresh()).progress.mean_reward == 1.0


async def test_a_steward_that_is_killed_leaves_nobody_who_sends(postgres_url, redis, tmp_path):
    async with deployed(tmp_path, postgres_url, redis) as found:
        with found.steward() as steward:
            await until_logged(steward, "steward_started")
            await asyncio.sleep(2)
            steward.kill()
            with redis.client() as client:
                await asyncio.sleep(0.5)
                left = client.llen("rollway:steward")
                await asyncio.sleep(2)
                assert client.llen("rollway:steward") == left


async def test_an_operator_drains_pauses_and_resumes_a_worker(postgres_url, redis, tmp_path):
    async with scripted_engine() as engine, deployed(tmp_path, postgres_url, redis) as found:
        with found.worker(engine.url, "one") as worker:
            await until_logged(worker, "broker_connected")
            app = make_celery(redis.url, "rollway")
            node = ["worker@one"]

            async def control(name):
                options = {"arguments": {"name": name}, "destination": node, "reply": True, "timeout": 5}
                (answer,) = await asyncio.to_thread(app.control.broadcast, "rollway_command", **options)
                return answer["worker@one"]

            async def status():
                found = await asyncio.to_thread(
                    app.control.broadcast, "rollway_status", destination=node, reply=True, timeout=5
                )
                return found[0]["worker@one"]

            assert await asyncio.to_thread(app.control.ping, node, 5) == [{"worker@one": {"ok": "pong"}}]
            run, job = await submit(found.client)
            await until(lambda: checkpointed(found.client, job.id), within_s=40)
            assert "ok" in await control("drain")
            await job.wait(60)
            await assert_whole(found.client, run, engine)
            assert (await status())["is_draining"] is True
            _, waiting = await submit(found.client, tasks=1, tokens=16)
            await asyncio.sleep(2.5)
            assert (await waiting.refresh()).progress.rollouts_completed == 0
            assert "ok" in await control("resume")
            await waiting.wait(60)
            assert "ok" in await control("pause")
            await until(lambda: engine.is_paused)
            assert "ok" in await control("resume")
            await until(lambda: not engine.is_paused)
            assert "error" in await control("explode")
            assert await rollway_control(redis, "drain", "one") == (0, [{"worker": "one", "ok": DRAINED}])
            ((code, (told,)),) = [await rollway_control(redis, "status")]
            assert (code, told["worker"], told["is_draining"]) == (0, "one", True)
            assert await rollway_control(redis, "resume", "nobody") == (1, [])
            assert await rollway_control(redis, "drain") == (1, [])


async def test_beat_sweeps_when_no_service_does(postgres_url, redis, tmp_path):
    async with scripted_engine() as engine, deployed(tmp_path, postgres_url, redis) as found:
        with found.worker(engine.url, "one") as worker, found.steward() as steward:
            _, job = await submit(found.client)
            await until(lambda: checkpointed(found.client, job.id), within_s=40)
            found.service.kill()
            worker.kill()

            async def queued():
                from rollway_service.composition import build_context
                from rollway_service.config import Settings
                from rollway_service.store.tables import work_items

                context = build_context(Settings(database_url=postgres_url, data_dir=tmp_path))
                async with context.database.snapshot() as transaction:
                    rows = await transaction.all(work_items.select())
                await context.database.dispose()
                return [row["state"] for row in rows] == ["queued"] * 8

            await until(queued, within_s=30)
            steward.signal(signal.SIGTERM)
            assert await asyncio.to_thread(steward.popen.wait, 20) == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_workers_outlive_a_service_that_is_started_again(postgres_url, redis, tmp_path, number):
    """Work in flight goes on under the same session: no second generation, and each result is stored once."""
    port = free_port()
    environment = {"ROLLWAY_GRPC_PORT": str(free_port()), "ROLLWAY_SESSION_LEASE_S": "20"}
    start = {"engine": "none", "database": postgres_url, "port": port, "environment": environment}
    async with scripted_engine() as engine:
        import rollway
        from tests.distributed import key_of
        from tests.processes import started_worker

        async with running_service(tmp_path, **start) as (service, url):
            with started_worker(tmp_path, engine=engine.url, name="one"):
                async with rollway.AsyncClient(url, key_of(tmp_path, url)) as client:
                    run, job = await submit(client)
                    await until(lambda: checkpointed(client, job.id), within_s=40)
                    service.signal(number)
                    await asyncio.to_thread(service.popen.wait, 20)
                    async with running_service(tmp_path, **start):
                        await job.wait(60)
                        rollouts = await assert_whole(client, run, engine)
                        assert {rollout.attempts for rollout in rollouts} == {1}
                        assert len(engine.calls) == 8


async def test_a_service_that_hangs_for_a_while_is_waited_for(postgres_url, redis, tmp_path):
    async with scripted_engine() as engine, deployed(tmp_path, postgres_url, redis) as found:
        with found.worker(engine.url, "one"):
            run, job = await submit(found.client)
            await until(lambda: checkpointed(found.client, job.id), within_s=40)
            found.service.signal(signal.SIGSTOP)
            # Longer than the lease.
            await asyncio.sleep(3)
            found.service.signal(signal.SIGCONT)
            await job.wait(90)
            await assert_whole(found.client, run, engine)
