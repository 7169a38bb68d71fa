"""Runs and jobs as a trainer works with them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rollway._sync.batches import Batches, LeasedBatch, lease
from rollway._sync.transport import Transport, new_key
from rollway._sync.waiting import sleep
from rollway.digests import weights_digest
from rollway.errors import RollwayError
from rollway.types import (
    BatchLease,
    CheckpointMark,
    Job,
    JobCreate,
    JobProgress,
    Rewind,
    Rewound,
    Run,
    Task,
    TasksAppend,
    TasksAppended,
    VersionPublish,
    WeightVersion,
)

_POLL_S = 0.2
Tasks = Sequence[Task | dict[str, Any]]


def _tasks(tasks: Tasks) -> list[Task]:
    return [task if isinstance(task, Task) else Task.model_validate(task) for task in tasks]


class JobHandle:
    """A job that was submitted."""

    def __init__(self, transport: Transport, info: Job) -> None:
        self._transport = transport
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    def append(self, tasks: Tasks, *, close: bool = False) -> TasksAppended:
        """Add tasks; all or none are stored. With `close`, they are the last."""
        body = TasksAppend(tasks=_tasks(tasks), close=close)
        return self._transport.call(TasksAppended, "POST", f"/v1/jobs/{self.id}/tasks", body=body, key=new_key())

    def refresh(self) -> Job:
        self.info = self._transport.call(Job, "GET", f"/v1/jobs/{self.id}")
        return self.info

    def close(self) -> Job:
        """No more tasks will come."""
        return self._change("close")

    def pause(self) -> Job:
        return self._change("pause")

    def resume(self) -> Job:
        return self._change("resume")

    def cancel(self) -> Job:
        return self._change("cancel")

    def _change(self, verb: str) -> Job:
        self.info = self._transport.call(Job, "POST", f"/v1/jobs/{self.id}/{verb}")
        return self.info

    def watch(self) -> Iterator[JobProgress]:
        """Progress whenever it changes, until the job ends."""
        for found in self._transport.progress(f"/v1/jobs/{self.id}/watch"):
            yield found

    def wait(self, timeout_s: float | None = None) -> Job:
        """The job once it has ended. Raises RollwayError when it has not within `timeout_s`."""
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while (self.refresh()).state not in {"completed", "cancelled"}:
            if deadline_s is not None and time.monotonic() > deadline_s:
                progress = self.info.progress
                raise RollwayError(
                    f"job {self.id} has not ended within {timeout_s} s: {progress.groups_open} groups open,"
                    f" {progress.backlog} in the backlog, waiting for {progress.waiting_for}"
                )
            sleep(_POLL_S)
        return self.info


class RunHandle:
    """A training run: submit jobs, take batches, publish weights."""

    def __init__(self, transport: Transport, info: Run) -> None:
        self._transport = transport
        self.info = info

    @property
    def id(self) -> str:
        return self.info.id

    def submit(self, tasks: Tasks = (), **fields: Any) -> JobHandle:
        """Submit a job: `fields` are those of `JobCreate` (group_size, sampling, rewards, ...)."""
        body = JobCreate.model_validate({"run_id": self.id, "tasks": _tasks(tasks), **fields})
        return JobHandle(self._transport, self._transport.call(Job, "POST", "/v1/jobs", body=body, key=new_key()))

    def evaluate(self, tasks: Tasks, *, timeout_s: float = 3600.0, **fields: Any) -> JobProgress:
        """Roll out held-out tasks and wait for the outcome; they are never given to trainers."""
        job = self.submit(tasks, purpose="eval", close=True, **fields)
        return (job.wait(timeout_s)).progress

    def lease(self, **fields: Any) -> LeasedBatch:
        """Lease one batch: `fields` are those of `BatchLease`."""
        return lease(self._transport, self.id, BatchLease.model_validate(fields))

    def batches(self, *, first_step: int = 0, timeout_s: float | None = None, **fields: Any) -> Batches:
        """Batches until the end of the data, or until none comes for `timeout_s`: `for batch in run.batches(groups=8)`.

        Each is acknowledged as consumed in steps counted from `first_step` when the loop's body ends.
        """
        request = BatchLease.model_validate(fields)
        return Batches(self._transport, self.id, request, first_step=first_step, wait_s=timeout_s)

    def publish(
        self, folder: str | Path, *, trainer_step: int, parent: int | None = None, wait_s: float = 0.0
    ) -> WeightVersion:
        """Publish the safetensors weights in a folder that the workers can read as the next version.

        With `wait_s`, wait so long for all live workers to run it.
        """
        body = VersionPublish(
            source=str(Path(folder).absolute()), digest=weights_digest(folder), trainer_step=trainer_step, parent=parent
        )
        path = f"/v1/models/{self.info.model_id}/versions"
        version = self._transport.call(WeightVersion, "POST", path, body=body, key=new_key())
        if wait_s > 0:
            params = {"wait_converged_s": min(wait_s, 60.0)}
            version = self._transport.call(WeightVersion, "GET", f"{path}/{version.version}", params=params)
        return version

    def checkpointed(self, step: int, *, consumer_group: str = "default") -> Rewound:
        """The trainer holds a checkpoint taken after this step."""
        body = CheckpointMark(step=step, consumer_group=consumer_group)
        return self._transport.call(Rewound, "POST", f"/v1/runs/{self.id}/checkpointed", body=body)

    def rewind(self, step: int | None, *, consumer_group: str = "default") -> Rewound:
        """Go back to the checkpoint after this step (None: to the beginning): later batches are offered again."""
        body = Rewind(step=step, consumer_group=consumer_group)
        return self._transport.call(Rewound, "POST", f"/v1/runs/{self.id}/rewind", body=body)
