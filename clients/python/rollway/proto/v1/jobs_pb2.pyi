from rollway.proto.v1 import common_pb2 as _common_pb2
from rollway.proto.v1 import rewards_pb2 as _rewards_pb2
from rollway.proto.v1 import sampling_pb2 as _sampling_pb2
from rollway.proto.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class VersionConstraint(_message.Message):
    __slots__ = ("min_version", "exact_version")
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    EXACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    min_version: int
    exact_version: int
    def __init__(self, min_version: _Optional[int] = ..., exact_version: _Optional[int] = ...) -> None: ...

class PolicyChoice(_message.Message):
    __slots__ = ("name", "parameters")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    name: str
    parameters: _common_pb2.Json
    def __init__(self, name: _Optional[str] = ..., parameters: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class Recipe(_message.Message):
    __slots__ = ("generate", "filters")
    GENERATE_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    generate: PolicyChoice
    filters: _containers.RepeatedCompositeFieldContainer[PolicyChoice]
    def __init__(self, generate: _Optional[_Union[PolicyChoice, _Mapping]] = ..., filters: _Optional[_Iterable[_Union[PolicyChoice, _Mapping]]] = ...) -> None: ...

class MemberFailure(_message.Message):
    __slots__ = ("policy", "min_members", "max_refills")
    POLICY_FIELD_NUMBER: _ClassVar[int]
    MIN_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    MAX_REFILLS_FIELD_NUMBER: _ClassVar[int]
    policy: str
    min_members: int
    max_refills: int
    def __init__(self, policy: _Optional[str] = ..., min_members: _Optional[int] = ..., max_refills: _Optional[int] = ...) -> None: ...

class Admission(_message.Message):
    __slots__ = ("max_staleness_versions", "groups_per_step", "max_ahead_groups", "max_ahead_bytes")
    MAX_STALENESS_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_PER_STEP_FIELD_NUMBER: _ClassVar[int]
    MAX_AHEAD_GROUPS_FIELD_NUMBER: _ClassVar[int]
    MAX_AHEAD_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_staleness_versions: int
    groups_per_step: int
    max_ahead_groups: int
    max_ahead_bytes: int
    def __init__(self, max_staleness_versions: _Optional[int] = ..., groups_per_step: _Optional[int] = ..., max_ahead_groups: _Optional[int] = ..., max_ahead_bytes: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("rollout_deadline_s", "group_deadline_s", "max_attempts", "max_resumes", "max_context_tokens", "max_backlog_tasks")
    ROLLOUT_DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    GROUP_DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MAX_RESUMES_FIELD_NUMBER: _ClassVar[int]
    MAX_CONTEXT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MAX_BACKLOG_TASKS_FIELD_NUMBER: _ClassVar[int]
    rollout_deadline_s: float
    group_deadline_s: float
    max_attempts: int
    max_resumes: int
    max_context_tokens: int
    max_backlog_tasks: int
    def __init__(self, rollout_deadline_s: _Optional[float] = ..., group_deadline_s: _Optional[float] = ..., max_attempts: _Optional[int] = ..., max_resumes: _Optional[int] = ..., max_context_tokens: _Optional[int] = ..., max_backlog_tasks: _Optional[int] = ...) -> None: ...

class JobCreate(_message.Message):
    __slots__ = ("run_id", "name", "purpose", "model", "pool", "tasks", "close", "group_size", "sampling", "rewards", "recipe", "version", "member_failure", "admission", "limits", "priority", "tokenizer_digest", "tags", "metadata")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    SAMPLING_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FAILURE_FIELD_NUMBER: _ClassVar[int]
    ADMISSION_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    purpose: str
    model: str
    pool: str
    tasks: _containers.RepeatedCompositeFieldContainer[_tasks_pb2.Task]
    close: bool
    group_size: int
    sampling: _sampling_pb2.Sampling
    rewards: _containers.RepeatedCompositeFieldContainer[_rewards_pb2.RewardSpec]
    recipe: Recipe
    version: VersionConstraint
    member_failure: MemberFailure
    admission: Admission
    limits: Limits
    priority: int
    tokenizer_digest: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _common_pb2.Json
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., purpose: _Optional[str] = ..., model: _Optional[str] = ..., pool: _Optional[str] = ..., tasks: _Optional[_Iterable[_Union[_tasks_pb2.Task, _Mapping]]] = ..., close: _Optional[bool] = ..., group_size: _Optional[int] = ..., sampling: _Optional[_Union[_sampling_pb2.Sampling, _Mapping]] = ..., rewards: _Optional[_Iterable[_Union[_rewards_pb2.RewardSpec, _Mapping]]] = ..., recipe: _Optional[_Union[Recipe, _Mapping]] = ..., version: _Optional[_Union[VersionConstraint, _Mapping]] = ..., member_failure: _Optional[_Union[MemberFailure, _Mapping]] = ..., admission: _Optional[_Union[Admission, _Mapping]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., priority: _Optional[int] = ..., tokenizer_digest: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class JobProgress(_message.Message):
    __slots__ = ("tasks", "backlog", "groups_admitted", "groups_open", "groups_ready", "groups_dropped", "groups_failed", "groups_cancelled", "groups_consumed", "groups_stale", "rollouts_completed", "rollouts_failed", "rollouts_cancelled", "rollouts_scored", "rollouts_unscored", "rollouts_refilled", "reward_sum", "prompt_tokens", "sampled_tokens", "trainable_tokens", "wasted_tokens", "nonfinite_logprobs", "missing_logprobs", "drops", "failures", "waiting_for")
    class DropsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class FailuresEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    TASKS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    GROUPS_ADMITTED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_OPEN_FIELD_NUMBER: _ClassVar[int]
    GROUPS_READY_FIELD_NUMBER: _ClassVar[int]
    GROUPS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FAILED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_CONSUMED_FIELD_NUMBER: _ClassVar[int]
    GROUPS_STALE_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FAILED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_SCORED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_UNSCORED_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_REFILLED_FIELD_NUMBER: _ClassVar[int]
    REWARD_SUM_FIELD_NUMBER: _ClassVar[int]
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    TRAINABLE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WASTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NONFINITE_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    MISSING_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    DROPS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    tasks: int
    backlog: int
    groups_admitted: int
    groups_open: int
    groups_ready: int
    groups_dropped: int
    groups_failed: int
    groups_cancelled: int
    groups_consumed: int
    groups_stale: int
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
    drops: _containers.ScalarMap[str, int]
    failures: _containers.ScalarMap[str, int]
    waiting_for: str
    def __init__(self, tasks: _Optional[int] = ..., backlog: _Optional[int] = ..., groups_admitted: _Optional[int] = ..., groups_open: _Optional[int] = ..., groups_ready: _Optional[int] = ..., groups_dropped: _Optional[int] = ..., groups_failed: _Optional[int] = ..., groups_cancelled: _Optional[int] = ..., groups_consumed: _Optional[int] = ..., groups_stale: _Optional[int] = ..., rollouts_completed: _Optional[int] = ..., rollouts_failed: _Optional[int] = ..., rollouts_cancelled: _Optional[int] = ..., rollouts_scored: _Optional[int] = ..., rollouts_unscored: _Optional[int] = ..., rollouts_refilled: _Optional[int] = ..., reward_sum: _Optional[float] = ..., prompt_tokens: _Optional[int] = ..., sampled_tokens: _Optional[int] = ..., trainable_tokens: _Optional[int] = ..., wasted_tokens: _Optional[int] = ..., nonfinite_logprobs: _Optional[int] = ..., missing_logprobs: _Optional[int] = ..., drops: _Optional[_Mapping[str, int]] = ..., failures: _Optional[_Mapping[str, int]] = ..., waiting_for: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("id", "run_id", "name", "purpose", "state", "paused", "model_id", "pool", "seed", "spec", "progress", "created_at_s", "ended_at_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    run_id: str
    name: str
    purpose: str
    state: str
    paused: bool
    model_id: str
    pool: str
    seed: int
    spec: _common_pb2.Json
    progress: JobProgress
    created_at_s: float
    ended_at_s: float
    def __init__(self, id: _Optional[str] = ..., run_id: _Optional[str] = ..., name: _Optional[str] = ..., purpose: _Optional[str] = ..., state: _Optional[str] = ..., paused: _Optional[bool] = ..., model_id: _Optional[str] = ..., pool: _Optional[str] = ..., seed: _Optional[int] = ..., spec: _Optional[_Union[_common_pb2.Json, _Mapping]] = ..., progress: _Optional[_Union[JobProgress, _Mapping]] = ..., created_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ...) -> None: ...
