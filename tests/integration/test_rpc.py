"""gRPC and REST are one API: the same things, the same samples, the same refusals, and limits of their own."""

import asyncio
import socket

import grpc
import numpy as np
import pytest
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from pydantic import RootModel

import rollway
from rollway.errors import ApiError, BadRequest, Busy, ConnectionFailed, NotAuthorized, RollwayError
from rollway.proto.v1 import batches_pb2, common_pb2, jobs_pb2, rollway_pb2, rollway_pb2_grpc, tasks_pb2
from rollway.proto.verbs import VERBS
from rollway.types import Run
from rollway_service.api.rpc.server import CannotListen, start_rpc_server
from rollway_service.operations import claims, sessions
from rollway_service.operations.messages import WorkerHello
from rollway_service.store import fleet
from rollway_workers.control_remote import RemoteControlPlane
from tests.builders import a_finished, a_tree, token_tasks
from tests.integration.test_access import things_of
from tests.stack import running_stack, until

LIMIT_BYTES = 2**20


@pytest.fixture
async def stack(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path, max_body_bytes=LIMIT_BYTES) as found:
        yield found


class Body(RootModel):
    """A body that no type has checked."""

    root: dict


async def roll_out(client, name):
    """A small job by this client: what its samples hold, without what differs from job to job."""
    run = await client.start_run(name, model="tiny")
    job = await run.submit(
        token_tasks(4),
        group_size=2,
        sampling={"max_new_tokens": 12, "seed": 5},
        rewards=[{"kind": "regex", "pattern": "a"}],
    )
    await job.append(token_tasks(1), close=True)
    found = {}
    async for batch in run.batches(groups=2, timeout_s=20):
        for sample in batch.samples:
            header = sample.header
            found[sample.group.header.task_index, header.member_index] = (
                sample.token_ids.tobytes(),
                sample.behavior_logprobs.tobytes(),
                sample.loss_mask.tobytes(),
                sample.weight_versions.tobytes(),
                (header.reward, header.stop_reason, header.seed, header.logprob_kind, header.staleness),
            )
    return found


async def test_the_same_job_gives_the_same_samples_over_both(stack):
    rest, rpc = await roll_out(stack.client, "rest"), await roll_out(stack.rpc, "rpc")
    assert len(rest) == 10
    assert rest == rpc


async def test_a_batch_is_the_same_bytes_over_both(stack):
    run = await stack.client.start_run("bytes", model="tiny")
    job = await run.submit(token_tasks(4), group_size=2, sampling={"max_new_tokens": 12}, close=True)
    await job.wait(20)
    body = Body({"groups": 3, "request_id": "once"})
    path = f"/v1/runs/{run.id}/batches"
    rest = await stack.client._transport.frame(path, body, timeout_s=20)
    assert await stack.rpc._transport.frame(path, body, timeout_s=20) == rest
    assert len(rest) > 1000


async def test_whatever_is_read_is_the_same_over_both(stack):
    ids = await things_of(stack.client, "read")
    for client, other in [(stack.client, stack.rpc)]:
        for read in (
            lambda each: each.model("tiny"),
            lambda each: each.group(ids["group_id"]),
            lambda each: each.rollout(ids["rollout_id"]),
            lambda each: each.tree(ids["rollout_id"]),
            lambda each: each.trajectory(ids["trajectory_id"], arrays=True, text=True),
        ):
            assert await read(client) == await read(other)
        for listed in (
            lambda each: each.models(),
            lambda each: each.pools(),
            lambda each: each.workers(),
            lambda each: each.versions("tiny"),
            lambda each: each.runs(),
            lambda each: each.jobs(run_id=ids["run_id"], purpose="train"),
            lambda each: each.groups(ids["job_id"]),
            lambda each: each.rollouts(state="completed"),
            lambda each: each.trajectories(run_id=ids["run_id"], min_version=0),
        ):
            ours, theirs = [[_lasting(item) async for item in listed(each)] for each in (client, other)]
            assert ours == theirs
        assert (await client.run(ids["run_id"])).info == (await other.run(ids["run_id"])).info
        assert (await client.job(ids["job_id"])).info == (await other.job(ids["job_id"])).info


