"""Text with NUL and other ordinary horrors: stored, read back as it was, and no harm to what is stored beside it."""

import pytest
import pytest_asyncio

from tests.builders import token_tasks
from tests.stack import until

pytestmark = pytest.mark.asyncio(loop_scope="module")
HORRORS = [
    "a\0b",
    "\0",
    "\0\0\ue000",
    "\ue0000",
    "\ue0001\0",
    "\x1b[31m\x7f",
    "\u202e\u2028\ufeff\uffff",
    "\U0010ffff",
    "'; --",
]


@pytest_asyncio.fixture(loop_scope="module")
async def run(stack):
    return await stack.client.start_run("text", model="tiny")


async def rolled_out(stack, run, tasks, **fields):
    """The job's batch, and its job, once all is done."""
    fields = {"group_size": 1, "sampling": {"max_new_tokens": 4}, "close": True} | fields
    job = await run.submit(tasks, **fields)
    await job.wait(20)
    return await run.lease(groups=len(tasks), job_ids=[job.id], wait_s=10), job


async def test_nul_in_a_value_and_in_a_key_harms_no_neighbour(stack, run):
    """Case B49: three tasks, the middle one with NUL in text, in a metadata value and in a metadata key."""
    tasks = token_tasks(3, reference="x")
    del tasks[1]["token_ids"]
    tasks[1] |= {"messages": [{"role": "user", "content": "1+\0=2"}]}
    tasks[1] |= {"metadata": {"value": "a\0b", "k\0ey": {"\0": ["\0", {"deep\0": 1}]}}, "reference": "an\0swer"}
    batch, job = await rolled_out(stack, run, tasks, rewards=[{"kind": "exact"}], metadata={"\0": "\0"})
    by_index = {group.header.task_index: group.header for group in batch.groups}
    assert sorted(by_index) == [0, 1, 2]
    assert by_index[1].task_metadata == tasks[1]["metadata"]
    assert by_index[0].task_metadata == by_index[2].task_metadata == {}
    assert (await job.refresh()).spec["metadata"] == {"\0": "\0"}
    assert job.info.progress.rollouts_scored == 3
    for sample in batch.samples:
        shown = await stack.client.trajectory(sample.header.trajectory_id, text=True)
        assert ("1+\0=2" in shown.text) == (sample.group.header.task_index == 1)


@pytest.mark.parametrize("text", HORRORS, ids=ascii)
async def test_free_text_comes_back_as_it_was_sent(stack, run, text):
    metadata = {"text": text, f"key {text}": [text, {text: text}]}
    task = {"messages": [{"role": "user", "content": f"1+1={text}"}], "reference": text, "metadata": metadata}
    batch, job = await rolled_out(stack, run, [task], metadata=metadata)
    assert batch.groups[0].header.task_metadata == metadata
    assert (await stack.client.job(job.id)).info.spec["metadata"] == metadata
    assert [found.spec["metadata"] async for found in stack.client.jobs(run_id=run.id)] == [metadata]


async def test_metadata_of_everything_that_has_it_comes_back(stack):
    metadata = {text: text for text in HORRORS}
    run = await stack.client.start_run("metadata", model="tiny", metadata=metadata)
    assert (await stack.client.run(run.id)).info.metadata == metadata
    model = await stack.client.register_model("hostile", "/nowhere\0", vocab_size=300, metadata=metadata)
    assert (await stack.client.model("hostile")) == model
    assert (model.metadata, model.source) == (metadata, "/nowhere\0")
    pool = await stack.client.create_pool("hostile", model="hostile", labels=metadata)
    assert [found.labels async for found in stack.client.pools() if found.id == pool.id] == [metadata]


async def test_numbers_come_back_as_they_were_sent(stack, run):
    floats = [1e16, 2.0**63, 9.3e18, 1.8e19, 1e20, 1e308, -9.3e18, 5e-324, 0.1, 1.0]
    metadata = {"floats": floats, "integers": [2**63 - 1, -(2**63), 2**53 + 1], "none": None, "deep": [{"x": [9.3e18]}]}
    task = token_tasks(1, reference="7")[0] | {"metadata": metadata}
    rewards = [{"kind": "numeric", "absolute_tolerance": 9.3e18}]
    batch, job = await rolled_out(stack, run, [task], metadata=metadata, rewards=rewards)
    assert batch.groups[0].header.task_metadata == metadata
    spec = (await stack.client.job(job.id)).info.spec
    assert spec["metadata"] == metadata
    assert spec["rewards"][0]["absolute_tolerance"] == 9.3e18


async def test_posted_failures_may_hold_anything(stack, run):
    job = await run.submit(
        token_tasks(1),
        group_size=1,
        sampling={"max_new_tokens": 4},
        rewards=[{"kind": "posted"}],
        member_failure={"policy": "shrink"},
        close=True,
    )

    async def awaiting():
        return [found async for found in stack.client.rollouts(job_id=job.id, state="awaiting_reward")]

    (rollout,) = await until(awaiting)
    detail = "".join(HORRORS)
    ended = await stack.client.post_rewards(rollout.id, [{"name": "posted", "failure": detail}])
    assert (ended.state, ended.rewards[0].failure.detail) == ("failed", detail)
    assert await stack.client.rollout(rollout.id) == ended


@pytest.mark.parametrize("name", ["a\0b", "\x1b[31m", "a\u2028b", "\u202eab", " a", ""])
async def test_names_hold_no_such_thing(stack, name):
    for path, body in (("/v1/runs", {"model": "tiny"}), ("/v1/pools", {}), ("/v1/models", {"source": "/x"})):
        response = await stack.http.post(path, json={"name": name, **body})
        assert response.status_code == 422
        assert [error["path"] for error in response.json()["errors"]] == ["$.name"]


async def test_model_text_with_nul_is_shown_as_it_is(stack, run):
    """The byte-level tokenizer has an id for NUL: a prompt of it is stored, generated from, and shown."""
    tokenizer = await stack.context.tokenizers.load((await stack.client.model("tiny")).source)
    (nul,) = [index for index in range(300) if tokenizer.decode([index], skip_special=False) == "\0"]
    batch, _ = await rolled_out(stack, run, [{"token_ids": [nul, nul, nul]}])
    (sample,) = batch.samples
    shown = await stack.client.trajectory(sample.header.trajectory_id, text=True)
    assert shown.text.startswith("\0\0\0")
    assert shown.arrays.token_ids == sample.token_ids.tolist()
