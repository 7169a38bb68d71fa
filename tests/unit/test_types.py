"""Bodies of requests: what is refused, with the JSON path of it (cases B34, B49, B50)."""

import math

import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from rollway.types import (
    BatchLease,
    JobCreate,
    JobProgress,
    Page,
    PoolCreate,
    Problem,
    Request,
    RewardsPost,
    RewardValue,
    Sampling,
    Task,
    VersionPublish,
)
from tests.builders import paths_refused
from tests.strategies import hostile_json, hostile_text

DIGEST = "sha256:" + "0" * 64
JOB = {"run_id": "run_1"}


@pytest.mark.parametrize("seed", [0, -1, 2**63 - 1, -(2**63), None])
def test_seeds_within_int64_are_taken_as_they_are(seed):
    assert Sampling.model_validate({"seed": seed}).seed == seed
    assert Sampling.model_validate_json(f'{{"seed": {"null" if seed is None else seed}}}').seed == seed


@pytest.mark.parametrize("seed", [10**20, 2**63, -(2**63) - 1, "100", 1.0, True, [1]])
def test_other_seeds_are_refused(seed):
    assert paths_refused(JobCreate, JOB | {"sampling": {"seed": seed}}) == ["$.sampling.seed"]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("model", "body", "path"),
    [
        (JobCreate, lambda x: JOB | {"sampling": {"temperature": x}}, "$.sampling.temperature"),
        (JobCreate, lambda x: JOB | {"metadata": {"x": x}}, "$.metadata.x"),
        (JobCreate, lambda x: JOB | {"metadata": {"a": [1, {"b": {"c": x}}]}}, "$.metadata.a[1].b.c"),
        (JobCreate, lambda x: JOB | {"tasks": [{"token_ids": [1], "reference": x}]}, "$.tasks[0].reference"),
        (JobCreate, lambda x: JOB | {"tasks": [{"token_ids": [1], "metadata": {"a": [[x]]}}]}, "$.tasks[0].metadata.a[0][0]"),
        (JobCreate, lambda x: JOB | {"rewards": [{"kind": "exact", "weight": x}]}, "$.rewards[0].weight"),
        (
            JobCreate,
            lambda x: JOB | {"rewards": [{"kind": "python", "function": "f", "arguments": {"a": x}}]},
            "$.rewards[0].arguments.a",
        ),
        (JobCreate, lambda x: JOB | {"limits": {"rollout_deadline_s": x}}, "$.limits.rollout_deadline_s"),
        (
            JobCreate,
            lambda x: JOB | {"recipe": {"filters": [{"name": "f", "parameters": {"p": x}}]}},
            "$.recipe.filters[0].parameters.p",
        ),
        (RewardsPost, lambda x: {"rewards": [{"name": "r", "value": x}]}, "$.rewards[0].value"),
        (BatchLease, lambda x: {"groups": 1, "wait_s": x}, "$.wait_s"),
        (PoolCreate, lambda x: {"name": "p", "labels": {"l": x}}, "$.labels.l"),
    ],
)  # fmt: skip
def test_numbers_that_json_does_not_have_are_refused_with_their_path(model, body, path, number):
    assert paths_refused(model, body(number)) == [path]
    assert paths_refused(model, body(1)) == []


def test_an_error_deep_inside_says_where_it_is_to_users_of_the_sdk_too():
    with pytest.raises(ValidationError, match=r"at \.a\[0\]\.b: is nan, which JSON does not have; send null"):
        Task.model_validate({"token_ids": [1], "metadata": {"a": [{"b": math.nan}]}})


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 10**20])
def test_integers_that_databases_do_not_have_are_refused(value):
    assert paths_refused(JobCreate, JOB | {"metadata": {"a": [value]}}) == ["$.metadata.a[0]"]


@pytest.mark.parametrize("value", [object(), (1,), {1: "x"}, b"bytes", {1, 2}])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(ValidationError):
        Task.model_validate({"token_ids": [1], "metadata": {"a": value}})


def test_json_may_be_deep_but_not_endless():
    shallow, deep, endless = 1, 1, []
    for _ in range(31):
        shallow = [shallow]
    for _ in range(33):
        deep = {"a": deep}
    endless.append(endless)
    assert paths_refused(Task, {"token_ids": [1], "reference": shallow}) == []
    assert paths_refused(Task, {"token_ids": [1], "reference": deep}) == ["$.reference" + ".a" * 33]
    assert len(paths_refused(Task, {"token_ids": [1], "reference": endless})) == 1


