"""A real SGLang on the CPU: every promise that the engine client makes, and every trap that is known of it."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

from rollway_service.engines.ports import EngineError, EngineRejected, SamplingParams, WeightSource
from rollway_service.engines.sglang import SGLangEngine
from tests.builders import token_tasks
from tests.sglang_server import CONTEXT_LENGTH, RUNNING_REQUESTS, trained
from tests.stack import TINY_EOS, TINY_VOCAB, running_stack, until

pytestmark = pytest.mark.timeout(600)  # the first test starts the server

TOLERANCE = 1e-4
PROMPT = [5, 9, 40, 17, 23, 8]


@pytest.fixture
async def engine(sglang):
    found = SGLangEngine(sglang.url)
    await found.info()
    yield found
    await found.close()
    await until(lambda: sglang.busy() == 0, within_s=60)


@asynccontextmanager
async def stack_on(sglang, database_url, tmp_path, **settings):
    async with running_stack(
        database_url, tmp_path, with_worker=False, model_source=sglang.model, window=CONTEXT_LENGTH, **settings
    ) as stack:
        await stack.start_worker(engine=sglang.url, slots=RUNNING_REQUESTS)
        yield stack


def forward_logprobs(folder, token_ids, temperature=1.0):
    """Log-probs of each id given those before it by a Hugging Face forward pass in float32; the first is NaN."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = torch.tensor([list(map(int, token_ids))])
    with torch.no_grad():
        logits = model(ids).logits[0, :-1] / temperature
    found = torch.log_softmax(logits, dim=-1).gather(1, ids[0, 1:, None])[:, 0]
    return np.concatenate([[np.nan], found.numpy()])


async def generate(engine, request_id, prompt=PROMPT, **params):
    given = {"max_new_tokens": 32, "seed": 1} | params
    stream = engine.generate(request_id, prompt, SamplingParams(**given), chunk_tokens=64)
    return [chunk async for chunk in stream]


def joined(chunks, field):
    return np.concatenate([getattr(chunk, field) for chunk in chunks])


def versions_of(chunks):
    return chunks[-1].generation_versions.tolist()


