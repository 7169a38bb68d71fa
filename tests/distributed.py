"""Every part as a process of its own, as in production: service, workers, reward workers, steward, on Postgres and Redis."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

import rollway
from tests.processes import Process, running_service, started, started_worker, until_logged
from tests.servers import PrivateRedis


@dataclass
class Deployment:
    """What a test needs of it. Parts are started by the test, and end with it."""

    folder: Path
    database: str
    redis: PrivateRedis
    environment: dict[str, str]
    service: Process
    url: str
    rpc_url: str
    client: rollway.AsyncClient

    @contextlib.contextmanager
    def worker(self, engine: str, name: str, **options) -> Iterator[Process]:
        with started_worker(self.folder, engine=engine, name=name, environment=self.environment, **options) as process:
            yield process

    @contextlib.contextmanager
    def reward_worker(self, name: str = "rewards") -> Iterator[Process]:
        command = [sys.executable, "-m", "rollway_workers.rewards.worker", "--json-logs", "--name", name]
        with started(command, self.folder / f"{name}.log", self.environment) as process:
            yield process

    @contextlib.contextmanager
    def steward(self, name: str = "steward") -> Iterator[Process]:
        command = [sys.executable, "-m", "rollway_service.steward", "--json-logs", "--name", name]
        environment = self.environment | {"ROLLWAY_DATABASE_URL": self.database}
        with started(command, self.folder / f"{name}.log", environment) as process:
            yield process


def key_of(folder: Path, url: str) -> str:
    return orjson.loads((folder / ".rollway" / "keys.json").read_bytes())[url]


@contextlib.asynccontextmanager
async def deployed(
    folder: Path, database: str, redis: PrivateRedis, *, port: int = 0, **settings: str
) -> AsyncIterator[Deployment]:
    """A service without an engine of its own on these; workers are up to the test. `settings`: ROLLWAY_ names, lower case."""
    named = {f"ROLLWAY_{name.upper()}": value for name, value in settings.items()}
    environment = {"ROLLWAY_BROKER_URL": redis.url, "ROLLWAY_REWARD_DISPATCH": "celery", **named}
    running = running_service(folder, engine="none", database=database, port=port, environment=environment)
    async with running as (service, url):
        rpc_url = (folder / "grpc_url").read_text()
        async with rollway.AsyncClient(url, key_of(folder, url)) as client:
            yield Deployment(folder, database, redis, environment, service, url, rpc_url, client)


__all__ = ["Deployment", "deployed", "key_of", "until_logged"]
