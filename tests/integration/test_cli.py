"""The `rollway` command against a running service: JSON lines for programs, one line for people's mistakes."""

import asyncio
import json
import os
import sys

import numpy as np
import pytest
import pytest_asyncio

from tests.builders import token_tasks, weights_folder

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("module_database_url", ["sqlite"], indirect=True, scope="module"),
]
JOB = {"tasks": token_tasks(3), "group_size": 2, "sampling": {"max_new_tokens": 4}, "close": True}


@pytest_asyncio.fixture(loop_scope="module")
async def rollway(stack, tmp_path):
    """Run the command; gives (exit code, stdout, stderr)."""

    async def run(*arguments, url=stack.url, key=stack.token, stdin=b""):
        environment = {**os.environ, "HOME": str(tmp_path), "COLUMNS": "200", "ROLLWAY_URL": url}
        environment.pop("ROLLWAY_API_KEY", None)
        if key is not None:
            environment["ROLLWAY_API_KEY"] = key
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from rollway.cli import main; main()",
            *map(str, arguments),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, error = await process.communicate(stdin)
        return process.returncode, out.decode(), error.decode()

    return run


@pytest_asyncio.fixture(loop_scope="module")
async def as_json(rollway):
    """Run the command with --json; gives what its lines hold."""

    async def run(*arguments, **options):
        code, out, error = await rollway(*arguments, "--json", **options)
        assert (code, error) == (0, "")
        return [json.loads(line) for line in out.splitlines()]

    return run


@pytest_asyncio.fixture(loop_scope="module")
async def job_file(tmp_path):
    path = tmp_path / "sums.json"
    path.write_text(json.dumps(JOB))
    return path


async def test_a_job_is_submitted_watched_and_pulled(stack, as_json, job_file, tmp_path):
    (job,) = await as_json("submit", job_file, "--model", "tiny")
    assert job["progress"]["tasks"] == 3
    run = await stack.client.run(job["run_id"])
    assert (run.info.name, run.info.model) == ("sums", "tiny")
    progress = await as_json("watch", job["id"])
    assert (progress[-1]["groups_ready"], progress[-1]["rollouts_completed"]) == (3, 6)
    batches = await as_json("pull", job["run_id"], tmp_path / "out", "--groups", 2)
    assert [(batch["groups"], batch["samples"]) for batch in batches] == [(2, 4), (1, 2)]
    ids = []
    for batch in batches:
        header = json.loads((tmp_path / "out" / f"{batch['batch_id']}.json").read_text())
        arrays = np.load(tmp_path / "out" / f"{batch['batch_id']}.npz")
        samples = [sample for group in header["groups"] for sample in group["samples"]]
        ids += [sample["trajectory_id"] for sample in samples]
        for index, sample in enumerate(samples):
            assert len(arrays[f"{index}_token_ids"]) == sample["num_tokens"]
            assert arrays[f"{index}_loss_mask"].sum() == sample["num_trainable"]
    assert len(ids) == len(set(ids)) == 6
    assert (await (await stack.client.job(job["id"])).refresh()).progress.groups_consumed == 3
    assert await as_json("pull", job["run_id"], tmp_path / "out") == []


async def test_a_job_comes_from_stdin_into_a_run_that_is_there_and_is_watched(stack, as_json):
    run = await stack.client.start_run("there", model="tiny")
    submitted, *progress = await as_json("submit", "-", "--run", run.id, "--watch", stdin=json.dumps(JOB).encode())
    assert submitted["run_id"] == run.id
    assert progress[-1]["groups_ready"] == 3


async def test_lists_are_json_lines(stack, as_json):
    run = await stack.client.start_run("listed", model="tiny")
    runs = await as_json("runs")
    assert runs[0]["id"] == run.id
    assert [run["id"] for run in runs] == sorted((run["id"] for run in runs), reverse=True)
    (worker,) = await as_json("workers")
    assert (worker["name"], worker["pool"], worker["state"]) == ("w1", "tiny", "live")
    assert [model["name"] for model in await as_json("models", "list")] == ["tiny"]


async def test_lists_are_tables_for_people(rollway):
    code, out, error = await rollway("workers")
    assert (code, error) == (0, "")
    assert {"w1", "tiny", "live"} <= set(out.replace("│", " ").split())


async def test_weights_are_published(stack, as_json, tmp_path):
    run = await stack.client.start_run("published", model="tiny")
    before = (await stack.client.model("tiny")).latest_version
    folder = weights_folder(tmp_path)
    (version,) = await as_json("models", "publish", run.id, folder, "--trainer-step", 5, "--wait-s", 20)
    assert (version["version"], version["trainer_step"], version["workers_active"]) == (before + 1, 5, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["watch", "job_" + "0" * 32], "404 not_found: no job"),
        (["watch", "nonsense"], "404 not_found"),
        (["pull", "run_" + "0" * 32, "out"], "404 not_found: no run"),
        (["workers", "--pool", "nowhere"], "no pool 'nowhere'"),
        (["submit", "no/such/file.json"], "no/such/file.json"),
        (["submit", "."], "directory"),
        (["submit", "broken.json"], "broken.json is not JSON"),
        (["submit", "list.json"], "list.json"),
        (["submit", "wrong.json"], "group_size"),
        (["submit", "refused.json"], "$.tasks[0].token_ids[0]: 9999 is outside the vocabulary"),
        (["submit", "other.json", "--model", "nowhere"], "nowhere"),
        (["models", "register", "tiny", "."], "exists already"),
        (["models", "publish", "run_" + "0" * 32, "nowhere", "--trainer-step", "1"], "no run"),
        (["models", "publish", "{run}", "nowhere", "--trainer-step", "1"], "nowhere"),
        (["pull", "{run}", "broken.json"], "broken.json"),
        (["demo", "--steps", "0"], "--steps"),
        (["no-such-command"], "No such command"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_mistakes_are_told_in_a_line_and_by_the_exit_code(
    stack, rollway, tmp_path, monkeypatch, arguments, words
):
    monkeypatch.chdir(tmp_path)
    run = await stack.client.start_run("mistakes", model="tiny")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "wrong.json").write_text(json.dumps(JOB | {"group_size": 0}))
    (tmp_path / "refused.json").write_text(json.dumps(JOB | {"tasks": [{"token_ids": [9999]}]}))
    (tmp_path / "other.json").write_text(json.dumps(JOB))
    code, out, error = await rollway(*(argument.format(run=run.id) for argument in arguments))
    assert code in {1, 2}, (out, error)
    assert words in error
    assert "Traceback" not in out + error
    assert out == ""


async def test_without_a_key_or_a_service_the_way_on_is_told(rollway):
    code, out, error = await rollway("runs", key=None)
    assert (code, out) == (1, "")
    assert "401 unauthenticated" in error
    assert "Authorization: Bearer" in error
    assert "Traceback" not in error
