"""Engines that fail: the trajectory says what happened, nothing is lost, nothing untrue is trainable."""

import math

import pytest

from rollway_workers.engines.scripted import Answer, Fault
from tests.builders import token_tasks
from tests.stack import running_stack, until

IDS = list(range(20, 30))
LOGPROBS = [-0.1 * (index + 1) for index in range(10)]


def scripted(*answers):
    """A responder that gives these answers one after the other, the last for ever."""
    given = iter(answers)
    last = answers[-1]

    def respond(call):
        answer = next(given, last)
        return answer(call) if callable(answer) else answer

    return respond


def rest_of(call, start_length=4):
    """What a well-behaved engine gives after the ids that are in the prompt already."""
    done = len(call.input_ids) - start_length
    return Answer(IDS[done:], LOGPROBS[done:], "length")


async def one_rollout(stack, **job):
    """Submit one task with one member, wait for its end, and return (rollout, trajectory with arrays or None)."""
    run = await stack.client.start_run("faults", model="tiny")
    fields = {"group_size": 1, "sampling": {"max_new_tokens": 10}, "member_failure": {"policy": "shrink"}} | job
    submitted = await run.submit(token_tasks(1), close=True, **fields)
    await submitted.wait(30)
    rollout = await anext(stack.client.rollouts(job_id=submitted.id))
    if not rollout.trajectory_ids:
        return rollout, None
    return rollout, await stack.client.trajectory(rollout.trajectory_ids[0])


async def test_log_probs_that_are_not_finite_keep_their_token_and_lose_the_mask(database_url, tmp_path):
    answer = Answer([20, 21, 22], [-0.1, -math.inf, math.nan], "length")
    async with running_stack(database_url, tmp_path, responder=scripted(answer)) as stack:
        rollout, trajectory = await one_rollout(stack, sampling={"max_new_tokens": 3})
        assert rollout.state == "completed"
        assert trajectory.arrays.token_ids[4:] == [20, 21, 22]
        assert trajectory.arrays.loss_mask[4:] == [1, 0, 0]
        assert trajectory.arrays.behavior_logprobs[4] == pytest.approx(-0.1)
        assert trajectory.arrays.behavior_logprobs[5:] == [None, None]
        assert trajectory.findings == ["nonfinite_logprobs:2"]
        metrics = (await stack.http.get("/metrics")).text
        assert "rollway_nonfinite_logprobs 2.0" in metrics


async def test_fewer_log_probs_than_ids_leave_the_ids_and_nothing_trainable(database_url, tmp_path):
    answer = Answer(IDS, LOGPROBS[:7], "length")
    async with running_stack(database_url, tmp_path, responder=scripted(answer)) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert (rollout.state, rollout.failure.kind) == ("failed", "no_sampled_tokens")
        assert trajectory.arrays.token_ids[4:] == IDS
        assert sum(trajectory.arrays.loss_mask) == 0
        assert trajectory.findings == ["missing_logprobs:10"]


async def test_an_answer_of_500_is_tried_again_under_a_new_id_after_an_abort(database_url, tmp_path):
    failing = Answer([], fault=Fault("status", status=500))
    async with running_stack(database_url, tmp_path, responder=scripted(failing, failing, rest_of)) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert rollout.state == "completed"
        assert trajectory.arrays.token_ids[4:] == IDS
        ids = [call.request_id for call in stack.engine.calls]
        assert len(set(ids)) == 3
        assert set(ids[:2]) <= set(stack.engine.aborts)
        assert trajectory.findings == ["engine_unavailable:2"]


async def test_an_engine_that_only_fails_ends_the_rollout_with_the_reason(sqlite_url, tmp_path):
    failing = Answer([], fault=Fault("status", status=503, message="out of memory"))
    async with running_stack(sqlite_url, tmp_path, responder=scripted(failing)) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert (rollout.state, rollout.failure.kind) == ("failed", "engine")
        assert "out of memory" in rollout.failure.detail
        assert trajectory.stop_reason == "error"
        assert len(stack.engine.calls) == 5


async def test_a_refused_request_is_tried_once_and_never_again(sqlite_url, tmp_path):
    refusing = Answer([], fault=Fault("status", status=400, message="no such thing"))
    async with running_stack(sqlite_url, tmp_path, responder=scripted(refusing)) as stack:
        rollout, _ = await one_rollout(stack, member_failure={"policy": "refill"})
        assert (rollout.state, rollout.failure.kind) == ("failed", "request")
        assert len(stack.engine.calls) == 1


@pytest.mark.parametrize("kind", ["cut", "reset"])
async def test_a_cut_stream_keeps_what_came_and_goes_on_from_there(database_url, tmp_path, kind):
    cut = Answer(IDS, LOGPROBS, chunk_tokens=2, fault=Fault(kind, after_tokens=4))
    async with running_stack(database_url, tmp_path, responder=scripted(cut, rest_of)) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert rollout.state == "completed"
        assert trajectory.arrays.token_ids[4:] == IDS
        assert trajectory.arrays.behavior_logprobs[4:] == pytest.approx(LOGPROBS)
        assert sum(trajectory.arrays.loss_mask) == 10
        assert trajectory.findings == ["stream_cut:1"]
        first, second = stack.engine.calls
        assert second.input_ids == (*first.input_ids, *IDS[:4])
        assert second.max_new_tokens == 6
        assert first.request_id in stack.engine.aborts
        assert not stack.engine.running