def _lasting(item):
    """Without what changes while it is looked at."""
    return item.model_copy(update={"seen_at_s": 0}) if hasattr(item, "seen_at_s") else item


async def refusal(client, method, path, body=None, params=None):
    with pytest.raises(ApiError) as raised:
        await client._transport.call(Run, method, path, body=None if body is None else Body(body), params=params)
    problem = raised.value.problem
    return problem.status, problem.code, problem.detail, [(item.path, item.message) for item in problem.errors]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/runs", {"name": "", "model": "tiny"}),
        ("POST", "/v1/runs", {"name": "a\nb", "model": "tiny"}),
        ("POST", "/v1/runs", {"model": "tiny"}),
        ("POST", "/v1/runs", {"name": "r", "model": "none"}),
        ("POST", "/v1/models", {"name": "tiny", "source": "/nowhere"}),
        ("POST", "/v1/models", {"name": "m", "source": "/nowhere", "vocab_size": 0}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "tasks": [{"token_ids": [1, 2]}, {"token_ids": [5, 999]}]}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "tasks": [{"token_ids": [1]}, {}]}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "tasks": [{"messages": [{"role": "king", "content": "x"}]}]}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "sampling": {"max_new_tokens": 4, "top_p": 0.9}}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "sampling": {"max_new_tokens": 0}}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "group_size": -1}),
        ("POST", "/v1/jobs", {"run_id": "RUN", "rewards": [{"kind": "exact"}, {"kind": "regex", "pattern": ""}]}),
        ("POST", "/v1/jobs", {"run_id": "run_" + "0" * 32}),
        ("POST", "/v1/runs/RUN/batches", {"groups": 1, "samples": 1}),
        ("POST", "/v1/runs/RUN/batches", {}),
        ("POST", "/v1/runs/RUN/batches", {"groups": 1, "wait_s": 61.0}),
        ("POST", "/v1/runs/RUN/batches", {"groups": 1, "trainer_version": 9}),
        ("POST", "/v1/runs/RUN/rewind", {"step": -1}),
        ("GET", "/v1/jobs/nothing", None),
        ("GET", "/v1/trajectories/nothing", None),
        ("POST", "/v1/batches/nothing/consumed", {"step": 1}),
    ],
)
async def test_refusals_are_the_same_over_both(stack, method, path, body):
    run = await stack.client.start_run("refused", model="tiny")
    path = path.replace("RUN", run.id)
    body = body and {name: run.id if value == "RUN" else value for name, value in body.items()}
    rest = await refusal(stack.client, method, path, body)
    assert await refusal(stack.rpc, method, path, body) == rest


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/v1/runs", {"limit": 0}),
        ("/v1/runs", {"limit": 1001}),
        ("/v1/runs", {"cursor": "x" * 65}),
        ("/v1/jobs", {"run_id": "run"}),
        ("/v1/jobs", {"state": "odd"}),
        ("/v1/models/tiny/versions/-1", {}),
        ("/v1/models/tiny/versions/0", {"wait_converged_s": 61.0}),
    ],
)
async def test_parameters_are_refused_the_same_over_both(stack, path, params):
    rest = await refusal(stack.client, "GET", path, params=params)
    assert await refusal(stack.rpc, "GET", path, params=params) == rest


async def test_a_wrong_parameter_is_told_before_it_is_sent(stack):
    with pytest.raises(RollwayError, match="no parameter 'colour'; there are: cursor"):
        [job async for job in stack.rpc.jobs(colour="red")]
    with pytest.raises(RollwayError, match="state=3"):
        [job async for job in stack.rpc.jobs(state=3)]


