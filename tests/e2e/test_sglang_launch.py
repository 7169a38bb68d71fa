"""SGLang servers that workers launch: they come back when they die, and go when their worker goes."""

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import rollway
from rollway_workers.engines.launch import Launcher, LaunchFailed
from rollway_workers.engines.sglang_flags import LaunchOptions
from tests.builders import token_tasks
from tests.distributed import key_of
from tests.e2e.test_sglang import TOLERANCE, forward_logprobs
from tests.processes import running_service, started_worker, until_logged
from tests.servers import free_port
from tests.sglang_server import model_for_sglang, require_sglang, trained
from tests.stack import until


def engine_process(worker):
    """The main process of the worker's server."""
    return next(
        child
        for child in psutil.Process(worker.popen.pid).children()
        if "sglang.launch_server" in " ".join(child.cmdline())
    )


def is_gone(processes):
    return all(not each.is_running() or each.status() == psutil.STATUS_ZOMBIE for each in processes)


@pytest.fixture
async def service(postgres_url, tmp_path):
    require_sglang()
    folder = model_for_sglang(tmp_path / "tiny")
    async with running_service(tmp_path, engine="none", database=postgres_url, model=folder) as (_, url):
        async with rollway.AsyncClient(url, key_of(tmp_path, url)) as client:
            yield client, folder


@contextlib.contextmanager
def sglang_worker(tmp_path):
    environment = {"ROLLWAY_DATA_DIR": str(tmp_path / "data")}
    with started_worker(
        tmp_path, engine="sglang", name="one", arguments=["--deterministic"], environment=environment
    ) as worker:
        yield worker


@pytest.mark.timeout(900)
async def test_an_engine_that_is_killed_comes_back_with_the_weights_of_its_pool(service, tmp_path):
    client, folder = service
    with sglang_worker(tmp_path) as worker:
        await until_logged(worker, "worker_started", within_s=240)
        run = await client.start_run("launched", model="tiny")
        newer = trained(folder, tmp_path / "v1", seed=5)
        await run.publish(newer, trainer_step=1)
        await until_logged(worker, "weights_loaded", within_s=60)
        sampling = {"max_new_tokens": 700, "seed": 3, "ignore_eos": True}
        job = await run.submit(token_tasks(8), group_size=2, sampling=sampling, close=True)
        main = engine_process(worker)
        family = [main, *main.children(recursive=True)]
        await until(lambda: has_checkpoints(client, job.id), within_s=60)
        main.kill()
        await until(lambda: is_gone(family), within_s=20)
        await job.wait(200)
        seen = {}
        async for batch in run.batches(groups=8, timeout_s=60):
            for sample in batch.samples:
                assert sample.header.rollout_id not in seen
                seen[sample.header.rollout_id] = sample
        assert len(seen) == 16
        for sample in seen.values():
            is_sampled = sample.loss_mask == 1
            assert is_sampled.sum() == 700
            assert set(sample.weight_versions[is_sampled].tolist()) == {1}
        sample = next(iter(seen.values()))
        expected = forward_logprobs(newer, sample.token_ids)[sample.loss_mask == 1]
        assert np.abs(sample.behavior_logprobs[sample.loss_mask == 1] - expected).max() < TOLERANCE
        assert "engine_died" in worker.log.read_text()

        main = engine_process(worker)
        family = [main, *main.children(recursive=True)]
        worker.kill()
        # Nobody is left to stop it: the kernel does.
        await until(lambda: is_gone(family), within_s=20)


async def has_checkpoints(client, job_id):
    pending = [rollout async for group in client.groups(job_id) for rollout in group.pending_rollout_ids]
    kept = [(await client.rollout(rollout_id)).checkpointed_tokens for rollout_id in pending]
    return sum(tokens > 0 for tokens in kept) >= 8


async def test_a_worker_that_is_stopped_stops_its_engine_also_as_it_starts(service, tmp_path):
    with sglang_worker(tmp_path) as worker:
        await until_logged(worker, "engine_starting", within_s=60)
        await asyncio.sleep(4)
        main = engine_process(worker)
        family = [main, *main.children(recursive=True)]
        assert await asyncio.to_thread(worker.stop) == 0
        await until(lambda: is_gone(family), within_s=20)


async def test_a_server_that_cannot_start_is_told_with_the_end_of_its_log(service, tmp_path):
    with started_worker(
        tmp_path,
        engine="sglang",
        name="one",
        arguments=["--model", str(tmp_path / "nowhere")],
    ) as worker:
        assert await asyncio.to_thread(worker.popen.wait, 60) == 1
        assert "there is no model in" in worker.log.read_text()


async def test_a_crash_loop_ends_with_the_log(tmp_path):
    script = "import sys; print('out of memory: 80 GiB asked for'); sys.exit(3)"
    launcher = a_launcher(tmp_path, script, max_failed_starts=3, first_backoff_s=0.05)
    with pytest.raises(LaunchFailed, match=r"(?s)exit code 3.*out of memory: 80 GiB"):
        await launcher.start()
    assert launcher.starts == 3
    assert "out of memory" in (tmp_path / "engine.log").read_text()


async def test_a_build_without_incremental_output_is_launched_without_it(tmp_path):
    script = (
        "import sys\n"
        "if '--incremental-streaming-output' in sys.argv:\n"
        "    sys.exit('launch_server.py: error: unrecognized arguments: --incremental-streaming-output')\n" + _SERVER
    )
    launcher = a_launcher(tmp_path, script, max_failed_starts=2, first_backoff_s=0.05)
    await launcher.start()
    assert launcher.starts == 2
    await launcher.stop()


async def test_a_server_that_dies_is_started_again_and_its_children_with_it(tmp_path):
    launcher = a_launcher(tmp_path, _SERVER, first_backoff_s=0.05)
    await launcher.start()
    watching = asyncio.create_task(launcher.keep_running())
    first = launcher.pid
    child = psutil.Process(first).children()[0]
    os.kill(first, signal.SIGKILL)
    await until(lambda: launcher.starts == 2 and launcher.pid != first and launcher.pid is not None, within_s=30)
    await until(lambda: is_gone([child]), within_s=10)
    assert not watching.done()
    watching.cancel()
    await launcher.stop()


async def test_very_long_lines_of_output_are_no_end_of_it(tmp_path):
    script = "print('x' * 300_000, flush=True)\n" + _SERVER
    launcher = a_launcher(tmp_path, script)
    await launcher.start()
    assert launcher.starts == 1
    await launcher.stop()


_SERVER = """
import http.server, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
port = int(sys.argv[sys.argv.index("--port") + 1])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def a_launcher(tmp_path: Path, script: str, **options) -> Launcher:
    """A launcher whose interpreter runs this script instead of SGLang."""
    interpreter = tmp_path / "python"
    interpreter.write_text(f"#!{sys.executable}\n{script}")
    interpreter.chmod(0o755)
    launch = LaunchOptions(tmp_path, free_port(), python=str(interpreter))
    return Launcher(launch, tmp_path / "engine.log", start_within_s=20, **options)
