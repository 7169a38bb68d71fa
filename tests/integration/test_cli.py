"""The `rollway` command against a running service: JSON lines for programs, one line for people's mistakes."""

import asyncio
import json
import os
import re
import signal
import sys

import numpy as np
import pytest
import pytest_asyncio

from rollway_service.main import tiny_policy
from tests.builders import token_tasks, weights_folder
from tests.servers import free_port

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("module_database_url", ["sqlite"], indirect=True, scope="module"),
]
JOB = {"tasks": token_tasks(3), "group_size": 2, "sampling": {"max_new_tokens": 4}, "close": True}


@pytest_asyncio.fixture(loop_scope="module")
async def rollway_process(stack, tmp_path):
    """Start the command."""

    async def start(*arguments, url=stack.url, key=stack.token):
        environment = {**os.environ, "HOME": str(tmp_path), "COLUMNS": "200", "ROLLWAY_URL": url}
        environment.pop("ROLLWAY_API_KEY", None)
        if key is not None:
            environment["ROLLWAY_API_KEY"] = key
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            "from rollway.cli import main; main()",
            *map(str, arguments),
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    return start


@pytest_asyncio.fixture(loop_scope="module")
async def rollway(rollway_process):
    """Run the command; gives (exit code, stdout, stderr)."""

    async def run(*arguments, stdin=b"", **options):
        process = await rollway_process(*arguments, **options)
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
    assert "tiny" in [model["name"] for model in await as_json("models", "list")]


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


async def test_a_job_for_people_is_told_in_words(rollway, stack, job_file, tmp_path):
    run = await stack.client.start_run("words", model="tiny")
    code, out, error = await rollway("submit", job_file, "--run", run.id, "--watch")
    assert (code, error) == (0, "")
    assert re.search(rf"job (job_\w+) of run {run.id}: 3 tasks, closed", out)
    assert "completed: 3 groups ready, 6 rollouts completed, 0 failed" in out
    job_id = re.search(r"job_\w+", out)[0]
    code, out, error = await rollway("watch", job_id)
    assert (code, error) == (0, "")
    assert "completed: 3 groups ready" in out
    code, out, error = await rollway("pull", run.id, tmp_path / "out", "--groups", 3)
    assert (code, error) == (0, "")
    assert "batch 0: 3 groups, 6 samples" in out
    assert f"1 batches in {tmp_path / 'out'}" in out.replace("\n", "")


async def test_lists_and_weights_for_people_are_told_in_words(rollway, stack, tmp_path):
    run = await stack.client.start_run("shown", model="tiny")
    for arguments, words in (
        (["runs"], {run.id, "shown", "tiny"}),
        (["models", "list"], {"tiny", "304"}),
        (["models", "register", "for-people", tiny_policy()], {"for-people", "version", "0"}),
        (
            ["models", "publish", run.id, weights_folder(tmp_path, 7), "--trainer-step", 1, "--wait-s", 20],
            {"run", "by"},
        ),
    ):
        code, out, error = await rollway(*arguments)
        assert (code, error) == (0, "")
        assert words <= set(re.sub(r"[│,()]", " ", out).split()), out


async def test_a_model_is_registered_once(as_json, rollway, stack):
    (model,) = await as_json("models", "register", "fresh", tiny_policy())
    assert (model["name"], model["latest_version"], model["vocab_size"]) == ("fresh", 0, 304)
    assert (await stack.client.model("fresh")).id == model["id"]
    code, out, error = await rollway("models", "register", "fresh", tiny_policy(), "--json")
    assert (code, out) == (1, "")
    assert error.startswith("rollway: 409 already_exists")


async def test_pulling_into_one_folder_again_overwrites_nothing(stack, as_json, job_file, tmp_path):
    run = await stack.client.start_run("pulled", model="tiny")
    contents = {}
    for limit in (1, 1, None):
        if limit is not None:
            await as_json("submit", job_file, "--run", run.id, "--watch")
        more = [] if limit is None else ["--limit", limit]
        batches = await as_json("pull", run.id, tmp_path / "out", "--groups", 2, *more)
        assert len(batches) == 1
        found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        assert len(found) == len(contents) + 2 * len(batches)
        assert contents.items() <= found.items()
        contents = found
    groups = [group["group_id"] for name in contents if name.endswith(".json") for group in header(contents[name])]
    assert len(groups) == len(set(groups)) == 6


def header(content):
    return json.loads(content)["groups"]


async def test_a_service_that_is_down_and_a_key_that_is_wrong_are_told_in_a_line(rollway, job_file):
    nowhere = f"http://127.0.0.1:{free_port()}"
    wrong = "rw_" + "0" * 12 + "_" + "x" * 43
    commands = (["runs"], ["submit", job_file, "--json"], ["watch", "job_" + "0" * 32])
    for code, out, error in await asyncio.gather(*(rollway(*command, url=nowhere) for command in commands)):
        assert (code, out) == (1, "")
        assert error.startswith(f"rollway: {nowhere} cannot be reached")
        assert len(error.splitlines()) == 1
    for key in (wrong, "nonsense", "n\xf6"):
        code, out, error = await rollway("runs", key=key)
        assert (code, out) == (1, "")
        assert error.startswith("rollway: ")
        assert len(error.splitlines()) == 1
    for url in ("127.0.0.1:80", "ftp://x", "http://", "http://x:port", "nonsense"):
        code, out, error = await rollway("runs", "--url", url)
        assert (code, out) == (1, "")
        assert "is no URL of a service; one looks like http://127.0.0.1:8080" in error
        assert len(error.splitlines()) == 1


async def test_an_interrupted_watch_ends_without_a_traceback(stack, rollway_process):
    run = await stack.client.start_run("endless", model="tiny")
    job = await run.submit(token_tasks(1), group_size=1, rewards=[{"kind": "posted"}])
    process = await rollway_process("watch", job.id, "--json")
    assert json.loads(await process.stdout.readline())["tasks"] == 1
    process.send_signal(signal.SIGINT)
    _, error = await process.communicate()
    assert (process.returncode, error) == (130, b"")


async def test_without_a_key_or_a_service_the_way_on_is_told(rollway):
    code, out, error = await rollway("runs", key=None)
    assert (code, out) == (1, "")
    assert "401 unauthenticated" in error
    assert "Authorization: Bearer" in error
    assert "Traceback" not in error