async def test_the_same_key_does_nothing_twice(stack):
    run = await stack.rpc.start_run("keys", model="tiny")
    body = Body({"run_id": run.id, "tasks": [{"token_ids": [5, 6]}]})
    calls = [stack.rpc._transport.call(rollway.types.Job, "POST", "/v1/jobs", body=body, key="k") for _ in range(2)]
    first, second = await asyncio.gather(*calls)
    assert first.id == second.id
    other = Body({"run_id": run.id, "tasks": [{"token_ids": [5, 7]}]})
    with pytest.raises(ApiError) as raised:
        await stack.rpc._transport.call(rollway.types.Job, "POST", "/v1/jobs", body=other, key="k")
    assert raised.value.code == "idempotency_conflict"


def full_request(verb, ids):
    """A request with all its ids, and a body that is none but names nothing of anybody's."""
    kind = rollway_pb2.DESCRIPTOR.services_by_name["Rollway"].methods_by_name[verb.rpc].input_type
    message = getattr(rollway_pb2, kind.name)()
    for name in kind.fields_by_name:
        if "{" + name + "}" in verb.path:
            setattr(message, name, int(ids[name]) if name == "version" else ids[name])
    return message


async def answer_of(channel, verb, message, metadata=()):
    """The status of a call."""
    stub = rollway_pb2_grpc.RollwayStub(channel)
    call = getattr(stub, verb.rpc)(message, metadata=metadata, timeout=20)
    try:
        if verb.answer == "message":
            await call
        else:
            async for _ in call:
                pass
    except aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_no_verb_opens_without_a_key_or_to_another_tenant(stack):
    ids = await things_of(stack.client, "secret")
    stranger = await stack.other_tenant()
    token = stranger._transport._http.headers["authorization"].removeprefix("Bearer ")
    bodies = {
        "AppendTasks": {"body": tasks_pb2.TasksAppend(tasks=[tasks_pb2.Task(token_ids=common_pb2.Ints(values=[1]))])},
        "LeaseBatch": {"body": batches_pb2.BatchLease(groups=1)},
        "ConsumeBatch": {"body": batches_pb2.BatchConsumed(step=1)},
        "ReturnBatch": {"body": batches_pb2.BatchReturn()},
        "ExtendBatch": {"body": batches_pb2.BatchExtend()},
        "MarkCheckpointed": {"body": batches_pb2.CheckpointMark(step=1)},
        "Rewind": {"body": batches_pb2.Rewind()},
    }
    async with aio.insecure_channel(stack.rpc_url.removeprefix("grpc://")) as channel:
        for verb in VERBS:
            message = full_request(verb, ids)
            for name, value in bodies.get(verb.rpc, {}).items():
                getattr(message, name).CopyFrom(value)
            for metadata in ((), (("authorization", "Bearer x"),), (("authorization", f"Basic {stack.token}"),)):
                assert await answer_of(channel, verb, message, metadata) == grpc.StatusCode.UNAUTHENTICATED, verb.rpc
            if "{" in verb.path:
                found = await answer_of(channel, verb, message, (("authorization", f"Bearer {token}"),))
                if verb.rpc in {"PublishVersion", "PostRewards"}:
                    assert found == grpc.StatusCode.INVALID_ARGUMENT
                else:
                    assert found == grpc.StatusCode.NOT_FOUND, verb.rpc
        # And nothing was done by all that.
    job = await stack.client.job(ids["job_id"])
    assert (job.info.state, job.info.progress.tasks) == ("open", 0)
    await stranger.aclose()


async def long_rollout(stack, tokens):
    """A finished rollout of so many sampled tokens, as a worker would hand it in."""
    await stack.stop_workers()
    run = await stack.client.start_run("long", model="tiny")
    job = await run.submit([{"token_ids": [10, 11, 12, 13]}], group_size=1, close=True)
    async with stack.context.database.snapshot() as transaction:
        pool = await fleet.pool_by_name(transaction, stack.caller.tenant_id, "tiny")
    hello = WorkerHello(pool.id, "by-hand", 1, {"kind": "test"}, 0)
    session = await sessions.open_session(stack.context, stack.caller.tenant_id, hello)
    (item,) = (await claims.claim(stack.context, session.session_id, limit=1, active_version=0)).items
    tree = a_tree(logprobs=[-0.25 - index / 1e6 for index in range(tokens)])
    await claims.finish(stack.context, session.session_id, [a_finished(item, tree=tree)])
    return run, job


