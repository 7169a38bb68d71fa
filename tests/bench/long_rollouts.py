"""A service, a worker and a scripted engine as processes on a durable PostgreSQL and a Redis, and a run of 256 + 1,024-token rollouts."""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

import rollway
from rollway._sync.runs import JobHandle, RunHandle
from rollway_service.main import tiny_policy
from tests.servers import PrivatePostgres, PrivateRedis, private_postgres, private_redis

PROMPT_TOKENS = 256
NEW_TOKENS = 1024
GROUP_SIZE = 8
_MODEL = "bench"
_WINDOW = 4096


@dataclass(frozen=True, slots=True)
class Bench:
    """What runs, and a client of it."""

    postgres: PrivatePostgres
    redis: PrivateRedis
    database_url: str
    service: subprocess.Popen[bytes]
    worker: subprocess.Popen[bytes]
    client: rollway.Client
    run: RunHandle

    def roll_out(self, groups: int) -> JobHandle:
        """Submit so many groups and wait until they are done."""
        rng = random.Random(groups)
        tasks = [{"token_ids": [rng.randrange(3, 300) for _ in range(PROMPT_TOKENS)]} for _ in range(groups)]
        job = self.run.submit(
            tasks,
            close=True,
            group_size=GROUP_SIZE,
            sampling={"max_new_tokens": NEW_TOKENS, "seed": 1},
            rewards=[{"kind": "regex", "pattern": "a"}],
        )
        job.wait(600)
        return job


def cpu_s(process: subprocess.Popen[bytes]) -> float:
    """Processor time of a process and its children, seconds."""
    root = psutil.Process(process.pid)
    return sum(sum(each.cpu_times()[:2]) for each in (root, *root.children(recursive=True)))


def postgres_cpu_s(postgres: PrivatePostgres) -> float:
    return cpu_s(postgres.process)


@contextlib.contextmanager
def running() -> Iterator[Bench]:
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(private_postgres(durable=True))
        redis = stack.enter_context(private_redis())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rollway-bench-")))
        database_url = postgres.create_database("bench")
        environment = {
            "HOME": str(folder),
            "ROLLWAY_URL_FILE": str(folder / "url"),
            "ROLLWAY_GRPC_URL_FILE": str(folder / "grpc_url"),
            "ROLLWAY_DATABASE_URL": database_url,
            "ROLLWAY_BROKER_URL": redis.url,
            "HF_HUB_OFFLINE": "1",
        }
        engine = stack.enter_context(
            process_of(["rollway_workers.engines.scripted", "--context-length", str(_WINDOW)], folder / "engine.log")
        )
        engine_url = _first_line(engine, folder / "engine.log")
        service = stack.enter_context(
            process_of(
                ["rollway_service", "--engine", "none", "--port", "0", "--data-dir", str(folder)],
                folder / "service.log",
                environment,
            )
        )
        url = until_file(service, folder / "url", folder / "service.log")
        key = json.loads((folder / ".rollway" / "keys.json").read_text())[url]
        client = stack.enter_context(rollway.Client(url, key))
        client.register_model(_MODEL, tiny_policy(), context_length=_WINDOW)
        client.create_pool(_MODEL, model=_MODEL)
        worker = stack.enter_context(
            process_of(
                ["rollway_workers", "--pool", _MODEL, "--engine", engine_url, "--slots", "64"],
                folder / "worker.log",
                {**environment, "ROLLWAY_SERVICE": (folder / "grpc_url").read_text()},
            )
        )
        yield Bench(postgres, redis, database_url, service, worker, client, client.start_run("bench", model=_MODEL))


@contextlib.contextmanager
def process_of(
    arguments: list[str], log: Path, environment: dict[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *arguments], stdout=file, stderr=file, env={**os.environ, **(environment or {})}
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def until_file(process: subprocess.Popen[bytes], path: Path, log: Path) -> str:
    deadline_s = time.monotonic() + 60
    while not (path.is_file() and path.read_text().strip()):
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"a process did not start; its log:\n{log.read_text()[-4000:]}")
        time.sleep(0.05)
    return path.read_text().strip()


def _first_line(process: subprocess.Popen[bytes], log: Path) -> str:
    return until_file(process, log, log).splitlines()[0]
