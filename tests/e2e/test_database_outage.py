"""PostgreSQL crashes under a running job and comes back: callers are told to try again, and nothing is lost or doubled."""

import asyncio

import pytest

from rollway_service.store import migrate
from rollway_workers.engines.scripted import Call, seeded_responder
from tests.builders import token_tasks
from tests.servers import PrivatePostgres
from tests.stack import TINY_VOCAB, running_stack, until

RESPONDER = seeded_responder(vocab_size=TINY_VOCAB, chunk_tokens=8, chunk_delay_s=0.03)
TOKENS = 120


@pytest.fixture
def crashing_postgres():
    server = PrivatePostgres(durable=True)
    yield server
    server.stop()


async def test_a_crash_of_the_database_loses_and_doubles_nothing(crashing_postgres, tmp_path):
    url = crashing_postgres.create_database("outage")
    await migrate.upgrade(url)
    async with running_stack(url, tmp_path, responder=RESPONDER, stretch_tokens=16, slots=8) as stack:
        run = await stack.client.start_run("outage", model="tiny")
        job = await run.submit(
            token_tasks(16), group_size=2, sampling={"max_new_tokens": TOKENS, "seed": 3}, close=True
        )
        for _ in range(2):
            done = (await job.refresh()).progress.rollouts_completed
            await until(lambda: len(stack.engine.running) == 8)
            await asyncio.to_thread(crashing_postgres.crash)
            for _ in range(3):
                answer = await stack.http.get(f"/v1/jobs/{job.id}")
                assert (answer.status_code, answer.json()["code"]) == (503, "busy")
                assert answer.json()["retryable"] is True
                assert int(answer.headers["Retry-After"]) >= 1
                await asyncio.sleep(0.2)
            await asyncio.to_thread(crashing_postgres.start)
            assert (await job.refresh()).progress.rollouts_completed >= done
        samples = {}
        async for batch in run.batches(groups=4, timeout_s=60):
            for sample in batch.samples:
                assert samples.setdefault(sample.header.rollout_id, sample) is sample
        assert len(samples) == 32
        for sample in samples.values():
            prompt = tuple(sample.token_ids[:4].tolist())
            call = Call("", prompt, {"sampling_seed": sample.header.seed, "max_new_tokens": TOKENS}, None, True, {})
            assert sample.token_ids[4:].tolist() == list(RESPONDER(call).token_ids)
        progress = (await job.refresh()).progress
        assert (progress.rollouts_completed, progress.groups_consumed) == (32, 16)