async def samples_of(run, groups):
    found = []
    async for batch in run.batches(groups=groups, timeout_s=60):
        found += batch.samples
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
async def test_stored_logprobs_are_those_of_a_forward_pass(sglang, sqlite_url, tmp_path, temperature):
    """Cases B09, B10: through the whole service, the end token with its own log-prob, and of the scaled distribution."""
    rng = np.random.default_rng(3)
    tasks = [{"token_ids": rng.integers(3, TINY_VOCAB, size=length).tolist()} for length in (4, 30, 300, 700)]
    async with stack_on(sglang, sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("logprobs", model="tiny")
        sampling = {"max_new_tokens": 100, "seed": 7, "temperature": temperature}
        for ignore_eos in (False, True):
            await run.submit(tasks, group_size=2, sampling=sampling | {"ignore_eos": ignore_eos}, close=True)
        samples = await samples_of(run, 4)
    assert len(samples) == 16
    reasons = set()
    for sample in samples:
        is_sampled = sample.loss_mask == 1
        expected = forward_logprobs(sglang.model, sample.token_ids, temperature)[is_sampled]
        assert np.abs(sample.behavior_logprobs[is_sampled] - expected).max() < TOLERANCE
        assert sample.header.logprob_kind == "tempered"
        assert sample.header.temperature == temperature
        reasons.add(sample.header.stop_reason)
        if sample.header.stop_reason == "completed":
            assert sample.token_ids[-1] == TINY_EOS
        assert not sample.header.findings
    assert reasons == {"completed", "length"}


async def test_pieces_of_a_stream_are_disjoint_and_as_long_as_a_stretch(engine):
    chunks = await generate(engine, "pieces", max_new_tokens=300, ignore_eos=True)
    lengths = [len(chunk.token_ids) for chunk in chunks]
    assert sum(lengths) == 300
    assert max(lengths) == 64
    assert len(joined(chunks, "logprobs")) == 300
    assert not np.isnan(joined(chunks, "logprobs")).any()
    assert chunks[-1].finish_reason == "length"


async def test_finish_reasons_and_cached_tokens(engine):
    prompt = list(range(3, 203))
    first = await generate(engine, "first", prompt, ignore_eos=True)
    again = await generate(engine, "again", prompt, ignore_eos=True)
    assert (first[-1].finish_reason, again[-1].finish_reason) == ("length", "length")
    assert again[-1].cached_tokens >= 190
    ids = joined(first, "token_ids").tolist()
    stopped = await generate(engine, "stopped", prompt, ignore_eos=True, stop_token_ids=(ids[9],))
    got = joined(stopped, "token_ids").tolist()
    # SGLang itself ignores stop ids together with the end token: the client stops.
    assert got == ids[: ids.index(ids[9]) + 1]
    assert stopped[-1].finish_reason == "stop"
    assert not np.isnan(joined(stopped, "logprobs")).any()


async def test_seeds_decide_the_sample_and_load_does_not(engine):
    async def ids(name, seed):
        chunks = await generate(engine, f"{name}{seed}", seed=seed, ignore_eos=True)
        return tuple(joined(chunks, "token_ids").tolist())

    alone = [await ids("alone", seed) for seed in range(4)]
    together = await asyncio.gather(*(ids("crowd", seed) for seed in range(48)))
    assert together[:4] == alone
    assert len(set(together)) == 48
    edge = await generate(engine, "edge", seed=2**63 - 1)
    assert edge[-1].finish_reason is not None


async def test_members_of_a_group_differ_and_a_job_seed_gives_them_again(sglang, sqlite_url, tmp_path):
    """Case B33; and B34: a seed that would end the engine never gets there."""
    async with stack_on(sglang, sqlite_url, tmp_path) as stack:
        sets = []
        for name in ("one", "two"):
            run = await stack.client.start_run(name, model="tiny")
            await run.submit(token_tasks(1), group_size=8, sampling={"max_new_tokens": 24, "seed": 7}, close=True)
            samples = await samples_of(run, 1)
            assert len({sample.header.seed for sample in samples}) == 8
            sets.append({tuple(sample.token_ids.tolist()) for sample in samples})
        assert len(sets[0]) > 1
        assert sets[0] == sets[1]
        for seed in (10**20, 2**63, -(2**63) - 1, "100"):
            body = {"run_id": run.id, "tasks": token_tasks(1), "sampling": {"max_new_tokens": 4, "seed": seed}}
            assert (await stack.http.post("/v1/jobs", json=body)).status_code == 422
        body = {"run_id": run.id, "tasks": [{"token_ids": [5, TINY_VOCAB]}], "sampling": {"max_new_tokens": 4}}
        answer = await stack.http.post("/v1/jobs", json=body)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "$.tasks[0].token_ids[1]"
    assert sglang.busy() == 0


async def test_what_the_engine_refuses_is_not_asked_again(engine, sglang):
    with pytest.raises(EngineRejected):
        await generate(engine, "long", [7] * (CONTEXT_LENGTH + 1))
    params = SamplingParams(max_new_tokens=1500, ignore_eos=True, seed=1)
    async with aclosing(engine.generate("twice", PROMPT, params, chunk_tokens=64)) as stream:
        await anext(stream)
        with pytest.raises(EngineRejected, match=r"[Dd]uplicate"):
            await generate(engine, "twice")
        await engine.abort("twice")
        chunks = [chunk async for chunk in stream]
    assert chunks[-1].finish_reason == "abort"


async def test_an_abort_keeps_what_came_and_an_unknown_one_is_nothing(engine):
    await engine.abort("nobody")
    params = SamplingParams(max_new_tokens=1800, ignore_eos=True, seed=1)
    chunks = []
    async for chunk in engine.generate("long", PROMPT, params, chunk_tokens=64):
        chunks.append(chunk)
        if len(chunks) == 2:
            await engine.abort("long")
    assert chunks[-1].finish_reason == "abort"
    ids, logprobs = joined(chunks, "token_ids"), joined(chunks, "logprobs")
    assert 64 < len(ids) < 1800
    assert len(logprobs) == len(ids) == len(versions_of(chunks))


async def test_a_reader_that_leaves_frees_its_request(engine, sglang):
    """Case B29."""
    params = SamplingParams(max_new_tokens=1900, ignore_eos=True, seed=1)
    async with aclosing(engine.generate("left", PROMPT, params, chunk_tokens=64)) as stream:
        await anext(stream)
    # What the server says of its load is a moment old.
    await until(lambda: sglang.busy() == 0, within_s=20)


async def test_a_request_that_waits_is_aborted_empty(engine, sglang):
    """Case B14, and the fact that an aborted newcomer of a pause may still run in full when it ends."""
    await engine.pause()
    try:
        waiting = asyncio.create_task(generate(engine, "waiting", max_new_tokens=8))
        await asyncio.sleep(0.5)
        await engine.abort("waiting")
    finally:
        await asyncio.sleep(0.5)
        await engine.resume()
    chunks = await waiting
    count = sum(len(chunk.token_ids) for chunk in chunks)
    assert chunks[-1].finish_reason in {"abort", "length", "stop"}
    assert count == sum(len(chunk.logprobs) for chunk in chunks)
    assert count <= 8


async def test_a_pause_holds_requests_and_is_no_death(engine, sglang):
    import httpx

    params = SamplingParams(max_new_tokens=400, ignore_eos=True, seed=1)
    async with aclosing(engine.generate("held", PROMPT, params, chunk_tokens=64)) as stream:
        chunks = [await anext(stream)]
        await engine.pause()
        assert engine.is_paused
        async with httpx.AsyncClient(timeout=60) as http:
            # It answers, late, and says 503: whoever waits a few seconds only takes it for dead.
            assert (await http.get(sglang.url + "/health")).status_code == 503
        await engine.resume()
        chunks += [chunk async for chunk in stream]
    assert len(joined(chunks, "token_ids")) == 400
    assert chunks[-1].finish_reason == "length"


@pytest.mark.parametrize("mode", ["in_place", "retract"])
async def test_weights_are_swapped_under_64_requests(engine, sglang, tmp_path, mode):
    """Case B16: each token carries the version that sampled it; under retract, so do the keys and values behind it."""
    start = await engine.loaded_version() or 0
    await engine.load_weights(WeightSource(start + 1, str(sglang.model), None), "retract")
    folder = trained(sglang.model, tmp_path / "next", seed=start)
    running = [
        asyncio.create_task(generate(engine, f"{mode}{index}", seed=index, max_new_tokens=300, ignore_eos=True))
        for index in range(RUNNING_REQUESTS)
    ]
    await until(lambda: sglang.busy() == RUNNING_REQUESTS)
    await asyncio.sleep(1.0)
    await engine.load_weights(WeightSource(start + 2, str(folder), None), mode)
    results = await asyncio.gather(*running)
    crossed = 0
    for chunks in results:
        versions, kv = chunks[-1].generation_versions, chunks[-1].generation_kv_versions
        assert len(versions) == 300
        assert set(versions.tolist()) <= {start + 1, start + 2}
        assert (np.diff(versions) >= 0).all()
        assert (kv <= versions).all()
        crossed += len(set(versions.tolist())) == 2
    assert crossed > RUNNING_REQUESTS // 2
    chunks = next(chunks for chunks in results if len(set(versions_of(chunks))) == 2)
    ids, versions = [*PROMPT, *joined(chunks, "token_ids").tolist()], np.array(versions_of(chunks))
    logprobs = joined(chunks, "logprobs")
    before = forward_logprobs(sglang.model, ids)[len(PROMPT) :]
    assert np.abs(logprobs - before)[versions == start + 1].max() < TOLERANCE
    after = forward_logprobs(folder, ids)[len(PROMPT) :]
    is_new = versions == start + 2
    if mode == "retract":
        assert np.abs(logprobs - after)[is_new].max() < TOLERANCE
        assert (chunks[-1].generation_kv_versions[is_new] <= start + 2).all()
    else:
        # Old keys and values live on: neither model alone gives these, and the kv version says so.
        assert (chunks[-1].generation_kv_versions[is_new] == start + 1).all()


async def test_a_swap_leaves_no_prefix_of_the_old_weights(engine, sglang, tmp_path):
    """Case B15, in both modes."""
    prompt = list(range(3, 203))
    start = await engine.loaded_version() or 0
    for number, mode in enumerate(["in_place", "retract"], 1):
        await generate(engine, f"warm{number}", prompt, max_new_tokens=4)
        folder = trained(sglang.model, tmp_path / mode, seed=number)
        await engine.load_weights(WeightSource(start + number, str(folder), None), mode)
        first = await generate(engine, f"first{number}", prompt, ignore_eos=True)
        assert first[-1].cached_tokens == 0
        ids = [*prompt, *joined(first, "token_ids").tolist()]
        assert np.abs(joined(first, "logprobs") - forward_logprobs(folder, ids)[len(prompt) :]).max() < TOLERANCE
        assert (await generate(engine, f"second{number}", prompt, max_new_tokens=4))[-1].cached_tokens > 190


async def test_weights_that_cannot_be_loaded_leave_the_old_ones_serving(engine, sglang, tmp_path):
    start = await engine.loaded_version() or 0
    await engine.load_weights(WeightSource(start + 1, str(sglang.model), None), "in_place")
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "missing", tmp_path / "empty"):
        with pytest.raises(EngineError):
            await engine.load_weights(WeightSource(start + 2, str(folder), None), "in_place")
        assert await engine.loaded_version() == start + 1
        chunks = await generate(engine, f"after-{folder.name}", ignore_eos=True)
        assert set(versions_of(chunks)) == {start + 1}
        ids = [*PROMPT, *joined(chunks, "token_ids").tolist()]
        expected = forward_logprobs(sglang.model, ids)[len(PROMPT) :]
        assert np.abs(joined(chunks, "logprobs") - expected).max() < TOLERANCE


