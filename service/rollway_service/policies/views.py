"""What policies look at: frozen facts, no handles on the world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

FinishReason = Literal["stop", "length", "abort"]


@dataclass(frozen=True, slots=True)
class GenerationFact:
    """One generation of the model that has ended. `num_tokens` counts what it added."""

    finish_reason: FinishReason
    num_tokens: int


@dataclass(frozen=True, slots=True)
class RolloutView:
    """A rollout between generations.

    num_prompt_tokens, num_sampled: tokens so far. max_new_tokens: cap on sampled tokens over the whole rollout.
    window: tokens that prompt and output may have together. generations: in order, aborted ones included.
    """

    num_prompt_tokens: int
    num_sampled: int
    max_new_tokens: int
    window: int
    max_resumes: int
    generations: tuple[GenerationFact, ...] = ()

    @property
    def num_resumes(self) -> int:
        return sum(fact.finish_reason == "abort" for fact in self.generations)


@dataclass(frozen=True, slots=True)
class MemberFailureView:
    """A rollout of a group has failed. `is_repeatable` is false where a new try would fail in the same way."""

    refills: int
    is_repeatable: bool
    is_past_deadline: bool


@dataclass(frozen=True, slots=True)
class GroupView:
    """A group all of whose members have ended.

    rewards_G: shape (G,), float64, one per usable member, NaN where the job has no rewards.
    num_tokens_G: shape (G,), int64, sampled tokens.
    """

    size: int
    num_failed: int
    rewards_G: NDArray[np.float64]  # noqa: N815 - axis suffix
    num_tokens_G: NDArray[np.int64]  # noqa: N815


@dataclass(frozen=True, slots=True)
class AheadView:
    """How far a job has run ahead of its trainer.

    versions_since_start: publishes since the job began, those before a rollback included: each followed a batch.
    groups_counted: admitted groups that were not dropped, failed, cancelled or stale. groups_ahead, bytes_ahead: of
    those, not yet consumed.
    """

    versions_since_start: int
    groups_counted: int
    groups_ahead: int
    bytes_ahead: int


@dataclass(frozen=True, slots=True)
class JobShareView:
    """A job that wants places in a pool. `groups_allowed` is what its own gates leave."""

    job_id: str
    priority: int
    group_size: int
    groups_allowed: int
    rollouts_queued: int
