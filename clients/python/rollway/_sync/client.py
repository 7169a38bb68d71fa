"""The client of a Rollway service."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from rollway._sync.runs import JobHandle, RunHandle
from rollway._sync.transport import new_key, open_transport
from rollway.types import (
    Group,
    Job,
    Model,
    ModelCreate,
    Page,
    Pool,
    PoolCreate,
    RewardPost,
    RewardsPost,
    Rollout,
    Run,
    RunCreate,
    Trajectory,
    Tree,
    WeightVersion,
    Worker,
)

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T", bound=BaseModel)


class Client:
    """A connection to one service.

    Args:
        base_url: of the service (http, https, grpc, grpcs); else ROLLWAY_URL, else http://127.0.0.1:8080. `grpcs` trusts
            the system's roots, or those in the file that ROLLWAY_GRPC_CA names. A gRPC client does not survive a fork:
            make it in the process that uses it.
        api_key: else ROLLWAY_API_KEY, else the key that `rollway up` left for this URL.
        timeout_s: of one request.
        max_tries: how often a request that is safe to repeat is sent.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout_s: float = 60.0,
        max_tries: int = 6,
    ) -> None:
        self._transport = open_transport(base_url, api_key, timeout_s=timeout_s, max_tries=max_tries)

    @property
    def base_url(self) -> str:
        return self._transport.base_url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        self._transport.close()

    def register_model(self, name: str, source: str | Path, **fields: Any) -> Model:
        """Register a model folder (weights, config, tokenizer); its weights are version 0."""
        body = ModelCreate.model_validate({"name": name, "source": str(Path(source).absolute()), **fields})
        return self._transport.call(Model, "POST", "/v1/models", body=body, key=new_key())

    def model(self, name: str) -> Model:
        return self._transport.call(Model, "GET", f"/v1/models/{name}")

    def models(self) -> Iterator[Model]:
        return self._pages(Model, "/v1/models", {})

    def versions(self, model: str) -> Iterator[WeightVersion]:
        """Weight versions of a model, newest first."""
        return self._pages(WeightVersion, f"/v1/models/{model}/versions", {})

    def create_pool(self, name: str, **fields: Any) -> Pool:
        body = PoolCreate.model_validate({"name": name, **fields})
        return self._transport.call(Pool, "POST", "/v1/pools", body=body, key=new_key())

    def pools(self) -> Iterator[Pool]:
        return self._pages(Pool, "/v1/pools", {})

    def workers(self, pool: str | None = None) -> Iterator[Worker]:
        return self._pages(Worker, "/v1/workers", {"pool": pool})

    def start_run(self, name: str, *, model: str, **fields: Any) -> RunHandle:
        """Open a run that trains a registered model."""
        body = RunCreate.model_validate({"name": name, "model": model, **fields})
        return RunHandle(self._transport, self._transport.call(Run, "POST", "/v1/runs", body=body, key=new_key()))

    def run(self, run_id: str) -> RunHandle:
        """A run that exists."""
        return RunHandle(self._transport, self._transport.call(Run, "GET", f"/v1/runs/{run_id}"))

    def runs(self) -> Iterator[Run]:
        return self._pages(Run, "/v1/runs", {})

    def job(self, job_id: str) -> JobHandle:
        """A job that exists."""
        return JobHandle(self._transport, self._transport.call(Job, "GET", f"/v1/jobs/{job_id}"))

    def jobs(self, **filters: Any) -> Iterator[Job]:
        """Jobs, newest first; filters: run_id, purpose, state."""
        return self._pages(Job, "/v1/jobs", filters)

    def groups(self, job_id: str, **filters: Any) -> Iterator[Group]:
        """Groups of a job, newest first; filter: state."""
        return self._pages(Group, f"/v1/jobs/{job_id}/groups", filters)

    def group(self, group_id: str) -> Group:
        return self._transport.call(Group, "GET", f"/v1/groups/{group_id}")

    def rollouts(self, **filters: Any) -> Iterator[Rollout]:
        """Rollouts that have ended, newest first; filters: run_id, job_id, group_id, state."""
        return self._pages(Rollout, "/v1/rollouts", filters)

    def rollout(self, rollout_id: str) -> Rollout:
        return self._transport.call(Rollout, "GET", f"/v1/rollouts/{rollout_id}")

    def tree(self, rollout_id: str) -> Tree:
        return self._transport.call(Tree, "GET", f"/v1/rollouts/{rollout_id}/tree")

    def post_rewards(self, rollout_id: str, rewards: list[RewardPost | dict[str, Any]]) -> Rollout:
        """Post rewards that your own code computed. Posting the same again is fine."""
        body = RewardsPost.model_validate({"rewards": rewards})
        return self._transport.call(Rollout, "POST", f"/v1/rollouts/{rollout_id}/rewards", body=body)

    def trajectories(self, **filters: Any) -> Iterator[Trajectory]:
        """Trajectories without arrays, newest first; filters: run_id, job_id, group_id, rollout_id, stop_reason, ..."""
        return self._pages(Trajectory, "/v1/trajectories", filters)

    def trajectory(self, trajectory_id: str, *, arrays: bool = True, text: bool = False) -> Trajectory:
        params = {"arrays": arrays, "text": text}
        return self._transport.call(Trajectory, "GET", f"/v1/trajectories/{trajectory_id}", params=params)

    def _pages(self, item: type[T], path: str, filters: dict[str, Any]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self._transport.call(
                Page[item],  # type: ignore[valid-type]
                "GET",
                path,
                params={**filters, "cursor": cursor, "limit": 200},
            )
            for found in page.items:
                yield found
            cursor = page.next_cursor
            if cursor is None:
                return