async def test_a_score_is_aligned_with_its_ids(engine, sglang):
    """Case B07: the first has no log-prob, and nothing is shifted by it."""
    version = (await engine.loaded_version() or 0) + 1
    await engine.load_weights(WeightSource(version, str(sglang.model), None), "in_place")
    ids = list(range(3, 43))
    scored = await engine.score(ids)
    assert np.isnan(scored[0])
    assert np.abs(scored - forward_logprobs(sglang.model, ids))[1:].max() < TOLERANCE


async def test_a_greedy_policy_gives_finite_logprobs_and_valid_json(sglang, sqlite_url, tmp_path):
    """Case B06: near-certain choices make impossible alternatives; nothing of it becomes a 500."""
    async with stack_on(sglang, sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("greedy", model="tiny")
        sampling = {"max_new_tokens": 24, "seed": 7, "top_k": 1, "allow_truncated_sampling": True}
        await run.submit(token_tasks(2), group_size=2, sampling=sampling, close=True)
        for sample in await samples_of(run, 2):
            path = f"/v1/trajectories/{sample.header.trajectory_id}?arrays=true"
            answer = await stack.http.get(path)
            assert answer.status_code == 200
            arrays = answer.json()["arrays"]
            assert len(arrays["token_ids"]) == len(arrays["behavior_logprobs"]) == len(arrays["loss_mask"])
            assert all(value is None or value <= 0 for value in arrays["behavior_logprobs"])


async def test_publishes_reach_the_engine_through_the_service(sglang, sqlite_url, tmp_path):
    async with stack_on(sglang, sqlite_url, tmp_path) as stack:
        run = await stack.client.start_run("published", model="tiny")
        folder = trained(sglang.model, tmp_path / "v1", seed=11)
        published = await run.publish(folder, trainer_step=1)
        version = await stack.client._transport.call(
            type(published), "GET", f"/v1/models/tiny/versions/{published.version}", params={"wait_converged_s": 60}
        )
        assert version.version == 1
        await run.submit(token_tasks(2), group_size=2, sampling={"max_new_tokens": 24, "seed": 7}, close=True)
        for sample in await samples_of(run, 2):
            is_sampled = sample.loss_mask == 1
            assert set(sample.weight_versions[is_sampled].tolist()) == {1}
            expected = forward_logprobs(folder, sample.token_ids)[is_sampled]
            assert np.abs(sample.behavior_logprobs[is_sampled] - expected).max() < TOLERANCE
