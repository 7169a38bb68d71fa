"""Values that a job must not have: refused as a whole with their path, and no engine ever sees them."""

import pytest
import pytest_asyncio

from tests.builders import token_tasks
from tests.integration.refusals import changed, newest_job, paths_of, problem_of
from tests.stack import TINY_VOCAB, TINY_WINDOW, running_stack

pytestmark = pytest.mark.asyncio(loop_scope="module")
DIGEST = "sha256:" + "0" * 64


@pytest.fixture(scope="module")
def module_database_url(module_sqlite_url):
    """What is refused before it is stored needs no second kind of database."""
    return module_sqlite_url


@pytest_asyncio.fixture(loop_scope="module")
async def job(stack):
    """A body that is accepted."""
    run = await stack.client.start_run("bad input", model="tiny")
    sampling = {"max_new_tokens": 4, "seed": 1}
    return {"run_id": run.id, "tasks": token_tasks(1), "group_size": 1, "sampling": sampling, "close": True}


@pytest_asyncio.fixture(loop_scope="module")
async def refuse(stack, job):
    """Submit a changed body, and see that nothing came of it."""

    async def submit(path, value):
        calls, newest = len(stack.engine.calls), await newest_job(stack)
        response = await stack.http.post("/v1/jobs", json=changed(job, path, value))
        assert await newest_job(stack) == newest
        assert len(stack.engine.calls) == calls
        return response

    return submit


async def run_job(stack, body):
    """Submit a body that is accepted; returns the engine's calls for it once the job has ended."""
    before = len(stack.engine.calls)
    response = await stack.http.post("/v1/jobs", json=body)
    assert response.status_code == 201, response.text
    await (await stack.client.job(response.json()["id"])).wait(20)
    return stack.engine.calls[before:]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("$.colour", "red"),
        ("$.sampling.presence_penalty", 0.5),
        ("$.tasks[0].prompt", "hello"),
        ("$.tasks[0].metadata", "text"),
        ("$.limits.no_such_limit", 1),
        ("$.recipe.generate.name", None),
        ("$.group_size", "8"),
        ("$.group_size", 1.0),
        ("$.group_size", True),
        ("$.group_size", 0),
        ("$.close", "true"),
        ("$.tasks", {}),
        ("$.purpose", "research"),
        ("$.tags[0]", 7),
        ("$.priority", 101),
        ("$.sampling.temperature", -0.1),
        ("$.sampling.temperature", "1"),
        ("$.sampling.max_new_tokens", 0),
        ("$.limits.rollout_deadline_s", 0),
        ("$.tokenizer_digest", "md5:0"),
        ("$.tasks[0].token_ids", []),
        ("$.tasks[0].token_ids[1]", -1),
        ("$.tasks[0].token_ids[1]", 2**31),
        ("$.tasks[0].token_ids[1]", TINY_VOCAB),
        ("$.tasks[0].token_ids[2]", 2**31 - 1),
        ("$.tasks[0].token_ids[0]", "10"),
        ("$.tasks[0].token_ids[0]", 1.5),
        ("$.sampling.stop_token_ids[0]", -1),
        ("$.sampling.stop_token_ids[0]", TINY_VOCAB),
        ("$.name", "a\0b"),
        ("$.name", "a\nb"),
        ("$.name", " a"),
        ("$.tags[0]", "a\0b"),
        ("$.tasks[0].key", "a\0b"),
        ("$.model", "no such model"),
    ],
)
async def test_what_is_wrong_is_named_by_its_path(refuse, path, value):
    assert paths_of(await refuse(path, value)) == [path]


