"""What workers ask of the service, by both carriers: everything arrives as it was sent, and nobody asks for others."""

import asyncio
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings

from rollway.types import JobCreate, RolloutFailure
from rollway_service.core.errors import InvalidRequest, NotFound, StaleFence, Unauthenticated
from rollway_service.operations import keys
from rollway_service.operations import worker_wire as wire
from rollway_service.operations.messages import CheckpointPiece, ClaimedItem, Claims, WorkerHello
from rollway_workers.control_remote import RemoteControlPlane, ServiceUnreachable
from tests.builders import a_finished, a_tree
from tests.servers import free_port
from tests.strategies import hostile_json, trees


@pytest.fixture(params=["direct", "remote"])
def carrier(request):
    return request.param


async def test_a_pool_is_described(bench):
    facts = await bench.control.describe_pool("m")
    assert (facts.name, facts.model.name, facts.model.vocab_size, facts.target.version) == ("m", "m", 300, 0)
    assert facts.model.tokenizer_digest is None
    with pytest.raises(NotFound, match="nothing"):
        await bench.control.describe_pool("nothing")


async def test_a_claim_brings_what_the_task_holds(bench):
    metadata = {"deep": [1, None, {"a\0b": 2.5}], "n": 2**62}
    task = {"token_ids": [5, 6, 299], "reference": {"answer": ["x", None]}, "metadata": metadata}
    await bench.submit(tasks=[task], group_size=1, sampling={"seed": -(2**63)})
    session_id = await bench.session()
    found = await bench.control.claim(session_id, limit=5, active_version=0)
    (item,) = found.items
    assert item.prompt_ids.tolist() == [5, 6, 299]
    assert item.prompt_ids.dtype == np.int32
    assert (item.reference, dict(item.metadata)) == (task["reference"], metadata)
    assert (item.exact_version, item.min_version, item.checkpoints) == (None, None, [])
    assert found.jobs[item.job_id].sampling.seed == -(2**63)
    assert (await bench.control.claim(session_id, limit=5, active_version=None)).items == []


async def test_news_wake_those_who_wait(bench):
    facts = await bench.control.describe_pool("m")
    assert await bench.control.wait_for_news(facts.pool_id, bench.control.news_ticket(facts.pool_id), 0.1) is False
    ticket = bench.control.news_ticket(facts.pool_id)
    waiting = asyncio.create_task(bench.control.wait_for_news(facts.pool_id, ticket, 20))
    await asyncio.sleep(0.1)
    await bench.submit(1)
    assert await waiting is True
    # What comes while nobody waits is not missed.
    ticket = bench.control.news_ticket(facts.pool_id)
    await bench.submit(1)
    assert await bench.control.wait_for_news(facts.pool_id, ticket, 20) is True


async def test_refusals_are_the_same_errors(bench):
    await bench.submit(1, group_size=1)
    session_id = await bench.session()
    (item,) = (await bench.control.claim(session_id, limit=1, active_version=0)).items
    with pytest.raises(InvalidRequest, match="twice in one call"):
        await bench.control.finish(session_id, [a_finished(item), a_finished(item)])
    await bench.control.close_session(session_id)
    with pytest.raises(StaleFence, match="open a new one"):
        await bench.control.heartbeat(session_id, active_version=0, slots=1)


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": ""}, "$.name"),
        ({"name": "x" * 201}, "$.name"),
        ({"name": "a\0b"}, "$.name"),
        ({"slots": 0}, "$.slots"),
        ({"slots": -5}, "$.slots"),
        ({"slots": 2**31 - 1}, "$.slots"),
    ],
)
async def test_a_worker_that_says_nonsense_of_itself_is_refused(bench, changes, path):
    pool_id = (await bench.control.describe_pool("m")).pool_id
    hello = replace(WorkerHello(pool_id, "w", 1, {}, 0), **changes)
    with pytest.raises(InvalidRequest) as raised:
        await bench.control.open_session(hello)
    assert [error.path for error in raised.value.errors] == [path]


async def test_large_results_are_cut_into_several_calls(bench):
    await bench.submit(12, group_size=1)
    session_id = await bench.session()
    items = (await bench.control.claim(session_id, limit=12, active_version=0)).items
    tree = a_tree(logprobs=[-0.5] * 400_000)
    assert await bench.control.finish(session_id, [a_finished(item, tree=tree) for item in items]) == []
    assert (await bench.control.heartbeat(session_id, active_version=0, slots=1)).held == {}


async def remote_of(bench, tenant):
    tenant_id = await keys.ensure_tenant(bench.context, tenant)
    token = await keys.add_key(bench.context, tenant_id, "worker")
    return RemoteControlPlane(bench.control._url, token)


async def test_another_tenants_session_is_as_if_it_did_not_exist(bench, carrier):
    """Every call of the contract, with a good key of somebody else."""
    if carrier == "direct":
        pytest.skip("whoever has the database has everything")
    await bench.submit(2, group_size=1)
    session_id = await bench.session()
    first, second = (await bench.control.claim(session_id, limit=2, active_version=0)).items
    pool_id = (await bench.control.describe_pool("m")).pool_id
    stranger = await remote_of(bench, "stranger")

    def calls(session_id, pool_id):
        return {
            "heartbeat": lambda: stranger.heartbeat(session_id, active_version=0, slots=1),
            "claim": lambda: stranger.claim(session_id, limit=1, active_version=0),
            "checkpoint": lambda: stranger.checkpoint(
                session_id, [CheckpointPiece(first.work_item_id, first.fence, 0, 1, b"x")]
            ),
            "finish": lambda: stranger.finish(session_id, [a_finished(first)]),
            "release": lambda: stranger.release(session_id, {first.work_item_id: first.fence}, "mine"),
            "close": lambda: stranger.close_session(session_id),
            "news": lambda: stranger.wait_for_news(pool_id, -1, 0.0),
            "pool": lambda: stranger.describe_pool("m"),
        }

    theirs, nobodys = calls(session_id, pool_id), calls("ses_" + "0" * 32, "pol_" + "0" * 32)
    for name in theirs:
        with pytest.raises((StaleFence, NotFound)) as one:
            await theirs[name]()
        with pytest.raises((StaleFence, NotFound)) as other:
            await nobodys[name]()
        assert type(one.value) is type(other.value)
        assert one.value.detail.replace(session_id, "X").replace(pool_id, "X") == other.value.detail.replace(
            "ses_" + "0" * 32, "X"
        ).replace("pol_" + "0" * 32, "X")
    held = (await bench.control.heartbeat(session_id, active_version=0, slots=2)).held
    assert set(held) == {first.work_item_id, second.work_item_id}
    await stranger.close()