@pytest.mark.parametrize(
    "name",
    ["", " a", "a ", "a\0b", "a\nb", "\x7f", "a\u2028b", "a\u200eb", "\ud800", "x" * 201, 5, None],
)
def test_names_are_printable(name):
    assert paths_refused(PoolCreate, {"name": name}) == ["$.name"]


@pytest.mark.parametrize("name", ["a", "a b", "삼겹살 😊", "x" * 200, "a/b:c@1"])
def test_names_may_be_in_any_language(name):
    assert PoolCreate.model_validate({"name": name}).name == name


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (lambda x: {"messages": [{"role": "user", "content": x}]}, "$.messages[0].content"),
        (lambda x: {"token_ids": [1], "reference": {"a": x}}, "$.reference.a"),
        (lambda x: {"token_ids": [1], "metadata": {"a": [x]}}, "$.metadata.a[0]"),
        (lambda x: {"token_ids": [1], "metadata": {x: 1}}, "$.metadata"),
    ],
)
def test_free_text_may_hold_nul_but_no_lone_surrogate(body, path):
    assert paths_refused(Task, body("a\0b")) == []
    for surrogate in ("\ud800", "a\udfff", "\udc00\ud800"):
        assert paths_refused(Task, body(surrogate)) == [path]


@given(hostile_text, hostile_json)
@settings(deadline=None, max_examples=100)
def test_a_task_survives_the_wire_unchanged(text, value):
    task = Task.model_validate({"messages": [{"role": "user", "content": text + "."}], "reference": value,
                                "metadata": {"a": value, text: 1}})  # fmt: skip
    assert Task.model_validate_json(task.model_dump_json()) == task
    assert task.messages[0].content == text + "."
    assert task.reference == value


@pytest.mark.parametrize(
    ("model", "body", "path"),
    [
        (JobCreate, JOB | {"extra": 1}, "$.extra"),
        (JobCreate, JOB | {"python": 1}, "$.python"),
        (JobCreate, JOB | {"sampling": {"temprature": 1}}, "$.sampling.temprature"),
        (JobCreate, JOB | {"tasks": [{"token_ids": [1]}, {"token_ids": [1], "x": 1}]}, "$.tasks[1].x"),
        (JobCreate, JOB | {"rewards": [{"kind": "exact", "x": 1}]}, "$.rewards[0].x"),
        (BatchLease, {"groups": 1, "x": 1}, "$.x"),
    ],
)
def test_unknown_fields_of_requests_are_refused(model, body, path):
    assert paths_refused(model, body) == [path]


def test_unknown_fields_of_answers_are_let_be():
    body = {"type": "t", "title": "x", "status": 404, "code": "c", "detail": "d", "new": {"a": 1}}
    assert Problem.model_validate(body).code == "c"
    assert Page[RewardValue].model_validate({"items": [], "new": 1}).items == []


def test_every_request_is_strict_frozen_and_closed():
    pending, seen = [Request], []
    while pending:
        seen.append(pending.pop())
        pending.extend(seen[-1].__subclasses__())
    assert len(seen) > 20
    for model in seen:
        rules = model.model_config
        assert (rules["extra"], rules["strict"], rules["frozen"], rules["allow_inf_nan"]) == (
            "forbid",
            True,
            True,
            False,
        )


@pytest.mark.parametrize(
    ("sampling", "is_taken"),
    [
        ({}, True),
        ({"top_p": 0.9}, False),
        ({"top_k": 50}, False),
        ({"min_p": 0.1}, False),
        ({"top_p": 0.9, "allow_truncated_sampling": True}, True),
        ({"top_k": 50, "min_p": 0.1, "allow_truncated_sampling": True}, True),
        ({"top_p": 1.0, "top_k": 0, "min_p": 0.0}, True),
        ({"allow_truncated_sampling": True}, True),
        ({"top_p": 0.0, "allow_truncated_sampling": True}, False),
        ({"top_p": 1.1, "allow_truncated_sampling": True}, False),
        ({"min_p": 1.0, "allow_truncated_sampling": True}, False),
        ({"temperature": -0.1}, False),
        ({"temperature": 0}, True),
        ({"max_new_tokens": 0}, False),
        ({"stop": [""]}, False),
        ({"stop_token_ids": [-1]}, False),
        ({"stop_token_ids": [2**31]}, False),
        ({"ignore_eos": 1}, False),
    ],
)
def test_sampling_that_would_bias_a_trainer_in_silence_is_refused(sampling, is_taken):
    assert (paths_refused(Sampling, sampling) == []) == is_taken


