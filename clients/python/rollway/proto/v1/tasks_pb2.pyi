from rollway.proto.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Message(_message.Message):
    __slots__ = ("role", "content")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    role: str
    content: str
    def __init__(self, role: _Optional[str] = ..., content: _Optional[str] = ...) -> None: ...

class MessageList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[Message]
    def __init__(self, values: _Optional[_Iterable[_Union[Message, _Mapping]]] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("messages", "token_ids", "reference", "key", "metadata")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_IDS_FIELD_NUMBER: _ClassVar[int]
    REFERENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    messages: MessageList
    token_ids: _common_pb2.Ints
    reference: _common_pb2.Json
    key: str
    metadata: _common_pb2.Json
    def __init__(self, messages: _Optional[_Union[MessageList, _Mapping]] = ..., token_ids: _Optional[_Union[_common_pb2.Ints, _Mapping]] = ..., reference: _Optional[_Union[_common_pb2.Json, _Mapping]] = ..., key: _Optional[str] = ..., metadata: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class TasksAppend(_message.Message):
    __slots__ = ("tasks", "close")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[Task]
    close: bool
    def __init__(self, tasks: _Optional[_Iterable[_Union[Task, _Mapping]]] = ..., close: _Optional[bool] = ...) -> None: ...

class TasksAppended(_message.Message):
    __slots__ = ("job_id", "first_task_index", "num_tasks", "backlog")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_TASK_INDEX_FIELD_NUMBER: _ClassVar[int]
    NUM_TASKS_FIELD_NUMBER: _ClassVar[int]
    BACKLOG_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    first_task_index: int
    num_tasks: int
    backlog: int
    def __init__(self, job_id: _Optional[str] = ..., first_task_index: _Optional[int] = ..., num_tasks: _Optional[int] = ..., backlog: _Optional[int] = ...) -> None: ...
