from rollway.proto.v1 import common_pb2 as _common_pb2
from rollway.proto.v1 import rewards_pb2 as _rewards_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Decision(_message.Message):
    __slots__ = ("policy", "action", "reason", "at_s", "seed", "propensity", "scalars")
    class ScalarsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    POLICY_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_S_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    PROPENSITY_FIELD_NUMBER: _ClassVar[int]
    SCALARS_FIELD_NUMBER: _ClassVar[int]
    policy: str
    action: str
    reason: str
    at_s: float
    seed: int
    propensity: float
    scalars: _containers.ScalarMap[str, float]
    def __init__(self, policy: _Optional[str] = ..., action: _Optional[str] = ..., reason: _Optional[str] = ..., at_s: _Optional[float] = ..., seed: _Optional[int] = ..., propensity: _Optional[float] = ..., scalars: _Optional[_Mapping[str, float]] = ...) -> None: ...

class Timings(_message.Message):
    __slots__ = ("queued_s", "generate_s", "reward_s", "total_s")
    QUEUED_S_FIELD_NUMBER: _ClassVar[int]
    GENERATE_S_FIELD_NUMBER: _ClassVar[int]
    REWARD_S_FIELD_NUMBER: _ClassVar[int]
    TOTAL_S_FIELD_NUMBER: _ClassVar[int]
    queued_s: float
    generate_s: float
    reward_s: float
    total_s: float
    def __init__(self, queued_s: _Optional[float] = ..., generate_s: _Optional[float] = ..., reward_s: _Optional[float] = ..., total_s: _Optional[float] = ...) -> None: ...

class EngineFacts(_message.Message):
    __slots__ = ("kind", "build", "profile", "worker", "deterministic")
    KIND_FIELD_NUMBER: _ClassVar[int]
    BUILD_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    kind: str
    build: str
    profile: str
    worker: str
    deterministic: bool
    def __init__(self, kind: _Optional[str] = ..., build: _Optional[str] = ..., profile: _Optional[str] = ..., worker: _Optional[str] = ..., deterministic: _Optional[bool] = ...) -> None: ...

class Usage(_message.Message):
    __slots__ = ("prompt_tokens", "cached_tokens", "sampled_tokens", "wasted_tokens", "requests", "resumes")
    PROMPT_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CACHED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    WASTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    RESUMES_FIELD_NUMBER: _ClassVar[int]
    prompt_tokens: int
    cached_tokens: int
    sampled_tokens: int
    wasted_tokens: int
    requests: int
    resumes: int
    def __init__(self, prompt_tokens: _Optional[int] = ..., cached_tokens: _Optional[int] = ..., sampled_tokens: _Optional[int] = ..., wasted_tokens: _Optional[int] = ..., requests: _Optional[int] = ..., resumes: _Optional[int] = ...) -> None: ...