async def test_garbage_in_the_stream_fails_the_rollout_and_keeps_what_was_true(sqlite_url, tmp_path):
    garbage = Answer(IDS, LOGPROBS, chunk_tokens=2, fault=Fault("garbage", after_tokens=4))
    async with running_stack(sqlite_url, tmp_path, responder=scripted(garbage)) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert (rollout.state, rollout.failure.kind) == ("failed", "engine")
        assert trajectory.arrays.token_ids[4:] == IDS[:4]


async def test_a_hanging_engine_ends_at_the_deadline_with_the_tokens_so_far(database_url, tmp_path):
    hanging = Answer(IDS, LOGPROBS, chunk_tokens=3, fault=Fault("hang", after_tokens=3))
    async with running_stack(database_url, tmp_path, responder=scripted(hanging)) as stack:
        rollout, trajectory = await one_rollout(stack, limits={"rollout_deadline_s": 1.0})
        assert (rollout.state, rollout.failure.kind) == ("failed", "deadline")
        assert trajectory.stop_reason == "deadline"
        assert trajectory.arrays.token_ids[4:] == IDS[:3]
        await until(lambda: not stack.engine.running)
        assert len(stack.engine.aborts) == 1


@pytest.mark.parametrize(("policy", "size"), [("shrink", 3), ("refill", 4)])
async def test_one_hanging_member_does_not_hold_its_group(database_url, tmp_path, policy, size):
    """Case B24: within the deadline the group comes as three, or refilled as four, with the reason on record."""
    hung = []

    def respond(call):
        if not hung:
            hung.append(call.request_id)
            return Answer(IDS, LOGPROBS, fault=Fault("hang"))
        return Answer(IDS, LOGPROBS, "length")

    async with running_stack(database_url, tmp_path, responder=respond) as stack:
        run = await stack.client.start_run(policy, model="tiny")
        job = await run.submit(
            token_tasks(1),
            group_size=4,
            sampling={"max_new_tokens": 10},
            limits={"rollout_deadline_s": 1.5},
            member_failure={"policy": policy},
            close=True,
        )
        group = await until(lambda: _group_with_one_pending(stack, job))
        assert group.pending_rollout_ids[0] in hung[0]
        await job.wait(20)
        batch = await run.lease(groups=1, wait_s=5)
        assert len(batch.samples) == size
        assert batch.groups[0].header.failed_members == 1
        stored = await stack.client.group(group.id)
        decisions = [(decision.action, decision.reason) for decision in stored.decisions]
        expected = ("refill", "member_failed") if policy == "refill" else ("accept_loss", "policy_shrink")
        assert expected in decisions
        assert (await job.refresh()).progress.failures == {"deadline": 1}


async def _group_with_one_pending(stack, job):
    async for group in stack.client.groups(job.id):
        if len(group.pending_rollout_ids) == 1:
            return group
    return None


async def test_an_aborted_generation_is_resumed_with_the_budget_that_is_left(database_url, tmp_path):
    """Case B13: cap 10, aborted at 7: the second request asks for 3."""
    async with running_stack(
        database_url, tmp_path, responder=scripted(Answer(IDS[:7], LOGPROBS[:7], "abort"), rest_of)
    ) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert [call.max_new_tokens for call in stack.engine.calls] == [10, 3]
        assert stack.engine.calls[1].input_ids[4:] == tuple(IDS[:7])
        assert trajectory.arrays.token_ids[4:] == IDS
        assert trajectory.finish_reasons == ["abort", "length"]
        assert rollout.usage.resumes == 1


async def test_an_abort_at_the_cap_sends_no_request_and_keeps_the_row(database_url, tmp_path):
    async with running_stack(database_url, tmp_path, responder=scripted(Answer(IDS, LOGPROBS, "abort"))) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert len(stack.engine.calls) == 1
        assert (rollout.state, trajectory.stop_reason) == ("completed", "length")
        assert trajectory.arrays.token_ids[4:] == IDS


def _streamed(stack):
    """Tokens that the engine has sent of the request that runs."""
    return next(iter(stack.engine.running.values())).sent_tokens


