"""Databases for tests: SQLite files, and databases of one private PostgreSQL made from a migrated template."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollway_service.store import migrate
from tests.servers import PrivatePostgres, PrivateRedis, private_postgres, private_redis
from tests.sglang_server import SGLangServer, model_for_sglang, running_sglang, sglang_python

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["ROLLWAY_SGLANG_PYTHON"] = sglang_python()
_names = itertools.count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[PrivatePostgres]:
    with private_postgres() as server:
        asyncio.run(migrate.upgrade(server.create_database("template_migrated")))
        yield server


@pytest.fixture
def redis() -> Iterator[PrivateRedis]:
    """A redis-server of the test's own: it may be flushed, killed or hung."""
    with private_redis() as server:
        yield server


@pytest.fixture(scope="session")
def sglang_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny policy with a context of 2,048 tokens."""
    return model_for_sglang(tmp_path_factory.mktemp("sglang-model") / "policy")


@pytest.fixture(scope="session")
def sglang(sglang_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SGLangServer]:
    """One real SGLang on the CPU for all tests: 64 running requests, deterministic, incremental streams."""
    with running_sglang(sglang_model, tmp_path_factory.mktemp("sglang")) as server:
        yield server


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "rollway.db"
    asyncio.run(migrate.upgrade(f"sqlite:///{path}"))
    return path


@pytest.fixture
def sqlite_url(migrated_sqlite: Path, tmp_path: Path) -> str:
    path = tmp_path / "rollway.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres: PrivatePostgres) -> Iterator[str]:
    name = f"test_{next(_names)}"
    yield postgres.create_database(name, template="template_migrated")
    postgres.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty, migrated database of each kind."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url
