from rollway.proto.v1 import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PoolCreate(_message.Message):
    __slots__ = ("name", "model", "profile", "labels")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    name: str
    model: str
    profile: str
    labels: _common_pb2.Json
    def __init__(self, name: _Optional[str] = ..., model: _Optional[str] = ..., profile: _Optional[str] = ..., labels: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class Pool(_message.Message):
    __slots__ = ("id", "name", "model_id", "profile", "slots", "slots_busy", "queued", "workers", "created_at_s", "labels")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_BUSY_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    model_id: str
    profile: str
    slots: int
    slots_busy: int
    queued: int
    workers: int
    created_at_s: float
    labels: _common_pb2.Json
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., model_id: _Optional[str] = ..., profile: _Optional[str] = ..., slots: _Optional[int] = ..., slots_busy: _Optional[int] = ..., queued: _Optional[int] = ..., workers: _Optional[int] = ..., created_at_s: _Optional[float] = ..., labels: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("id", "name", "pool", "state", "epoch", "slots", "slots_busy", "weight_version", "engine", "started_at_s", "seen_at_s")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_BUSY_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_VERSION_FIELD_NUMBER: _ClassVar[int]
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_S_FIELD_NUMBER: _ClassVar[int]
    SEEN_AT_S_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    pool: str
    state: str
    epoch: int
    slots: int
    slots_busy: int
    weight_version: int
    engine: _common_pb2.Json
    started_at_s: float
    seen_at_s: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., pool: _Optional[str] = ..., state: _Optional[str] = ..., epoch: _Optional[int] = ..., slots: _Optional[int] = ..., slots_busy: _Optional[int] = ..., weight_version: _Optional[int] = ..., engine: _Optional[_Union[_common_pb2.Json, _Mapping]] = ..., started_at_s: _Optional[float] = ..., seen_at_s: _Optional[float] = ...) -> None: ...
