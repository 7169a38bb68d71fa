"""The main job through public REST and the SDK, on both databases, with a scripted engine."""

import asyncio

import pytest

import rollway
from rollway_workers.engines.scripted import Answer
from tests.builders import token_tasks, weights_folder
from tests.stack import TINY_EOS, running_stack, until


async def test_a_job_goes_from_submission_to_consumed_batches(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("first", model="tiny")
        job = await run.submit(token_tasks(5), group_size=4, sampling={"max_new_tokens": 40, "seed": 7}, close=True)
        sizes, seen = [], []
        async for batch in run.batches(groups=2, timeout_s=20):
            sizes.append(len(batch))
            for sample in batch.samples:
                seen.append(sample.header.rollout_id)
                assert sample.token_ids[:4].tolist() == token_tasks(5)[sample.group.header.task_index]["token_ids"]
                sampled = sample.loss_mask == 1
                assert sampled[4:].all()
                assert not sampled[:4].any()
                assert (sample.behavior_logprobs[sampled] < 0).all()
                assert (sample.weight_versions[sampled] == 0).all()
                ended = sample.token_ids[-1] == TINY_EOS
                assert sample.header.stop_reason == ("completed" if ended else "length")
        assert sizes == [2, 2, 1]
        assert len(seen) == len(set(seen)) == 20
        progress = (await job.refresh()).progress
        assert job.info.state == "completed"
        assert (progress.groups_ready, progress.groups_consumed, progress.rollouts_completed) == (5, 5, 20)


@pytest.mark.parametrize("slots", [1, 32])
async def test_the_same_seed_gives_the_same_samples_on_any_database_and_at_any_concurrency(
    sqlite_url, postgres_url, tmp_path, slots
):
    found = []
    for url in (sqlite_url, postgres_url):
        async with running_stack(url, tmp_path, slots=slots) as stack:
            run = await stack.client.start_run("same", model="tiny")
            await run.submit(token_tasks(6), group_size=8, sampling={"max_new_tokens": 60, "seed": 11}, close=True)
            samples = {}
            async for batch in run.batches(groups=1, timeout_s=30):
                for sample in batch.samples:
                    key = (sample.group.header.task_index, sample.header.member_index)
                    samples[key] = (sample.token_ids.tolist(), sample.behavior_logprobs.tobytes(), sample.header.seed)
            found.append(samples)
    assert len(found[0]) == 48
    assert found[0] == found[1]
    seeds = [seed for _, _, seed in found[0].values()]
    assert len(set(seeds)) == 48


async def test_weights_published_in_flight_are_stamped_on_the_tokens_they_sampled(database_url, tmp_path):
    """Half of the tokens under version 0, half under version 1; the engine's spans are what is stored."""

    async def respond(call):
        ids = list(range(20, 40))
        return Answer(ids, finish="length", chunk_tokens=10, chunk_delay_s=0.6, spans=[(0, 0, 10), (1, 10, 20)])

    async with running_stack(database_url, tmp_path, responder=respond) as stack:
        run = await stack.client.start_run("versions", model="tiny")
        await run.submit(token_tasks(1), group_size=2, sampling={"max_new_tokens": 20}, close=True)
        await until(lambda: len(stack.engine.calls) == 2)
        version = await run.publish(weights_folder(tmp_path), trainer_step=1, wait_s=5)
        assert (version.version, version.parent, version.is_converged) == (1, 0, True)
        assert stack.engine.loads[0]["weight_version"] == "1"
        batch = await run.lease(groups=1, wait_s=10)
        for sample in batch.samples:
            assert sample.weight_versions[4:].tolist() == [0] * 10 + [1] * 10
            assert sample.arrays.kv_versions[4:].tolist() == [0] * 20
            assert (sample.header.oldest_version, sample.header.newest_version) == (0, 1)
        assert batch.staleness == 1.0


async def test_new_requests_after_a_swap_share_no_prefix_with_older_weights(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("namespaces", model="tiny")
        job = await run.submit(token_tasks(1), group_size=2, sampling={"max_new_tokens": 4})
        await until(lambda: len(stack.engine.calls) == 2)
        await run.publish(weights_folder(tmp_path), trainer_step=1, wait_s=5)
        await job.append(token_tasks(1), close=True)
        await job.wait(10)
        namespaces = [call.cache_namespace for call in stack.engine.calls]
        assert namespaces[0] == namespaces[1] != namespaces[2] == namespaces[3]


async def test_evaluations_are_never_leased_and_may_pin_a_version(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("eval", model="tiny")
        progress = await run.evaluate(
            token_tasks(3, reference="x"),
            group_size=2,
            sampling={"max_new_tokens": 8},
            rewards=[{"kind": "regex", "pattern": "."}],
            version={"exact_version": 0},
            timeout_s=20,
        )
        assert progress.rollouts_scored == 6
        assert progress.mean_reward >= 0.0
        batch = await run.lease(groups=1)
        assert not batch.groups
        assert batch.header.waiting_for.startswith("jobs:")


async def test_a_filter_drops_groups_without_spread_and_says_so(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("filter", model="tiny")
        job = await run.submit(
            token_tasks(3, reference="never"),
            group_size=3,
            sampling={"max_new_tokens": 4},
            rewards=[{"kind": "exact"}],
            recipe={"filters": [{"name": "zero_spread"}]},
            close=True,
        )
        progress = (await job.wait(20)).progress
        assert progress.drops == {"zero_reward_spread": 3}
        assert (progress.groups_dropped, progress.groups_ready) == (3, 0)
        group = await anext(stack.client.groups(job.id, state="dropped"))
        assert group.reason == "zero_reward_spread"
        assert group.decisions[-1].policy == "zero_spread"
        batch = await run.lease(groups=1)
        assert batch.header.end_of_data


async def test_a_job_smaller_than_the_batch_is_served_whole_and_then_ends(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("small", model="tiny")
        await run.submit(token_tasks(3), group_size=2, sampling={"max_new_tokens": 4}, close=True)
        sizes = [len(batch) async for batch in run.batches(groups=4, timeout_s=20)]
        assert sizes == [3]


async def test_a_loop_left_by_break_gives_the_batch_back(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("break", model="tiny")
        await run.submit(token_tasks(2), group_size=2, sampling={"max_new_tokens": 4}, close=True)
        async with run.batches(groups=2, timeout_s=20) as batches:
            async for _ in batches:
                break
        again = [batch.id async for batch in run.batches(groups=2, timeout_s=20)]
        assert len(again) == 1


async def test_the_sync_client_does_the_same(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path) as stack:

        def train() -> list[int]:
            with rollway.Client(stack.url, stack.token) as client:
                run = client.start_run("sync", model="tiny")
                job = run.submit(token_tasks(5), group_size=2, sampling={"max_new_tokens": 4}, close=True)
                sizes = [len(batch.samples) for batch in run.batches(groups=2, timeout_s=20)]
                assert job.wait(5).progress.groups_consumed == 5
                assert [model.name for model in client.models()] == ["tiny"]
                return sizes

        assert await asyncio.to_thread(train) == [4, 4, 2]
