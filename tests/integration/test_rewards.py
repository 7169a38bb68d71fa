"""Rewards through the real scorer and its checker processes: a number, or a reason why there is none."""

import asyncio
import re

import psutil
import pytest
import pytest_asyncio
import reasoning_gym

from rollway.types import (
    ExactReward,
    MathReward,
    NumericReward,
    PostedReward,
    PythonReward,
    ReasoningGymReward,
    RegexReward,
)
from rollway_workers.engines.scripted import Answer
from rollway_workers.rewards.scorer import Scorer
from tests.stack import running_stack, until

pytestmark = pytest.mark.asyncio(loop_scope="module")

_HERE = "tests.builders"
FUNCTIONS = f"length={_HERE}:reward_of_length,die={_HERE}:reward_that_ends_its_process,missing={_HERE}:not_there"
HANGS = r"\boxed{9^{9^{9^{9}}} - 1}"
GYM = reasoning_gym.create_dataset("chain_sum", size=1, seed=5)[0]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def scorer():
    found = Scorer.from_settings(2, FUNCTIONS)
    await found.warm()
    yield found
    await found.close()


@pytest.mark.parametrize(
    ("spec", "answer", "reference", "value"),
    [
        (ExactReward(kind="exact"), " yes\n", "yes", 1.0),
        (ExactReward(kind="exact"), "Yes", "yes", 0.0),
        (ExactReward(kind="exact", ignore_case=True), "Yes", "yes", 1.0),
        (ExactReward(kind="exact"), "a\0b", "a\0b", 1.0),
        (NumericReward(kind="numeric"), "so it is 1,234.5", 1234.5, 1.0),
        (NumericReward(kind="numeric"), "about 10", "11", 0.0),
        (NumericReward(kind="numeric", relative_tolerance=0.1), "about 10", "11", 1.0),
        (NumericReward(kind="numeric"), "no number", "11", 0.0),
        (RegexReward(kind="regex", pattern=r"\d+"), "it is 42.", None, 1.0),
        (RegexReward(kind="regex", pattern=r"\d+", full_match=True), "it is 42.", None, 0.0),
        (RegexReward(kind="regex", pattern=r"is (\d+)", compare_group=1), "it is 42.", 42, 1.0),
        (RegexReward(kind="regex", pattern="(a+)+$"), "a" * 50_000 + "b", None, 0.0),
        (MathReward(kind="math"), r"\boxed{1/3}", "1/3", 1.0),
        (MathReward(kind="math"), r"\boxed{\frac{2}{6}}", "1/3", 1.0),
        (MathReward(kind="math"), r"\boxed{0.34}", "1/3", 0.0),
        (MathReward(kind="math"), "I do not know", "1/3", 0.0),
        (ReasoningGymReward(kind="reasoning_gym", dataset="chain_sum"), f" {GYM['answer']} ", GYM, 1.0),
        (PythonReward(kind="python", function="length", arguments={"scale": 2.0}), "four", None, 8.0),
        (PythonReward(kind="python", function="length", arguments={"scale": 0.0}), "four", None, 0.0),
    ],
    ids=str,
)
async def test_every_kind_gives_a_value(scorer, spec, answer, reference, value):
    (found,) = await scorer.score([spec], answer, reference, {})
    assert (found.value, found.failure) == (value, None)
    assert (found.name, found.source, found.weight) == (spec.kind, spec.kind, 1.0)


@pytest.mark.parametrize(
    ("spec", "reference", "kind", "words"),
    [
        (ExactReward(kind="exact"), {"a": 1}, "checker", "reference must be text or a number, it is dict"),
        (NumericReward(kind="numeric"), "none", "checker", "holds no finite number"),
        (RegexReward(kind="regex", pattern="("), None, "checker", "not valid in RE2"),
        (RegexReward(kind="regex", pattern="a", compare_group=3), "a", "checker", "no group 3"),
        (MathReward(kind="math"), "", "checker", "cannot read the reference"),
        (ReasoningGymReward(kind="reasoning_gym", dataset="no such"), GYM, "checker", "no such"),
        (
            ReasoningGymReward(kind="reasoning_gym", dataset="chain_sum"),
            "7",
            "checker",
            "must be a reasoning-gym entry",
        ),
        (PythonReward(kind="python", function="length"), None, "checker", "the checker returned nan"),
        (PythonReward(kind="python", function="unknown"), None, "checker", "there are: die, length, missing"),
        (PythonReward(kind="python", function="missing"), None, "checker", "not_there"),
        (PythonReward(kind="python", function="length", arguments={"x": 1}), None, "checker", "TypeError"),
    ],
    ids=str,
)
async def test_a_check_that_cannot_be_done_is_no_score_of_0(scorer, spec, reference, kind, words):
    """Case B30."""
    (found,) = await scorer.score([spec], "a", reference, {})
    assert (found.value, found.failure.kind) == (None, kind)
    assert words in found.failure.detail


