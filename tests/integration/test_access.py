"""Who may see what: keys, and tenants that never come to know of each other. Every route is tried, new ones too."""

import hashlib
import re
from dataclasses import replace

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import text

from rollway_service.operations import keys
from tests.builders import token_tasks
from tests.integration.refusals import changed, problem_of
from tests.integration.routes import BODIES, all_routes, fields_that_name_things

pytestmark = pytest.mark.asyncio(loop_scope="module")

OPEN = {"GET /healthz", "GET /readyz", "GET /metrics"}
"""Routes without a key: they tell nothing of any tenant."""
IDS = ("run_id", "job_id", "group_id", "rollout_id", "trajectory_id", "batch_id", "model", "pool", "version")
ROUTES = all_routes()
WITH_IDS = [route for route in ROUTES if route.parameters("path")]
LISTS = [route for route in ROUTES if route.method == "GET" and not route.parameters("path") and route.name not in OPEN]


@pytest.fixture(scope="module")
def module_database_url(module_sqlite_url):
    """What is refused before it is stored needs no second kind of database."""
    return module_sqlite_url


async def things_of(client, name):
    """Ids of one of everything that a tenant has, by the names that paths give them."""
    run = await client.start_run(name, model="tiny")
    fields = {"group_size": 1, "sampling": {"max_new_tokens": 4}}
    job = await run.submit(token_tasks(2), rewards=[{"kind": "posted", "name": "posted"}], close=True, **fields)
    other = await run.submit(token_tasks(2), close=True, **fields)
    await other.wait(20)
    batch = await run.lease(groups=1, wait_s=10)
    trajectory = await anext(client.trajectories(job_id=other.id))
    opened = await run.submit(**fields)
    model, pool = await client.model("tiny"), await anext(client.pools())
    found = (run.id, opened.id, trajectory.group_id, trajectory.rollout_id, trajectory.id, batch.id, model.id, pool.id)
    return dict(zip(IDS, (*found, "0"), strict=True)) | {"awaiting": job.id}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ids(stack):
    return await things_of(stack.client, "secret")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stranger(stack):
    """HTTP with a good key of another tenant, which has all things, called as the first one's are."""
    client = await stack.other_tenant()
    token = client._transport._http.headers["authorization"].removeprefix("Bearer ")
    await client.register_model("tiny", "/nowhere", vocab_size=300, context_length=64)
    await client.create_pool("tiny", model="tiny")
    theirs = replace(stack, caller=await keys.authenticate(stack.context, token), workers=[])
    await theirs.start_worker(name="theirs")
    things = await things_of(client, "theirs")
    await theirs.stop_workers()
    async with httpx.AsyncClient(base_url=stack.url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as http:
        http.ids = things
        yield http
    await client.aclose()


def request_of(route, ids):
    body = BODIES.get(route.name)
    if body is not None:
        body = {key: value.format(**ids) if isinstance(value, str) else value for key, value in body.items()}
    return route.method, route.path.format(**ids), body


def unknown(text):
    """With ids of the same kinds, which nobody has, in place of all ids."""
    return re.sub(r"\b([a-z]{3})_[0-9a-f]{32}", r"\1_" + "0" * 32, text)


def bad_tokens(token):
    _, prefix, secret = token.split("_", 2)
    return {
        "none": None,
        "empty": "Bearer",
        "no key": "Bearer x",
        "basic": f"Basic {token}",
        "unknown": f"Bearer rw_{'0' * 12}_{secret}",
        "other secret": f"Bearer rw_{prefix}_{secret[:-1]}{'a' if secret[-1] != 'a' else 'b'}",
        "prefix alone": f"Bearer rw_{prefix}_",
        "longer": f"Bearer {token}a",
        "twice": f"Bearer {token} {token}",
        "no scheme": token,
        "bytes": b"Bearer \xff\xfe",
        "long": "Bearer rw_" + "0" * 20_000,
    }


async def test_the_ids_of_all_routes_are_known_here():
    assert {name for route in WITH_IDS for name in route.parameters("path")} == set(IDS)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.name)
async def test_without_a_key_nothing_but_health_is_told(stack, ids, route):
    method, path, body = request_of(route, ids)
    async with httpx.AsyncClient(base_url=stack.url, timeout=30) as http:
        response = await http.request(method, path, json=body)
    if route.name in OPEN:
        assert response.status_code == 200
        assert not any(found in response.text for found in ids.values() if found != "0")
    else:
        problem_of(response, 401, "unauthenticated")
        assert response.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("kind", list(bad_tokens("rw_0_aa")))
async def test_what_is_no_live_key_opens_nothing(stack, kind):
    value = bad_tokens(stack.token)[kind]
    headers = {} if value is None else {"Authorization": value}
    async with httpx.AsyncClient(base_url=stack.url) as http:
        problem_of(await http.get("/v1/runs", headers=headers), 401, "unauthenticated")


@pytest.mark.parametrize("column", ["expires_at_s", "revoked_at_s"])
async def test_keys_end(stack, column):
    token = await keys.add_key(stack.context, stack.caller.tenant_id, "short")
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers) as http:
        assert (await http.get("/v1/runs")).status_code == 200
        async with stack.context.database.transaction() as transaction:
            statement = text(f"UPDATE api_keys SET {column} = 1 WHERE prefix = :prefix")
            await transaction.connection.execute(statement, {"prefix": token.split("_")[1]})
        problem_of(await http.get("/v1/runs"), 401, "unauthenticated")


