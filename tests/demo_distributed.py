"""The demo on what production runs on: PostgreSQL, Redis, Celery, gRPC and SGLang (on this CPU), each a process.

python -m tests.demo_distributed [OUT]: the trainer is the one of `make demo`, unchanged.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
from rich.console import Console

from rollway.demo.run import run_demo
from rollway_service.local_setup import tiny_policy
from tests.processes import Process, started
from tests.servers import private_postgres, private_redis
from tests.sglang_server import require_sglang, sglang_python

_READY_S = 240.0


def _until(process: Process, text: str) -> None:
    deadline = time.monotonic() + _READY_S
    while text not in process.log.read_text():
        if process.popen.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"{process.log.name} did not come up:\n{process.log.read_text()[-4000:]}")
        time.sleep(0.1)


@contextlib.contextmanager
def distributed_service(folder: Path) -> Iterator[str]:
    """Every part as a process of its own; yields the service's URL once a worker takes work."""
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(private_postgres())
        redis = stack.enter_context(private_redis())
        environment = {
            "ROLLWAY_DATA_DIR": str(folder / "data"),
            "ROLLWAY_BROKER_URL": redis.url,
            "ROLLWAY_REWARD_DISPATCH": "celery",
            "ROLLWAY_URL_FILE": str(folder / "url"),
            "ROLLWAY_GRPC_URL_FILE": str(folder / "grpc_url"),
            "ROLLWAY_SGLANG_PYTHON": sglang_python(),
            "ROLLWAY_SESSION_LEASE_S": "15",
            "ROLLWAY_STEWARD_INTERVAL_S": "1",
        }
        database = {"ROLLWAY_DATABASE_URL": postgres.create_database("demo")}

        def start(name: str, module: str, *arguments: str, **more: str) -> Process:
            command = [sys.executable, "-m", module, *arguments, "--json-logs"]
            return stack.enter_context(started(command, folder / f"{name}.log", {**environment, **more}))

        model = ["--engine", "none", "--model", str(tiny_policy()), "--model-name", "tiny"]
        service = start("service", "rollway_service", "--port", "0", *model, **database)
        _until(service, '"ready"')
        rpc_url = (folder / "grpc_url").read_text()
        start("steward", "rollway_service.steward", **database)
        start("rewards", "rollway_workers.rewards.worker")
        worker = start(
            "worker",
            "rollway_workers",
            "--pool",
            "tiny",
            "--engine",
            "sglang",
            "--slots",
            "64",
            ROLLWAY_SERVICE=rpc_url,
        )
        stack.callback(worker.stop)
        _until(worker, '"worker_started"')
        url = (folder / "url").read_text()
        httpx.get(f"{url}/readyz").raise_for_status()
        try:
            yield url
        finally:
            logs = Path(os.environ.get("ROLLWAY_DEMO_LOGS", ""))
            if logs.name:
                shutil.copytree(folder, logs, dirs_exist_ok=True, ignore=shutil.ignore_patterns("weights*"))


def main() -> int:
    require_sglang()
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "demo-out")
    told_as = "PostgreSQL, Redis, a service, a steward, a reward worker and a worker that launches SGLang"
    outcome = run_demo(out, console=Console(), service=distributed_service, told_as=told_as)
    return 0 if outcome.accuracy_ratio > 1 else 1


if __name__ == "__main__":
    sys.exit(main())