async def test_rows_of_200k_tokens_pass_a_client_with_default_limits(stack):
    """Case B54: whatever is large comes in pieces."""
    tokens = 200_000
    run, _ = await long_rollout(stack, tokens)
    handle = await stack.rpc.run(run.id)
    batch = await handle.lease(groups=1, wait_s=10)
    sample = batch.samples[0]
    assert sample.loss_mask.sum() == tokens
    assert sample.behavior_logprobs[-1] == np.float32(-0.25 - (tokens - 1) / 1e6)
    trajectory = await stack.rpc.trajectory(sample.header.trajectory_id, arrays=True)
    assert len(trajectory.arrays.token_ids) == tokens + 4
    assert trajectory.arrays.behavior_logprobs[:5] == [None] * 4 + [-0.25]
    tree = await stack.rpc.tree(sample.header.rollout_id)
    assert [len(node.token_ids) for node in tree.nodes] == [4, tokens]
    assert await stack.client.tree(sample.header.rollout_id) == tree


async def test_what_is_too_large_is_told_with_the_limit_and_the_channel_lives(stack):
    run = await stack.rpc.start_run("large", model="tiny")
    with pytest.raises(BadRequest, match=rf"body_too_large.*{LIMIT_BYTES}.*ROLLWAY_MAX_BODY_BYTES") as raised:
        await run.submit([{"token_ids": [5] * 4, "metadata": {"x": "y" * (2 * LIMIT_BYTES)}}])
    assert raised.value.status == 413
    assert (await stack.rpc.run(run.id)).id == run.id


async def test_a_long_poll_answers_before_the_callers_deadline(stack):
    run = await stack.client.start_run("waits", model="tiny")
    await run.submit()
    async with aio.insecure_channel(stack.rpc_url.removeprefix("grpc://")) as channel:
        stub = rollway_pb2_grpc.RollwayStub(channel)
        metadata = (("authorization", f"Bearer {stack.token}"),)
        body = batches_pb2.BatchLease(groups=1, wait_s=50)
        call = stub.LeaseBatch(rollway_pb2.LeaseBatchRequest(run_id=run.id, body=body), metadata=metadata, timeout=2)
        data = b"".join([piece.data async for piece in call])
    header, _ = rollway.framing.read_frame(data)
    assert header.waiting_for


async def test_waiting_calls_hold_no_connection(sqlite_url, postgres_url, tmp_path):
    """Case B53: 60 callers wait on a pool of 5, and everybody else is answered."""
    async with running_stack(postgres_url, tmp_path, database_pool_size=5) as stack:
        run = await stack.client.start_run("waits", model="tiny")
        job = await run.submit()
        waits = [asyncio.create_task(run_lease(stack, run.id)) for _ in range(30)]
        waits += [asyncio.create_task(watch(stack, job.id)) for _ in range(30)]
        pool = stack.context.database._writer.pool
        await asyncio.sleep(1)
        held = []
        async with aio.insecure_channel(stack.rpc_url.removeprefix("grpc://")) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            for _ in range(20):
                held.append(pool.checkedout())
                assert (await stack.http.get("/readyz")).status_code == 200
                answer = await health.Check(health_pb2.HealthCheckRequest(service="rollway.v1.Rollway"), timeout=5)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
                await asyncio.sleep(0.02)
        assert max(held) <= 5
        assert min(held) < 5
        for wait in waits:
            wait.cancel()
        await asyncio.gather(*waits, return_exceptions=True)
        await until(lambda: pool.checkedout() == 0)


async def run_lease(stack, run_id):
    run = await stack.rpc.run(run_id)
    await run.lease(groups=1, wait_s=30)


async def watch(stack, job_id):
    job = await stack.rpc.job(job_id)
    async for _ in job.watch():
        pass


