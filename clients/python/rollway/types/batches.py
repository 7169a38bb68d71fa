"""Batches: what a trainer leases, acknowledges and rewinds."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, model_validator

from rollway.types.base import Name, Request, Response, Seconds, Step, Tags, Version
from rollway.types.rewards import RewardValue
from rollway.types.rollouts import EngineFacts, StopReason, Timings, TreeLayout
from rollway.types.sampling import LogprobKind

StaleAction = Literal["drop", "withhold", "mask"]
MAX_BATCH_SAMPLES = 65_536


class BatchLease(Request):
    """Ask for samples. Groups are never split: `samples` takes as many whole groups as fit.

    `wait_s` is how long to wait until the batch is full; until then, and while more may come, no partial batch is
    given unless `allow_partial`. `max_staleness` counts versions along the lineage of `trainer_version` (default: the
    latest published); `stale` says what happens to samples with an older token: `drop` (gone for this consumer group),
    `withhold` (not offered now, kept for others), `mask` (delivered, old tokens with mask 0).
    """

    groups: Annotated[StrictInt | None, Field(ge=1, le=MAX_BATCH_SAMPLES)] = None
    samples: Annotated[StrictInt | None, Field(ge=1, le=MAX_BATCH_SAMPLES)] = None
    consumer_group: Name = "default"
    consumer: Name = "trainer"
    job_ids: Annotated[list[str] | None, Field(min_length=1, max_length=1000)] = None
    tags: Tags = []
    trainer_version: Version | None = None
    max_staleness: Annotated[StrictInt | None, Field(ge=0, le=1_000_000)] = None
    stale: StaleAction = "drop"
    lease_s: Seconds = 600.0
    wait_s: Annotated[float, Field(ge=0, le=60)] = 0.0
    allow_partial: StrictBool = False
    request_id: Annotated[
        Name | None, Field(description="made by the client; the same id again answers the same batch")
    ] = None

    @model_validator(mode="after")
    def _exactly_one(self) -> BatchLease:
        if (self.groups is None) == (self.samples is None):
            raise ValueError("send exactly one of groups and samples")
        return self


class BatchConsumed(Request):
    """The trainer has used the batch in this step. `group_ids` limits it to part of the batch."""

    step: Step
    group_ids: Annotated[list[str] | None, Field(min_length=1)] = None


class BatchReturn(Request):
    """Give groups back unused, at once (default: all of the batch)."""

    group_ids: Annotated[list[str] | None, Field(min_length=1)] = None


class BatchExtend(Request):
    lease_s: Seconds = 600.0


class CheckpointMark(Request):
    """The trainer holds a checkpoint taken after this step: all that was consumed up to it is safe."""

    step: Step
    consumer_group: Name = "default"


class Rewind(Request):
    """The trainer restarts from its checkpoint after this step (null: from the beginning).

    All that it consumed later, and all that it holds leased, is offered again in the same order.
    """

    step: Step | None
    consumer_group: Name = "default"


class Rewound(Response):
    groups_offered_again: int


class BatchState(Response):
    batch_id: str
    state: Literal["leased", "consumed", "returned", "expired"]
    groups: int
    expires_at_s: float


class SampleHeader(Response):
    """Everything about one sample but its arrays."""

    trajectory_id: str
    rollout_id: str
    tree: Annotated[int, Field(description="index into the batch's trees")]
    path: Annotated[list[int], Field(description="node indices, root to leaf")]
    role: str
    recipe: str
    member_index: int
    stop_reason: StopReason
    stop_detail: str | None = None
    reward: float | None
    rewards: list[RewardValue]
    logprob_kind: LogprobKind
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    num_tokens: int
    num_trainable: int
    oldest_version: int | None
    newest_version: int | None
    staleness: Annotated[
        int | None,
        Field(
            description="publishes between its oldest trainable token and the batch's trainer_version, along the"
            " lineage; null when no token is trainable"
        ),
    ]
    engine: EngineFacts
    timings: Timings
    findings: list[str]
    stale_versions: Annotated[list[int], Field(description="versions whose tokens the lease masked")] = []


class GroupHeader(Response):
    group_id: str
    job_id: str
    task_id: str
    task_index: int
    task_key: str | None
    task_metadata: dict[str, Any]
    recipe: str
    group_size: int
    failed_members: int
    stale_members: int
    samples: list[SampleHeader]


class TreeHeader(Response):
    """Where the bytes of one tree lie in the batch's data section."""

    tree_id: str
    offset: int
    length: int
    sha256: str
    layout: TreeLayout


class BatchHeader(Response):
    """A leased batch. With no groups, either `end_of_data`, or `waiting_for` says what is missing."""

    batch_id: str | None
    run_id: str
    model_id: str
    consumer_group: str
    trainer_version: int
    expires_at_s: float | None
    end_of_data: bool
    waiting_for: str | None = None
    withheld_groups: int = 0
    stale_dropped: int = 0
    groups: list[GroupHeader] = []
    trees: list[TreeHeader] = []
