"""`rollway doctor`: is everything that a deployment needs there and well? One line for each thing, and what to do."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import httpx
import numpy as np

import rollway
from rollway.errors import RollwayError
from rollway.local_keys import find_url
from rollway_service.config import Settings
from rollway_service.engines.ports import SamplingParams
from rollway_service.engines.sglang import SGLangEngine, SGLangTimeouts
from rollway_service.store import migrate
from rollway_service.store.database import Database

Verdict = Literal["ok", "problem", "skipped"]

_CHECK_S = 20.0
_MAX_CLOCK_SKEW_S = 1.0
_MIN_FREE_BYTES = 10 * 2**30
_MIN_FILES = 4096
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - SGLang's processes share memory there
_MIN_SHM_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. `advice`: what to do about a problem."""

    name: str
    verdict: Verdict
    detail: str
    advice: str = ""

    def line(self) -> str:
        mark = {"ok": "ok     ", "problem": "PROBLEM", "skipped": "skipped"}[self.verdict]
        return f"{mark}  {self.name}: {self.detail}" + (f"\n           -> {self.advice}" if self.advice else "")


@dataclass(frozen=True, slots=True)
class Patient:
    """What to look at. `engine`, `model`: None to leave them out."""

    settings: Settings
    url: str
    engine: str | None
    model: Path | None


async def check_database(patient: Patient) -> Finding:
    """Reachable, and at the schema of this release."""
    name, url = "database", patient.settings.url
    shown = url.partition("@")[2] or url
    if not patient.settings.database_url and not (patient.settings.data_dir / "rollway.db").is_file():
        return Finding(name, "skipped", "no ROLLWAY_DATABASE_URL, and no database in the data directory")
    try:
        await migrate.require_head(url)
    except migrate.DatabaseUnusable as error:
        return Finding(name, "problem", f"{shown}: {error}", "start a service on it once: it migrates the database")
    return Finding(name, "ok", f"{shown}, all migrations applied")


async def check_clock(patient: Patient) -> Finding:
    """This machine's clock against the database's, which judges leases; certificates and logs mind the difference."""
    name = "clock"
    if (await check_database(patient)).verdict != "ok":
        return Finding(name, "skipped", "needs the database")
    database = Database(patient.settings.url, pool_size=1)
    try:
        async with database.snapshot() as transaction:
            before_s = time.time()
            theirs_s = await transaction.now_s()
            skew_s = theirs_s - (before_s + time.time()) / 2
    finally:
        await database.dispose()
    detail = f"{skew_s * 1e3:+.0f} ms from here to the database"
    if abs(skew_s) > _MAX_CLOCK_SKEW_S:
        return Finding(name, "problem", detail, "let NTP set both clocks; leases go by the database's and stay right")
    return Finding(name, "ok", detail)


async def check_broker(patient: Patient) -> Finding:
    """Reachable; and how far away."""
    name, url = "broker", patient.settings.broker_url
    if not url:
        return Finding(name, "skipped", "no ROLLWAY_BROKER_URL: one service process, and workers that long-poll it")
    import redis.asyncio as redis_client  # noqa: PLC0415 - only where there is a broker

    client = redis_client.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=5)
    shown = url.rpartition("@")[2]
    try:
        started_s = time.perf_counter()
        await client.ping()
        took_ms = (time.perf_counter() - started_s) * 1e3
        version = (await client.info("server"))["redis_version"]
    except (redis_client.RedisError, OSError) as error:
        advice = "work goes on by polling, more slowly; start Redis, or correct ROLLWAY_BROKER_URL"
        return Finding(name, "problem", f"{shown}: {error}", advice)
    finally:
        await client.aclose()
    return Finding(name, "ok", f"{shown}, Redis {version}, {took_ms:.1f} ms away")


async def check_service(patient: Patient) -> Finding:
    """It answers, with its database."""
    name, url = "service", patient.url
    if url.startswith("grpc"):
        return Finding(name, "skipped", f"{url} is gRPC; the key is tried there")
    try:
        async with httpx.AsyncClient(timeout=10) as http:
            answer = await http.get(f"{url}/readyz")
    except httpx.HTTPError as error:
        advice = "start it with `rollway up`, or name it with --url or ROLLWAY_URL"
        return Finding(name, "problem", f"{url}: {type(error).__name__}: {error}", advice)
    if answer.status_code != 200:
        return Finding(name, "problem", f"{url} says {answer.status_code}: {answer.text[:200]}", "its log says why")
    return Finding(name, "ok", f"{url}, version {answer.json().get('version')}")


async def check_key(patient: Patient) -> Finding:
    """The API key that this user would send is one of the service's."""
    name = "API key"
    try:
        async with rollway.AsyncClient(patient.url, max_tries=1, timeout_s=10) as client:
            pools = [pool.name async for pool in client.pools()]
    except RollwayError as error:
        return Finding(name, "problem", str(error), "set ROLLWAY_API_KEY to a key of this service")
    return Finding(name, "ok", f"accepted; pools: {', '.join(pools) or 'none'}")


