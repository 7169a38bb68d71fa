"""What workers and operations say to each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rollway.container import Int32Array
from rollway.types import (
    Decision,
    EngineFacts,
    JobCreate,
    LogprobKind,
    RewardValue,
    RolloutFailure,
    StopReason,
    Timings,
    Usage,
)
from rollway_service.core.tree import PackedTree


@dataclass(frozen=True, slots=True)
class VersionTarget:
    """The weights that workers of a pool should run."""

    version: int
    source: str
    digest: str | None


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """The model that a pool serves."""

    id: str
    name: str
    source: str
    tokenizer_digest: str | None
    vocab_size: int | None
    context_length: int | None
    eos_token_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WorkerHello:
    """A worker that wants work from a pool."""

    pool_id: str
    name: str
    slots: int
    engine: Mapping[str, Any]
    active_version: int | None


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """A worker's lease on whatever it claims; it runs out unless renewed within `lease_s`."""

    session_id: str
    worker_id: str
    epoch: int
    lease_s: float


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The pool that a worker serves, with its model and the weights to start from."""

    pool_id: str
    name: str
    profile: str
    model: ModelFacts
    target: VersionTarget


@dataclass(frozen=True, slots=True)
class HeartbeatReply:
    """`held`: items that the session owns, with their fences. What a worker runs beyond these is no longer its own."""

    lease_s: float
    held: Mapping[str, int]
    target: VersionTarget


@dataclass(frozen=True, slots=True)
class ClaimedItem:
    """A rollout to do. `checkpoints` are those of earlier owners, in order. `remaining_s`: until its deadline."""

    work_item_id: str
    fence: int
    run_id: str
    job_id: str
    group_id: str
    task_id: str
    rollout_id: str
    task_index: int
    member_index: int
    seed: int
    attempts: int
    prompt_ids: Int32Array
    reference: Any
    metadata: Mapping[str, Any]
    checkpoints: Sequence[bytes]
    remaining_s: float
    queued_s: float
    exact_version: int | None
    min_version: int | None


@dataclass(frozen=True, slots=True)
class Claims:
    """Claimed items and the jobs they belong to."""

    items: Sequence[ClaimedItem]
    jobs: Mapping[str, JobCreate]


@dataclass(frozen=True, slots=True)
class CheckpointPiece:
    """One checkpoint of one work item. `sequence` counts from 0 without gaps."""

    work_item_id: str
    fence: int
    sequence: int
    sampled_tokens: int
    payload: bytes


@dataclass(frozen=True, slots=True)
class FinishedTrajectory:
    """One root-to-leaf path of a finished tree."""

    path: Sequence[int]
    stop_reason: StopReason
    stop_detail: str | None = None
    finish_reasons: Sequence[str] = ()
    role: str = "policy"
    findings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class FinishedRollout:
    """How a rollout ended. With `failure`, its tokens are stored but never offered to a trainer."""

    work_item_id: str
    fence: int
    tree: PackedTree | None
    trajectories: Sequence[FinishedTrajectory] = ()
    rewards: Sequence[RewardValue] = ()
    failure: RolloutFailure | None = None
    is_repeatable: bool = True
    usage: Usage = field(default_factory=Usage)
    timings: Timings = field(default_factory=Timings)
    decisions: Sequence[Decision] = ()
    engine: EngineFacts = field(default_factory=lambda: EngineFacts(kind="none", build="none"))
    logprob_kind: LogprobKind = "tempered"
    nonfinite_logprobs: int = 0
    missing_logprobs: int = 0