@pytest.mark.parametrize(
    ("path", "value", "reported", "words"),
    [
        ("$.run_id", 7, "$.run_id", "string"),
        ("$.tasks[0]", {"messages": []}, "$.tasks[0].messages", "at least 1 item"),
        ("$.tasks[0]", {"messages": [{"role": "user", "content": ""}]}, "$.tasks[0]", "no message has content"),
        ("$.tasks[0]", {"messages": [{"role": "robot", "content": "x"}]}, "$.tasks[0].messages[0].role", "user"),
        ("$.tasks[0]", {}, "$.tasks[0]", "exactly one of messages and token_ids"),
        ("$.tasks[0].messages", [{"role": "user", "content": "x"}], "$.tasks[0]", "exactly one"),
        ("$.tasks", [], "$", "closed at once needs tasks"),
        ("$.rewards", [{"kind": "exact"}, {"kind": "exact"}], "$", "two rewards are called 'exact'"),
        ("$.rewards", [{"kind": "magic"}], "$.rewards[0]", "magic"),
        ("$.member_failure", {"min_members": 9}, "$", "larger than group_size"),
        ("$.version", {"min_version": 0, "exact_version": 0}, "$.version", "not both"),
        ("$.admission", {"groups_per_step": 1}, "$.admission", "go together"),
        ("$.tasks[0].token_ids", [5] * (TINY_WINDOW + 1), "$.tasks[0]", f"the window holds {TINY_WINDOW}"),
        ("$.sampling.top_p", 0.9, "$.sampling", "allow_truncated_sampling"),
        ("$.sampling.top_k", 5, "$.sampling", "allow_truncated_sampling"),
        ("$.sampling.min_p", 0.1, "$.sampling", "allow_truncated_sampling"),
        ("$.recipe.generate", {"name": "no such policy"}, "$.recipe.generate.name", "no such policy"),
        ("$.recipe.filters", [{"name": "no such filter"}], "$.recipe.filters[0].name", "no such filter"),
    ],
)
async def test_what_contradicts_itself_is_refused_with_the_reason(refuse, path, value, reported, words):
    response = await refuse(path, value)
    assert paths_of(response) == [reported]
    assert words in response.json()["errors"][0]["message"]


async def test_every_bad_task_is_reported_and_none_is_stored(refuse):
    tasks = [{"token_ids": ids} for ids in ([1], [TINY_VOCAB], [2], [3, 4, 999])]
    assert paths_of(await refuse("$.tasks", tasks)) == ["$.tasks[1].token_ids[0]", "$.tasks[3].token_ids[2]"]


@pytest.mark.parametrize(
    ("task", "reported"),
    [
        ({"token_ids": [1, TINY_VOCAB]}, "$.tasks[1].token_ids[1]"),
        ({"token_ids": [-1]}, "$.tasks[1].token_ids[0]"),
        ({"token_ids": []}, "$.tasks[1].token_ids"),
        ({"token_ids": [5] * TINY_WINDOW}, None),
        ({"token_ids": [5] * (TINY_WINDOW + 1)}, "$.tasks[1]"),
        ({"messages": [{"role": "user", "content": "7" * TINY_WINDOW}]}, "$.tasks[1]"),
        ({"messages": []}, "$.tasks[1].messages"),
        ({"token_ids": [1], "key": "a\0b"}, "$.tasks[1].key"),
        ({"token_ids": [1], "colour": "red"}, "$.tasks[1].colour"),
        ({}, "$.tasks[1]"),
    ],
)
async def test_what_is_refused_of_a_job_is_refused_of_an_append(stack, job, task, reported):
    opened = (await stack.http.post("/v1/jobs", json=job | {"tasks": [], "close": False})).json()["id"]
    (await stack.http.post(f"/v1/jobs/{opened}/pause")).raise_for_status()
    calls = len(stack.engine.calls)
    response = await stack.http.post(f"/v1/jobs/{opened}/tasks", json={"tasks": [*job["tasks"], task]})
    if reported is None:
        assert response.status_code == 201
    else:
        assert paths_of(response) == [reported]
    assert (await stack.client.job(opened)).info.progress.tasks == (2 if reported is None else 0)
    assert len(stack.engine.calls) == calls