class RolloutFailure(_message.Message):
    __slots__ = ("kind", "detail")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    kind: str
    detail: str
    def __init__(self, kind: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class Rollout(_message.Message):
    __slots__ = ("id", "run_id", "job_id", "group_id", "task_id", "task_index", "member_index", "state", "seed", "attempts", "reward", "rewards", "failure", "trajectory_ids", "usage", "timings", "decisions", "checkpointed_tokens", "created_at_s", "ended_at_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBER_INDEX_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    TRAJECTORY_IDS_FIELD_NUMBER: _ClassVar[int]
    USAGE_FIELD_NUMBER: _ClassVar[int]
    TIMINGS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    run_id: str
    job_id: str
    group_id: str
    task_id: str
    task_index: int
    member_index: int
    state: str
    seed: int
    attempts: int
    reward: float
    rewards: _containers.RepeatedCompositeFieldContainer[_rewards_pb2.RewardValue]
    failure: RolloutFailure
    trajectory_ids: _containers.RepeatedScalarFieldContainer[str]
    usage: Usage
    timings: Timings
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    checkpointed_tokens: int
    created_at_s: float
    ended_at_s: float
    def __init__(self, id: _Optional[str] = ..., run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., group_id: _Optional[str] = ..., task_id: _Optional[str] = ..., task_index: _Optional[int] = ..., member_index: _Optional[int] = ..., state: _Optional[str] = ..., seed: _Optional[int] = ..., attempts: _Optional[int] = ..., reward: _Optional[float] = ..., rewards: _Optional[_Iterable[_Union[_rewards_pb2.RewardValue, _Mapping]]] = ..., failure: _Optional[_Union[RolloutFailure, _Mapping]] = ..., trajectory_ids: _Optional[_Iterable[str]] = ..., usage: _Optional[_Union[Usage, _Mapping]] = ..., timings: _Optional[_Union[Timings, _Mapping]] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., checkpointed_tokens: _Optional[int] = ..., created_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ...) -> None: ...

class Group(_message.Message):
    __slots__ = ("id", "run_id", "job_id", "task_id", "task_index", "task_key", "state", "group_size", "num_usable", "num_failed", "reason", "pending_rollout_ids", "rewards", "decisions", "deadline_at_s", "created_at_s", "ended_at_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    TASK_KEY_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUP_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_USABLE_FIELD_NUMBER: _ClassVar[int]
    NUM_FAILED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PENDING_ROLLOUT_IDS_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_AT_S_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    run_id: str
    job_id: str
    task_id: str
    task_index: int
    task_key: str
    state: str
    group_size: int
    num_usable: int
    num_failed: int
    reason: str
    pending_rollout_ids: _containers.RepeatedScalarFieldContainer[str]
    rewards: _containers.RepeatedScalarFieldContainer[float]
    decisions: _containers.RepeatedCompositeFieldContainer[Decision]
    deadline_at_s: float
    created_at_s: float
    ended_at_s: float
    def __init__(self, id: _Optional[str] = ..., run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., task_id: _Optional[str] = ..., task_index: _Optional[int] = ..., task_key: _Optional[str] = ..., state: _Optional[str] = ..., group_size: _Optional[int] = ..., num_usable: _Optional[int] = ..., num_failed: _Optional[int] = ..., reason: _Optional[str] = ..., pending_rollout_ids: _Optional[_Iterable[str]] = ..., rewards: _Optional[_Iterable[float]] = ..., decisions: _Optional[_Iterable[_Union[Decision, _Mapping]]] = ..., deadline_at_s: _Optional[float] = ..., created_at_s: _Optional[float] = ..., ended_at_s: _Optional[float] = ...) -> None: ...

class TrajectoryArrays(_message.Message):
    __slots__ = ("token_ids", "behavior_logprobs", "loss_mask", "weight_versions", "kv_versions", "origins")
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOR_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    LOSS_MASK_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    KV_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    behavior_logprobs: _containers.RepeatedScalarFieldContainer[float]
    loss_mask: _containers.RepeatedScalarFieldContainer[int]
    weight_versions: _containers.RepeatedScalarFieldContainer[int]
    kv_versions: _containers.RepeatedScalarFieldContainer[int]
    origins: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, token_ids: _Optional[_Iterable[int]] = ..., behavior_logprobs: _Optional[_Iterable[float]] = ..., loss_mask: _Optional[_Iterable[int]] = ..., weight_versions: _Optional[_Iterable[int]] = ..., kv_versions: _Optional[_Iterable[int]] = ..., origins: _Optional[_Iterable[str]] = ...) -> None: ...

class Trajectory(_message.Message):
    __slots__ = ("id", "run_id", "job_id", "group_id", "rollout_id", "task_id", "role", "model_id", "recipe", "stop_reason", "stop_detail", "finish_reasons", "num_tokens", "num_sampled", "num_trainable", "oldest_version", "newest_version", "logprob_kind", "temperature", "top_p", "top_k", "min_p", "seed", "engine", "findings", "reward", "rewards", "created_at_s", "arrays", "text")
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    RECIPE_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    STOP_DETAIL_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASONS_FIELD_NUMBER: _ClassVar[int]
    NUM_TOKENS_FIELD_NUMBER: _ClassVar[int]
    NUM_SAMPLED_FIELD_NUMBER: _ClassVar[int]
    NUM_TRAINABLE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    NEWEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    LOGPROB_KIND_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    TOP_P_FIELD_NUMBER: _ClassVar[int]
    TOP_K_FIELD_NUMBER: _ClassVar[int]
    MIN_P_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    FINDINGS_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    id: str
    run_id: str
    job_id: str
    group_id: str
    rollout_id: str
    task_id: str
    role: str
    model_id: str
    recipe: str
    stop_reason: str
    stop_detail: str
    finish_reasons: _containers.RepeatedScalarFieldContainer[str]
    num_tokens: int
    num_sampled: int
    num_trainable: int
    oldest_version: int
    newest_version: int
    logprob_kind: str
    temperature: float
    top_p: float
    top_k: int
    min_p: float
    seed: int
    engine: EngineFacts
    findings: _containers.RepeatedScalarFieldContainer[str]
    reward: float
    rewards: _containers.RepeatedCompositeFieldContainer[_rewards_pb2.RewardValue]
    created_at_s: float
    arrays: TrajectoryArrays
    text: str
    def __init__(self, id: _Optional[str] = ..., run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., group_id: _Optional[str] = ..., rollout_id: _Optional[str] = ..., task_id: _Optional[str] = ..., role: _Optional[str] = ..., model_id: _Optional[str] = ..., recipe: _Optional[str] = ..., stop_reason: _Optional[str] = ..., stop_detail: _Optional[str] = ..., finish_reasons: _Optional[_Iterable[str]] = ..., num_tokens: _Optional[int] = ..., num_sampled: _Optional[int] = ..., num_trainable: _Optional[int] = ..., oldest_version: _Optional[int] = ..., newest_version: _Optional[int] = ..., logprob_kind: _Optional[str] = ..., temperature: _Optional[float] = ..., top_p: _Optional[float] = ..., top_k: _Optional[int] = ..., min_p: _Optional[float] = ..., seed: _Optional[int] = ..., engine: _Optional[_Union[EngineFacts, _Mapping]] = ..., findings: _Optional[_Iterable[str]] = ..., reward: _Optional[float] = ..., rewards: _Optional[_Iterable[_Union[_rewards_pb2.RewardValue, _Mapping]]] = ..., created_at_s: _Optional[float] = ..., arrays: _Optional[_Union[TrajectoryArrays, _Mapping]] = ..., text: _Optional[str] = ...) -> None: ...

class TreeNode(_message.Message):
    __slots__ = ("index", "parent", "origin", "turn", "token_ids", "behavior_logprobs", "loss_mask", "weight_versions")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    BEHAVIOR_LOGPROBS_FIELD_NUMBER: _ClassVar[int]
    LOSS_MASK_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    index: int
    parent: int
    origin: str
    turn: int
    token_ids: _containers.RepeatedScalarFieldContainer[int]
    behavior_logprobs: _common_pb2.Doubles
    loss_mask: _containers.RepeatedScalarFieldContainer[int]
    weight_versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., parent: _Optional[int] = ..., origin: _Optional[str] = ..., turn: _Optional[int] = ..., token_ids: _Optional[_Iterable[int]] = ..., behavior_logprobs: _Optional[_Union[_common_pb2.Doubles, _Mapping]] = ..., loss_mask: _Optional[_Iterable[int]] = ..., weight_versions: _Optional[_Iterable[int]] = ...) -> None: ...

class Tree(_message.Message):
    __slots__ = ("id", "group_id", "nodes", "paths")
    class PathsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _common_pb2.Ints
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_common_pb2.Ints, _Mapping]] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    id: str
    group_id: str
    nodes: _containers.RepeatedCompositeFieldContainer[TreeNode]
    paths: _containers.MessageMap[str, _common_pb2.Ints]
    def __init__(self, id: _Optional[str] = ..., group_id: _Optional[str] = ..., nodes: _Optional[_Iterable[_Union[TreeNode, _Mapping]]] = ..., paths: _Optional[_Mapping[str, _common_pb2.Ints]] = ...) -> None: ...
