"""Workers that only have a service's URL and a key."""

import asyncio
import sys

import rollway
from tests.distributed import key_of
from tests.e2e.test_worker_deaths import assert_whole, scripted_engine, start_job
from tests.processes import running_service, started, started_worker, until_logged
from tests.servers import free_port

BLOCKED = ("sqlalchemy", "asyncpg", "aiosqlite", "alembic", "fastapi", "uvicorn", "celery", "redis", "torch")


async def test_a_worker_needs_neither_a_database_nor_its_libraries(postgres_url, tmp_path):
    script = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({BLOCKED!r}))\n"
        "from rollway_workers.main import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )
    async with scripted_engine() as engine:
        async with running_service(tmp_path, engine="none", database=postgres_url) as (_, url):
            arguments = ["--pool", "tiny", "--engine", engine.url, "--name", "bare", "--slots", "8", "--json-logs"]
            environment = {"HOME": str(tmp_path), "ROLLWAY_SERVICE": (tmp_path / "grpc_url").read_text()}
            environment["ROLLWAY_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/nothing"
            with started([sys.executable, "-c", script, *arguments], tmp_path / "bare.log", environment) as worker:
                await until_logged(worker, "worker_started")
                async with rollway.AsyncClient(url, key_of(tmp_path, url)) as client:
                    run, job = await start_job(client)
                    await job.wait(60)
                    await assert_whole(client, run, engine)


async def test_a_worker_waits_for_a_service_that_is_not_there_yet(postgres_url, tmp_path):
    port = free_port()
    (tmp_path / "grpc_url").write_text(f"grpc://127.0.0.1:{port}")
    environment = {"ROLLWAY_GRPC_PORT": str(port)}
    async with scripted_engine() as engine:
        with started_worker(tmp_path, engine=engine.url, name="early") as worker:
            await until_logged(worker, "waiting_for_service")
            service = running_service(tmp_path, engine="none", database=postgres_url, environment=environment)
            async with service as (_, url):
                # It came before there was a key.
                await asyncio.to_thread(worker.popen.wait, 60)
                assert worker.popen.returncode == 1
                assert "worker_refused" in worker.log.read_text()
                assert "ROLLWAY_API_KEY" in worker.log.read_text()
                with started_worker(tmp_path, engine=engine.url, name="later"):
                    async with rollway.AsyncClient(url, key_of(tmp_path, url)) as client:
                        run, job = await start_job(client)
                        await job.wait(60)
                        await assert_whole(client, run, engine)


async def test_what_is_wrong_with_a_start_is_told_in_a_line(postgres_url, tmp_path):
    async with scripted_engine() as engine, running_service(tmp_path, engine="none", database=postgres_url):
        for name, environment, arguments, told in [
            ("key", {"ROLLWAY_API_KEY": "rw_000000000000_" + "0" * 43}, [], "ROLLWAY_API_KEY"),
            ("url", {"ROLLWAY_SERVICE": "http://127.0.0.1:1"}, [], "is no gRPC URL of a service"),
            ("slots", {}, ["--slots", "0", "--engine", engine.url], "$.slots: is 0"),
            ("model", {}, ["--engine", "sglang", "--model", str(tmp_path / "none")], "there is no model in"),
        ]:
            with started_worker(
                tmp_path, engine="http://127.0.0.1:1", name=name, arguments=arguments, environment=environment
            ) as worker:
                assert await asyncio.to_thread(worker.popen.wait, 60) == 1
                assert told in worker.log.read_text()
                assert "Traceback" not in worker.log.read_text()


async def test_rollouts_that_outlast_many_leases_are_done_once(postgres_url, tmp_path):
    """Case B28: no visibility timeout of a broker and no lease hands a healthy rollout to a second worker."""
    lease = {"ROLLWAY_SESSION_LEASE_S": "1.0"}
    async with scripted_engine() as engine:
        service = running_service(tmp_path, engine="none", database=postgres_url, environment=lease)
        async with service as (_, url), rollway.AsyncClient(url, key_of(tmp_path, url)) as client:
            with (
                started_worker(tmp_path, engine=engine.url, name="one", slots=4),
                started_worker(tmp_path, engine=engine.url, name="two", slots=4),
            ):
                run, job = await start_job(client, tasks=4)
                await job.wait(60)
                rollouts = await assert_whole(client, run, engine)
            assert {rollout.attempts for rollout in rollouts} == {1}
            assert len(engine.calls) == 8
            assert all(rollout.timings.generate_s > 1.0 for rollout in rollouts)
