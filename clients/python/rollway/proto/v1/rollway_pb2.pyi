from rollway.proto.v1 import batches_pb2 as _batches_pb2
from rollway.proto.v1 import common_pb2 as _common_pb2
from rollway.proto.v1 import fleet_pb2 as _fleet_pb2
from rollway.proto.v1 import jobs_pb2 as _jobs_pb2
from rollway.proto.v1 import models_pb2 as _models_pb2
from rollway.proto.v1 import rewards_pb2 as _rewards_pb2
from rollway.proto.v1 import rollouts_pb2 as _rollouts_pb2
from rollway.proto.v1 import tasks_pb2 as _tasks_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateRunRequest(_message.Message):
    __slots__ = ("body",)
    BODY_FIELD_NUMBER: _ClassVar[int]
    body: _models_pb2.RunCreate
    def __init__(self, body: _Optional[_Union[_models_pb2.RunCreate, _Mapping]] = ...) -> None: ...

class ListRunsRequest(_message.Message):
    __slots__ = ("cursor", "limit")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    limit: int
    def __init__(self, cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class RegisterModelRequest(_message.Message):
    __slots__ = ("body",)
    BODY_FIELD_NUMBER: _ClassVar[int]
    body: _models_pb2.ModelCreate
    def __init__(self, body: _Optional[_Union[_models_pb2.ModelCreate, _Mapping]] = ...) -> None: ...

class ListModelsRequest(_message.Message):
    __slots__ = ("cursor", "limit")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    limit: int
    def __init__(self, cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetModelRequest(_message.Message):
    __slots__ = ("model",)
    MODEL_FIELD_NUMBER: _ClassVar[int]
    model: str
    def __init__(self, model: _Optional[str] = ...) -> None: ...

class PublishVersionRequest(_message.Message):
    __slots__ = ("model", "body")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    model: str
    body: _models_pb2.VersionPublish
    def __init__(self, model: _Optional[str] = ..., body: _Optional[_Union[_models_pb2.VersionPublish, _Mapping]] = ...) -> None: ...

class ListVersionsRequest(_message.Message):
    __slots__ = ("model", "cursor", "limit")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    model: str
    cursor: str
    limit: int
    def __init__(self, model: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetVersionRequest(_message.Message):
    __slots__ = ("model", "version", "wait_converged_s")
    MODEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WAIT_CONVERGED_S_FIELD_NUMBER: _ClassVar[int]
    model: str
    version: int
    wait_converged_s: float
    def __init__(self, model: _Optional[str] = ..., version: _Optional[int] = ..., wait_converged_s: _Optional[float] = ...) -> None: ...

class SubmitJobRequest(_message.Message):
    __slots__ = ("body",)
    BODY_FIELD_NUMBER: _ClassVar[int]
    body: _jobs_pb2.JobCreate
    def __init__(self, body: _Optional[_Union[_jobs_pb2.JobCreate, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("run_id", "purpose", "state", "cursor", "limit")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PURPOSE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    purpose: str
    state: str
    cursor: str
    limit: int
    def __init__(self, run_id: _Optional[str] = ..., purpose: _Optional[str] = ..., state: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class AppendTasksRequest(_message.Message):
    __slots__ = ("job_id", "body")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    body: _tasks_pb2.TasksAppend
    def __init__(self, job_id: _Optional[str] = ..., body: _Optional[_Union[_tasks_pb2.TasksAppend, _Mapping]] = ...) -> None: ...

class CloseJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class CancelJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class WatchJobRequest(_message.Message):
    __slots__ = ("job_id",)
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    def __init__(self, job_id: _Optional[str] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("job_id", "state", "cursor", "limit")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    state: str
    cursor: str
    limit: int
    def __init__(self, job_id: _Optional[str] = ..., state: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetGroupRequest(_message.Message):
    __slots__ = ("group_id",)
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    group_id: str
    def __init__(self, group_id: _Optional[str] = ...) -> None: ...

class ListRolloutsRequest(_message.Message):
    __slots__ = ("run_id", "job_id", "group_id", "state", "cursor", "limit")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_id: str
    group_id: str
    state: str
    cursor: str
    limit: int
    def __init__(self, run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., group_id: _Optional[str] = ..., state: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetRolloutRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class GetRolloutTreeRequest(_message.Message):
    __slots__ = ("rollout_id",)
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    def __init__(self, rollout_id: _Optional[str] = ...) -> None: ...

class PostRewardsRequest(_message.Message):
    __slots__ = ("rollout_id", "body")
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    rollout_id: str
    body: _rewards_pb2.RewardsPost
    def __init__(self, rollout_id: _Optional[str] = ..., body: _Optional[_Union[_rewards_pb2.RewardsPost, _Mapping]] = ...) -> None: ...

class ListTrajectoriesRequest(_message.Message):
    __slots__ = ("run_id", "job_id", "group_id", "rollout_id", "stop_reason", "min_version", "max_version", "cursor", "limit")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    GROUP_ID_FIELD_NUMBER: _ClassVar[int]
    ROLLOUT_ID_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    MIN_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_VERSION_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    job_id: str
    group_id: str
    rollout_id: str
    stop_reason: str
    min_version: int
    max_version: int
    cursor: str
    limit: int
    def __init__(self, run_id: _Optional[str] = ..., job_id: _Optional[str] = ..., group_id: _Optional[str] = ..., rollout_id: _Optional[str] = ..., stop_reason: _Optional[str] = ..., min_version: _Optional[int] = ..., max_version: _Optional[int] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetTrajectoryRequest(_message.Message):
    __slots__ = ("trajectory_id", "arrays", "text")
    TRAJECTORY_ID_FIELD_NUMBER: _ClassVar[int]
    ARRAYS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    trajectory_id: str
    arrays: bool
    text: bool
    def __init__(self, trajectory_id: _Optional[str] = ..., arrays: _Optional[bool] = ..., text: _Optional[bool] = ...) -> None: ...

class LeaseBatchRequest(_message.Message):
    __slots__ = ("run_id", "body")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    body: _batches_pb2.BatchLease
    def __init__(self, run_id: _Optional[str] = ..., body: _Optional[_Union[_batches_pb2.BatchLease, _Mapping]] = ...) -> None: ...

class ConsumeBatchRequest(_message.Message):
    __slots__ = ("batch_id", "body")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    body: _batches_pb2.BatchConsumed
    def __init__(self, batch_id: _Optional[str] = ..., body: _Optional[_Union[_batches_pb2.BatchConsumed, _Mapping]] = ...) -> None: ...

class ReturnBatchRequest(_message.Message):
    __slots__ = ("batch_id", "body")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    body: _batches_pb2.BatchReturn
    def __init__(self, batch_id: _Optional[str] = ..., body: _Optional[_Union[_batches_pb2.BatchReturn, _Mapping]] = ...) -> None: ...

class ExtendBatchRequest(_message.Message):
    __slots__ = ("batch_id", "body")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    body: _batches_pb2.BatchExtend
    def __init__(self, batch_id: _Optional[str] = ..., body: _Optional[_Union[_batches_pb2.BatchExtend, _Mapping]] = ...) -> None: ...

class MarkCheckpointedRequest(_message.Message):
    __slots__ = ("run_id", "body")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    body: _batches_pb2.CheckpointMark
    def __init__(self, run_id: _Optional[str] = ..., body: _Optional[_Union[_batches_pb2.CheckpointMark, _Mapping]] = ...) -> None: ...

class RewindRequest(_message.Message):
    __slots__ = ("run_id", "body")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    body: _batches_pb2.Rewind
    def __init__(self, run_id: _Optional[str] = ..., body: _Optional[_Union[_batches_pb2.Rewind, _Mapping]] = ...) -> None: ...

class CreatePoolRequest(_message.Message):
    __slots__ = ("body",)
    BODY_FIELD_NUMBER: _ClassVar[int]
    body: _fleet_pb2.PoolCreate
    def __init__(self, body: _Optional[_Union[_fleet_pb2.PoolCreate, _Mapping]] = ...) -> None: ...

class ListPoolsRequest(_message.Message):
    __slots__ = ("cursor", "limit")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    limit: int
    def __init__(self, cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class GetPoolRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = ("pool", "cursor", "limit")
    POOL_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    pool: str
    cursor: str
    limit: int
    def __init__(self, pool: _Optional[str] = ..., cursor: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class RunPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_models_pb2.Run]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_models_pb2.Run, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class ModelPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_models_pb2.Model]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_models_pb2.Model, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class WeightVersionPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_models_pb2.WeightVersion]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_models_pb2.WeightVersion, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class JobPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_jobs_pb2.Job]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_jobs_pb2.Job, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class GroupPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_rollouts_pb2.Group]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_rollouts_pb2.Group, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class RolloutPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_rollouts_pb2.Rollout]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_rollouts_pb2.Rollout, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class TrajectoryPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_rollouts_pb2.Trajectory]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_rollouts_pb2.Trajectory, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class PoolPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_fleet_pb2.Pool]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_fleet_pb2.Pool, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...

class WorkerPage(_message.Message):
    __slots__ = ("items", "next_cursor")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[_fleet_pb2.Worker]
    next_cursor: str
    def __init__(self, items: _Optional[_Iterable[_Union[_fleet_pb2.Worker, _Mapping]]] = ..., next_cursor: _Optional[str] = ...) -> None: ...
