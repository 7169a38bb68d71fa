"""What is told while a job runs and after: the watch, pages of lists, batches as JSON, and all of it consistent."""

import asyncio
import itertools
import json
import math

import numpy as np

from rollway.framing import BATCH_MEDIA_TYPE
from rollway.types import JobProgress
from rollway_workers.engines.scripted import Answer
from tests.builders import token_tasks
from tests.integration.refusals import problem_of
from tests.stack import running_stack, until

FIELDS = {"group_size": 2, "sampling": {"max_new_tokens": 8, "seed": 5}}


async def test_a_watch_shows_progress_and_ends_with_the_job(database_url, tmp_path):
    gate = asyncio.Event()

    async def respond(call):
        if call.input_ids[0] != 10:
            await gate.wait()
        return Answer([20, 21], finish="length")

    async with running_stack(database_url, tmp_path, responder=respond) as stack:
        run = await stack.client.start_run("watched", model="tiny")
        job = await run.submit(token_tasks(3), close=True, **FIELDS)
        seen = []
        async for progress in job.watch():
            seen.append(progress)
            if progress.groups_ready == 1:
                gate.set()
        assert seen[0].groups_ready < 3
        assert any(progress.groups_ready == 1 for progress in seen)
        assert (seen[-1].groups_ready, seen[-1].rollouts_completed, seen[-1].backlog) == (3, 6, 0)
        ready = [progress.groups_ready for progress in seen]
        assert ready == sorted(ready)
        assert (await job.refresh()).state == "completed"
        assert job.info.progress == seen[-1]
        # Who comes late is told how it ended.
        assert [progress async for progress in job.watch()] == [seen[-1]]


