"""Rewards from a job's body to the trainer's batch, through workers and their checker processes."""

import pytest
import reasoning_gym
from tokenizers import Tokenizer

from rollway_service.main import tiny_policy
from rollway_workers.engines.scripted import Answer
from tests.stack import TINY_EOS, running_stack, until

GYM = reasoning_gym.create_dataset("chain_sum", size=1, seed=5)[0]
PATIENT = {"timeout_s": 60.0}
HANGS = r"\boxed{9^{9^{9^{9}}} - 1}"


def text_responder(texts):
    """Answers the n-th prompt (its first id is 10 + n) with the n-th text."""
    tokenizer = Tokenizer.from_file(str(tiny_policy() / "tokenizer.json"))

    def respond(call):
        ids = tokenizer.encode(texts[call.input_ids[0] - 10], add_special_tokens=False).ids
        return Answer([*ids, TINY_EOS], finish="stop")

    return respond


def tasks_for(references):
    return [
        {"token_ids": [10 + index, 9], "reference": reference, "metadata": {"bonus": 0.5}}
        for index, reference in enumerate(references)
    ]


async def test_every_kind_is_scored_weighted_and_summed(database_url, tmp_path):
    rewards = [
        {"kind": "exact", "name": "same", "weight": 2.0},
        {"kind": "numeric", "weight": 0.0},
        {"kind": "regex", "pattern": r"^\d+$"},
        {"kind": "math", "weight": -1.0, **PATIENT},
        {"kind": "python", "function": "length", "arguments": {"scale": 0.25}, **PATIENT},
    ]
    functions = "length=tests.builders:reward_of_length"
    responder = text_responder(["42", "no 7"])
    async with running_stack(database_url, tmp_path, responder=responder, reward_functions=functions) as stack:
        run = await stack.client.start_run("kinds", model="tiny")
        fields = {"group_size": 1, "sampling": {"max_new_tokens": 30}, "close": True}
        job = await run.submit(tasks_for(["42", "7"]), rewards=rewards, **fields)
        batch = await run.lease(groups=2, wait_s=60)
        found = {sample.group.header.task_index: sample.header for sample in batch.samples}
        values = {index: [reward.value for reward in header.rewards] for index, header in found.items()}
        assert values == {0: [1.0, 1.0, 1.0, 1.0, 1.0], 1: [0.0, 1.0, 0.0, 1.0, 1.5]}
        assert [reward.name for reward in found[0].rewards] == ["same", "numeric", "regex", "math", "python"]
        assert {index: header.reward for index, header in found.items()} == {0: 3.0, 1: 0.5}
        assert (await job.refresh()).progress.mean_reward == 1.75


async def test_a_reasoning_gym_entry_is_a_tasks_reference(sqlite_url, tmp_path):
    async with running_stack(sqlite_url, tmp_path, responder=text_responder([GYM["answer"], "x"])) as stack:
        run = await stack.client.start_run("gym", model="tiny")
        entry = {"question": GYM["question"], "answer": GYM["answer"]}
        progress = await run.evaluate(
            tasks_for([entry, entry]),
            group_size=1,
            sampling={"max_new_tokens": 30},
            rewards=[{"kind": "reasoning_gym", "dataset": "chain_sum", **PATIENT}],
            timeout_s=60,
        )
        assert progress.rollouts_scored == 2
        assert 0.5 <= progress.mean_reward < 1.0


@pytest.mark.timeout(180)
async def test_hung_checks_hold_up_no_rollout_behind_them(sqlite_url, tmp_path):
    """Case B35: twice as many hung ones as there are processes; they are failures, and no zeros."""
    texts = [HANGS, HANGS, r"\boxed{1/3}"]
    async with running_stack(sqlite_url, tmp_path, responder=text_responder(texts)) as stack:
        assert stack.context.settings.reward_processes == 1
        run = await stack.client.start_run("hung", model="tiny")
        fields = {"group_size": 1, "sampling": {"max_new_tokens": 60}, "member_failure": {"policy": "shrink"}}
        rewards = [{"kind": "math", "timeout_s": 10.0}]
        job = await run.submit(tasks_for(["1/3"] * 3), rewards=rewards, close=True, **fields)

        async def ended():
            return (await job.refresh()).progress.groups_ready

        assert await until(ended, within_s=60) == 1
        progress = (await job.wait(60)).progress
        assert (progress.rollouts_scored, progress.rollouts_unscored, progress.mean_reward) == (1, 2, 1.0)
        assert (progress.groups_ready, progress.groups_failed) == (1, 2)
        failed = [rollout async for rollout in stack.client.rollouts(job_id=job.id, state="failed")]
        assert [rollout.rewards[0].failure.kind for rollout in failed] == ["timeout", "timeout"]
        assert [rollout.rewards[0].value for rollout in failed] == [None, None]
        batch = await run.lease(groups=3, wait_s=5)
        assert [sample.header.reward for sample in batch.samples] == [1.0]


@pytest.mark.parametrize("what", ["error", "odd text", "exit"])
async def test_what_a_checker_raises_is_kept_with_the_rollout(database_url, tmp_path, what):
    functions = "raises=tests.reward_functions:raises"
    async with running_stack(
        database_url, tmp_path, responder=text_responder(["a"]), reward_functions=functions
    ) as stack:
        run = await stack.client.start_run("raises", model="tiny")
        rewards = [
            {"kind": "regex", "pattern": "a"},
            {"kind": "python", "function": "raises", "arguments": {"what": what}, **PATIENT},
        ]
        fields = {"sampling": {"max_new_tokens": 4}, "member_failure": {"policy": "drop"}, "close": True}
        job = await run.submit(tasks_for([None]), group_size=1, rewards=rewards, **fields)
        progress = (await job.wait(60)).progress
        assert (progress.rollouts_unscored, progress.failures, progress.groups_failed) == (1, {"reward": 1}, 1)
        (rollout,) = [found async for found in stack.client.rollouts(job_id=job.id)]
        assert (rollout.reward, [reward.value for reward in rollout.rewards]) == (None, [1.0, None])
        assert rollout.rewards[1].failure.kind == "checker"
        assert rollout.failure.kind == "reward"
        assert rollout.rewards[1].failure.detail in rollout.failure.detail
