"""Jobs: tasks with everything that says how to roll them out."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from rollway.types.base import INT32_MAX, INT64_MAX, Digest, Metadata, Name, Request, Response, Seconds, Tags, Version
from rollway.types.rewards import RewardSpec
from rollway.types.sampling import Sampling
from rollway.types.tasks import Task

Purpose = Literal["train", "eval", "data"]
JobState = Literal["open", "closed", "completed", "cancelled"]


class VersionConstraint(Request):
    """Which weights may generate. A rollout waits until a worker that fits has loaded them."""

    min_version: Version | None = None
    exact_version: Version | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> VersionConstraint:
        if self.min_version is not None and self.exact_version is not None:
            raise ValueError("send min_version or exact_version, not both")
        return self


class PolicyChoice(Request):
    """A policy by name with its parameters."""

    name: Name
    parameters: Metadata = {}


class Recipe(Request):
    """The policies of a job: one that generates, any number that filter finished groups (all must agree to keep)."""

    generate: PolicyChoice = PolicyChoice(name="chain")
    filters: Annotated[list[PolicyChoice], Field(max_length=16)] = []


class MemberFailure(Request):
    """What happens to a group when one of its rollouts fails (engine, checker or deadline).

    refill: try a new member, at most `max_refills` a group, then as `shrink`. shrink: deliver the rest if at least
    `min_members` are usable. drop: the group is failed.
    """

    policy: Literal["refill", "shrink", "drop"] = "refill"
    min_members: Annotated[StrictInt, Field(ge=1, le=4096)] = 1
    max_refills: Annotated[StrictInt, Field(ge=0, le=4096)] = 2


class Admission(Request):
    """How far generation may run ahead of the trainer.

    With `max_staleness_versions` S and `groups_per_step` B, at most (V + S + 1) x B groups are admitted in total, V
    counting the versions published since the job began (AReaL's gate, arXiv:2505.24298, section 5). `max_ahead_groups`
    and `max_ahead_bytes` bound what is admitted and not yet consumed.
    """

    max_staleness_versions: Annotated[StrictInt | None, Field(ge=0, le=1_000_000)] = None
    groups_per_step: Annotated[StrictInt | None, Field(ge=1, le=1_000_000)] = None
    max_ahead_groups: Annotated[StrictInt, Field(ge=1, le=10_000_000)] = 4096
    max_ahead_bytes: Annotated[StrictInt, Field(ge=1, le=INT64_MAX)] = 32 * 2**30

    @model_validator(mode="after")
    def _both_or_none(self) -> Admission:
        if (self.max_staleness_versions is None) != (self.groups_per_step is None):
            raise ValueError("max_staleness_versions and groups_per_step go together")
        return self


class Limits(Request):
    """Ends of waiting: every rollout and group has one."""

    rollout_deadline_s: Annotated[Seconds, Field(description="from the first claim of a rollout")] = 3600.0
    group_deadline_s: Annotated[Seconds, Field(description="from the admission of a group")] = 6 * 3600.0
    max_attempts: Annotated[StrictInt, Field(ge=1, le=100, description="workers that may die under a rollout")] = 5
    max_resumes: Annotated[StrictInt, Field(ge=0, le=10_000, description="aborted generations continued")] = 64
    max_context_tokens: Annotated[
        StrictInt | None, Field(ge=1, le=INT32_MAX, description="prompt and output together (null: the model's window)")
    ] = None
    max_backlog_tasks: Annotated[StrictInt, Field(ge=1, le=100_000_000)] = 1_000_000


class JobCreate(Request):
    """A job as a trainer submits it. `model` and `pool` default to the run's."""

    run_id: str
    name: Name | None = None
    purpose: Purpose = "train"
    model: Name | None = None
    pool: Name | None = None
    tasks: Annotated[list[Task], Field(max_length=100_000)] = []
    close: Annotated[StrictBool, Field(description="no more tasks will come")] = False
    group_size: Annotated[StrictInt, Field(ge=1, le=4096)] = 8
    sampling: Sampling = Sampling()
    rewards: Annotated[list[RewardSpec], Field(max_length=32)] = []
    recipe: Recipe = Recipe()
    version: VersionConstraint = VersionConstraint()
    member_failure: MemberFailure = MemberFailure()
    admission: Admission = Admission()
    limits: Limits = Limits()
    priority: Annotated[StrictInt, Field(ge=0, le=100)] = 50
    tokenizer_digest: Annotated[
        Digest | None, Field(description="refuse the job if the model's tokenizer is another one")
    ] = None
    tags: Tags = []
    metadata: Metadata = {}

    @model_validator(mode="after")
    def _check_whole(self) -> JobCreate:
        labels = [reward.label for reward in self.rewards]
        doubled = sorted({label for label in labels if labels.count(label) > 1})
        if doubled:
            raise ValueError(f"two rewards are called {doubled[0]!r}; give each a name of its own")
        if self.member_failure.min_members > self.group_size:
            raise ValueError("member_failure.min_members is larger than group_size")
        if self.close and not self.tasks:
            raise ValueError("a job that is closed at once needs tasks")
        return self


class JobProgress(Response):
    """Counts of a job since it began. `waiting_for` names what holds work back, null when nothing does."""

    tasks: int
    backlog: int
    groups_admitted: int
    groups_open: int
    groups_ready: int
    groups_dropped: int
    groups_failed: int
    groups_cancelled: int
    groups_consumed: int
    groups_stale: Annotated[int, Field(description="ready groups that were too old for every trainer")]
    rollouts_completed: int
    rollouts_failed: int
    rollouts_cancelled: int
    rollouts_scored: int
    rollouts_unscored: int
    rollouts_refilled: int
    reward_sum: float
    prompt_tokens: int
    sampled_tokens: int
    trainable_tokens: int
    wasted_tokens: int
    nonfinite_logprobs: int
    missing_logprobs: int
    drops: dict[str, int]
    failures: dict[str, int]
    waiting_for: str | None = None

    @property
    def mean_reward(self) -> float:
        """Mean over scored rollouts; NaN when there is none."""
        return self.reward_sum / self.rollouts_scored if self.rollouts_scored else float("nan")


class Job(Response):
    id: str
    run_id: str
    name: str | None
    purpose: Purpose
    state: JobState
    paused: bool
    model_id: str
    pool: str
    seed: int
    spec: Annotated[Metadata, Field(description="the job as submitted, without tasks; defaults left out")]
    progress: JobProgress
    created_at_s: float
    ended_at_s: float | None
