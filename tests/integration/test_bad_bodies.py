"""Bytes that are no proper body: refused before anything looks at them, and never a fault of the service."""

import json

import pytest
import pytest_asyncio

from tests.builders import token_tasks
from tests.integration.refusals import changed, newest_job, paths_of, problem_of
from tests.stack import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def module_database_url(module_sqlite_url):
    """What is refused before it is stored needs no second kind of database."""
    return module_sqlite_url


@pytest_asyncio.fixture(loop_scope="module")
async def job(stack):
    run = await stack.client.start_run("bad bodies", model="tiny")
    return {
        "run_id": run.id,
        "tasks": token_tasks(1),
        "group_size": 1,
        "sampling": {"max_new_tokens": 4},
        "close": True,
    }


@pytest_asyncio.fixture(loop_scope="module")
async def send(stack):
    """POST bytes as they are, and see that no job and no engine came to know of them."""

    async def post(content, headers=JSON, path="/v1/jobs"):
        calls, newest = len(stack.engine.calls), await newest_job(stack)
        response = await stack.http.post(path, content=content, headers=headers)
        assert await newest_job(stack) == newest
        assert len(stack.engine.calls) == calls
        return response

    return post


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
@pytest.mark.parametrize("path", ["$.metadata.a.b.c", "$.tasks[0].metadata.x.list[0].y", "$.sampling.temperature"])
async def test_numbers_that_json_does_not_have_are_refused_with_their_path(send, job, number, path):
    """Case B50."""
    text = json.dumps(changed(job, path, "HERE")).replace('"HERE"', number)
    response = await send(text)
    problem = problem_of(response, 422, "invalid_request")
    if "e" not in number:
        assert paths_of(response) == [path]
        assert "which JSON does not have" in problem.detail


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
async def test_rewards_that_are_no_numbers_are_refused_and_change_nothing(stack, send, job, number):
    """Case B50: of two posted rewards the second is bad; neither counts, and the rollout can still be rewarded."""
    body = job | {"rewards": [{"kind": "posted", "name": name} for name in ("a", "b")]}
    job_id = (await stack.http.post("/v1/jobs", json=body)).json()["id"]

    async def awaiting():
        return [found async for found in stack.client.rollouts(job_id=job_id, state="awaiting_reward")]

    (rollout,) = await until(awaiting)
    path = f"/v1/rollouts/{rollout.id}/rewards"
    text = '{"rewards": [{"name": "a", "value": 1.0}, {"name": "b", "value": HERE}]}'.replace("HERE", number)
    assert paths_of(await send(text, path=path)) == ["$.rewards[1].value"]
    assert await stack.client.rollout(rollout.id) == rollout
    ended = await stack.client.post_rewards(rollout.id, [{"name": name, "value": 0.5} for name in ("a", "b")])
    assert (ended.state, ended.reward) == ("completed", 1.0)


@pytest.mark.parametrize(("first", "last"), [("2", "1"), ("2", "true"), ("true", "1"), ("1e999", "1"), ("1", "NaN")])
async def test_of_a_key_that_comes_twice_the_last_counts_and_all_must_be_json(stack, send, job, first, last):
    """Never the one for the check and the other for the job."""
    text = json.dumps(job).replace('"group_size": 1', f'"group_size": {first}, "group_size": {last}')
    if last == "1" and first != "1e999":
        response = await stack.http.post("/v1/jobs", content=text, headers=JSON)
        assert response.status_code == 201
        assert (await (await stack.client.job(response.json()["id"])).wait(20)).progress.rollouts_completed == 1
    else:
        problem_of(await send(text), 422, "invalid_request")


async def test_a_run_goes_on_after_a_refused_number(stack, send, job):
    """Case B50: the run that was told NaN completes."""
    await send(json.dumps(job)[:-1] + ', "metadata": {"x": NaN}}')
    response = await stack.http.post("/v1/jobs", json=job | {"metadata": {"x": None}})
    handle = await stack.client.job(response.json()["id"])
    ended = await handle.wait(20)
    assert ended.state == "completed"
    assert ended.spec["metadata"] == {"x": None}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"run_id": }',
        b"{'run_id': 1}",
        b'{"run_id": "x"} trailing',
        b"run_id=x",
        b'\xef\xbb\xbf{"run_id": "x"}',
        b'{"run_id": "\xff\xfe"}',
        b"\x00",
        b'{"run_id": "a\x00b"}',
        '{"run_id": "x"}'.encode("utf-16"),
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=[str(index) for index in range(13)],
)
async def test_what_is_no_json_is_refused(send, content):
    problem = problem_of(await send(content), 422, "invalid_request")
    assert "the body is not JSON" in problem.detail


