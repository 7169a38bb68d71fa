"""The embedded engine for real: log-probs against a plain forward, determinism, swaps, crashes."""

import asyncio

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM

from rollway_service.engines.ports import EngineError, SamplingParams, WeightSource
from rollway_service.main import tiny_policy
from rollway_workers.assembly import EMBEDDED
from rollway_workers.engines.embedded import EmbeddedEngine, EmbeddedSettings
from tests.builders import token_tasks
from tests.stack import TINY_EOS, running_stack

PROMPT = [301, 264, 292, 298, 286, 264, 300, 299, 297, 28, 223, 20]


@pytest.fixture
async def engine():
    found = await asyncio.to_thread(EmbeddedEngine.load, tiny_policy())
    yield found
    await found.close()


async def generate(engine, request_id, *, seed=0, tokens=60, **params):
    chunks = [
        chunk
        async for chunk in engine.generate(
            request_id, PROMPT, SamplingParams(max_new_tokens=tokens, seed=seed, **params), chunk_tokens=16
        )
    ]
    return (
        np.concatenate([chunk.token_ids for chunk in chunks]),
        np.concatenate([chunk.logprobs for chunk in chunks]),
        np.concatenate([chunk.weight_versions for chunk in chunks]),
        np.concatenate([chunk.kv_versions for chunk in chunks]),
    )


def forward_logprobs(model, ids, temperature=1.0):
    """Log-probs of the sampled ids by a plain forward in float32."""
    tokens = torch.tensor([PROMPT + list(ids)])
    with torch.no_grad():
        logits = model(input_ids=tokens, use_cache=False).logits[0, len(PROMPT) - 1 : -1]
    table = torch.log_softmax(logits.double() / temperature, dim=-1)
    return table.gather(1, tokens[0, len(PROMPT) :, None])[:, 0].numpy()


def plain_model(folder=None):
    return AutoModelForCausalLM.from_pretrained(folder or tiny_policy(), dtype=torch.float32).eval()


def noisy_weights(folder, scale):
    """The tiny policy with noise of this scale on every weight."""
    torch.manual_seed(1)
    tensors = {name: tensor.float() for name, tensor in load_file(tiny_policy() / "model.safetensors").items()}
    folder.mkdir(exist_ok=True)
    noisy = {name: tensor + scale * torch.randn_like(tensor) for name, tensor in tensors.items()}
    save_file(noisy, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text((tiny_policy() / "config.json").read_text())
    return folder


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.7])
async def test_log_probs_are_those_of_a_plain_forward_at_the_temperature_sampled_with(engine, temperature):
    results = await asyncio.gather(
        *(generate(engine, f"r{seed}", seed=seed, temperature=temperature) for seed in range(16))
    )
    model = plain_model()
    for ids, logprobs, _, _ in results:
        assert np.abs(logprobs - forward_logprobs(model, ids, temperature)).max() < 1e-4


async def test_greedy_gives_the_most_likely_ids(engine):
    ids, logprobs, _, _ = await generate(engine, "greedy", temperature=0.0, tokens=20)
    model = plain_model()
    tokens = list(PROMPT)
    for token_id in ids:
        with torch.no_grad():
            assert int(model(input_ids=torch.tensor([tokens])).logits[0, -1].argmax()) == token_id
        tokens.append(int(token_id))
    assert np.abs(logprobs - forward_logprobs(model, ids)).max() < 1e-4


async def test_after_a_swap_no_new_request_sees_keys_and_values_of_the_old_weights(engine, tmp_path):
    """Case B15: the same prompt, before and after; the log-probs must be the new weights' own."""
    await asyncio.gather(*(generate(engine, f"warm{seed}", seed=seed) for seed in range(8)))
    folder = noisy_weights(tmp_path / "v1", 0.05)
    await engine.load_weights(WeightSource(1, str(folder), None), "in_place")
    ids, logprobs, versions, kv_versions = await generate(engine, "after")
    assert np.abs(logprobs - forward_logprobs(plain_model(folder), ids)).max() < 1e-4
    assert set(versions.tolist()) == set(kv_versions.tolist()) == {1}