@pytest.mark.parametrize(
    ("model", "body", "path"),
    [
        (Task, {}, "$"),
        (Task, {"token_ids": [1], "messages": [{"role": "user", "content": "a"}]}, "$"),
        (Task, {"token_ids": []}, "$.token_ids"),
        (Task, {"token_ids": [1, -1]}, "$.token_ids[1]"),
        (Task, {"token_ids": [1, 2**31]}, "$.token_ids[1]"),
        (Task, {"token_ids": ["1"]}, "$.token_ids[0]"),
        (Task, {"messages": [{"role": "user", "content": ""}]}, "$"),
        (Task, {"messages": [{"role": "robot", "content": "a"}]}, "$.messages[0].role"),
        (JobCreate, JOB | {"close": True}, "$"),
        (JobCreate, JOB | {"group_size": 2, "member_failure": {"min_members": 3}}, "$"),
        (JobCreate, JOB | {"rewards": [{"kind": "exact"}, {"kind": "exact"}]}, "$"),
        (JobCreate, JOB | {"rewards": [{"kind": "exact"}, {"kind": "math", "name": "exact"}]}, "$"),
        (JobCreate, JOB | {"rewards": [{"kind": "unknown"}]}, "$.rewards[0]"),
        (JobCreate, JOB | {"admission": {"groups_per_step": 4}}, "$.admission"),
        (JobCreate, JOB | {"version": {"min_version": 1, "exact_version": 1}}, "$.version"),
        (JobCreate, JOB | {"purpose": "fun"}, "$.purpose"),
        (BatchLease, {}, "$"),
        (BatchLease, {"groups": 1, "samples": 1}, "$"),
        (BatchLease, {"groups": 0}, "$.groups"),
        (RewardsPost, {"rewards": [{"name": "r"}]}, "$.rewards[0]"),
        (RewardsPost, {"rewards": [{"name": "r", "value": 1, "failure": "x"}]}, "$.rewards[0]"),
        (RewardsPost, {"rewards": []}, "$.rewards"),
        (VersionPublish, {"source": "/w", "digest": DIGEST.upper(), "trainer_step": 1}, "$.digest"),
        (VersionPublish, {"source": "/w", "digest": DIGEST + "\n", "trainer_step": 1}, "$.digest"),
        (VersionPublish, {"source": "/w", "digest": DIGEST, "trainer_step": -1}, "$.trainer_step"),
    ],
)
def test_bodies_that_contradict_themselves_are_refused(model, body, path):
    assert paths_refused(model, body) == [path]


def test_a_job_is_stored_without_its_defaults_and_read_back_whole():
    job = JobCreate.model_validate(
        JOB | {"rewards": [{"kind": "numeric"}, {"kind": "posted", "name": "human"}], "sampling": {"seed": -1}}
    )
    stored = job.model_dump(mode="json", exclude_defaults=True)
    assert set(stored) == {"run_id", "rewards", "sampling"}
    assert JobCreate.model_validate(stored) == job
    assert [reward.label for reward in job.rewards] == ["numeric", "human"]


def test_the_mean_reward_is_over_scored_rollouts_only():
    counts = {name: 0 for name, field in JobProgress.model_fields.items() if field.annotation is int}
    progress = {**counts, "drops": {}, "failures": {}, "reward_sum": 1.0}
    scored = JobProgress.model_validate(progress | {"rollouts_scored": 2, "rollouts_unscored": 2})
    assert scored.mean_reward == 0.5
    assert math.isnan(JobProgress.model_validate(progress | {"rollouts_unscored": 4}).mean_reward)


def test_answers_never_hold_a_bare_nan():
    value = RewardValue(name="r", value=math.nan, weight=1.0, source="exact")
    assert '"value":null' in value.model_dump_json()