async def test_the_services_can_be_asked_what_they_are(stack):
    async with aio.insecure_channel(stack.rpc_url.removeprefix("grpc://")) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        call = stub.ServerReflectionInfo(iter([request]))
        answer = await anext(aiter(call))
        names = {service.name for service in answer.list_services_response.service}
    assert {"rollway.v1.Rollway", "rollway.worker.v1.WorkerService", "grpc.health.v1.Health"} <= names


async def test_health_says_when_a_service_goes(stack):
    server = await start_rpc_server(stack.context, "127.0.0.1", 0, max_message_bytes=LIMIT_BYTES)
    async with aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watched = health.Watch(health_pb2.HealthCheckRequest(service="rollway.v1.Rollway"))
        assert (await watched.read()).status == health_pb2.HealthCheckResponse.SERVING
        stopping = asyncio.create_task(server.stop(2))
        assert (await watched.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        watched.cancel()
        await stopping


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", b"\x00" * 5000, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 500]
)
async def test_garbage_at_the_port_disturbs_nobody(stack, garbage):
    host, _, port = stack.rpc_url.removeprefix("grpc://").partition(":")

    def send():
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(garbage)
            connection.settimeout(2)
            try:
                connection.recv(4096)
            except OSError:
                return

    await asyncio.to_thread(send)
    async with aio.insecure_channel(f"{host}:{port}") as channel:
        call = channel.unary_unary("/rollway.v1.Rollway/GetRun")
        with pytest.raises(aio.AioRpcError, match="INVALID_ARGUMENT"):
            await call(b"\xff\xff\xff", metadata=(("authorization", f"Bearer {stack.token}"),), timeout=10)
        with pytest.raises(aio.AioRpcError, match="UNIMPLEMENTED"):
            await channel.unary_unary("/rollway.v1.Rollway/Nothing")(b"", timeout=10)
    assert [run async for run in stack.rpc.runs()] == []


async def test_a_service_that_is_away_is_told_and_one_that_comes_back_is_used(stack):
    server = await start_rpc_server(stack.context, "127.0.0.1", 0, max_message_bytes=LIMIT_BYTES)
    port = server.port
    async with rollway.AsyncClient(f"grpc://127.0.0.1:{port}", stack.token, max_tries=1) as client:
        assert [run async for run in client.runs()] == []
        await server.stop(0)
        with pytest.raises(ConnectionFailed, match="unavailable"):
            [run async for run in client.runs()]
        server = await start_rpc_server(stack.context, "127.0.0.1", port, max_message_bytes=LIMIT_BYTES)

        async def answers():
            try:
                return [run async for run in client.runs()] == []
            except ConnectionFailed:
                return False

        await until(answers)
        await server.stop(0)


async def test_a_database_that_is_away_is_busy_over_both(stack, monkeypatch):
    from sqlalchemy.exc import OperationalError

    def fail(*_arguments, **_options):
        raise OperationalError("SELECT", {}, Exception("connection refused"))

    async with rollway.AsyncClient(stack.rpc_url, stack.token, max_tries=1) as client:
        with monkeypatch.context() as patched:
            patched.setattr(type(stack.context.database), "snapshot", fail)
            with pytest.raises(Busy) as raised:
                await client.run("x")
    assert (raised.value.code, raised.value.problem.retryable, raised.value.retry_after_s) == ("busy", True, 1.0)


async def test_the_sync_client_speaks_grpc_too(stack):
    def work():
        with rollway.Client(stack.rpc_url, stack.token) as client:
            run = client.start_run("sync", model="tiny")
            job = run.submit(token_tasks(2), group_size=2, sampling={"max_new_tokens": 8}, close=True)
            samples = [sample for batch in run.batches(groups=1, timeout_s=20) for sample in batch.samples]
            watched = list(job.watch())
            return len(samples), watched[-1].rollouts_completed

    assert await asyncio.to_thread(work) == (4, 4)


async def test_keys_are_needed_and_urls_are_checked(stack):
    async with rollway.AsyncClient(stack.rpc_url, "rw_0_0", max_tries=1) as client:
        with pytest.raises(NotAuthorized):
            await client.run("x")
    for url in ("grpc://", "grpc://host", "grpc://host:port", "ftp://x:1"):
        with pytest.raises(RollwayError, match="is no URL of a service"):
            rollway.AsyncClient(url, "k")