@pytest.mark.parametrize("mode", ["in_place", "retract"])
async def test_tokens_carry_the_version_that_sampled_them_and_the_oldest_they_attended_to(engine, tmp_path, mode):
    folder = noisy_weights(tmp_path / "v1", 0.05)
    task = asyncio.gather(*(generate(engine, f"r{seed}", seed=seed, tokens=200) for seed in range(8)))
    await asyncio.sleep(0.15)
    await engine.load_weights(WeightSource(1, str(folder), None), mode)
    results = await task
    old, new = plain_model(), plain_model(folder)
    crossed = 0
    for ids, logprobs, versions, kv_versions in results:
        first_new = int((versions == 0).sum())
        assert (np.diff(versions) >= 0).all()
        assert np.abs(logprobs[:first_new] - forward_logprobs(old, ids)[:first_new]).max(initial=0) < 1e-4
        if 0 < first_new < len(ids):
            crossed += 1
            if mode == "retract":
                assert np.abs(logprobs[first_new:] - forward_logprobs(new, ids)[first_new:]).max() < 1e-4
                assert (kv_versions[first_new:] == 1).all()
            else:
                assert (kv_versions[first_new:] == 0).all()
    assert crossed


async def test_weights_that_do_not_fit_are_refused_and_the_old_ones_serve_on(engine, tmp_path):
    before, _, _, _ = await generate(engine, "before")
    tensors = load_file(tiny_policy() / "model.safetensors")
    tensors["model.norm.weight"] = tensors["model.norm.weight"][:5].clone()
    folder = tmp_path / "bad"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(EngineError, match=r"model\.norm\.weight"):
        await engine.load_weights(WeightSource(1, str(folder), None), "in_place")
    (folder / "model.safetensors").write_bytes(b"cut short")
    with pytest.raises(EngineError, match="cannot be read"):
        await engine.load_weights(WeightSource(1, str(folder), None), "in_place")
    after, _, versions, _ = await generate(engine, "after")
    assert before.tolist() == after.tolist()
    assert set(versions.tolist()) == {0}


async def test_a_crash_of_the_generation_thread_fails_what_ran_and_the_next_request_works(engine):
    before, _, _, _ = await generate(engine, "before")
    engine._manager.add("poison", [99_999], 3, ())
    with pytest.raises(EngineError):
        await generate(engine, "victim", tokens=200)
    after, _, _, _ = await generate(engine, "after")
    assert before.tolist() == after.tolist()


async def samples_of(database_url, tmp_path, *, slots):
    """All samples of one job on the embedded engine in its deterministic mode, by task and member."""
    async with running_stack(database_url, tmp_path, with_worker=False) as stack:
        await stack.start_worker(engine=EMBEDDED, slots=slots, is_deterministic=True)
        run = await stack.client.start_run("deterministic", model="tiny")
        await run.submit(
            token_tasks(8, length=12), group_size=4, sampling={"max_new_tokens": 40, "seed": 5}, close=True
        )
        found = {}
        async for batch in run.batches(groups=4, timeout_s=60):
            for sample in batch.samples:
                key = (sample.group.header.task_index, sample.header.member_index)
                found[key] = (sample.token_ids.tolist(), sample.behavior_logprobs.tobytes())
        return found


async def test_deterministic_mode_gives_the_same_bits_at_any_concurrency_on_any_database(
    sqlite_url, postgres_url, tmp_path
):
    alone = await samples_of(sqlite_url, tmp_path, slots=1)
    crowded = await samples_of(postgres_url, tmp_path, slots=32)
    assert len(alone) == 32
    assert alone == crowded
    assert len({tuple(ids) for ids, _ in alone.values()}) > 8


async def test_float64_is_what_deterministic_mode_runs():
    settings = EmbeddedSettings(deterministic=True)
    engine = await asyncio.to_thread(EmbeddedEngine.load, tiny_policy(), settings)
    try:
        assert next(engine._model.parameters()).dtype == torch.float64
        assert (await engine.info()).facts.deterministic
        assert (await generate(engine, "r", stop_token_ids=(TINY_EOS,)))[0].size
    finally:
        await engine.close()
