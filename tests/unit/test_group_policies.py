"""Failed members, filters and the registry: which groups a trainer sees, and why (case B30)."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway.types import MemberFailure, Recipe
from rollway_service.core.errors import InvalidRequest
from rollway_service.policies.control.member_failure import decide_group, decide_member
from rollway_service.policies.filter.zero_spread import Parameters, decide
from rollway_service.policies.recipes import FILTERS, GENERATE, apply_filters, check_recipe
from rollway_service.policies.views import GroupView, MemberFailureView

NAN = math.nan


def a_group(rewards, *, size=None, failed=0):
    scores = np.array(rewards, dtype=np.float64)
    lengths = np.full(len(rewards), 5, dtype=np.int64)
    return GroupView(len(rewards) + failed if size is None else size, failed, scores, lengths)


@pytest.mark.parametrize(
    ("policy", "refills", "is_repeatable", "is_late", "action", "reason"),
    [
        ("refill", 0, True, False, "refill", "member_failed"),
        ("refill", 1, True, False, "refill", "member_failed"),
        ("refill", 2, True, False, "accept_loss", "refills_spent"),
        ("refill", 0, False, False, "accept_loss", "would_fail_again"),
        ("refill", 0, True, True, "accept_loss", "group_deadline"),
        ("shrink", 0, True, False, "accept_loss", "policy_shrink"),
        ("drop", 0, True, False, "accept_loss", "policy_drop"),
    ],
)
def test_whether_a_failed_member_is_tried_again(policy, refills, is_repeatable, is_late, action, reason):
    view = MemberFailureView(refills, is_repeatable, is_late)
    decision = decide_member(view, MemberFailure(policy=policy, max_refills=2))
    assert (decision.action, decision.reason) == (action, reason)


@pytest.mark.parametrize(
    ("policy", "least", "group", "action", "reason"),
    [
        ("refill", 1, a_group([1, 0, 1], failed=1), "keep", "enough_members"),
        ("shrink", 2, a_group([1, 0], failed=2), "keep", "enough_members"),
        ("shrink", 3, a_group([1, 0], failed=2), "fail_group", "too_few_members"),
        ("shrink", 1, a_group([], failed=4), "fail_group", "too_few_members"),
        ("drop", 1, a_group([1, 0, 1], failed=1), "fail_group", "member_failed"),
        ("drop", 1, a_group([1, 0, 1, 0]), "keep", "enough_members"),
        ("drop", 1, a_group([1, 0], size=2, failed=1), "keep", "enough_members"),
    ],
)
def test_whether_enough_of_a_group_is_left(policy, least, group, action, reason):
    decision = decide_group(group, MemberFailure(policy=policy, min_members=least))
    assert (decision.action, decision.reason) == (action, reason)


@pytest.mark.parametrize(
    ("rewards", "min_std", "action", "reason"),
    [
        ([1, 1, 1], 0.0, "drop", "zero_reward_spread"),
        ([0, 0], 0.0, "drop", "zero_reward_spread"),
        ([0.1] * 3, 0.0, "drop", "zero_reward_spread"),
        ([1 / 3] * 7, 0.0, "drop", "zero_reward_spread"),
        ([1], 0.0, "drop", "zero_reward_spread"),
        ([1, 0], 0.0, "keep", "rewards_spread"),
        ([1, 1 - 1e-9], 0.0, "keep", "rewards_spread"),
        ([1, 0], 0.5, "drop", "zero_reward_spread"),
        ([1, 0], 0.49, "keep", "rewards_spread"),
        ([NAN, NAN], 0.0, "keep", "no_rewards"),
        ([], 0.0, "keep", "no_rewards"),
        ([1, 1, NAN], 0.0, "drop", "zero_reward_spread"),
        ([1, 0, NAN, NAN], 0.0, "keep", "rewards_spread"),
    ],
)
def test_groups_without_a_gradient_are_dropped(rewards, min_std, action, reason):
    decision = decide(a_group(rewards), Parameters(min_std=min_std))
    assert (decision.action, decision.reason) == (action, reason)


@given(st.floats(-1e6, 1e6), st.integers(1, 64))
@settings(deadline=None, max_examples=150)
def test_equal_rewards_are_dropped_whatever_rounding_does(reward, size):
    assert decide(a_group([reward] * size), Parameters()).action == "drop"


@pytest.mark.parametrize(
    ("recipe", "path"),
    [
        ({"generate": {"name": "unknown"}}, "$.recipe.generate.name"),
        ({"generate": {"name": "chain", "parameters": {"x": 1}}}, "$.recipe.generate.parameters.x"),
        ({"filters": [{"name": "zero_spread"}, {"name": "unknown"}]}, "$.recipe.filters[1].name"),
        ({"filters": [{"name": "zero_spread", "parameters": {"min": 1}}]}, "$.recipe.filters[0].parameters.min"),
        (
            {"filters": [{"name": "zero_spread", "parameters": {"min_std": -1}}]},
            "$.recipe.filters[0].parameters.min_std",
        ),
        (
            {"filters": [{"name": "zero_spread", "parameters": {"min_std": "0"}}]},
            "$.recipe.filters[0].parameters.min_std",
        ),
    ],
)
def test_a_recipe_that_cannot_be_followed_is_refused_with_the_place(recipe, path):
    with pytest.raises(InvalidRequest) as caught:
        check_recipe(Recipe.model_validate(recipe))
    assert [error.path for error in caught.value.errors] == [path]
    assert caught.value.detail.startswith(f"{path}: ")


def test_every_policy_of_the_registry_can_be_named_in_a_recipe():
    for generate in GENERATE:
        check_recipe(Recipe.model_validate({"generate": {"name": generate}}))
    for name, policy in FILTERS.items():
        check_recipe(Recipe.model_validate({"filters": [{"name": name}]}))
        assert policy.name == name


@pytest.mark.parametrize(
    ("min_stds", "actions"),
    [([], []), ([0.0], ["keep"]), ([0.1, 0.6, 0.0], ["keep", "drop"]), ([0.6, 0.0], ["drop"])],
)
def test_filters_are_asked_in_order_until_one_drops(min_stds, actions):
    filters = [{"name": "zero_spread", "parameters": {"min_std": value}} for value in min_stds]
    decisions = apply_filters(Recipe.model_validate({"filters": filters}), a_group([1, 0]))
    assert [(name, decision.action) for name, decision in decisions] == [("zero_spread", action) for action in actions]
