"""Hostile values in every field, query parameter and path of every route: an answer or a problem, never a fault."""

import itertools
import json
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio

from rollway.types import PROBLEM_MEDIA_TYPE, Problem
from tests.builders import token_tasks
from tests.integration.refusals import changed
from tests.integration.routes import BODIES, all_routes

pytestmark = pytest.mark.asyncio(loop_scope="module")

NUMBERS = ["-1", "0.5", str(2**31), str(2**63), "1" + "0" * 30, "-1" + "0" * 30, "1e308"]
NO_NUMBERS = ["1e400", "-1e400"]
TEXTS = ["", "a\0b", "x" * 10_000, "\ue000\ud7ff\U0010ffff", "job_" + "0" * 32]
OTHERS = [None, True, [], {"a": {"\0": "\0"}}, -1]
WRONG_TYPES = ["null", "true", "[]", '"x"']
REWARDS = [
    {"kind": "exact"},
    {"kind": "numeric"},
    {"kind": "regex", "pattern": "."},
    {"kind": "math"},
    {"kind": "reasoning_gym", "dataset": "no_such"},
    {"kind": "python", "function": "no such"},
    {"kind": "posted"},
]
QUERY = ["", "-1", "0", "1001", str(2**31), str(2**63), "9" * 60, "1.5", "nan", "inf", "x", "\0", "\ud7ff", "²", "٣"]
IDS = ["no", "%00", "%FF", "%ED%A0%80", "..%2F..", "1" * 5000, "-2", str(2**31), "9" * 40, "%C2%B2", "nan", "' OR 1=1"]
FIELDS_OF = {
    "exact": (),
    "numeric": ("absolute_tolerance", "relative_tolerance"),
    "regex": ("compare_group",),
    "math": (),
    "reasoning_gym": (),
    "python": (),
    "posted": ("deadline_s",),
}
ROUTES = [route for route in all_routes() if not route.path.endswith("/watch")]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ids(stack):
    """Ids of things that exist, by the names that paths give them."""
    run = await stack.client.start_run("fields", model="tiny")
    fields = {"group_size": 1, "sampling": {"max_new_tokens": 4, "seed": 1}}
    job = await run.submit(token_tasks(2), close=True, rewards=[{"kind": "posted", "deadline_s": 600}], **fields)
    other = await run.submit(token_tasks(2), close=True, **fields)
    await other.wait(20)
    batch = await run.lease(groups=1, wait_s=10)
    trajectory = await anext(stack.client.trajectories(job_id=other.id))
    rollout = await anext(stack.client.rollouts(run_id=run.id))
    opened = await run.submit(**fields)
    return {
        "run_id": run.id,
        "job_id": opened.id,
        "group_id": trajectory.group_id,
        "rollout_id": rollout.id,
        "trajectory_id": trajectory.id,
        "batch_id": batch.id,
        "model": "tiny",
        "pool": "tiny",
        "version": "0",
        "unfinished_job": job.id,
    }


def check(response: httpx.Response, what: object) -> None:
    assert response.status_code < 500, f"{response.request.method} {response.request.url} {what!r}: {response.text}"
    if response.status_code >= 400:
        assert response.headers["content-type"] == PROBLEM_MEDIA_TYPE
        problem = Problem.model_validate_json(response.content)
        assert (problem.status, bool(problem.code), bool(problem.detail)) == (response.status_code, True, True)


def body_of(route, ids):
    return {
        name: value.format(**ids) if isinstance(value, str) else value for name, value in BODIES[route.name].items()
    }


async def test_every_route_with_a_body_has_an_example():
    """A new route must be added to BODIES, so that it is tried here and in the tests of access."""
    assert sorted(BODIES) == sorted(route.name for route in ROUTES if route.takes_body)


async def post(stack, path, body, leaf, value):
    """POST the body with this text of a JSON value in one place."""
    text = json.dumps(changed(body, leaf, "HERE")).replace('"HERE"', value)
    response = await stack.http.post(path, content=text, headers={"Content-Type": "application/json"})
    check(response, (leaf, value))
    return response


@pytest.mark.parametrize("route", [route for route in ROUTES if route.takes_body], ids=lambda route: route.name)
async def test_hostile_values_in_every_field_of_a_body(stack, ids, route):
    """What the types refuse never gets to a database: one kind is enough for it."""
    is_first = stack.context.database.is_sqlite
    path, body = route.path.format(**ids), body_of(route, ids)
    refused = 0
    numbers = route.number_leaves()
    for leaf in route.body_leaves():
        values = NUMBERS if leaf in numbers else [json.dumps(text) for text in TEXTS]
        if is_first:
            values = values + (WRONG_TYPES if leaf in numbers else [json.dumps(other) for other in OTHERS])
        for value in values:
            if leaf == "$.wait_s" and value == "0.5":
                continue
            refused += (await post(stack, path, body, leaf, value)).status_code >= 400
    for leaf, value in itertools.product(numbers, NO_NUMBERS if is_first else ()):
        assert (await post(stack, path, body, leaf, value)).status_code == 422
    assert refused
    assert (await stack.http.get("/readyz")).status_code == 200


@pytest.mark.parametrize("reward", REWARDS, ids=lambda reward: reward["kind"])
async def test_hostile_numbers_in_every_field_of_every_kind_of_reward(stack, ids, reward):
    """The other fields of a reward are only looked at beside its kind."""
    (route,) = [route for route in ROUTES if route.name == "POST /v1/jobs"]
    body = body_of(route, ids) | {"rewards": [reward], "purpose": "data"}
    own = {f"$.rewards[0].{name}" for name in ("weight", "timeout_s", *FIELDS_OF[reward["kind"]])}
    found = own & route.number_leaves()
    assert len(found) == len(own)
    for leaf in found:
        for value in [*WRONG_TYPES, *NUMBERS]:
            response = await post(stack, "/v1/jobs", body, leaf, value)
            if response.status_code == 422:
                (error,) = response.json()["errors"]
                assert error["path"] in {leaf, "$.rewards[0].dataset", "$.rewards[0].function"}


async def test_every_number_field_is_among_the_leaves():
    """So that the walk of the schema does not silently find none."""
    found = {leaf for route in ROUTES if route.takes_body for leaf in route.number_leaves()}
    for leaf in ("$.sampling.seed", "$.tasks[0].token_ids[0]", "$.rewards[0].value", "$.lease_s", "$.step", "$.parent"):
        assert leaf in found
    assert "$.name" not in found


@pytest.mark.parametrize("route", [r for r in ROUTES if r.parameters("query")], ids=lambda route: route.name)
async def test_hostile_values_in_every_query_parameter(stack, ids, route):
    path = route.path.format(**ids)
    for name in route.parameters("query"):
        statuses = set()
        for value in QUERY:
            if name == "wait_converged_s" and value in {"0", "1.5"}:
                continue
            response = await stack.http.request(route.method, path, params={name: value})
            check(response, (name, value))
            statuses.add(response.status_code)
        assert statuses - {200}, f"{name} takes everything"


@pytest.mark.parametrize("route", [r for r in ROUTES if r.parameters("path")], ids=lambda route: route.name)
async def test_hostile_ids_in_every_path(stack, ids, route):
    body = body_of(route, ids) if route.takes_body else None
    for name in route.parameters("path"):
        kept = {other: value for other, value in ids.items() if other != name}
        for value in [*IDS, *(quote(found) for key, found in ids.items() if key.endswith("_id") and key != name)]:
            path = route.path.format(**kept, **{name: value})
            response = await stack.http.request(route.method, path, json=body)
            check(response, (name, value))
            assert response.status_code in {404, 405, 422}, (path, response.text)
