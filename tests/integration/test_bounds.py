"""What holds work back is bounded, named, and lost by nobody, with real workers and a trainer that comes late."""

import asyncio
import collections

import rollway
from rollway_workers.engines.scripted import Answer, Fault
from tests.builders import token_tasks, weights_folder
from tests.integration.refusals import problem_of
from tests.stack import running_stack, until

FIELDS = {"group_size": 2, "sampling": {"max_new_tokens": 4}}


async def waits_for(job, words):
    """The job's progress once it says that it waits for this."""

    async def says_so():
        progress = (await job.refresh()).progress
        return progress if (progress.waiting_for or "").startswith(words) else None

    return await until(says_so)


async def consumed(run, **fields):
    """How often each task arrives until the end of the data."""
    seen = collections.Counter()
    async for batch in run.batches(groups=1, timeout_s=30, **fields):
        seen.update(group.header.task_index for group in batch.groups)
    return seen


async def test_what_is_made_for_an_absent_trainer_is_bounded_and_arrives_once_it_comes(database_url, tmp_path):
    """Case B26, by groups and by bytes."""
    async with running_stack(database_url, tmp_path) as stack:
        for name, admission in (("groups", {"max_ahead_groups": 3}), ("bytes", {"max_ahead_bytes": 1})):
            run = await stack.client.start_run(name, model="tiny")
            calls = len(stack.engine.calls)
            job = await run.submit(token_tasks(300), admission=admission, close=True, limits={}, **FIELDS)
            before = await waits_for(job, f"max_ahead_{name}")
            await asyncio.sleep(0.5)
            after = (await job.refresh()).progress
            assert after.groups_admitted == before.groups_admitted
            assert len(stack.engine.calls) - calls == 2 * after.groups_admitted
            assert after.backlog == 300 - after.groups_admitted
            if name == "groups":
                assert after.groups_admitted == 3
            await job.cancel()


async def test_all_tasks_arrive_once_however_narrow_the_bounds(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        for name, admission in (("groups", {"max_ahead_groups": 2}), ("bytes", {"max_ahead_bytes": 1})):
            run = await stack.client.start_run(name, model="tiny")
            job = await run.submit(token_tasks(12), admission=admission, close=True, **FIELDS)
            assert await consumed(run) == collections.Counter(range(12))
            assert (await job.refresh()).state == "completed"


async def test_a_full_backlog_refuses_whoever_appends_until_there_is_room(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("backlog", model="tiny")
        bounds = {"limits": {"max_backlog_tasks": 4}, "admission": {"max_ahead_groups": 2}}
        job = await run.submit(token_tasks(4), **bounds, **FIELDS)
        await waits_for(job, "max_ahead_groups")
        append = {"tasks": token_tasks(3)}
        response = await stack.http.post(f"/v1/jobs/{job.id}/tasks", json=append)
        problem = problem_of(response, 429, "backlog_full")
        assert problem.retryable
        assert "max_backlog_tasks = 4" in problem.detail
        assert int(response.headers["retry-after"]) >= 1
        assert (await job.refresh()).progress.tasks == 4

        async def produce():
            for _ in range(3):
                await append_until_taken(job, token_tasks(2))
            await job.close()

        producing = asyncio.create_task(produce())
        assert await consumed(run) == collections.Counter(range(10))
        await producing
        assert (await job.refresh()).progress.tasks == 10


async def append_until_taken(job, tasks):
    while True:
        try:
            return await job.append(tasks)
        except rollway.ApiError as error:
            if error.code != "backlog_full":
                raise
            await asyncio.sleep(0.05)


async def test_each_thing_that_a_job_waits_for_has_its_name(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        run = await stack.client.start_run("named", model="tiny")
        job = await run.submit(token_tasks(3), admission={"max_ahead_groups": 1}, **FIELDS)
        await waits_for(job, "workers: no live worker")
        await job.pause()
        await waits_for(job, "paused: the job was paused; resume it")
        await job.resume()
        await stack.start_worker()
        await waits_for(job, "max_ahead_groups: 1 of 1 groups wait for the trainer")
        idle = await run.submit(**FIELDS)
        await waits_for(idle, "tasks: the job is open and has none left")
        gate = {"max_staleness_versions": 0, "groups_per_step": 1}
        gated = await run.submit(token_tasks(2), admission=gate, **FIELDS)
        await waits_for(gated, "staleness_gate: 1 of (0 published + 0 + 1) x 1 groups are out; waits for a publish")
        judged = await run.submit(token_tasks(1), rewards=[{"kind": "posted"}], close=True, **FIELDS)
        await waits_for(judged, "rewards: the rollouts of 1 groups have ended and wait for posted rewards")
        await run.publish(weights_folder(tmp_path), trainer_step=1, wait_s=20)
        pinned = await run.submit(token_tasks(1), version={"exact_version": 0}, close=True, **FIELDS)
        progress = await waits_for(pinned, "workers: 2 rollouts are queued")
        assert "fitting weights" in progress.waiting_for
        await stack.stop_workers()
        await waits_for(pinned, "workers: no live worker")


async def test_work_under_way_waits_for_nothing(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path, responder=lambda _: Answer([], fault=Fault("hang"))) as stack:
        run = await stack.client.start_run("busy", model="tiny")
        job = await run.submit(token_tasks(1), close=True, **FIELDS)
        await until(lambda: len(stack.engine.running) == 2)
        assert (await job.refresh()).progress.waiting_for is None
        assert (await job.cancel()).progress.waiting_for is None


async def test_a_rollouts_own_deadline_is_named_and_its_group_goes_on(sqlite_url, tmp_path):
    def respond(call):
        hang = Fault("hang") if len(stack.engine.calls) == 1 else None
        return Answer([20, 21], finish="length", fault=hang)

    async with running_stack(sqlite_url, tmp_path, responder=respond) as stack:
        run = await stack.client.start_run("slow", model="tiny")
        limits = {"rollout_deadline_s": 1.0}
        member_failure = {"policy": "shrink"}
        job = await run.submit(token_tasks(1), limits=limits, member_failure=member_failure, close=True, **FIELDS)
        progress = (await job.wait(30)).progress
        assert (progress.groups_ready, progress.failures) == (1, {"deadline": 1})
        (failed,) = [found async for found in stack.client.rollouts(job_id=job.id, state="failed")]
        assert failed.failure.detail == "limits.rollout_deadline_s = 1 passed"
        assert len((await run.lease(groups=1, wait_s=5)).samples) == 1