async def test_only_hashes_of_secrets_are_stored(stack):
    _, prefix, secret = stack.token.split("_", 2)
    async with stack.context.database.snapshot() as transaction:
        rows = (await transaction.connection.execute(text("SELECT * FROM api_keys"))).mappings().all()
    (row,) = [row for row in rows if row["prefix"] == prefix]
    assert row["secret_sha256"] == hashlib.sha256(secret.encode()).hexdigest()
    assert not any(secret in str(value) for found in rows for value in found.values())


async def everything(http, ids):
    """All that a tenant is shown, without what changes by itself."""
    kept = [
        r for r in ROUTES if r.method == "GET" and r.name not in OPEN and not r.path.endswith(("/watch", "/workers"))
    ]
    return {route.name: (await http.get(route.path.format(**ids))).raise_for_status().json() for route in kept}


async def test_what_a_stranger_tries_changes_nothing(stack, ids, stranger):
    before = await everything(stack.http, ids)
    assert len(before) > 10
    for route in WITH_IDS:
        method, path, body = request_of(route, ids)
        await stranger.request(method, path, json=body)
    assert await everything(stack.http, ids) == before


@pytest.mark.parametrize("route", WITH_IDS, ids=lambda route: route.name)
async def test_what_belongs_to_another_tenant_is_not_there(stack, ids, stranger, route):
    """Case B47. The owner may do the same afterwards: the route was asked rightly."""
    method, path, body = request_of(route, ids)
    foreign = problem_of(await stranger.request(method, path, json=body), 404, "not_found")
    missing = await stranger.request(method, unknown(path), json=body)
    assert unknown(foreign.detail) == problem_of(missing, 404, "not_found").detail
    if route.path.endswith("/watch"):
        async with stack.http.stream(method, path) as response:
            assert response.status_code == 200
        return
    response = await stack.http.request(method, path, json=body)
    # A settled batch, a finished rollout: another state than asked for, but there.
    assert response.status_code in {200, 201, 409, 422}, response.text


@pytest.mark.parametrize("route", LISTS, ids=lambda route: route.name)
async def test_lists_hold_ones_own_alone(stack, ids, stranger, route):
    own = {item["id"] for item in (await stack.http.get(route.path)).json()["items"]}
    others = {item["id"] for item in (await stranger.get(route.path)).json()["items"]}
    assert own
    assert not own & others
    for name in set(route.parameters("query")) & set(ids):
        response = await stranger.get(route.path, params={name: ids[name]})
        if response.status_code == 200:
            assert response.json()["items"] == []
        else:
            problem_of(response, 404, "not_found")


IN_BODIES = {
    ("POST /v1/runs", "$.model"): "{model}",
    ("POST /v1/runs", "$.pool"): "{pool}",
    ("POST /v1/jobs", "$.run_id"): "{run_id}",
    ("POST /v1/jobs", "$.model"): "{model}",
    ("POST /v1/jobs", "$.pool"): "{pool}",
    ("POST /v1/pools", "$.model"): "{model}",
    ("POST /v1/runs/{run_id}/batches", "$.job_ids"): ["{awaiting}"],
    ("POST /v1/batches/{batch_id}/consumed", "$.group_ids"): ["{group_id}"],
    ("POST /v1/batches/{batch_id}/return", "$.group_ids"): ["{group_id}"],
}


async def test_the_ids_in_all_bodies_are_known_here():
    assert fields_that_name_things() == set(IN_BODIES)


@pytest.mark.parametrize("place", IN_BODIES, ids=" ".join)
async def test_ids_in_bodies_reach_no_other_tenant(ids, stranger, place):
    """Another tenant's id is told to be missing, just as one that nobody has."""
    (route,) = [route for route in ROUTES if route.name == place[0]]
    method, path, body = request_of(route, stranger.ids)
    value = IN_BODIES[place]
    foreign = value.format(**ids) if isinstance(value, str) else [value[0].format(**ids)]
    nobodys = unknown(foreign) if isinstance(foreign, str) else [unknown(foreign[0])]
    refused, missing = [
        await stranger.request(method, path, json=changed(body, place[1], named)) for named in (foreign, nobodys)
    ]
    code = "not_found" if place[1] == "$.run_id" else "invalid_request"
    problem = problem_of(refused, missing.status_code, code)
    assert problem.status in {404, 422}
    assert unknown(refused.text) == unknown(missing.text)
    assert code == "not_found" or problem.errors[0].path.startswith(place[1])


async def test_a_key_of_another_tenant_uses_its_own_model_of_the_same_name(stack, ids, stranger):
    theirs = (await stranger.get("/v1/models/tiny")).json()
    assert theirs["id"] != ids["model"]
    before = (await stack.client.model("tiny")).latest_version
    assert (await stranger.post("/v1/models/tiny/versions", json=BODIES["POST /v1/models/{model}/versions"])).is_success
    assert (await stack.client.model("tiny")).latest_version == before


async def test_idempotency_keys_of_tenants_are_apart(stack, stranger):
    headers = {"Idempotency-Key": "the same"}
    body = {"name": "same", "model": "tiny"}
    one = (await stack.http.post("/v1/runs", json=body, headers=headers)).json()
    other = (await stranger.post("/v1/runs", json=body, headers=headers)).json()
    assert one["id"] != other["id"]
    assert one["model_id"] != other["model_id"]