async def test_the_watch_is_a_stream_of_server_sent_events(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("events", model="tiny")
        job = await run.submit(token_tasks(2), close=True, **FIELDS)
        await job.wait(20)
        async with stack.http.stream("GET", f"/v1/jobs/{job.id}/watch") as response:
            assert response.headers["content-type"].startswith("text/event-stream")
            text = (await response.aread()).decode()
        *events, last = [dict(line.split(": ", 1) for line in part.splitlines()) for part in text.strip().split("\n\n")]
        assert last == {"event": "end", "data": "{}"}
        assert {event["event"] for event in events} == {"progress"}
        assert JobProgress.model_validate_json(events[-1]["data"]).groups_ready == 2


async def test_a_watch_ends_when_the_job_is_cancelled(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        run = await stack.client.start_run("cancelled", model="tiny")
        job = await run.submit(token_tasks(2), **FIELDS)

        async def watched():
            return [progress async for progress in job.watch()]

        watching = asyncio.create_task(watched())
        await until(lambda: stack.context.wakeups._waiting.get(f"job:{job.id}"))
        await job.cancel()
        seen = await asyncio.wait_for(watching, 20)
        assert seen[0].waiting_for.startswith("workers: no live worker")
        assert seen[-1].waiting_for is None


async def test_a_client_that_leaves_a_watch_leaves_nothing_behind(database_url, tmp_path):
    def answering():
        return [task for task in asyncio.all_tasks() if "run_asgi" in repr(task.get_coro())]

    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        run = await stack.client.start_run("left", model="tiny")
        job = await run.submit(token_tasks(2), **FIELDS)
        for _ in range(3):
            async with stack.http.stream("GET", f"/v1/jobs/{job.id}/watch") as response:
                assert (await anext(response.aiter_lines())) == "event: progress"
                assert answering()
        await until(lambda: not answering())
        assert f"job:{job.id}" not in stack.context.wakeups._waiting
        await until(lambda: stack.context.database._reader.pool.checkedout() == 0)
        assert (await job.refresh()).state == "open"


async def pages(stack, path, limit, **filters):
    """All ids of a list, page by page; pages but the last are full."""
    ids, cursor = [], None
    while True:
        params = {"limit": limit, **filters} | ({} if cursor is None else {"cursor": cursor})
        page = (await stack.http.get(path, params=params)).raise_for_status().json()
        ids += [item.get("id", item.get("version")) for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            return ids
        assert len(page["items"]) == limit


async def test_pages_give_each_row_once_whatever_their_size(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        first, second = [await stack.client.start_run(name, model="tiny") for name in ("one", "two")]
        jobs = [await run.submit(token_tasks(3), close=True, **FIELDS) for run in (first, second, second)]
        evaluation = await second.submit(token_tasks(1), close=True, purpose="eval", **FIELDS)
        for job in [*jobs, evaluation]:
            await job.wait(20)
        kept = {"run": [first.id, second.id], "job": [job.id for job in [*jobs, evaluation]]}
        expected = {
            ("/v1/runs", ()): 2,
            ("/v1/jobs", ()): 4,
            ("/v1/jobs", (("run_id", second.id),)): 3,
            ("/v1/jobs", (("purpose", "eval"),)): 1,
            ("/v1/jobs", (("run_id", second.id), ("state", "completed"))): 3,
            ("/v1/jobs", (("state", "open"),)): 0,
            (f"/v1/jobs/{jobs[0].id}/groups", ()): 3,
            (f"/v1/jobs/{jobs[0].id}/groups", (("state", "ready"),)): 3,
            (f"/v1/jobs/{jobs[0].id}/groups", (("state", "failed"),)): 0,
            ("/v1/rollouts", ()): 20,
            ("/v1/rollouts", (("run_id", second.id),)): 14,
            ("/v1/rollouts", (("job_id", jobs[1].id), ("state", "completed"))): 6,
            ("/v1/trajectories", ()): 20,
            ("/v1/trajectories", (("run_id", first.id),)): 6,
            ("/v1/trajectories", (("run_id", first.id), ("max_version", 0))): 6,
            ("/v1/trajectories", (("min_version", 1),)): 0,
            ("/v1/models", ()): 1,
            ("/v1/models/tiny/versions", ()): 1,
            ("/v1/pools", ()): 1,
            ("/v1/workers", ()): 1,
        }
        for (path, filters), number in expected.items():
            for limit in (3, 1000):
                ids = await pages(stack, path, limit, **dict(filters))
                assert len(ids) == len(set(ids)) == number, (path, filters)
                assert ids == sorted(ids, reverse=True), path
        assert await pages(stack, "/v1/runs", 1) == kept["run"][::-1]
        assert sorted(await pages(stack, "/v1/jobs", 3)) == sorted(kept["job"])


async def test_rows_that_come_while_pages_are_read_change_none_of_the_rest(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        run, other = [await stack.client.start_run(name, model="tiny") for name in ("one", "two")]
        old = []
        for _ in range(5):
            old.append((await run.submit(token_tasks(1), **FIELDS)).id)
            await run.submit(token_tasks(1), purpose="eval", close=True, **FIELDS)
            await other.submit(token_tasks(1), **FIELDS)
        ids, cursor = [], None
        while cursor is not None or not ids:
            params = {"limit": 2, "run_id": run.id, "purpose": "train", "state": "open"}
            params |= {} if cursor is None else {"cursor": cursor}
            page = (await stack.http.get("/v1/jobs", params=params)).raise_for_status().json()
            ids += [item["id"] for item in page["items"]]
            cursor = page["next_cursor"]
            await run.submit(token_tasks(1), **FIELDS)
        assert ids == old[::-1]


async def test_a_cursor_of_another_list_is_refused(sqlite_url, tmp_path):
    paths = ("/v1/runs", "/v1/jobs", "/v1/models/tiny/versions", "/v1/workers", "/v1/rollouts", "/v1/trajectories")
    async with running_stack(sqlite_url, tmp_path, with_worker=False) as stack:
        for path, cursor in itertools.product(paths, ("mod_" + "0" * 32, "x", "", "\0", "-1")):
            problem = problem_of(await stack.http.get(path, params={"cursor": cursor}), 422, "invalid_request")
            assert "next_cursor" in problem.detail


async def test_a_batch_comes_as_frame_or_json_or_not_at_all(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("accept", model="tiny")
        await (await run.submit(token_tasks(2), close=True, **FIELDS)).wait(20)
        path = f"/v1/runs/{run.id}/batches"

        async def ask(accept, **fields):
            body = {"groups": 2, "wait_s": 5.0, **fields}
            return await stack.http.post(path, json=body, headers={"Accept": accept})

        for accept in ("text/html", "application/vnd.apache.arrow.stream", "image/*, text/plain;q=0.5"):
            problem = problem_of(await ask(accept), 406, "not_acceptable")
            assert BATCH_MEDIA_TYPE in problem.detail
        # Refused before anything was leased: all is on offer.
        framed = await run.lease(groups=2, wait_s=5, request_id="the same")
        response = await ask("text/html, application/json", request_id="the same")
        assert response.headers["content-type"] == "application/json"
        found = response.json()
        assert found["batch_id"] == framed.id
        samples = [sample for group in found["groups"] for sample in group["samples"]]
        assert len(samples) == len(framed.samples) == 4
        for sample, same in zip(samples, framed.samples, strict=True):
            assert sample["trajectory_id"] == same.header.trajectory_id
            for name in ("token_ids", "loss_mask", "weight_versions"):
                assert sample["arrays"][name] == getattr(same, name).tolist()
            np.testing.assert_allclose(sample["arrays"]["behavior_logprobs"], same.behavior_logprobs, rtol=1e-6)
        assert (await ask("*/*", request_id="the same")).headers["content-type"] == BATCH_MEDIA_TYPE


async def test_rollout_trajectory_tree_group_and_batch_tell_the_same(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("same", model="tiny")
        tasks = [task | {"key": f"task {index}", "metadata": {"n": index}} for index, task in enumerate(token_tasks(2))]
        job = await run.submit(tasks, close=True, rewards=[{"kind": "regex", "pattern": "."}], **FIELDS)
        await job.wait(20)
        batch = await run.lease(groups=2, wait_s=5)
        assert len(batch.samples) == 4
        tokenizer = await stack.context.tokenizers.load((await stack.client.model("tiny")).source)
        for sample in batch.samples:
            header = sample.header
            rollout = await stack.client.rollout(header.rollout_id)
            trajectory = await stack.client.trajectory(header.trajectory_id, text=True)
            tree = await stack.client.tree(header.rollout_id)
            group = await stack.client.group(sample.group.header.group_id)
            assert rollout.trajectory_ids == [trajectory.id]
            assert rollout.reward == trajectory.reward == header.reward
            assert rollout.rewards == trajectory.rewards == header.rewards
            assert rollout.seed == trajectory.seed == header.seed
            assert rollout.usage.sampled_tokens == trajectory.num_sampled
            assert (rollout.task_index, group.task_index) == (sample.group.header.task_index,) * 2
            assert group.task_key == f"task {rollout.task_index}"
            assert sample.group.header.task_metadata == {"n": rollout.task_index}
            assert (rollout.group_id, rollout.job_id, tree.group_id) == (group.id, job.id, group.id)
            arrays = trajectory.arrays
            assert arrays.token_ids == sample.token_ids.tolist()
            assert arrays.loss_mask == sample.loss_mask.tolist()
            assert arrays.weight_versions == sample.weight_versions.tolist()
            nodes = [tree.nodes[index] for index in tree.paths[trajectory.id]]
            assert [token for node in nodes for token in node.token_ids] == arrays.token_ids
            assert [mask for node in nodes for mask in node.loss_mask] == arrays.loss_mask
            observed = [value for node in nodes if node.behavior_logprobs for value in node.behavior_logprobs]
            assert [value for value in arrays.behavior_logprobs if value is not None] == observed
            versions = [version for node in nodes for version in node.weight_versions]
            assert versions == arrays.weight_versions == [-1] * 4 + [0] * trajectory.num_sampled
            assert arrays.kv_versions == sample.arrays.kv_versions.tolist()
            np.testing.assert_allclose(observed, sample.behavior_logprobs[sample.loss_mask == 1], rtol=1e-6)
            assert header.num_tokens == trajectory.num_tokens == len(arrays.token_ids)
            assert header.num_trainable == trajectory.num_trainable == sum(arrays.loss_mask)
            assert trajectory.text == tokenizer.decode(arrays.token_ids, skip_special=False)
        assert json.loads((await stack.http.get(f"/v1/jobs/{job.id}")).text)["progress"]["groups_ready"] == 2


async def test_metrics_are_the_sums_of_what_all_jobs_tell(database_url, tmp_path):
    async def respond(call):
        bad = call.input_ids[0] == 10
        return Answer([20, 21, 22], [-0.1, -math.inf, math.nan] if bad else None, "length")

    async with running_stack(database_url, tmp_path, responder=respond) as stack:
        run = await stack.client.start_run("measured", model="tiny")
        rewards = [{"kind": "exact"}]
        tasks = token_tasks(2, reference="never")
        jobs = [
            await run.submit(tasks, close=True, rewards=rewards, **FIELDS),
            await run.submit(
                tasks, close=True, rewards=rewards, recipe={"filters": [{"name": "zero_spread"}]}, **FIELDS
            ),
        ]
        told = [(await job.wait(20)).progress.model_dump() for job in jobs]
        text = (await stack.http.get("/metrics")).text
        metrics = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        summed = [name for name, value in told[0].items() if type(value) in {int, float}]
        for name in set(summed) - {"backlog", "groups_open"}:
            assert float(metrics[f"rollway_{name}"]) == sum(progress[name] for progress in told), name
        assert metrics["rollway_nonfinite_logprobs"] == "8.0"
        assert metrics["rollway_groups_dropped"] == "2.0"
        assert metrics['rollway_drops_by_reason{reason="zero_reward_spread"}'] == "2.0"
        assert metrics["rollway_reward_failure_ratio"] == "0.0"
