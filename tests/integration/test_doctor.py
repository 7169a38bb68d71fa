"""`rollway doctor` on real parts: whole, and with each of them broken."""

import json
import subprocess
import sys

import pytest

from rollway_service.config import Settings
from rollway_service.doctor import Patient, examine
from rollway_service.local_setup import tiny_policy
from tests.servers import free_port
from tests.stack import running_stack


async def verdicts(
    stack, tmp_path, *, database="", broker="", engine=None, model=None, url=None, key=None, monkeypatch
):
    monkeypatch.setenv("ROLLWAY_API_KEY", key or stack.token)
    settings = Settings(database_url=database, broker_url=broker, data_dir=tmp_path)
    findings = await examine(Patient(settings, url or stack.url, engine, model))
    return {finding.name: finding for finding in findings}


async def test_a_whole_deployment_is_well(postgres_url, redis, tmp_path, monkeypatch):
    async with running_stack(postgres_url, tmp_path) as stack:
        found = await verdicts(
            stack,
            tmp_path,
            database=postgres_url,
            broker=redis.url,
            engine=stack.engine.url,
            model=tiny_policy(),
            monkeypatch=monkeypatch,
        )
        well = {"database", "clock", "broker", "service", "API key", "engine", "model"}
        assert {name: found[name].verdict for name in well} == dict.fromkeys(well, "ok"), found
        assert "tiny" in found["API key"].detail
        over_rpc = await verdicts(stack, tmp_path, url=stack.rpc_url, monkeypatch=monkeypatch)
        assert over_rpc["API key"].verdict == "ok"
        # It only looked.
        assert stack.engine.running == {}


async def test_each_broken_part_is_named_with_what_to_do(postgres, postgres_url, redis, tmp_path, monkeypatch):
    redis.kill()
    empty = postgres.create_database("empty")
    async with running_stack(postgres_url, tmp_path) as stack:
        nobody = f"127.0.0.1:{free_port()}"
        found = await verdicts(
            stack,
            tmp_path,
            database=empty,
            broker=redis.url,
            engine=f"http://{nobody}",
            model=tmp_path,
            key="rw_000000000000_" + "0" * 43,
            monkeypatch=monkeypatch,
        )
        broken = {"database", "broker", "API key", "engine", "model"}
        assert {name: found[name].verdict for name in broken} == dict.fromkeys(broken, "problem"), found
        assert all(found[name].advice for name in broken)
        assert found["clock"].verdict == "skipped"
        assert found["service"].verdict == "ok"
        away = await verdicts(
            stack, tmp_path, database=f"postgresql://x@{nobody}/x", url=f"http://{nobody}", monkeypatch=monkeypatch
        )
        assert (away["database"].verdict, away["service"].verdict, away["API key"].verdict) == ("problem",) * 3
    postgres.drop_database("empty")


@pytest.mark.parametrize("as_json", [True, False])
def test_it_is_a_command_whose_exit_says_whether_all_is_well(tmp_path, as_json):
    command = [sys.executable, "-m", "rollway_service.doctor", "--url", f"http://127.0.0.1:{free_port()}"]
    done = subprocess.run(
        [*command, *(["--json"] if as_json else [])],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert done.returncode == 1
    assert not done.stderr
    if as_json:
        findings = [json.loads(line) for line in done.stdout.splitlines()]
        assert {"service", "disk", "limits", "GPU"} <= {finding["name"] for finding in findings}
    else:
        assert "PROBLEM  service" in done.stdout
        assert "-> start it with `rollway up`" in done.stdout
