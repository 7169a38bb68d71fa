"""Drop groups that carry no gradient."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from rollway.types import Request
from rollway_service.policies.decisions import Decision, Drop, Keep
from rollway_service.policies.views import GroupView


class Parameters(Request):
    """`min_std` in reward units: a group whose rewards spread less is dropped; 0 drops equal rewards only."""

    min_std: Annotated[float, Field(ge=0)] = 0.0


def decide(view: GroupView, config: Parameters) -> Decision:
    """Drop a group whose rewards are equal: group-normalised advantages are all zero, it only costs trainer time.

    A group without rewards is kept. Of one member, there is no spread: it is dropped.

    Source: dynamic sampling, DAPO (arXiv:2503.14476, section 3.2); differs: a threshold instead of exact equality.
    """
    rewards = view.rewards_G[~np.isnan(view.rewards_G)]
    if len(rewards) == 0:
        return Keep(reason="no_rewards")
    # Of equal rewards such as 0.1, rounding makes the standard deviation a little more than 0.
    is_equal = bool(rewards.min() == rewards.max())
    if is_equal or float(np.std(rewards)) <= config.min_std:
        return Drop(reason="zero_reward_spread")
    return Keep(reason="rewards_spread")
