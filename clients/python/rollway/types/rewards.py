"""Rewards: what checks a finished rollout, and what came of it.

A reward is a number or it is absent with a reason. A checker that failed, timed out or was lost never yields 0.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from rollway.types.base import Metadata, Name, Request, Response, Seconds, Text

MAX_REWARD = 1e9


class _Check(Request):
    name: Name | None = None
    weight: Annotated[float, Field(ge=-1e6, le=1e6)] = 1.0
    timeout_s: Seconds = 5.0

    @property
    def label(self) -> str:
        """The name under which values are stored: given, or the kind."""
        return self.name or str(getattr(self, "kind", ""))


class ExactReward(_Check):
    """1 when the answer equals the task's reference answer, else 0."""

    kind: Literal["exact"]
    strip: StrictBool = True
    ignore_case: StrictBool = False


class NumericReward(_Check):
    """1 when the last number in the answer is within tolerance of the reference number, else 0."""

    kind: Literal["numeric"]
    absolute_tolerance: Annotated[float, Field(ge=0)] = 1e-6
    relative_tolerance: Annotated[float, Field(ge=0)] = 0.0


class RegexReward(_Check):
    """1 when the pattern (RE2 syntax, linear time) matches, else 0.

    With `compare_group`, the group's text must also equal the reference answer.
    """

    kind: Literal["regex"]
    pattern: Annotated[Text, Field(min_length=1, max_length=10_000)]
    full_match: StrictBool = False
    compare_group: Annotated[StrictInt | None, Field(ge=0, le=99)] = None


class MathReward(_Check):
    """1 when math-verify finds the answer equal to the reference, else 0."""

    kind: Literal["math"]


class ReasoningGymReward(_Check):
    """The data set's own score of the answer, in [0, 1]. The task's `reference` is the reasoning-gym entry."""

    kind: Literal["reasoning_gym"]
    dataset: Name


class PythonReward(_Check):
    """A Python function that the operator registered under this name (entry point group `rollway.rewards`)."""

    kind: Literal["python"]
    function: Name
    arguments: Metadata = {}


class PostedReward(_Check):
    """A value that somebody posts after the rollout has ended; the group waits for it."""

    kind: Literal["posted"]
    deadline_s: Annotated[Seconds, Field(description="after this the rollout counts as not scored")] = 3600.0


RewardSpec = Annotated[
    ExactReward | NumericReward | RegexReward | MathReward | ReasoningGymReward | PythonReward | PostedReward,
    Field(discriminator="kind"),
]


class RewardFailure(Response):
    """Why a reward is absent."""

    kind: Literal["checker", "timeout", "infra", "missing"]
    detail: str


class RewardValue(Response):
    """One reward of one rollout; `value` is null exactly when `failure` says why."""

    name: str
    value: float | None
    weight: float
    source: str
    revision: int = 0
    failure: RewardFailure | None = None


class RewardPost(Request):
    """A reward from outside: a finite value, or a failure (`infra` by default) when the checker broke."""

    name: Name
    value: Annotated[float | None, Field(ge=-MAX_REWARD, le=MAX_REWARD)] = None
    failure: Annotated[Text | None, Field(min_length=1, max_length=10_000)] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> RewardPost:
        if (self.value is None) == (self.failure is None):
            raise ValueError("send exactly one of value and failure")
        return self


class RewardsPost(Request):
    rewards: Annotated[list[RewardPost], Field(min_length=1, max_length=100)]