async def test_posted_rewards_are_left_to_those_who_post(scorer):
    found = await scorer.score([PostedReward(kind="posted"), ExactReward(kind="exact")], "a", "a", {})
    assert [reward.name for reward in found] == ["exact"]


@pytest.mark.asyncio(loop_scope="function")
async def test_hung_checks_are_killed_and_hold_up_nothing_behind_them():
    """Case B35: twice as many as there are processes hang; what comes behind them is scored before they are given up."""
    scorer = Scorer.from_settings(2, "")
    await scorer.warm()
    order = []

    async def score(answer, timeout_s):
        (found,) = await scorer.score([MathReward(kind="math", timeout_s=timeout_s)], answer, "1/3", {})
        order.append(answer)
        return found

    try:
        hung = [asyncio.create_task(score(HANGS, 8.0)) for _ in range(4)]
        await asyncio.sleep(0)
        good = await score(r"\boxed{1/3}", 60.0)
        assert (good.value, good.failure) == (1.0, None)
        for found in await asyncio.gather(*hung):
            assert (found.value, found.failure.kind) == (None, "timeout")
            assert found.failure.detail == "killed after 8.0 s"
        assert order == [r"\boxed{1/3}", *[HANGS] * 4]
        # The pool is whole again, at its own size.
        again = await asyncio.gather(*(score(r"\boxed{1/3}", 60.0) for _ in range(4)))
        assert [found.value for found in again] == [1.0] * 4
        await until(lambda: len(scorer._checkers._all) <= 2)
    finally:
        processes = [psutil.Process(checker.process.pid) for checker in scorer._checkers._all]
        await scorer.close()
    assert processes
    assert not any(process.is_running() for process in processes)


async def test_a_checker_that_dies_is_told_as_that_and_replaced(scorer):
    (found,) = await scorer.score([PythonReward(kind="python", function="die")], "a", None, {})
    assert (found.value, found.failure.kind) == (None, "infra")
    assert "exit code 7" in found.failure.detail
    (good,) = await scorer.score([MathReward(kind="math")], r"\boxed{2}", "2", {})
    assert good.value == 1.0


@pytest.mark.asyncio(loop_scope="function")
async def test_members_whose_checker_failed_are_out_of_the_mean_and_are_not_served(database_url, tmp_path):
    """Case B30: rewards 1, 0, failed, failed: the mean is over two, two are served, the failure ratio is one half."""
    lengths = iter((1, 2, 3, 4))

    def respond(call):
        return Answer([20] * next(lengths), finish="length")

    async with running_stack(
        database_url, tmp_path, responder=respond, reward_functions="failing=tests.builders:reward_or_failure"
    ) as stack:
        run = await stack.client.start_run("failing", model="tiny")
        job = await run.submit(
            [{"token_ids": [10, 11, 12]}],
            group_size=4,
            sampling={"max_new_tokens": 4},
            rewards=[{"kind": "python", "function": "failing"}],
            member_failure={"policy": "shrink"},
            close=True,
        )
        progress = (await job.wait(40)).progress
        assert (progress.rollouts_scored, progress.rollouts_unscored, progress.mean_reward) == (2, 2, 0.5)
        assert progress.failures == {"reward": 2}
        batch = await run.lease(groups=1, wait_s=10)
        assert sorted(sample.header.reward for sample in batch.samples) == [0.0, 1.0]
        assert batch.groups[0].header.failed_members == 2
        failed = [rollout async for rollout in stack.client.rollouts(job_id=job.id, state="failed")]
        assert [rollout.reward for rollout in failed] == [None, None]
        assert {rollout.rewards[0].failure.kind for rollout in failed} == {"checker"}
        assert all("as told" in rollout.failure.detail for rollout in failed)
        metrics = (await stack.http.get("/metrics")).text
        assert re.search(r"^rollway_reward_failure_ratio 0\.5$", metrics, flags=re.MULTILINE)


@pytest.mark.asyncio(loop_scope="function")
async def test_posted_rewards_come_through_the_sdk(database_url, tmp_path):
    async with running_stack(database_url, tmp_path) as stack:
        run = await stack.client.start_run("posted", model="tiny")
        job = await run.submit(
            [{"token_ids": [10, 11, 12]}],
            group_size=2,
            sampling={"max_new_tokens": 4},
            rewards=[{"kind": "posted", "name": "judge", "weight": 0.5}],
            close=True,
        )

        async def awaiting():
            found = [rollout async for rollout in stack.client.rollouts(job_id=job.id, state="awaiting_reward")]
            return found if len(found) == 2 else None

        first, second = await until(awaiting)
        assert not (await run.lease(groups=1)).groups
        for rollout, value in ((first, 1.0), (second, 0.0)):
            ended = await stack.client.post_rewards(rollout.id, [{"name": "judge", "value": value}])
            assert (ended.state, ended.reward) == ("completed", value / 2)
        batch = await run.lease(groups=1, wait_s=10)
        assert sorted(sample.header.reward for sample in batch.samples) == [0.0, 0.5]