@pytest.mark.parametrize("seed", [10**20, 2**63, -(2**63) - 1, "100", 1.0, 1.5, True])
async def test_seeds_outside_int64_are_refused(refuse, seed):
    """Case B34."""
    assert paths_of(await refuse("$.sampling.seed", seed)) == ["$.sampling.seed"]


@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, -(2**63)])
async def test_seeds_within_int64_run_and_stay_in_the_engines_range(stack, job, seed):
    """Case B34."""
    calls = await run_job(stack, changed(job, "$.sampling.seed", seed) | {"group_size": 4})
    assert len({call.seed for call in calls}) == 4
    assert all(0 <= call.seed < 2**63 for call in calls)


async def test_one_seed_gives_every_member_its_own_and_the_same_ones_again(stack, job):
    """Case B33."""
    body = changed(job, "$.sampling.seed", 7) | {"group_size": 8}
    first, second = [sorted(call.seed for call in await run_job(stack, body)) for _ in range(2)]
    assert len(set(first)) == 8
    assert first == second
    other = await run_job(stack, changed(body, "$.sampling.seed", 8))
    assert not {call.seed for call in other} & set(first)
    newest = [rollout.seed async for rollout in stack.client.rollouts(run_id=body["run_id"])][:8]
    assert set(newest) == {call.seed for call in other}


async def test_an_allowed_truncation_runs_and_is_said_of_the_sample(stack, job):
    body = changed(job, "$.sampling", {"max_new_tokens": 4, "top_p": 0.9, "allow_truncated_sampling": True})
    (call,) = await run_job(stack, body)
    assert call.sampling["top_p"] == 0.9
    trajectory = await anext(stack.client.trajectories(run_id=job["run_id"]))
    assert (trajectory.top_p, trajectory.logprob_kind) == (0.9, "tempered")


async def test_a_job_made_for_another_tokenizer_is_refused(refuse, stack, job):
    problem = problem_of(await refuse("$.tokenizer_digest", DIGEST), 422, "tokenizer_mismatch")
    assert DIGEST in problem.detail
    model = await stack.client.model("tiny")
    assert model.tokenizer_digest in problem.detail
    assert len(await run_job(stack, job | {"tokenizer_digest": model.tokenizer_digest})) == 1


@pytest.mark.parametrize("version", [{"min_version": 1}, {"exact_version": 3}])
async def test_weights_that_are_not_published_yet_are_worth_another_try(refuse, version):
    response = await refuse("$.version", version)
    problem = problem_of(response, 409, "version_unavailable")
    assert problem.retryable
    assert int(response.headers["retry-after"]) >= 1


@pytest.mark.parametrize(("change", "status"), [({}, 201), ({"group_size": 2}, 409), ({"name": "other"}, 409)])
async def test_an_idempotency_key_answers_the_same_body_alone(stack, job, change, status):
    key = {"Idempotency-Key": f"key of {job['run_id']}"}
    first = await stack.http.post("/v1/jobs", json=job, headers=key)
    again = await stack.http.post("/v1/jobs", json=job | change, headers=key)
    assert again.status_code == status
    if status == 201:
        assert again.json() == first.json()
    else:
        problem_of(again, 409, "idempotency_conflict")
    assert len([found async for found in stack.client.jobs(run_id=job["run_id"])]) == 1


async def test_the_same_body_in_other_words_is_the_same_body(stack, job):
    key = {"Idempotency-Key": f"words of {job['run_id']}"}
    first = await stack.http.post("/v1/jobs", json=job, headers=key)
    spelled = dict(reversed(list(job.items()))) | {"priority": 50}
    again = await stack.http.post("/v1/jobs", json=spelled, headers=key)
    assert (again.status_code, again.json()) == (201, first.json())


