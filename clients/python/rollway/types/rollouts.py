"""What came of the work: groups, rollouts, trajectories and their trees."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollway.types.base import Response
from rollway.types.rewards import RewardValue
from rollway.types.sampling import LogprobKind

Origin = Literal["prompt", "model", "forced", "environment", "hint", "template"]
StopReason = Literal[
    "completed", "length", "max_turns", "early_stopped", "deadline", "budget", "aborted", "env_lost", "error"
]
GroupState = Literal["open", "ready", "dropped", "failed", "cancelled"]
RolloutState = Literal["queued", "running", "awaiting_reward", "completed", "failed", "cancelled"]

Span = Annotated[list[int], Field(min_length=3, max_length=3, description="[start, end, value], half-open")]
Range = Annotated[list[int], Field(min_length=2, max_length=2, description="[start, end], half-open")]


class TreeLayout(Response):
    """How the token array of one work item is cut into nodes, and what holds of which tokens.

    Positions count over the whole token array. Version spans cover exactly the tokens of `model` nodes, in order,
    without gap or overlap. `trainable` lists the tokens with mask 1.
    """

    parents: Annotated[list[int], Field(description="index of the parent node, -1 for a root")]
    origins: list[Origin]
    lengths: Annotated[list[int], Field(description="tokens that the node adds")]
    turns: Annotated[list[int], Field(description="model generations before and with this node, from 0")]
    weight_versions: list[Span] = []
    kv_versions: Annotated[list[Span], Field(description="oldest version whose KV the token attended to")] = []
    trainable: list[Range] = []

    @property
    def num_tokens(self) -> int:
        return sum(self.lengths)


class Decision(Response):
    """What a policy decided and why; `seed` and `propensity` only where chance was involved."""

    policy: str
    action: str
    reason: str
    at_s: float | None = None
    seed: int | None = None
    propensity: float | None = None
    scalars: dict[str, float] = {}


class Timings(Response):
    """Seconds of a rollout's life; null where the stage did not happen."""

    queued_s: float | None = None
    generate_s: float | None = None
    reward_s: float | None = None
    total_s: float | None = None


class EngineFacts(Response):
    """The engine that sampled: its kind and build, the pool's profile, the worker."""

    kind: str
    build: str
    profile: str = "default"
    worker: str = ""
    deterministic: bool = False


class Usage(Response):
    """Tokens as the engine counted them."""

    prompt_tokens: int = 0
    cached_tokens: int = 0
    sampled_tokens: int = 0
    wasted_tokens: int = 0
    requests: int = 0
    resumes: int = 0


class RolloutFailure(Response):
    """Why a rollout yielded no usable sample."""

    kind: Literal["engine", "deadline", "cancelled", "worker_lost", "reward", "no_sampled_tokens", "request", "policy"]
    detail: str


class Rollout(Response):
    id: str
    run_id: str
    job_id: str
    group_id: str
    task_id: str
    task_index: int
    member_index: int
    state: RolloutState
    seed: int
    attempts: int
    reward: float | None = None
    rewards: list[RewardValue] = []
    failure: RolloutFailure | None = None
    trajectory_ids: list[str] = []
    usage: Usage = Usage()
    timings: Timings = Timings()
    decisions: list[Decision] = []
    checkpointed_tokens: Annotated[int, Field(description="sampled tokens safe in a checkpoint while running")] = 0
    created_at_s: float
    ended_at_s: float | None = None


class Group(Response):
    id: str
    run_id: str
    job_id: str
    task_id: str
    task_index: int
    task_key: str | None
    state: GroupState
    group_size: int
    num_usable: int
    num_failed: int
    reason: Annotated[str | None, Field(description="why it was dropped or failed")] = None
    pending_rollout_ids: Annotated[list[str], Field(description="members that the group still waits for")] = []
    rewards: list[float | None] = []
    decisions: list[Decision] = []
    deadline_at_s: float
    created_at_s: float
    ended_at_s: float | None = None


class TrajectoryArrays(Response):
    """One value per token; log-probs are null where none was observed, versions -1 off the model's own tokens."""

    token_ids: list[int]
    behavior_logprobs: list[float | None]
    loss_mask: list[int]
    weight_versions: list[int]
    kv_versions: list[int]
    origins: list[Origin]


class Trajectory(Response):
    id: str
    run_id: str
    job_id: str
    group_id: str
    rollout_id: str
    task_id: str
    role: str
    model_id: str
    recipe: str
    stop_reason: StopReason
    stop_detail: str | None = None
    finish_reasons: list[str] = []
    num_tokens: int
    num_sampled: int
    num_trainable: int
    oldest_version: int | None = None
    newest_version: int | None = None
    logprob_kind: LogprobKind
    temperature: float
    top_p: float
    top_k: int = 0
    min_p: float = 0.0
    seed: int
    engine: EngineFacts
    findings: Annotated[list[str], Field(description="what the integrity check found; empty is a clean verdict")] = []
    reward: float | None = None
    rewards: list[RewardValue] = []
    created_at_s: float
    arrays: TrajectoryArrays | None = None
    text: Annotated[str | None, Field(description="a view of the ids, with replacement characters; on request")] = None


class TreeNode(Response):
    index: int
    parent: int
    origin: Origin
    turn: int
    token_ids: list[int]
    behavior_logprobs: list[float | None] | None = None
    loss_mask: list[int]
    weight_versions: list[int]


class Tree(Response):
    """The tree that a work item grew, with the leaf path of each trajectory."""

    id: str
    group_id: str
    nodes: list[TreeNode]
    paths: dict[str, list[int]]
