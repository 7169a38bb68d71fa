from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DescribePoolRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class VersionTarget(_message.Message):
    __slots__ = ("version", "source", "digest")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    version: int
    source: str
    digest: str
    def __init__(self, version: _Optional[int] = ..., source: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class ModelFacts(_message.Message):
    __slots__ = ("id", "name", "source", "tokenizer_digest", "vocab_size", "context_length", "eos_token_ids")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    source: str
    tokenizer_digest: str
    vocab_size: int
    context_length: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., source: _Optional[str] = ..., tokenizer_digest: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_length: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ...) -> None: ...

class PoolFacts(_message.Message):
    __slots__ = ("pool_id", "name", "profile", "model", "target")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    name: str
    profile: str
    model: ModelFacts
    target: VersionTarget
    def __init__(self, pool_id: _Optional[str] = ..., name: _Optional[str] = ..., profile: _Optional[str] = ..., model: _Optional[_Union[ModelFacts, _Mapping]] = ..., target: _Optional[_Union[VersionTarget, _Mapping]] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("pool_id", "name", "slots", "engine_json", "active_version")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    ENGINE_JSON_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    name: str
    slots: int
    engine_json: bytes
    active_version: int
    def __init__(self, pool_id: _Optional[str] = ..., name: _Optional[str] = ..., slots: _Optional[int] = ..., engine_json: _Optional[bytes] = ..., active_version: _Optional[int] = ...) -> None: ...

class SessionOpened(_message.Message):
    __slots__ = ("session_id", "worker_id", "epoch", "lease_s")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    worker_id: str
    epoch: int
    lease_s: float
    def __init__(self, session_id: _Optional[str] = ..., worker_id: _Optional[str] = ..., epoch: _Optional[int] = ..., lease_s: _Optional[float] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("session_id", "active_version", "slots")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    active_version: int
    slots: int
    def __init__(self, session_id: _Optional[str] = ..., active_version: _Optional[int] = ..., slots: _Optional[int] = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("lease_s", "held", "target")
    class HeldEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    lease_s: float
    held: _containers.ScalarMap[str, int]
    target: VersionTarget
    def __init__(self, lease_s: _Optional[float] = ..., held: _Optional[_Mapping[str, int]] = ..., target: _Optional[_Union[VersionTarget, _Mapping]] = ...) -> None: ...

class ClaimRequest(_message.Message):
    __slots__ = ("session_id", "limit", "active_version")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ACTIVE_VERSION_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    limit: int
    active_version: int
    def __init__(self, session_id: _Optional[str] = ..., limit: _Optional[int] = ..., active_version: _Optional[int] = ...) -> None: ...

class ClaimPart(_message.Message):
    __slots__ = ("job", "item")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ITEM_FIELD_NUMBER: _ClassVar[int]
    job: ClaimedJob
    item: ClaimedItem
    def __init__(self, job: _Optional[_Union[ClaimedJob, _Mapping]] = ..., item: _Optional[_Union[ClaimedItem, _Mapping]] = ...) -> None: ...

class ClaimedJob(_message.Message):
    __slots__ = ("job_id", "spec_json")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    spec_json: bytes
    def __init__(self, job_id: _Optional[str] = ..., spec_json: _Optional[bytes] = ...) -> None: ...

class ClaimedItem(_message.Message):
    __slots__ = ("work_item_id", "fence", "run_id", "job_id", "group_id", "task_id", "rollout_id", "task_index", "member_index", "seed", "attempts", "prompt_ids", "reference_json", "metadata_json", "checkpoints", "remaining_s", "queued_s", "exact_version", "min_version")
    WORK_ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBER_INDEX_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PROMPT_IDS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_JSON_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    REMAINING_S_FIELD_NUMBER: _ClassVar[int]
    QUEUED_S_FIELD_NUMBER: _ClassVar[int]
    EXACT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
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
    prompt_ids: bytes
    reference_json: bytes
    metadata_json: bytes
    checkpoints: _containers.RepeatedScalarFieldContainer[bytes]
    remaining_s: float
    queued_s: float
    exact_version: int
    min_version: int
    def __init__(self, work_item_id: _Optional[str] = ..., fence: _Optional[int] = ..., run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., group_id: _Optional[str] = ..., task_id: _Optional[str] = ..., rollout_id: _Optional[str] = ..., task_index: _Optional[int] = ..., member_index: _Optional[int] = ..., seed: _Optional[int] = ..., attempts: _Optional[int] = ..., prompt_ids: _Optional[bytes] = ..., reference_json: _Optional[bytes] = ..., metadata_json: _Optional[bytes] = ..., checkpoints: _Optional[_Iterable[bytes]] = ..., remaining_s: _Optional[float] = ..., queued_s: _Optional[float] = ..., exact_version: _Optional[int] = ..., min_version: _Optional[int] = ...) -> None: ...

class CheckpointPiece(_message.Message):
    __slots__ = ("work_item_id", "fence", "sequence", "sampled_tokens", "payload")
    WORK_ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    work_item_id: str
    fence: int
    sequence: int
    sampled_tokens: int
    payload: bytes
    def __init__(self, work_item_id: _Optional[str] = ..., fence: _Optional[int] = ..., sequence: _Optional[int] = ..., sampled_tokens: _Optional[int] = ..., payload: _Optional[bytes] = ...) -> None: ...

class CheckpointRequest(_message.Message):
    __slots__ = ("session_id", "pieces")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    pieces: _containers.RepeatedCompositeFieldContainer[CheckpointPiece]
    def __init__(self, session_id: _Optional[str] = ..., pieces: _Optional[_Iterable[_Union[CheckpointPiece, _Mapping]]] = ...) -> None: ...

class PackedTree(_message.Message):
    __slots__ = ("container", "layout_json", "first_node", "continues", "base_tokens")
    CONTAINER_FIELD_NUMBER: _ClassVar[int]
    LAYOUT_JSON_FIELD_NUMBER: _ClassVar[int]
    FIRST_NODE_FIELD_NUMBER: _ClassVar[int]
    CONTINUES_FIELD_NUMBER: _ClassVar[int]
    BASE_TOKENS_FIELD_NUMBER: _ClassVar[int]
    container: bytes
    layout_json: bytes
    first_node: int
    continues: bool
    base_tokens: int
    def __init__(self, container: _Optional[bytes] = ..., layout_json: _Optional[bytes] = ..., first_node: _Optional[int] = ..., continues: _Optional[bool] = ..., base_tokens: _Optional[int] = ...) -> None: ...

class FinishedRollout(_message.Message):
    __slots__ = ("work_item_id", "fence", "tree", "outcome_json")
    WORK_ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    TREE_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_JSON_FIELD_NUMBER: _ClassVar[int]
    work_item_id: str
    fence: int
    tree: PackedTree
    outcome_json: bytes
    def __init__(self, work_item_id: _Optional[str] = ..., fence: _Optional[int] = ..., tree: _Optional[_Union[PackedTree, _Mapping]] = ..., outcome_json: _Optional[bytes] = ...) -> None: ...

class FinishRequest(_message.Message):
    __slots__ = ("session_id", "rollouts")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLOUTS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    rollouts: _containers.RepeatedCompositeFieldContainer[FinishedRollout]
    def __init__(self, session_id: _Optional[str] = ..., rollouts: _Optional[_Iterable[_Union[FinishedRollout, _Mapping]]] = ...) -> None: ...

class NotOwned(_message.Message):
    __slots__ = ("work_item_ids",)
    WORK_ITEM_IDS_FIELD_NUMBER: _ClassVar[int]
    work_item_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, work_item_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("session_id", "fences", "reason")
    class FencesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    FENCES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    fences: _containers.ScalarMap[str, int]
    reason: str
    def __init__(self, session_id: _Optional[str] = ..., fences: _Optional[_Mapping[str, int]] = ..., reason: _Optional[str] = ...) -> None: ...

class Released(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class SessionClosed(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WaitForNewsRequest(_message.Message):
    __slots__ = ("pool_id", "ticket", "timeout_s")
    POOL_ID_FIELD_NUMBER: _ClassVar[int]
    TICKET_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    pool_id: str
    ticket: int
    timeout_s: float
    def __init__(self, pool_id: _Optional[str] = ..., ticket: _Optional[int] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class News(_message.Message):
    __slots__ = ("ticket", "has_news")
    TICKET_FIELD_NUMBER: _ClassVar[int]
    HAS_NEWS_FIELD_NUMBER: _ClassVar[int]
    ticket: int
    has_news: bool
    def __init__(self, ticket: _Optional[int] = ..., has_news: _Optional[bool] = ...) -> None: ...