async def check_engine(patient: Patient) -> Finding:
    """It serves a model, and gives ids with log-probs in pieces that do not repeat."""
    name, url = "engine", patient.engine
    if url is None:
        return Finding(name, "skipped", "none named; --engine URL looks at a running SGLang")
    engine = SGLangEngine(url, timeouts=SGLangTimeouts(idle_s=15, call_s=10))
    try:
        info = await engine.info()
        params = SamplingParams(max_new_tokens=2, ignore_eos=True, seed=1)
        stream = engine.generate(f"doctor-{time.time_ns()}", [1, 2, 3], params, chunk_tokens=1)
        chunks = [chunk async for chunk in stream]
    except Exception as error:  # noqa: BLE001 - whatever it does is a finding
        return Finding(name, "problem", f"{url}: {type(error).__name__}: {error}", "its own log says more")
    finally:
        await engine.close()
    ids = sum(len(chunk.token_ids) for chunk in chunks)
    if ids != 2 or any(np.isnan(chunk.logprobs).any() for chunk in chunks):
        detail = f"{url} gave {ids} of 2 tokens, or no log-probs"
        return Finding(name, "problem", detail, "Rollway needs SGLang's return_logprob; is there a proxy in between?")
    seeds = "request seeds count" if info.supports_seeds else "request seeds are ignored (no deterministic inference)"
    detail = (
        f"{url}, SGLang {info.facts.build}, version {info.weight_version}, {info.max_running_requests} at once; {seeds}"
    )
    return Finding(name, "ok", detail)


async def check_model(patient: Patient) -> Finding:
    """Weights, config and tokenizer are in the folder."""
    name, folder = "model", patient.model
    if folder is None:
        return Finding(name, "skipped", "none named; --model FOLDER looks at one")
    missing = [part for part in ("config.json", "tokenizer_config.json") if not (folder / part).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        return Finding(name, "problem", f"{folder} lacks {', '.join(missing)}", "name a folder in Hugging Face's form")
    return Finding(name, "ok", str(folder))


async def check_disk(patient: Patient) -> Finding:
    folder = patient.settings.data_dir
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    detail = f"{free / 2**30:.1f} GiB free at {folder}"
    if free < _MIN_FREE_BYTES:
        return Finding(
            "disk", "problem", detail, "engines' logs and SQLite live there: make room, or set ROLLWAY_DATA_DIR"
        )
    return Finding("disk", "ok", detail)


async def check_limits(_patient: Patient) -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    detail = f"{soft} open files (at most {hard})"
    if soft < _MIN_FILES:
        return Finding(
            "limits", "problem", detail, f"ulimit -n {max(_MIN_FILES, 65536)}: each stream and client is one"
        )
    return Finding("limits", "ok", detail)


async def check_gpu(_patient: Patient) -> Finding:
    if not any(Path("/dev").glob("nvidia[0-9]*")):
        return Finding("GPU", "skipped", "none on this machine: SGLang is launched for the CPU, for tests and demos")
    program = shutil.which("nvidia-smi")
    if program is None:
        return Finding("GPU", "problem", "there is a device, and no nvidia-smi", "install the driver's tools")
    asked = ("--query-gpu=name,memory.total,driver_version", "--format=csv,noheader")
    process = await asyncio.create_subprocess_exec(program, *asked, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode != 0:
        return Finding("GPU", "problem", "nvidia-smi fails", "its own message says why")
    shm_bytes = shutil.disk_usage(_SHARED_MEMORY).total
    if shm_bytes < _MIN_SHM_BYTES:
        return Finding(
            "GPU", "problem", f"{_SHARED_MEMORY} has {shm_bytes >> 20} MiB", "start the container with --shm-size 8g"
        )
    return Finding("GPU", "ok", "; ".join(output.decode().strip().splitlines()))


CHECKS: tuple[Callable[[Patient], Awaitable[Finding]], ...] = (
    check_database,
    check_clock,
    check_broker,
    check_service,
    check_key,
    check_engine,
    check_model,
    check_disk,
    check_limits,
    check_gpu,
)


async def examine(patient: Patient) -> list[Finding]:
    """All checks, side by side; one that fails by itself is a finding, and none waits for ever."""
    return list(await asyncio.gather(*(_one(check, patient) for check in CHECKS)))


async def _one(check: Callable[[Patient], Awaitable[Finding]], patient: Patient) -> Finding:
    name = check.__name__.removeprefix("check_")
    try:
        async with asyncio.timeout(_CHECK_S):
            return await check(patient)
    except TimeoutError:
        return Finding(name, "problem", f"no answer within {_CHECK_S:.0f} s", "it hangs: look at its log")
    except Exception as error:  # noqa: BLE001 - the other checks are of use all the same
        return Finding(name, "problem", f"{type(error).__name__}: {error}", "this is a fault of the doctor, or worse")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="rollway doctor", description=__doc__)
    parser.add_argument("--url", help="the service (else ROLLWAY_URL, else this machine's)")
    parser.add_argument("--database", help="database URL (else ROLLWAY_DATABASE_URL)")
    parser.add_argument("--broker", help="broker URL (else ROLLWAY_BROKER_URL)")
    parser.add_argument("--engine", default=os.environ.get("ROLLWAY_ENGINE"), help="base URL of a running SGLang")
    parser.add_argument("--model", type=Path, help="a model folder")
    parser.add_argument("--json", action="store_true", help="one JSON line for each finding")
    parsed = parser.parse_args(arguments)
    settings = Settings(database_url=parsed.database, broker_url=parsed.broker)
    findings = asyncio.run(examine(Patient(settings, find_url(parsed.url), parsed.engine, parsed.model)))
    for finding in findings:
        sys.stdout.write((json.dumps(asdict(finding)) if parsed.json else finding.line()) + "\n")
    return 1 if any(finding.verdict == "problem" for finding in findings) else 0


if __name__ == "__main__":
    sys.exit(main())