@pytest.mark.parametrize("is_incremental", [True, False])
async def test_an_abort_that_answers_with_nothing_loses_nothing(sqlite_url, tmp_path, is_incremental):
    """Case B14: the service keeps its own copy from the stream."""
    slow = Answer(IDS, LOGPROBS, chunk_tokens=5, chunk_delay_s=5.0)
    options = {"abort_forgets": True, "is_incremental": is_incremental}
    async with running_stack(sqlite_url, tmp_path, responder=scripted(slow, rest_of), engine_options=options) as stack:
        run = await stack.client.start_run("abort", model="tiny")
        job = await run.submit(token_tasks(1), group_size=1, sampling={"max_new_tokens": 10}, close=True)
        await until(lambda: stack.engine.running)
        await until(lambda: _streamed(stack) == 5)
        next(iter(stack.engine.running.values())).aborted.set()
        await job.wait(10)
        rollout = await anext(stack.client.rollouts(job_id=job.id))
        trajectory = await stack.client.trajectory(rollout.trajectory_ids[0])
        assert stack.engine.calls[1].input_ids[4:] == tuple(IDS[:5])
        assert trajectory.arrays.token_ids[4:] == IDS
        assert trajectory.arrays.behavior_logprobs[4:] == pytest.approx(LOGPROBS)


@pytest.mark.parametrize(
    ("spans", "is_fine"),
    [
        ([(0, 0, 4), (1, 4, 10)], True),
        ([(0, 0, 4), (1, 5, 10)], False),
        ([(0, 0, 5), (1, 4, 10)], False),
        ([(0, 0, 4), (1, 4, 9)], False),
        ([(0, 0, 4), (1, 4, 11)], False),
    ],
)
async def test_version_spans_are_expanded_or_refused(sqlite_url, tmp_path, spans, is_fine):
    """Case B16: a gap, an overlap, a short or a long end is refused."""
    answer = Answer(IDS, LOGPROBS, "length", spans=spans)
    async with running_stack(sqlite_url, tmp_path, responder=scripted(answer)) as stack:
        rollout, trajectory = await one_rollout(stack)
        if is_fine:
            assert trajectory.arrays.weight_versions[4:] == [0] * 4 + [1] * 6
        else:
            assert (rollout.state, rollout.failure.kind) == ("failed", "engine")
            assert "span" in rollout.failure.detail


@pytest.mark.parametrize(
    ("prompt_length", "requested"), [(8, [2]), (9, [1]), (10, [])], ids=["two-left", "one-left", "full"]
)
async def test_the_window_clips_the_request_or_ends_the_rollout(sqlite_url, tmp_path, prompt_length, requested):
    """Case B56: window 10, cap 5."""

    def respond(call):
        return Answer([20] * call.max_new_tokens, finish="length")

    async with running_stack(sqlite_url, tmp_path, responder=respond, window=10) as stack:
        run = await stack.client.start_run("window", model="tiny")
        job = await run.submit(
            token_tasks(1, length=prompt_length), group_size=1, sampling={"max_new_tokens": 5}, close=True
        )
        await job.wait(10)
        assert [call.max_new_tokens for call in stack.engine.calls] == requested
        rollout = await anext(stack.client.rollouts(job_id=job.id))
        trajectory = await stack.client.trajectory(rollout.trajectory_ids[0])
        assert trajectory.stop_reason == "length"
        assert len(trajectory.arrays.token_ids) == prompt_length + sum(requested)


async def test_a_prompt_that_overflows_the_engines_window_ends_in_length_without_a_request(sqlite_url, tmp_path):
    """The model's registered window may be larger than the one the engine was started with."""
    async with running_stack(sqlite_url, tmp_path, window=10, model_window=100) as stack:
        run = await stack.client.start_run("window", model="tiny")
        job = await run.submit(token_tasks(1, length=11), group_size=1, sampling={"max_new_tokens": 5}, close=True)
        await job.wait(10)
        assert not stack.engine.calls
        rollout = await anext(stack.client.rollouts(job_id=job.id))
        assert (await stack.client.trajectory(rollout.trajectory_ids[0])).stop_reason == "length"


async def test_an_id_outside_the_vocabulary_from_the_engine_is_not_stored_as_sampled(sqlite_url, tmp_path):
    answer = Answer([20, 5000], [-0.1, -0.2], "length")
    async with running_stack(sqlite_url, tmp_path, responder=scripted(answer)) as stack:
        rollout, trajectory = await one_rollout(stack)
        assert (rollout.state, rollout.failure.kind) == ("failed", "engine")
        assert "vocabulary" in rollout.failure.detail
        assert 5000 not in trajectory.arrays.token_ids


@pytest.mark.parametrize(("broken", "kind"), [("_value", "reward"), ("score", "policy")])
async def test_a_scorer_that_breaks_fails_the_rollout_with_the_reason_and_frees_its_slot(
    sqlite_url, tmp_path, monkeypatch, broken, kind
):
    async def breaks(*_arguments):
        raise OSError("no more processes")

    async with running_stack(sqlite_url, tmp_path, responder=scripted(rest_of), slots=1) as stack:
        with monkeypatch.context() as patch:
            patch.setattr(f"rollway_workers.rewards.scorer.Scorer.{broken}", breaks)
            rollout, trajectory = await one_rollout(stack, rewards=[{"kind": "regex", "pattern": "."}])
        assert (rollout.state, rollout.failure.kind) == ("failed", kind)
        assert "no more processes" in rollout.failure.detail
        assert rollout.reward is None
        assert trajectory.arrays.token_ids[4:] == IDS
        again, _ = await one_rollout(stack, rewards=[{"kind": "regex", "pattern": "."}])
        assert again.state == "completed"