async def test_a_session_of_ones_own_is_no_way_to_others_items(bench, carrier):
    if carrier == "direct":
        pytest.skip("whoever has the database has everything")
    job = await bench.submit(1, group_size=1)
    session_id = await bench.session()
    (item,) = (await bench.control.claim(session_id, limit=1, active_version=0)).items
    from rollway.types import ModelCreate, RunCreate
    from rollway_service.operations import models, runs

    tenant_id = await keys.ensure_tenant(bench.context, "stranger")
    token = await keys.add_key(bench.context, tenant_id, "worker")
    caller = await keys.authenticate(bench.context, token)
    await models.register_model(
        bench.context, caller, ModelCreate(name="m", source="/x", vocab_size=9, context_length=9)
    )
    await runs.create_run(bench.context, caller, RunCreate(name="r", model="m"))
    stranger = RemoteControlPlane(bench.control._url, token)
    pool = await stranger.describe_pool("m")
    own = await stranger.open_session(WorkerHello(pool.pool_id, "w", 1, {}, 0))
    assert await stranger.finish(own.session_id, [a_finished(item)]) == [item.work_item_id]
    await stranger.release(own.session_id, {item.work_item_id: item.fence}, "mine")
    progress = (await bench.job(job.id)).progress
    assert (progress.wasted_tokens, progress.rollouts_completed) == (0, 0)
    assert await bench.control.finish(session_id, [a_finished(item)]) == []
    await stranger.close()


async def test_without_a_key_there_is_no_answer(bench, carrier):
    if carrier == "direct":
        pytest.skip("no keys in between")
    for key in (None, "x", "rw_000000000000_" + "0" * 43):
        remote = RemoteControlPlane(bench.control._url, key)
        with pytest.raises(Unauthenticated):
            await remote.describe_pool("m")
        await remote.close()


async def test_a_service_that_is_away_is_told_as_that():
    remote = RemoteControlPlane(f"grpc://127.0.0.1:{free_port()}", "k")
    with pytest.raises(ServiceUnreachable, match="unavailable"):
        await remote.describe_pool("m")
    await remote.close()


@settings(max_examples=60)
@given(tree=trees(), json=hostile_json)
def test_what_is_packed_is_unpacked_exactly(tree, json):
    packed = tree.pack()
    item = _an_item(reference=json, metadata={"x": json}, prompt=[0, 2**31 - 1])
    for finished in (
        replace(a_finished(item), tree=packed),
        replace(a_finished(item, reward=None, is_repeatable=False), failure=RolloutFailure(kind="engine", detail="x")),
        replace(a_finished(item), tree=None),
    ):
        sent = wire.finished_to_wire(finished).SerializeToString()
        again = wire.finished_from_wire(wire.pb.FinishedRollout.FromString(sent))
        assert again.tree == finished.tree
        # Lists where there were tuples are the same outcome.
        assert wire.finished_to_wire(again).outcome_json == wire.finished_to_wire(finished).outcome_json
    spec = JobCreate.model_validate({"run_id": "r", "group_size": 3, "metadata": {"x": json}})
    claims = wire.claims_from_wire(wire.claims_to_wire(Claims(items=[item], jobs={"job": spec})))
    assert claims.jobs == {"job": spec}
    _assert_same(claims.items[0], item)


def _an_item(*, reference, metadata, prompt):
    return ClaimedItem(
        work_item_id="wrk",
        fence=3,
        run_id="run",
        job_id="job",
        group_id="grp",
        task_id="tsk",
        rollout_id="rol",
        task_index=4,
        member_index=1,
        seed=2**63 - 1,
        attempts=2,
        prompt_ids=np.array(prompt, dtype=np.int32),
        reference=reference,
        metadata=metadata,
        checkpoints=[b"\0\xff", b""],
        remaining_s=0.1 + 0.2,
        queued_s=0.0,
        exact_version=None,
        min_version=0,
    )


def _assert_same(one, other):
    assert type(one) is type(other)
    for each in fields(one):
        ours, theirs = getattr(one, each.name), getattr(other, each.name)
        if isinstance(ours, np.ndarray):
            assert ours.dtype == theirs.dtype
            assert ours.tolist() == theirs.tolist()
        else:
            assert ours == theirs, each.name


@pytest.mark.parametrize("json", [b"", b"{", b"[1]", b"null", b"\xff"])
def test_an_engine_that_is_no_object_is_refused(json):
    with pytest.raises(InvalidRequest, match=r"\$\.engine_json"):
        wire.hello_from_wire(wire.pb.OpenSessionRequest(pool_id="p", name="w", slots=1, engine_json=json))


def test_an_outcome_that_is_none_is_refused():
    broken = wire.pb.FinishedRollout(work_item_id="x", fence=1, outcome_json=b"{}")
    with pytest.raises(ValueError, match="validation error"):
        wire.finished_from_wire(broken)
