from rollway.proto.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ModelCreate(_message.Message):
    __slots__ = ("name", "source", "tokenizer_digest", "template_digest", "weights_digest", "vocab_size", "context_length", "eos_token_ids", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    WEIGHTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    source: str
    tokenizer_digest: str
    template_digest: str
    weights_digest: str
    vocab_size: int
    context_length: int
    eos_token_ids: _common_pb2.Ints
    metadata: _common_pb2.Json
    def __init__(self, name: _Optional[str] = ..., source: _Optional[str] = ..., tokenizer_digest: _Optional[str] = ..., template_digest: _Optional[str] = ..., weights_digest: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_length: _Optional[int] = ..., eos_token_ids: _Optional[_Union[_common_pb2.Ints, _Mapping]] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class Model(_message.Message):
    __slots__ = ("id", "name", "source", "tokenizer_digest", "template_digest", "vocab_size", "context_length", "eos_token_ids", "latest_version", "created_at_s", "metadata")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TOKENIZER_DIGEST_FIELD_NUMBER: _ClassVar[int]
    TEMPLATE_DIGEST_FIELD_NUMBER: _ClassVar[int]
    VOCAB_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_LENGTH_FIELD_NUMBER: _ClassVar[int]
    EOS_TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    LATEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    source: str
    tokenizer_digest: str
    template_digest: str
    vocab_size: int
    context_length: int
    eos_token_ids: _containers.RepeatedScalarFieldContainer[int]
    latest_version: int
    created_at_s: float
    metadata: _common_pb2.Json
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., source: _Optional[str] = ..., tokenizer_digest: _Optional[str] = ..., template_digest: _Optional[str] = ..., vocab_size: _Optional[int] = ..., context_length: _Optional[int] = ..., eos_token_ids: _Optional[_Iterable[int]] = ..., latest_version: _Optional[int] = ..., created_at_s: _Optional[float] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class VersionPublish(_message.Message):
    __slots__ = ("source", "digest", "trainer_step", "parent", "metadata")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    TRAINER_STEP_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    source: str
    digest: str
    trainer_step: int
    parent: int
    metadata: _common_pb2.Json
    def __init__(self, source: _Optional[str] = ..., digest: _Optional[str] = ..., trainer_step: _Optional[int] = ..., parent: _Optional[int] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class WeightVersion(_message.Message):
    __slots__ = ("model_id", "version", "parent", "trainer_step", "digest", "source", "created_at_s", "workers_active", "workers_total", "metadata")
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    TRAINER_STEP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    WORKERS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    WORKERS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    model_id: str
    version: int
    parent: int
    trainer_step: int
    digest: str
    source: str
    created_at_s: float
    workers_active: int
    workers_total: int
    metadata: _common_pb2.Json
    def __init__(self, model_id: _Optional[str] = ..., version: _Optional[int] = ..., parent: _Optional[int] = ..., trainer_step: _Optional[int] = ..., digest: _Optional[str] = ..., source: _Optional[str] = ..., created_at_s: _Optional[float] = ..., workers_active: _Optional[int] = ..., workers_total: _Optional[int] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class RunCreate(_message.Message):
    __slots__ = ("name", "model", "pool", "tags", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    model: str
    pool: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    metadata: _common_pb2.Json
    def __init__(self, name: _Optional[str] = ..., model: _Optional[str] = ..., pool: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("id", "name", "model_id", "model", "pool", "tags", "created_at_s", "metadata")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MODEL_ID_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_S_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    model_id: str
    model: str
    pool: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    created_at_s: float
    metadata: _common_pb2.Json
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., model_id: _Optional[str] = ..., model: _Optional[str] = ..., pool: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., created_at_s: _Optional[float] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...