async def test_an_idempotency_key_is_of_one_endpoint_and_one_thing(stack, job):
    """The same body, which another endpoint or another job would take as well."""
    key = {"Idempotency-Key": f"places of {job['run_id']}"}
    named = {"name": f"places {job['run_id'][-8:]}", "model": "tiny"}
    assert (await stack.http.post("/v1/pools", json=named, headers=key)).status_code == 201
    problem_of(await stack.http.post("/v1/runs", json=named, headers=key), 409, "idempotency_conflict")
    assert (await stack.http.post("/v1/runs", json=named | {"pool": "tiny"})).status_code == 201
    key = {"Idempotency-Key": f"jobs of {job['run_id']}"}
    opened = [(await stack.http.post("/v1/jobs", json=job | {"tasks": [], "close": False})).json()["id"] for _ in "ab"]
    added = {"tasks": job["tasks"], "close": True}
    first, other, again = [
        await stack.http.post(f"/v1/jobs/{job_id}/tasks", json=added, headers=key)
        for job_id in (opened[0], opened[1], opened[0])
    ]
    assert (first.status_code, again.status_code, again.json()) == (201, 201, first.json())
    problem_of(other, 409, "idempotency_conflict")
    assert [(await stack.client.job(job_id)).info.progress.tasks for job_id in opened] == [1, 0]
    await (await stack.client.job(opened[0])).wait(20)


@pytest.mark.parametrize("key", ["", "x" * 201, b"a\tb"])
async def test_idempotency_keys_have_bounds(stack, job, key):
    response = await stack.http.post("/v1/jobs", json=job, headers={"Idempotency-Key": key})
    assert paths_of(response) == ["Idempotency-Key"]


@pytest.mark.parametrize("name", ["mod_" + "0" * 32, "poo_" + "0" * 32, "job_" + "0" * 32])
async def test_names_that_would_be_taken_for_ids_are_refused(stack, name):
    """Routes take a name or an id: such a name would never be found."""
    for path, body in (("/v1/models", {"source": "/nowhere"}), ("/v1/pools", {"model": "tiny"})):
        assert paths_of(await stack.http.post(path, json=body | {"name": name})) == ["$.name"]
        assert name not in (await stack.http.get(path)).text


async def test_a_pool_is_named_by_its_name_or_its_id(stack, job):
    pool = await anext(found async for found in stack.client.pools() if found.name == "tiny")
    for path, body in (("/v1/runs", {"name": "r", "model": "tiny"}), ("/v1/jobs", job)):
        assert (await stack.http.post(path, json=body | {"pool": pool.id})).json()["pool"] == "tiny"
        missing = "poo_" + "0" * 32
        assert paths_of(await stack.http.post(path, json=body | {"pool": missing})) == ["$.pool"]
        assert missing not in [found.name async for found in stack.client.pools()]


@pytest.mark.asyncio(loop_scope="function")
async def test_output_is_cut_to_what_the_window_leaves(sqlite_url, tmp_path):
    """Case B56: window 10, prompts of 8, 9, 10 and 11 ids, max_tokens 5."""
    async with running_stack(sqlite_url, tmp_path, window=11, model_window=10) as stack:
        run = await stack.client.start_run("window", model="tiny")
        prompts = [list(range(20, 20 + length)) for length in (8, 9, 10)]
        job = await run.submit(
            [{"token_ids": ids} for ids in prompts],
            group_size=1,
            sampling={"max_new_tokens": 5, "ignore_eos": True, "seed": 3},
            member_failure={"policy": "shrink"},
            close=True,
        )
        await job.wait(20)
        asked = {len(call.input_ids): call.max_new_tokens for call in stack.engine.calls}
        assert asked == {8: 2, 9: 1}
        ends = {t.num_sampled: t.stop_reason async for t in stack.client.trajectories(job_id=job.id)}
        assert ends == {2: "length", 1: "length", 0: "length"}
        assert job.info.progress.failures == {"no_sampled_tokens": 1}
        response = await stack.http.post(
            "/v1/jobs", json={"run_id": run.id, "tasks": [{"token_ids": list(range(11))}], "close": True}
        )
        assert paths_of(response) == ["$.tasks[0]"]
        assert len(stack.engine.calls) == 2
