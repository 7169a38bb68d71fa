"""An engine that crashes and comes back with the weights of its launch: versions stay true, and the weights are loaded again."""

import asyncio

import pytest

from rollway_workers.engines.scripted import Answer
from tests.builders import token_tasks, weights_folder
from tests.stack import running_stack, until

FIRST_ID = 100


def telling(stack_of):
    """Every token tells the version that the engine truly runs: its id is 100 + version."""

    def respond(call):
        engine = stack_of()["engine"]
        ids = [FIRST_ID + engine.weight_version] * min(call.max_new_tokens, 4)
        return Answer(ids, finish="length", chunk_tokens=2)

    return respond


@pytest.mark.parametrize("versions", [1, 2])
async def test_tokens_of_a_restarted_engine_carry_the_version_that_made_them(sqlite_url, tmp_path, versions):
    parts = {}
    async with running_stack(sqlite_url, tmp_path, responder=telling(lambda: parts), slots=4) as stack:
        engine = parts["engine"] = stack.engine
        run = await stack.client.start_run("restarts", model="tiny")
        for version in range(1, versions + 1):
            await run.publish(weights_folder(tmp_path, version), trainer_step=version)
        await until(lambda: engine.weight_version == versions)
        job = await run.submit(token_tasks(400), group_size=1, sampling={"max_new_tokens": 4, "seed": 1}, close=True)
        await until(lambda: len(engine.calls) > 50)
        await engine.restart()
        await until(lambda: engine.weight_version == versions)
        await job.wait(60)
        seen = set()
        async for batch in run.batches(groups=100, timeout_s=20):
            for sample in batch.samples:
                sampled = sample.loss_mask == 1
                assert (sample.token_ids[sampled] - FIRST_ID).tolist() == sample.weight_versions[sampled].tolist()
                seen.update(sample.weight_versions[sampled].tolist())
        # The rollouts waited for the weights: samples of version 0 would have been too old for the trainer.
        assert seen == {versions}
        assert (await job.refresh()).progress.rollouts_completed == 400


async def test_prefixes_cached_before_a_restart_is_noticed_are_not_used_after_the_load(sqlite_url, tmp_path):
    """Case B15: the same version loaded again is another cache namespace: requests in between ran on other weights."""
    async with running_stack(sqlite_url, tmp_path, slots=4) as stack:
        engine = stack.engine
        run = await stack.client.start_run("restarts", model="tiny")
        await run.publish(weights_folder(tmp_path), trainer_step=1)
        await until(lambda: engine.weight_version == 1)
        spaces = []
        for _ in range(2):
            job = await run.submit(token_tasks(1), group_size=1, version={"exact_version": 1}, close=True)
            await job.wait(20)
            spaces.append(engine.calls[-1].cache_namespace)
            await engine.restart()
            await until(lambda: engine.weight_version == 1)
            await asyncio.sleep(0)
        assert spaces[0] != spaces[1]