@pytest.mark.parametrize("content", [b"null", b"[]", b"7", b'"text"', b"true", b""])
async def test_json_that_is_no_object_is_refused(send, content):
    assert paths_of(await send(content)) == ["$"]


@pytest.mark.parametrize("depth", [40, 60, 500])
@pytest.mark.parametrize("path", ["$.metadata.deep", "$.tasks[0].reference", "$.tasks[0].metadata.deep"])
async def test_deep_nesting_is_refused_with_its_path(send, job, depth, path):
    deep = json.loads("[" * depth + "]" * depth)
    (found,) = paths_of(await send(json.dumps(changed(job, path, deep)), path="/v1/jobs"))
    assert found.startswith(path)


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        ("$.name", "$.name"),
        ("$.metadata.a", "$.metadata.a"),
        ("$.tasks[0].reference", "$.tasks[0].reference"),
        ("$.sampling.stop[0]", "$.sampling.stop[0]"),
    ],
)
@pytest.mark.parametrize("escape", [r"\ud800", r"a\udfffb", r"\udc00\ud800"])
async def test_lone_surrogates_are_refused_with_their_path(send, job, path, reported, escape):
    """Case B49."""
    text = json.dumps(changed(job, path, "HERE")).replace("HERE", escape)
    response = await send(text)
    assert paths_of(response) == [reported]
    assert "lone surrogate" in response.json()["detail"]


async def test_a_lone_surrogate_in_a_key_is_refused(send, job):
    text = json.dumps(changed(job, "$.metadata.HERE", 1)).replace("HERE", r"\ud800")
    assert paths_of(await send(text)) == ["$.metadata"]


async def test_integers_beyond_64_bits_are_refused_and_not_rounded(send, job):
    for value in (2**64, 10**40, -(2**63) - 1):
        assert paths_of(await send(json.dumps(changed(job, "$.metadata.n", value)))) == ["$.metadata.n"]
    for value in (2**63, 2**64 - 1):
        response = await send(json.dumps(changed(job, "$.metadata.n", value)))
        assert paths_of(response) == ["$.metadata.n"]
        assert "send it as a string" in response.json()["detail"]


async def test_a_body_over_the_limit_is_refused_with_the_limit(stack, send):
    limit = stack.context.settings.max_body_bytes
    problem = problem_of(await send(b" " * (limit + 1)), 413, "body_too_large")
    assert str(limit) in problem.detail
    assert str(limit + 1) in problem.detail


async def test_a_body_without_a_length_is_stopped_at_the_limit(stack, send):
    limit = stack.context.settings.max_body_bytes
    sent = 0

    async def pieces():
        nonlocal sent
        for _ in range(64):
            sent += limit // 8
            yield b" " * (limit // 8)

    response = await send(pieces())
    assert "content-length" not in response.request.headers
    problem = problem_of(response, 413, "body_too_large")
    assert str(limit) in problem.detail


async def test_a_body_at_the_limit_is_taken(stack, job):
    limit = stack.context.settings.max_body_bytes
    text = json.dumps(job)
    response = await stack.http.post("/v1/jobs", content=text + " " * (limit - len(text)), headers=JSON)
    assert response.status_code == 201
    await (await stack.client.job(response.json()["id"])).wait(20)


@pytest.mark.parametrize(
    "content_type", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json"]
)
async def test_other_media_types_are_refused_by_name(send, job, content_type):
    headers = {} if content_type is None else {"Content-Type": content_type}
    problem = problem_of(await send(json.dumps(job), headers), 415, "unsupported_media_type")
    assert "application/json" in problem.detail
    assert repr(content_type or "") in problem.detail


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/x+json"])
async def test_json_is_taken_under_its_names(stack, job, content_type):
    response = await stack.http.post("/v1/jobs", content=json.dumps(job), headers={"Content-Type": content_type})
    assert response.status_code == 201
    await (await stack.client.job(response.json()["id"])).wait(20)


@pytest.mark.parametrize(("method", "path", "status", "code"), [
    ("DELETE", "/v1/jobs", 405, "method_not_allowed"),
    ("GET", "/v1/nothing", 404, "not_found"),
    ("GET", "/v2/jobs", 404, "not_found"),
    ("PATCH", "/v1/models/tiny", 405, "method_not_allowed"),
])  # fmt: skip
async def test_routes_that_are_not_there_are_problems_too(stack, method, path, status, code):
    problem_of(await stack.http.request(method, path), status, code)
