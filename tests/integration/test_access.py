"""Who may see what: keys, and tenants that never come to know of each other. Every route is tried, new ones too."""

import hashlib

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import text

from rollway_service.operations import keys
from tests.builders import token_tasks
from tests.integration.refusals import problem_of
from tests.integration.routes import BODIES, all_routes

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


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ids(stack):
    """Ids of one of everything that the first tenant has."""
    run = await stack.client.start_run("secret", model="tiny")
    fields = {"group_size": 1, "sampling": {"max_new_tokens": 4}}
    job = await run.submit(token_tasks(2), rewards=[{"kind": "posted", "name": "posted"}], close=True, **fields)
    other = await run.submit(token_tasks(2), close=True, **fields)
    await other.wait(20)
    batch = await run.lease(groups=1, wait_s=10)
    trajectory = await anext(stack.client.trajectories(job_id=other.id))
    rollout = trajectory.rollout_id
    opened = await run.submit(**fields)
    model, pool = await stack.client.model("tiny"), await anext(stack.client.pools())
    found = (run.id, opened.id, trajectory.group_id, rollout, trajectory.id, batch.id, model.id, pool.id, "0")
    return dict(zip(IDS, found, strict=True)) | {"awaiting": job.id}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def stranger(stack):
    """HTTP with a good key of another tenant, which has a model and a pool called as the first one's are."""
    client = await stack.other_tenant()
    await client.register_model("tiny", "/nowhere", vocab_size=300, context_length=64)
    await client.create_pool("tiny", model="tiny")
    headers = {"Authorization": client._transport._http.headers["authorization"]}
    async with httpx.AsyncClient(base_url=stack.url, headers=headers, timeout=30) as http:
        yield http
    await client.aclose()


def request_of(route, ids):
    body = BODIES.get(route.name)
    if body is not None:
        body = {key: value.format(**ids) if isinstance(value, str) else value for key, value in body.items()}
    return route.method, route.path.format(**ids), body


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


@pytest.mark.parametrize("route", WITH_IDS, ids=lambda route: route.name)
async def test_what_belongs_to_another_tenant_is_not_there(stack, ids, stranger, route):
    """Case B47. The owner may do the same afterwards: the route was asked rightly."""
    method, path, body = request_of(route, ids)
    foreign = problem_of(await stranger.request(method, path, json=body), 404, "not_found")
    named = [ids[name] for name in route.parameters("path")]
    unknown = path
    for value in named:
        unknown = unknown.replace(value, value[:-6] + "ffffff") if "_" in value else unknown
    missing = problem_of(await stranger.request(method, unknown, json=body), 404, "not_found")
    assert missing.title == foreign.title
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


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/runs", {"name": "r", "model": "{model}"}),
        ("/v1/runs", {"name": "r", "model": "tiny", "pool": "{pool}"}),
        ("/v1/pools", {"name": "p", "model": "{model}"}),
        ("/v1/jobs", {"run_id": "{run_id}"}),
        ("/v1/jobs", {"run_id": "{run_id}", "model": "{model}", "pool": "{pool}"}),
    ],
)
async def test_ids_in_bodies_reach_no_other_tenant(stack, ids, stranger, path, body):
    sent = {key: value.format(**ids) for key, value in body.items()}
    response = await stranger.post(path, json=sent)
    if "pool" in body and "run_id" not in body:
        # An id is a name like others where a pool is made: the run gets a pool of that name, and not theirs.
        assert response.json().get("pool") != "tiny"
    else:
        assert response.status_code in {404, 422}


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
