"""What the way through Rollway costs an engine: tokens a second against the engine alone, and a worker's own limits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import numpy as np

import rollway
from rollway._sync.runs import RunHandle
from rollway_service.engines.ports import SamplingParams
from rollway_service.engines.sglang import SGLangEngine
from tests.bench.figures import Figure, Options, machine, not_measured
from tests.bench.long_rollouts import NEW_TOKENS, cpu_s, process_of, running, until_file
from tests.servers import private_postgres
from tests.sglang_server import RUNNING_REQUESTS, SGLangServer, model_for_sglang, require_sglang, running_sglang

_PROMPT_TOKENS = 64
_TOKENS = 128
_LONG_CONTEXT = 65_536


def measure(options: Options) -> Iterator[Figure]:
    yield _core_tokens(options)
    yield _long_turn(options)
    try:
        require_sglang()
    except RuntimeError as error:
        yield not_measured("engine.tokens_ratio", "x", ">= 0.9", str(error))
        return
    yield _tokens_ratio(options)


def _core_tokens(options: Options) -> Figure:
    groups = 32 if options.is_short else 128
    with running() as bench:
        bench.roll_out(8)
        before_s = cpu_s(bench.worker)
        bench.roll_out(groups)
        tokens = groups * 8 * NEW_TOKENS
        per_s = tokens / (cpu_s(bench.worker) - before_s)
    how = f"tokens per second of a worker's processor time, scripted engine, 64-token chunks, over gRPC, {machine()}"
    return Figure("engine.core_tokens_per_s", round(per_s), "tokens/s", ">= 100000", how)


def _long_turn(options: Options) -> Figure:
    turns = 20 if options.is_short else 100
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "engine.log"
        with process_of(["rollway_workers.engines.scripted", "--context-length", "131072"], log) as engine:
            url = until_file(engine, log, log).splitlines()[0]
            took_s = asyncio.run(_turns(url, turns))
    how = f"processor time of one request of {_LONG_CONTEXT} ids and 64 tokens in the engine client, {turns} turns, {machine()}"
    return Figure("engine.turn_ms_at_64k", round(took_s * 1e3, 2), "ms", "<= 2", how)


async def _turns(url: str, turns: int) -> float:
    engine = SGLangEngine(url)
    prompt = np.arange(_LONG_CONTEXT, dtype=np.int32) % 290 + 3
    params = SamplingParams(max_new_tokens=64, ignore_eos=True, seed=1)
    started_s = 0.0
    for turn in range(turns + 1):
        if turn == 1:
            started_s = time.process_time()
        async for _ in engine.generate(f"turn{turn}", prompt, params, chunk_tokens=64):
            pass
    took_s = (time.process_time() - started_s) / turns
    await engine.close()
    return took_s


def _tokens_ratio(options: Options) -> Figure:
    requests, cycles = (128, 1) if options.is_short else (256, 5) if options.is_full else (256, 3)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollway-bench-")))
        server = stack.enter_context(running_sglang(model_for_sglang(folder / "model"), folder))
        client = stack.enter_context(_service_on(server, folder))
        run = client.start_run("bench", model="model")
        alone, through = [], []
        for cycle in range(cycles + 1):
            prompts = _prompts(cycle, requests)
            alone.append(asyncio.run(_straight(server.url, prompts)))
            through.append(_through(run, prompts))
    ratio = statistics.median(ours / theirs for ours, theirs in zip(through[1:], alone[1:], strict=True))
    how = (
        f"{statistics.median(through[1:]):,.0f} against {statistics.median(alone[1:]):,.0f} tokens/s, {requests} requests of"
        f" {_PROMPT_TOKENS} + {_TOKENS} tokens, {RUNNING_REQUESTS} at once, SGLang 0.5.23 on the CPU with the tiny policy, which"
        f" shares {machine()} with service, worker and PostgreSQL; median of {cycles} interleaved cycles"
    )
    return Figure("engine.tokens_ratio", round(ratio, 3), "x", ">= 0.9", how)


def _prompts(cycle: int, count: int) -> list[list[int]]:
    rng = random.Random(cycle)
    return [[rng.randrange(3, 300) for _ in range(_PROMPT_TOKENS)] for _ in range(count)]


async def _straight(url: str, prompts: list[list[int]]) -> float:
    """Tokens/s of a client that only reads what the engine streams."""
    slots = asyncio.Semaphore(RUNNING_REQUESTS)
    sampling = {"max_new_tokens": _TOKENS, "ignore_eos": True, "temperature": 1.0}
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=600)) as session:

        async def one(index: int, prompt: list[int]) -> None:
            body = {"input_ids": prompt, "return_logprob": True, "stream": True}
            body["sampling_params"] = sampling | {"sampling_seed": index}
            async with slots, session.post(f"{url}/generate", json=body) as answer:
                async for _ in answer.content.iter_any():
                    pass

        started_s = time.perf_counter()
        await asyncio.gather(*(one(index, prompt) for index, prompt in enumerate(prompts)))
        return len(prompts) * _TOKENS / (time.perf_counter() - started_s)


def _through(run: RunHandle, prompts: list[list[int]]) -> float:
    started_s = time.perf_counter()
    sampling = {"max_new_tokens": _TOKENS, "ignore_eos": True, "seed": 1}
    job = run.submit([{"token_ids": prompt} for prompt in prompts], group_size=1, sampling=sampling, close=True)
    job.wait(600)
    return len(prompts) * _TOKENS / (time.perf_counter() - started_s)


@contextlib.contextmanager
def _service_on(server: SGLangServer, folder: Path) -> Iterator[rollway.Client]:
    """A service and a worker on this engine, as processes."""
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(private_postgres(durable=True))
        environment = {
            "HOME": str(folder),
            "ROLLWAY_URL_FILE": str(folder / "url"),
            "ROLLWAY_GRPC_URL_FILE": str(folder / "grpc_url"),
            "ROLLWAY_DATABASE_URL": postgres.create_database("bench"),
            "HF_HUB_OFFLINE": "1",
        }
        arguments = ["--engine", "none", "--port", "0", "--data-dir", str(folder), "--model", str(server.model)]
        log = folder / "service.log"
        service = stack.enter_context(process_of(["rollway_service", *arguments], log, environment))
        url = until_file(service, folder / "url", log)
        key = json.loads((folder / ".rollway" / "keys.json").read_text())[url]
        environment["ROLLWAY_SERVICE"] = (folder / "grpc_url").read_text()
        worker = ["rollway_workers", "--pool", "model", "--engine", server.url, "--slots", str(RUNNING_REQUESTS)]
        stack.enter_context(process_of(worker, folder / "worker.log", {**os.environ, **environment}))
        with rollway.Client(url, key) as client:
            yield client
