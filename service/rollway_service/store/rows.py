"""Rows as the operations see them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

R = TypeVar("R")


def as_row(row_type: type[R], mapping: Mapping[Any, Any]) -> R:
    """A row dataclass from a result whose columns have the names of its fields."""
    return row_type(**{str(key): value for key, value in mapping.items()})


def as_row_or_none(row_type: type[R], mapping: Mapping[Any, Any] | None) -> R | None:
    return None if mapping is None else as_row(row_type, mapping)


@dataclass(frozen=True, slots=True)
class KeyRow:
    id: str
    tenant_id: str
    name: str
    prefix: str
    secret_sha256: str
    scopes: list[str]
    created_at_s: float
    expires_at_s: float | None
    revoked_at_s: float | None


@dataclass(frozen=True, slots=True)
class ModelRow:
    id: str
    tenant_id: str
    name: str
    source: str
    tokenizer_digest: str | None
    template_digest: str | None
    vocab_size: int | None
    context_length: int | None
    eos_token_ids: list[int]
    latest_version: int
    metadata: dict[str, Any]
    created_at_s: float


@dataclass(frozen=True, slots=True)
class VersionRow:
    model_id: str
    version: int
    tenant_id: str
    parent: int | None
    trainer_step: int
    digest: str | None
    source: str
    metadata: dict[str, Any]
    created_at_s: float


@dataclass(frozen=True, slots=True)
class PoolRow:
    id: str
    tenant_id: str
    name: str
    model_id: str | None
    profile: str
    labels: dict[str, Any]
    created_at_s: float


@dataclass(frozen=True, slots=True)
class SessionRow:
    id: str
    tenant_id: str
    worker_id: str
    pool_id: str
    epoch: int
    state: str
    slots: int
    active_version: int | None
    engine: dict[str, Any]
    opened_at_s: float
    seen_at_s: float
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class RunRow:
    id: str
    tenant_id: str
    model_id: str
    pool_id: str
    name: str
    tags: list[str]
    metadata: dict[str, Any]
    created_at_s: float


@dataclass(frozen=True, slots=True)
class JobRow:
    id: str
    tenant_id: str
    run_id: str
    model_id: str
    pool_id: str
    purpose: str
    state: str
    paused: bool
    priority: int
    seed: int
    base_version: int
    spec: dict[str, Any]
    created_at_s: float
    ended_at_s: float | None


@dataclass(frozen=True, slots=True)
class CounterRow:
    job_id: str
    tenant_id: str
    run_id: str
    tasks: int
    tasks_admitted: int
    groups_admitted: int
    groups_ready: int
    groups_dropped: int
    groups_failed: int
    groups_cancelled: int
    groups_consumed: int
    groups_stale: int
    bytes_ready: int
    bytes_consumed: int
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
    waiting_for: str | None

    @property
    def groups_ended(self) -> int:
        return self.groups_ready + self.groups_dropped + self.groups_failed + self.groups_cancelled

    @property
    def groups_open(self) -> int:
        return self.groups_admitted - self.groups_ended


@dataclass(frozen=True, slots=True)
class TaskRow:
    id: str
    tenant_id: str
    run_id: str
    job_id: str
    task_index: int
    key: str | None
    prompt_ids: bytes
    messages: list[dict[str, Any]] | None
    reference: Any
    metadata: dict[str, Any]


@dataclass(frozen=True, slots=True)
class GroupRow:
    id: str
    tenant_id: str
    run_id: str
    job_id: str
    task_id: str
    task_index: int
    state: str
    size: int
    members: int
    members_open: int
    rewards_open: int
    refills: int
    usable: int | None
    failed: int | None
    reason: str | None
    decisions: list[dict[str, Any]]
    bytes: int
    ready_order: str | None
    created_at_s: float
    deadline_at_s: float
    ended_at_s: float | None


@dataclass(frozen=True, slots=True)
class WorkItemRow:
    id: str
    tenant_id: str
    run_id: str
    job_id: str
    pool_id: str
    group_id: str
    task_id: str
    rollout_id: str
    member_index: int
    seed: int
    state: str
    rank: int
    fence: int
    session_id: str | None
    attempts: int
    min_version: int | None
    exact_version: int | None
    last_error: str | None
    created_at_s: float
    claimed_at_s: float | None
    deadline_s: float
    deadline_at_s: float | None


@dataclass(frozen=True, slots=True)
class RolloutRow:
    id: str
    tenant_id: str
    run_id: str
    job_id: str
    group_id: str
    task_id: str
    task_index: int
    member_index: int
    state: str
    seed: int
    attempts: int
    reward: float | None
    rewards: list[dict[str, Any]]
    rewards_deadline_at_s: float | None
    failure: dict[str, Any] | None
    usage: dict[str, Any]
    timings: dict[str, Any]
    decisions: list[dict[str, Any]]
    created_at_s: float
    ended_at_s: float


@dataclass(frozen=True, slots=True)
class TreeRow:
    id: str
    tenant_id: str
    run_id: str
    job_id: str
    group_id: str
    work_item_id: str
    layout: dict[str, Any]
    array_ref: dict[str, Any]
    sha256: str
    num_tokens: int
    num_bytes: int
    created_at_s: float


@dataclass(frozen=True, slots=True)
class TrajectoryRow:
    id: str
    tenant_id: str
    run_id: str
    job_id: str
    group_id: str
    task_id: str
    rollout_id: str
    tree_id: str
    path: list[int]
    role: str
    model_id: str
    recipe: str
    stop_reason: str
    stop_detail: str | None
    finish_reasons: list[str]
    num_tokens: int
    num_sampled: int
    num_trainable: int
    versions: list[int]
    oldest_version: int | None
    newest_version: int | None
    logprob_kind: str
    sampling: dict[str, Any]
    seed: int
    engine: dict[str, Any]
    findings: list[str]
    created_at_s: float


@dataclass(frozen=True, slots=True)
class BatchRow:
    id: str
    tenant_id: str
    run_id: str
    consumer_group_id: str
    consumer: str
    request_id: str | None
    request: dict[str, Any]
    trainer_version: int
    state: str
    step: int | None
    created_at_s: float
    expires_at_s: float


@dataclass(frozen=True, slots=True)
class DeliveryRow:
    consumer_group_id: str
    group_id: str
    tenant_id: str
    run_id: str
    job_id: str
    ready_order: str
    state: str
    batch_id: str | None
    fence: int
    stale_rollouts: list[str]
    stale_versions: list[int]
    step: int | None
    num_bytes: int
