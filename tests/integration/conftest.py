"""One running service for all tests of a module: bad requests must leave it as it was."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.servers import PrivatePostgres
from tests.stack import Stack, running_stack

_names = itertools.count()


@pytest.fixture(scope="module")
def module_sqlite_url(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> str:
    path = tmp_path_factory.mktemp("module") / "rollway.db"
    path.write_bytes(migrated_sqlite.read_bytes())
    return f"sqlite:///{path}"


@pytest.fixture(scope="module")
def module_postgres_url(postgres: PrivatePostgres) -> Iterator[str]:
    name = f"module_{next(_names)}"
    yield postgres.create_database(name, template="template_migrated")
    postgres.drop_database(name)


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def module_database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database of each kind, for a whole module. Modules that store nothing odd replace it by SQLite's."""
    url: str = request.getfixturevalue(f"module_{request.param}_url")
    return url


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(module_database_url: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stack]:
    """A service with one worker on a scripted engine; tests of a module share it."""
    folder = tmp_path_factory.mktemp("stack")
    async with running_stack(module_database_url, folder, max_body_bytes=2**20) as running:
        yield running
