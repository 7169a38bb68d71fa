from rollway.proto.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BatchLease(_message.Message):
    __slots__ = ("groups", "samples", "consumer_group", "consumer", "job_ids", "tags", "trainer_version", "max_staleness", "stale", "lease_s", "wait_s", "allow_partial", "request_id")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SAMPLES_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_FIELD_NUMBER: _ClassVar[int]
    JOB_IDS_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    TRAINER_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_STALENESS_FIELD_NUMBER: _ClassVar[int]
    STALE_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    WAIT_S_FIELD_NUMBER: _ClassVar[int]
    ALLOW_PARTIAL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    groups: int
    samples: int
    consumer_group: str
    consumer: str
    job_ids: _common_pb2.Strings
    tags: _containers.RepeatedScalarFieldContainer[str]
    trainer_version: int
    max_staleness: int
    stale: str
    lease_s: float
    wait_s: float
    allow_partial: bool
    request_id: str
    def __init__(self, groups: _Optional[int] = ..., samples: _Optional[int] = ..., consumer_group: _Optional[str] = ..., consumer: _Optional[str] = ..., job_ids: _Optional[_Union[_common_pb2.Strings, _Mapping]] = ..., tags: _Optional[_Iterable[str]] = ..., trainer_version: _Optional[int] = ..., max_staleness: _Optional[int] = ..., stale: _Optional[str] = ..., lease_s: _Optional[float] = ..., wait_s: _Optional[float] = ..., allow_partial: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class BatchConsumed(_message.Message):
    __slots__ = ("step", "group_ids")
    STEP_FIELD_NUMBER: _ClassVar[int]
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    step: int
    group_ids: _common_pb2.Strings
    def __init__(self, step: _Optional[int] = ..., group_ids: _Optional[_Union[_common_pb2.Strings, _Mapping]] = ...) -> None: ...

class BatchReturn(_message.Message):
    __slots__ = ("group_ids",)
    GROUP_IDS_FIELD_NUMBER: _ClassVar[int]
    group_ids: _common_pb2.Strings
    def __init__(self, group_ids: _Optional[_Union[_common_pb2.Strings, _Mapping]] = ...) -> None: ...

class BatchExtend(_message.Message):
    __slots__ = ("lease_s",)
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    lease_s: float
    def __init__(self, lease_s: _Optional[float] = ...) -> None: ...

class CheckpointMark(_message.Message):
    __slots__ = ("step", "consumer_group")
    STEP_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    step: int
    consumer_group: str
    def __init__(self, step: _Optional[int] = ..., consumer_group: _Optional[str] = ...) -> None: ...

class Rewind(_message.Message):
    __slots__ = ("step", "consumer_group")
    STEP_FIELD_NUMBER: _ClassVar[int]
    CONSUMER_GROUP_FIELD_NUMBER: _ClassVar[int]
    step: int
    consumer_group: str
    def __init__(self, step: _Optional[int] = ..., consumer_group: _Optional[str] = ...) -> None: ...

class Rewound(_message.Message):
    __slots__ = ("groups_offered_again",)
    GROUPS_OFFERED_AGAIN_FIELD_NUMBER: _ClassVar[int]
    groups_offered_again: int
    def __init__(self, groups_offered_again: _Optional[int] = ...) -> None: ...

class BatchState(_message.Message):
    __slots__ = ("batch_id", "state", "groups", "expires_at_s")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_S_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    state: str
    groups: int
    expires_at_s: float
    def __init__(self, batch_id: _Optional[str] = ..., state: _Optional[str] = ..., groups: _Optional[int] = ..., expires_at_s: _Optional[float] = ...) -> None: ...
