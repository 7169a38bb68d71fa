from rollway.proto.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExactReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s", "strip", "ignore_case")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    STRIP_FIELD_NUMBER: _ClassVar[int]
    IGNORE_CASE_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    strip: bool
    ignore_case: bool
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ..., strip: _Optional[bool] = ..., ignore_case: _Optional[bool] = ...) -> None: ...

class NumericReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s", "absolute_tolerance", "relative_tolerance")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    ABSOLUTE_TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    RELATIVE_TOLERANCE_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    absolute_tolerance: float
    relative_tolerance: float
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ..., absolute_tolerance: _Optional[float] = ..., relative_tolerance: _Optional[float] = ...) -> None: ...

class RegexReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s", "pattern", "full_match", "compare_group")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    FULL_MATCH_FIELD_NUMBER: _ClassVar[int]
    COMPARE_GROUP_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    pattern: str
    full_match: bool
    compare_group: int
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ..., pattern: _Optional[str] = ..., full_match: _Optional[bool] = ..., compare_group: _Optional[int] = ...) -> None: ...

class MathReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ...) -> None: ...

class ReasoningGymReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s", "dataset")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    dataset: str
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ..., dataset: _Optional[str] = ...) -> None: ...

class PythonReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s", "function", "arguments")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    FUNCTION_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    function: str
    arguments: _common_pb2.Json
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ..., function: _Optional[str] = ..., arguments: _Optional[_Union[_common_pb2.Json, _Mapping]] = ...) -> None: ...

class PostedReward(_message.Message):
    __slots__ = ("name", "weight", "timeout_s", "deadline_s")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_S_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_S_FIELD_NUMBER: _ClassVar[int]
    name: str
    weight: float
    timeout_s: float
    deadline_s: float
    def __init__(self, name: _Optional[str] = ..., weight: _Optional[float] = ..., timeout_s: _Optional[float] = ..., deadline_s: _Optional[float] = ...) -> None: ...

class RewardFailure(_message.Message):
    __slots__ = ("kind", "detail")
    KIND_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    kind: str
    detail: str
    def __init__(self, kind: _Optional[str] = ..., detail: _Optional[str] = ...) -> None: ...

class RewardValue(_message.Message):
    __slots__ = ("name", "value", "weight", "source", "revision", "failure")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    weight: float
    source: str
    revision: int
    failure: RewardFailure
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ..., weight: _Optional[float] = ..., source: _Optional[str] = ..., revision: _Optional[int] = ..., failure: _Optional[_Union[RewardFailure, _Mapping]] = ...) -> None: ...

class RewardPost(_message.Message):
    __slots__ = ("name", "value", "failure")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: float
    failure: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[float] = ..., failure: _Optional[str] = ...) -> None: ...

class RewardsPost(_message.Message):
    __slots__ = ("rewards",)
    REWARDS_FIELD_NUMBER: _ClassVar[int]
    rewards: _containers.RepeatedCompositeFieldContainer[RewardPost]
    def __init__(self, rewards: _Optional[_Iterable[_Union[RewardPost, _Mapping]]] = ...) -> None: ...

class RewardSpec(_message.Message):
    __slots__ = ("exact", "numeric", "regex", "math", "reasoning_gym", "python", "posted")
    EXACT_FIELD_NUMBER: _ClassVar[int]
    NUMERIC_FIELD_NUMBER: _ClassVar[int]
    REGEX_FIELD_NUMBER: _ClassVar[int]
    MATH_FIELD_NUMBER: _ClassVar[int]
    REASONING_GYM_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    POSTED_FIELD_NUMBER: _ClassVar[int]
    exact: ExactReward
    numeric: NumericReward
    regex: RegexReward
    math: MathReward
    reasoning_gym: ReasoningGymReward
    python: PythonReward
    posted: PostedReward
    def __init__(self, exact: _Optional[_Union[ExactReward, _Mapping]] = ..., numeric: _Optional[_Union[NumericReward, _Mapping]] = ..., regex: _Optional[_Union[RegexReward, _Mapping]] = ..., math: _Optional[_Union[MathReward, _Mapping]] = ..., reasoning_gym: _Optional[_Union[ReasoningGymReward, _Mapping]] = ..., python: _Optional[_Union[PythonReward, _Mapping]] = ..., posted: _Optional[_Union[PostedReward, _Mapping]] = ...) -> None: ...
