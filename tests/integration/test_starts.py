"""Starts on databases as they may be found: empty with two services at once, of another version, or not to be opened."""

import asyncio
import contextlib
import itertools
import sys

import httpx
import pytest
from sqlalchemy import text

from rollway_service.store import migrate
from tests.integration.test_migrations import on_connection, tables_of
from tests.processes import running_service, started
from tests.servers import free_port

_names = itertools.count()


@pytest.fixture
def empty_postgres_url(postgres):
    name = f"empty_{next(_names)}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


async def set_revision(url, revision):
    statement = text("UPDATE alembic_version SET version_num = :revision")
    await on_connection(url, lambda connection: connection.execute(statement, {"revision": revision}))


async def test_migrations_that_start_at_once_wait_for_each_other(empty_postgres_url):
    await asyncio.gather(*(migrate.upgrade(empty_postgres_url) for _ in range(4)))
    await migrate.require_head(empty_postgres_url)


async def test_two_services_start_at_once_on_an_empty_database(empty_postgres_url, tmp_path):
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    async with contextlib.AsyncExitStack() as stack:
        starts = [running_service(folder, engine="none", database=empty_postgres_url) for folder in folders]
        services = await asyncio.gather(*map(stack.enter_async_context, starts))
        http = await stack.enter_async_context(httpx.AsyncClient(timeout=30))
        for folder, (_, url) in zip(folders, services, strict=True):
            answer = await http.get(f"{url}/readyz")
            assert answer.status_code == 200, (folder / "service.log").read_text()
        for process, _ in services:
            assert process.stop() == 0
    tenants = text("SELECT count(*) FROM tenants WHERE name = 'default'")
    models = text("SELECT count(*) FROM models WHERE name = 'tiny'")
    for query in (tenants, models):
        assert await on_connection(empty_postgres_url, lambda c, query=query: c.execute(query).scalar_one()) == 1


async def test_a_database_of_a_newer_version_is_told_and_left_as_it_is(database_url):
    await set_revision(database_url, "29990101_later")
    before = await tables_of(database_url)
    with pytest.raises(migrate.DatabaseUnusable, match="'29990101_later', which this version of Rollway does not know"):
        await migrate.upgrade(database_url)
    with pytest.raises(migrate.DatabaseUnusable, match="start the service of this version first"):
        await migrate.require_head(database_url)
    assert await migrate.current(database_url) == "29990101_later"
    assert await tables_of(database_url) == before


async def test_a_database_that_is_not_there_is_told_without_its_password(postgres):
    for url in (
        postgres.url("no_such_database").replace("rollway@", "rollway:secret@"),
        f"postgresql://rollway:secret@127.0.0.1:{free_port()}/x",
        "postgresql://rollway:secret@no-such-host.invalid/x",
    ):
        for use in (migrate.upgrade, migrate.require_head):
            with pytest.raises(migrate.DatabaseUnusable, match=r"^the database postgresql://rollway:\*\*\*@") as told:
                await use(url)
            assert "secret" not in str(told.value)


async def test_a_worker_on_an_empty_database_is_told_to_wait_for_the_service(tmp_path, empty_postgres_url):
    for url in (f"sqlite:///{tmp_path / 'new.db'}", empty_postgres_url):
        with pytest.raises(migrate.DatabaseUnusable, match="start the service of this version first"):
            await migrate.require_head(url)


@pytest.fixture
def bad_urls(sqlite_url, tmp_path):
    (tmp_path / "junk.db").write_text("junk")
    return {
        "mysql://x": "must be sqlite:///path or postgresql://",
        "nonsense": "must be sqlite:///path or postgresql://",
        f"sqlite:///{tmp_path}/no/such.db": "unable to open database file",
        f"sqlite:///{tmp_path / 'junk.db'}": "file is not a database",
        sqlite_url: "'29990101_later', which this version of Rollway does not know",
    }


async def test_services_and_workers_that_cannot_start_say_why_in_one_line(bad_urls, sqlite_url, tmp_path):
    await set_revision(sqlite_url, "29990101_later")
    commands = [
        [sys.executable, "-m", "rollway_service", "--engine", "none", "--port", "0", "--database", url]
        for url in bad_urls
    ]
    commands.append([sys.executable, "-m", "rollway_workers", "--pool", "tiny", "--database", sqlite_url])
    expected = [*bad_urls.values(), "start the service of this version first"]
    environment = {"HOME": str(tmp_path), "ROLLWAY_DATA_DIR": str(tmp_path / "data")}
    for index, (command, words) in enumerate(zip(commands, expected, strict=True)):
        with started(command, tmp_path / f"log-{index}", environment) as process:
            code = await asyncio.to_thread(process.popen.wait, 60)
        told = process.log.read_text()
        assert code == 1, told
        assert words in told
        assert len(told.splitlines()) == 1
