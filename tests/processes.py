"""Services and workers as processes of their own, to be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

_FAST = {
    "ROLLWAY_SESSION_LEASE_S": "2.0",
    "ROLLWAY_STEWARD_INTERVAL_S": "0.2",
    "ROLLWAY_CHECKPOINT_INTERVAL_S": "0.1",
    "ROLLWAY_STRETCH_TOKENS": "32",
    "ROLLWAY_REWARD_PROCESSES": "1",
    "HF_HUB_OFFLINE": "1",
}


class Process:
    """A process with its log. `kill` is SIGKILL to it alone; `stop` is SIGTERM and a wait."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as file:
            self.popen = subprocess.Popen(
                list(command), stdout=file, stderr=file, env={**os.environ, **environment}, start_new_session=True
            )

    def kill(self) -> None:
        self.popen.kill()
        self.popen.wait()

    def signal(self, number: int) -> None:
        self.popen.send_signal(number)

    def stop(self) -> int:
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(20)

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()


@contextlib.contextmanager
def started(command: Sequence[str], log: Path, environment: dict[str, str] | None = None) -> Iterator[Process]:
    process = Process(command, log, {**_FAST, **(environment or {})})
    try:
        yield process
    finally:
        process.end()


async def until_logged(process: Process, text: str, *, within_s: float = 60.0) -> None:
    """Wait until the process has written this to its log. Fails with the log."""
    deadline = time.monotonic() + within_s
    while text not in process.log.read_text():
        if process.popen.poll() is not None or time.monotonic() > deadline:
            raise AssertionError(f"{text!r} was not logged:\n{process.log.read_text()[-4000:]}")
        await asyncio.sleep(0.05)


def service_command(
    folder: Path, *, engine: str, database: str | None = None, port: int = 0, model: Path | None = None
) -> list[str]:
    command = [sys.executable, "-m", "rollway_service", "--data-dir", str(folder), "--port", str(port)]
    command += ["--engine", engine, "--model-name", "tiny", "--json-logs"]
    if engine != "embedded":
        from rollway_service.main import tiny_policy

        command += ["--model", str(model or tiny_policy())]
    return command + (["--database", database] if database else [])


@contextlib.contextmanager
def started_worker(
    folder: Path,
    *,
    engine: str,
    name: str,
    database: str | None = None,
    slots: int = 16,
    arguments: Sequence[str] = (),
    environment: dict[str, str] | None = None,
) -> Iterator[Process]:
    """A worker process of the service in `folder`, which it asks over gRPC unless a database is given."""
    command = [sys.executable, "-m", "rollway_workers", "--pool", "tiny", "--engine", engine, "--name", name]
    command += ["--json-logs", "--slots", str(slots), *arguments]
    if database is not None:
        command += ["--database", database]
    known = {"HOME": str(folder), "ROLLWAY_SERVICE": (folder / "grpc_url").read_text()}
    with started(command, folder / f"{name}.log", known | (environment or {})) as process:
        yield process


@contextlib.asynccontextmanager
async def running_service(
    folder: Path,
    *,
    engine: str,
    database: str | None = None,
    port: int = 0,
    model: Path | None = None,
    environment: dict[str, str] | None = None,
) -> AsyncIterator[tuple[Process, str]]:
    """A service process and its URL, once it takes work. HOME is `folder`, so its key file is there."""
    url_file = folder / "url"
    url_file.unlink(missing_ok=True)
    files = {"ROLLWAY_URL_FILE": str(url_file), "ROLLWAY_GRPC_URL_FILE": str(folder / "grpc_url")}
    environment = {"HOME": str(folder), **files, **(environment or {})}
    command = service_command(folder, engine=engine, database=database, port=port, model=model)
    with started(command, folder / "service.log", environment) as process:
        deadline = time.monotonic() + 60
        while not url_file.is_file():
            if process.popen.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"the service did not start:\n{process.log.read_text()[-4000:]}")
            await asyncio.sleep(0.05)
        yield process, url_file.read_text()