async def test_an_unpublished_field_is_refused_by_its_path(stack):
    run = await stack.client.start_run("newer", model="tiny")
    message = rollway_pb2.SubmitJobRequest(body=jobs_pb2.JobCreate(run_id=run.id))
    message.body.tasks.add().MergeFromString(b"\xfa\x06\x01a")
    async with aio.insecure_channel(stack.rpc_url.removeprefix("grpc://")) as channel:
        stub = rollway_pb2_grpc.RollwayStub(channel)
        with pytest.raises(aio.AioRpcError, match=r"\$\.tasks\[0\]: has fields that this version does not know"):
            await stub.SubmitJob(message, metadata=(("authorization", f"Bearer {stack.token}"),), timeout=10)


async def test_tls_is_used_where_it_is_asked_for(stack, tmp_path, monkeypatch):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", str(key)]
    made = await asyncio.create_subprocess_exec(
        *command, "-out", str(cert), *subject, stderr=asyncio.subprocess.DEVNULL
    )
    assert await made.wait() == 0
    options = {"max_message_bytes": LIMIT_BYTES, "tls_cert": cert, "tls_key": key}
    server = await start_rpc_server(stack.context, "127.0.0.1", 0, **options)
    monkeypatch.setenv("ROLLWAY_GRPC_CA", str(cert))
    async with rollway.AsyncClient(f"grpcs://127.0.0.1:{server.port}", stack.token) as client:
        assert [pool.name async for pool in client.pools()] == ["tiny"]
    worker = RemoteControlPlane(f"grpcs://127.0.0.1:{server.port}", stack.token)
    assert (await worker.describe_pool("tiny")).name == "tiny"
    await worker.close()
    async with rollway.AsyncClient(f"grpc://127.0.0.1:{server.port}", stack.token, max_tries=1) as plain:
        with pytest.raises(ConnectionFailed):
            [pool async for pool in plain.pools()]
    await server.stop(0)
    with pytest.raises(CannotListen, match="needs both"):
        await start_rpc_server(stack.context, "127.0.0.1", 0, max_message_bytes=1, tls_cert=cert)
    with pytest.raises(CannotListen, match="No such file"):
        await start_rpc_server(
            stack.context, "127.0.0.1", 0, max_message_bytes=1, tls_cert=tmp_path / "none", tls_key=key
        )


async def test_pages_of_large_things_are_shorter_and_all_is_found(stack):
    run = await stack.rpc.start_run("large", model="tiny")
    jobs = [(await run.submit([], metadata={"x": "y" * 600_000})).id for _ in range(9)]
    assert [job.id async for job in stack.rpc.jobs(run_id=run.id)] == jobs[::-1]


async def test_what_could_not_be_told_is_not_done(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path, with_worker=False) as stack:
        run = await stack.rpc.start_run("large", model="tiny")
        with pytest.raises(BadRequest, match=r"body_too_large.*without its tasks"):
            await run.submit([], metadata={"x": "y" * 6_000_000})
        assert [job async for job in stack.client.jobs(run_id=run.id)] == []
        # Tasks are not in the answer, so they may be as large as the service takes.
        await run.submit([{"token_ids": [5], "metadata": {"x": "y" * 6_000_000}}])
        rest = await stack.client.run(run.id)
        job = await rest.submit([], metadata={"x": "y" * 6_000_000})
        with pytest.raises(BadRequest, match=r"answer_too_large.*read it over REST"):
            await stack.rpc.job(job.id)


def test_a_client_may_be_made_before_there_is_a_loop(tmp_path):
    client = rollway.AsyncClient("grpc://127.0.0.1:1", "k", max_tries=1)

    async def ask():
        with pytest.raises(ConnectionFailed):
            await client.run("x")
        await client.aclose()

    asyncio.run(ask())


async def test_a_name_that_breaks_a_path_is_told(stack):
    with pytest.raises(RollwayError, match="use the id"):
        await stack.rpc.model("Qwen/Qwen3")
