"""Workers and services that are killed in mid-rollout: work goes on from the checkpoint, nothing is lost or doubled."""

import asyncio
import signal
from contextlib import asynccontextmanager

import orjson

import rollway
from rollway_workers.engines.scripted import Call, ScriptedServer, seeded_responder
from rollway_workers.engines.scripted.server import serving
from tests.builders import token_tasks
from tests.processes import running_service, started_worker
from tests.stack import TINY_VOCAB, until

STRETCH = 32
TOKENS = 200
RESPONDER = seeded_responder(vocab_size=TINY_VOCAB, chunk_tokens=8, chunk_delay_s=0.08)


def expected_ids(prompt, seed):
    """What an engine that was never interrupted gives."""
    call = Call("", tuple(prompt), {"sampling_seed": seed, "max_new_tokens": TOKENS}, None, True, {})
    return list(RESPONDER(call).token_ids)


@asynccontextmanager
async def client_of(folder, url):
    key = orjson.loads((folder / ".rollway" / "keys.json").read_bytes())[url]
    async with rollway.AsyncClient(url, key) as client:
        yield client


async def start_job(client, tasks=4):
    run = await client.start_run("deaths", model="tiny")
    job = await run.submit(token_tasks(tasks), group_size=2, sampling={"max_new_tokens": TOKENS, "seed": 3}, close=True)
    return run, job


async def checkpointed(client, job_id, at_least=8):
    """True when that many rollouts of the job have a checkpoint."""
    pending = [rollout async for group in client.groups(job_id) for rollout in group.pending_rollout_ids]
    kept = [(await client.rollout(rollout_id)).checkpointed_tokens for rollout_id in pending]
    return sum(tokens >= STRETCH for tokens in kept) >= at_least


async def assert_whole(client, run, engine, tasks=4):
    """Every rollout ended once, with the ids of an undisturbed engine, at most about a stretch regenerated."""
    seen = {}
    async for batch in run.batches(groups=tasks, timeout_s=30):
        for sample in batch.samples:
            key = (sample.group.header.task_index, sample.header.member_index)
            assert key not in seen
            seen[key] = sample
    assert len(seen) == tasks * 2
    for sample in seen.values():
        prompt = sample.token_ids[:4].tolist()
        assert sample.token_ids[4:].tolist() == expected_ids(prompt, sample.header.seed)
        assert sample.loss_mask[4:].sum() == TOKENS
    rollouts = [rollout async for rollout in client.rollouts()]
    assert len(rollouts) == len({rollout.id for rollout in rollouts}) == tasks * 2
    return rollouts


def regenerated(engine):
    """Tokens that the engine was asked for beyond one generation of each rollout."""
    asked = {}
    for call in engine.calls:
        asked.setdefault(call.seed, []).append(call)
    return [calls[0].max_new_tokens - calls[-1].max_new_tokens for calls in asked.values() if len(calls) > 1]


@asynccontextmanager
async def scripted_engine():
    async with serving(ScriptedServer(RESPONDER, vocab_size=TINY_VOCAB, context_length=256)) as engine:
        yield engine


async def test_killing_a_worker_loses_and_doubles_nothing(postgres_url, tmp_path):
    async with scripted_engine() as engine:
        async with running_service(tmp_path, engine="none", database=postgres_url) as (_, url):
            async with client_of(tmp_path, url) as client:
                with started_worker(tmp_path, engine=engine.url, name="first") as worker:
                    run, job = await start_job(client)
                    await until(lambda: checkpointed(client, job.id), within_s=40)
                    worker.kill()
                with started_worker(tmp_path, engine=engine.url, name="second"):
                    await job.wait(60)
                    rollouts = await assert_whole(client, run, engine)
                assert {rollout.attempts for rollout in rollouts} == {2}
                assert all(rollout.usage.resumes >= 1 for rollout in rollouts)
                # Each rollout went on from its checkpoint, not from its prompt.
                assert len(regenerated(engine)) == 8
                assert all(kept >= STRETCH for kept in regenerated(engine))


async def test_a_worker_that_comes_back_takes_its_name_and_its_work_at_once(postgres_url, tmp_path):
    async with scripted_engine() as engine:
        async with running_service(tmp_path, engine="none", database=postgres_url) as (_, url):
            async with client_of(tmp_path, url) as client:
                with started_worker(tmp_path, engine=engine.url, name="same") as worker:
                    run, job = await start_job(client)
                    await until(lambda: checkpointed(client, job.id), within_s=40)
                    worker.kill()
                with started_worker(tmp_path, engine=engine.url, name="same"):
                    await job.wait(60)
                    await assert_whole(client, run, engine)
                workers = [worker async for worker in client.workers()]
                assert [(worker.name, worker.epoch) for worker in workers] == [("same", 2)]


async def test_a_worker_that_is_stopped_hands_its_work_over_at_once(postgres_url, tmp_path):
    async with scripted_engine() as engine:
        async with running_service(tmp_path, engine="none", database=postgres_url) as (_, url):
            async with client_of(tmp_path, url) as client:
                with started_worker(tmp_path, engine=engine.url, name="first") as worker:
                    run, job = await start_job(client)
                    await until(lambda: checkpointed(client, job.id), within_s=40)
                    assert await asyncio.to_thread(worker.stop) == 0
                await until(lambda: not engine.running)
                with started_worker(tmp_path, engine=engine.url, name="second"):
                    await job.wait(60)
                    rollouts = await assert_whole(client, run, engine)
                # It was handed back, not lost: the attempt does not count against the rollout.
                assert {rollout.attempts for rollout in rollouts} == {1}
                assert len(regenerated(engine)) == 8
                assert all(kept >= STRETCH for kept in regenerated(engine))


async def test_a_worker_that_slept_past_its_lease_writes_nothing_when_it_wakes(postgres_url, tmp_path):
    async with scripted_engine() as engine:
        async with running_service(tmp_path, engine="none", database=postgres_url) as (_, url):
            async with client_of(tmp_path, url) as client:
                with started_worker(tmp_path, engine=engine.url, name="first") as sleeper:
                    run, job = await start_job(client)
                    await until(lambda: checkpointed(client, job.id), within_s=40)
                    sleeper.signal(signal.SIGSTOP)
                    with started_worker(tmp_path, engine=engine.url, name="second"):
                        await until(lambda: len({call.request_id for call in engine.calls}) == 16, within_s=40)
                        sleeper.signal(signal.SIGCONT)
                        await job.wait(60)
                        await assert_whole(client, run, engine)


async def test_killing_the_whole_service_on_sqlite_resumes_from_the_checkpoint(tmp_path):
    async with scripted_engine() as engine:
        async with running_service(tmp_path, engine=engine.url) as (process, url):
            async with client_of(tmp_path, url) as client:
                run, job = await start_job(client)
                await until(lambda: checkpointed(client, job.id), within_s=40)
                process.kill()
        async with running_service(tmp_path, engine=engine.url) as (_, url), client_of(tmp_path, url) as client:
            job, run = await client.job(job.id), await client.run(run.id)
            await job.wait(60)
            await assert_whole(client, run, engine)
            assert len(regenerated(engine)) == 8
