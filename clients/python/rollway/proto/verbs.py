"""Every verb of the public API: its RPC in `rollway.v1.Rollway` and its REST route. Both doors and the SDK go by it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

Answer = Literal["message", "pieces", "messages"]


@dataclass(frozen=True)
class Verb:
    """One verb.

    rpc: its name; its request is `<rpc>Request`. answer: a message; pieces of a serialized message or frame, for what
    may be larger than a message may be; or messages one after the other.
    """

    rpc: str
    method: str
    path: str
    answer: Answer = "message"

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        return re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", self.path) + "$")


VERBS = (
    Verb("CreateRun", "POST", "/v1/runs"),
    Verb("ListRuns", "GET", "/v1/runs"),
    Verb("GetRun", "GET", "/v1/runs/{run_id}"),
    Verb("RegisterModel", "POST", "/v1/models"),
    Verb("ListModels", "GET", "/v1/models"),
    Verb("GetModel", "GET", "/v1/models/{model}"),
    Verb("PublishVersion", "POST", "/v1/models/{model}/versions"),
    Verb("ListVersions", "GET", "/v1/models/{model}/versions"),
    Verb("GetVersion", "GET", "/v1/models/{model}/versions/{version}"),
    Verb("SubmitJob", "POST", "/v1/jobs"),
    Verb("ListJobs", "GET", "/v1/jobs"),
    Verb("GetJob", "GET", "/v1/jobs/{job_id}"),
    Verb("AppendTasks", "POST", "/v1/jobs/{job_id}/tasks"),
    Verb("CloseJob", "POST", "/v1/jobs/{job_id}/close"),
    Verb("PauseJob", "POST", "/v1/jobs/{job_id}/pause"),
    Verb("ResumeJob", "POST", "/v1/jobs/{job_id}/resume"),
    Verb("CancelJob", "POST", "/v1/jobs/{job_id}/cancel"),
    Verb("WatchJob", "GET", "/v1/jobs/{job_id}/watch", "messages"),
    Verb("ListGroups", "GET", "/v1/jobs/{job_id}/groups"),
    Verb("GetGroup", "GET", "/v1/groups/{group_id}"),
    Verb("ListRollouts", "GET", "/v1/rollouts"),
    Verb("GetRollout", "GET", "/v1/rollouts/{rollout_id}"),
    Verb("GetRolloutTree", "GET", "/v1/rollouts/{rollout_id}/tree", "pieces"),
    Verb("PostRewards", "POST", "/v1/rollouts/{rollout_id}/rewards"),
    Verb("ListTrajectories", "GET", "/v1/trajectories"),
    Verb("GetTrajectory", "GET", "/v1/trajectories/{trajectory_id}", "pieces"),
    Verb("LeaseBatch", "POST", "/v1/runs/{run_id}/batches", "pieces"),
    Verb("ConsumeBatch", "POST", "/v1/batches/{batch_id}/consumed"),
    Verb("ReturnBatch", "POST", "/v1/batches/{batch_id}/return"),
    Verb("ExtendBatch", "POST", "/v1/batches/{batch_id}/extend"),
    Verb("MarkCheckpointed", "POST", "/v1/runs/{run_id}/checkpointed"),
    Verb("Rewind", "POST", "/v1/runs/{run_id}/rewind"),
    Verb("CreatePool", "POST", "/v1/pools"),
    Verb("ListPools", "GET", "/v1/pools"),
    Verb("GetPool", "GET", "/v1/pools/{pool}"),
    Verb("ListWorkers", "GET", "/v1/workers"),
)

REST_ONLY = {
    "/healthz": "gRPC has grpc.health.v1",
    "/readyz": "gRPC has grpc.health.v1",
    "/metrics": "Prometheus reads HTTP",
    "/openapi.json": "gRPC has reflection",
}
"""What has no RPC, and why. The JSON form of batches is REST's alone too: RPCs stream frames."""


def find_verb(method: str, path: str) -> tuple[Verb, dict[str, str]]:
    """The verb of a REST request, with the values in its path. Raises LookupError."""
    for verb in VERBS:
        if verb.method == method and (match := verb.pattern.match(path)):
            return verb, match.groupdict()
    raise LookupError(f"{method} {path} is REST only")
