"""The engine port: one suite over the scripted engine (through the SGLang client) and the embedded one."""

import asyncio
from contextlib import aclosing, asynccontextmanager

import numpy as np
import pytest

from rollway.digests import weights_digest
from rollway_service.engines.ports import EngineRejected, SamplingParams, WeightSource
from rollway_service.main import tiny_policy
from rollway_workers.engines.embedded import EmbeddedEngine
from rollway_workers.engines.scripted import ScriptedServer, seeded_responder
from rollway_workers.engines.scripted.server import serving
from tests.stack import TINY_EOS, TINY_VOCAB, TINY_WINDOW, sglang

PROMPT = [301, 264, 292, 298]


@asynccontextmanager
async def scripted():
    responder = seeded_responder(vocab_size=TINY_VOCAB, chunk_tokens=8, chunk_delay_s=0.02)
    async with serving(ScriptedServer(responder, vocab_size=TINY_VOCAB, context_length=TINY_WINDOW)) as server:
        engine = sglang(server)
        yield engine
        await engine.close()


@asynccontextmanager
async def embedded():
    engine = await asyncio.to_thread(EmbeddedEngine.load, tiny_policy())
    yield engine
    await engine.close()


@pytest.fixture(params=[scripted, embedded], ids=["scripted", "embedded"])
async def engine(request):
    async with request.param() as found:
        yield found


async def collect(engine, request_id="r", prompt=PROMPT, chunk_tokens=8, **params):
    """(ids, log-probs, weight versions, chunks) of a whole generation."""
    given = {"max_new_tokens": 40, "seed": 5, "stop_token_ids": (TINY_EOS,)} | params
    chunks = [
        chunk async for chunk in engine.generate(request_id, prompt, SamplingParams(**given), chunk_tokens=chunk_tokens)
    ]
    ids = np.concatenate([chunk.token_ids for chunk in chunks])
    logprobs = np.concatenate([chunk.logprobs for chunk in chunks])
    versions = np.concatenate([chunk.weight_versions for chunk in chunks])
    return ids, logprobs, versions, chunks


async def test_a_generation_has_one_log_prob_and_version_for_each_id(engine):
    ids, logprobs, versions, chunks = await collect(engine, stop_token_ids=())
    assert len(ids) == len(logprobs) == len(versions) == 40
    assert ids.dtype == versions.dtype == np.int32
    assert logprobs.dtype == np.float32
    assert ((ids >= 0) & (ids < TINY_VOCAB)).all()
    assert (logprobs <= 0).all()
    assert [chunk.finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].finish_reason == "length"


async def test_the_same_seed_gives_the_same_ids_and_another_seed_others(engine):
    first, again, other = [
        (await collect(engine, f"r{index}", stop_token_ids=(), seed=seed))[0].tolist()
        for index, seed in enumerate((5, 5, 6))
    ]
    assert first == again != other


async def test_a_continued_generation_gives_what_an_uninterrupted_one_gives(engine):
    whole, _, _, _ = await collect(engine, "whole", stop_token_ids=())
    rest, _, _, _ = await collect(engine, "rest", PROMPT + whole[:15].tolist(), stop_token_ids=(), max_new_tokens=25)
    assert whole[15:].tolist() == rest.tolist()


async def test_an_abort_ends_the_stream_with_what_was_sampled(engine):
    chunks = []
    params = SamplingParams(max_new_tokens=240, seed=1)
    async for chunk in engine.generate("long", PROMPT, params, chunk_tokens=4):
        chunks.append(chunk)
        if len(chunks) == 2:
            await engine.abort("long")
    assert chunks[-1].finish_reason == "abort"
    assert 8 <= sum(len(chunk.token_ids) for chunk in chunks) < 240
    assert (await collect(engine, "after"))[0].size


async def test_leaving_the_stream_early_frees_the_request(engine):
    params = SamplingParams(max_new_tokens=240, seed=1)
    async with aclosing(engine.generate("left", PROMPT, params, chunk_tokens=4)) as stream:
        await anext(stream)
    await asyncio.sleep(0.2)
    assert (await collect(engine, "left"))[0].size


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [([], 4), (PROMPT, TINY_WINDOW)],
    ids=["empty prompt", "over the window"],
)
async def test_requests_that_cannot_run_are_refused_and_harm_no_other(engine, prompt, tokens):
    with pytest.raises(EngineRejected):
        await collect(engine, "bad", prompt, max_new_tokens=tokens)
    assert (await collect(engine, "good"))[0].size


async def test_many_at_once_each_get_their_own(engine):
    alone = {seed: (await collect(engine, f"a{seed}", seed=seed))[0].tolist() for seed in range(12)}
    together = await asyncio.gather(*(collect(engine, f"t{seed}", seed=seed) for seed in range(12)))
    assert {seed: ids.tolist() for seed, (ids, _, _, _) in enumerate(together)} == alone


async def test_weights_loaded_in_flight_are_stamped_and_versions_never_fall(engine):
    task = asyncio.gather(
        *(collect(engine, f"r{seed}", seed=seed, stop_token_ids=(), max_new_tokens=200) for seed in range(8))
    )
    await asyncio.sleep(0.05)
    source = WeightSource(3, str(tiny_policy()), weights_digest(tiny_policy()))
    await engine.load_weights(source, "in_place")
    results = await task
    for _, _, versions, chunks in results:
        true_versions = versions if chunks[-1].generation_versions is None else chunks[-1].generation_versions
        assert (np.diff(true_versions) >= 0).all()
        assert set(true_versions.tolist()) <= {0, 3}
    assert (await engine.info()).weight_version == 3
    assert set((await collect(engine, "new"))[2].tolist()) == {3}


async def test_info_says_what_the_engine_is(engine):
    info = await engine.info()
    assert (info.vocab_size, info.context_length, info.weight_version) == (TINY_VOCAB, TINY_WINDOW, 0)
    assert info.logprob_kind == "tempered"
    assert info.facts.kind in {"sglang", "embedded"}
