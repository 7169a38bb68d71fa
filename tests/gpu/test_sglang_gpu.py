"""What only a GPU can show: FP8 and speculative decoding under a worker's launcher. `pytest -m gpu`.

ROLLWAY_GPU_MODEL names a model folder (any dense model that fits), ROLLWAY_SGLANG_PYTHON an environment with SGLang.
"""

import os
from pathlib import Path

import numpy as np
import pytest

from rollway_service.engines.ports import SamplingParams, WeightSource
from rollway_service.engines.sglang import SGLangEngine
from rollway_workers.engines.launch import Launcher
from rollway_workers.engines.sglang_flags import LaunchOptions, has_gpu
from tests.servers import free_port

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(1200)]

PROFILES = {
    "plain": (),
    "fp8": ("--quantization", "fp8"),
    "fp8 cache": ("--kv-cache-dtype", "fp8_e4m3"),
    "ngram": ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "4"),
}


@pytest.mark.parametrize("profile", list(PROFILES))
async def test_a_profile_gives_a_logprob_for_each_id_and_no_old_prefix_after_a_swap(profile, tmp_path):
    assert has_gpu()
    model = Path(os.environ["ROLLWAY_GPU_MODEL"])
    options = LaunchOptions(model, free_port(), stretch_tokens=64, arguments=PROFILES[profile])
    launcher = Launcher(options, tmp_path / "engine.log", max_failed_starts=1)
    await launcher.start()
    engine = SGLangEngine(launcher.url)
    try:
        info = await engine.info()
        prompt = list(range(100, 612))

        async def generate(name):
            params = SamplingParams(max_new_tokens=256, ignore_eos=True, seed=1)
            return [chunk async for chunk in engine.generate(name, prompt, params, chunk_tokens=64)]

        chunks = await generate("first")
        assert sum(len(chunk.token_ids) for chunk in chunks) == 256
        assert not np.isnan(np.concatenate([chunk.logprobs for chunk in chunks])).any()
        assert max(int(chunk.token_ids.max()) for chunk in chunks) < (info.vocab_size or 2**31)
        assert (await generate("again"))[-1].cached_tokens > 400
        await engine.load_weights(WeightSource(1, str(model), None), "in_place")
        swapped = await generate("swapped")
        assert swapped[-1].cached_tokens == 0
        assert set(swapped[-1].generation_versions.tolist()) == {1}
    finally:
        await engine.close()
        await launcher.stop()
