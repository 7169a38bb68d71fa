"""Every route of the API as its OpenAPI document tells it, with a valid request for each that takes a body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from rollway_service.api.app import create_app

DIGEST = "sha256:" + "0" * 64
_TASKS = [{"token_ids": [1, 2]}]

BODIES: dict[str, dict[str, Any]] = {
    "POST /v1/runs": {"name": "r", "model": "tiny"},
    "POST /v1/models": {"name": "m", "source": "/nowhere"},
    "POST /v1/models/{model}/versions": {"source": "/nowhere", "digest": DIGEST, "trainer_step": 1},
    "POST /v1/jobs": {"run_id": "{run_id}", "sampling": {"max_new_tokens": 4}},
    "POST /v1/jobs/{job_id}/tasks": {"tasks": _TASKS},
    "POST /v1/rollouts/{rollout_id}/rewards": {"rewards": [{"name": "posted", "value": 1.0}]},
    "POST /v1/runs/{run_id}/batches": {"groups": 1},
    "POST /v1/batches/{batch_id}/consumed": {"step": 1},
    "POST /v1/batches/{batch_id}/return": {},
    "POST /v1/batches/{batch_id}/extend": {"lease_s": 600.0},
    "POST /v1/runs/{run_id}/checkpointed": {"step": 0},
    "POST /v1/runs/{run_id}/rewind": {"step": None},
    "POST /v1/pools": {"name": "p"},
}
"""A body that is accepted where its ids are right. `{run_id}` stands for a run's id."""

_OPENAPI = create_app(None).openapi()


@dataclass(frozen=True, slots=True)
class Route:
    method: str
    path: str
    schema: dict[str, Any]

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    def parameters(self, place: str) -> list[str]:
        """Names of the parameters in the path, or in the query."""
        return [item["name"] for item in self.schema.get("parameters", []) if item["in"] == place]

    @property
    def takes_body(self) -> bool:
        return "requestBody" in self.schema

    def body_leaves(self) -> list[str]:
        """JSON paths of all values that a body may hold, with one item in each list."""
        return sorted({path for path, _ in self._leaves()})

    def number_leaves(self) -> set[str]:
        """Those that may be numbers."""
        return {path for path, kind in self._leaves() if kind in {"integer", "number"}}

    def _leaves(self) -> set[tuple[str, str | None]]:
        return _leaves(self.schema["requestBody"]["content"]["application/json"]["schema"], "$", ())


def fields_that_name_things() -> set[tuple[str, str]]:
    """(route, field) of all fields in bodies that name what a tenant has, by id or by name."""
    return {
        (route.name, leaf.removesuffix("[0]"))
        for route in all_routes()
        if route.takes_body
        for leaf in route.body_leaves()
        if re.search(r"\.(model|pool|(?!request|token|stop_token|eos_token)[a-z_]*_ids?)(\[0\])?$", leaf)
    }


def all_routes() -> list[Route]:
    return [
        Route(method.upper(), path, schema)
        for path, item in _OPENAPI["paths"].items()
        for method, schema in item.items()
    ]


def _leaves(schema: dict[str, Any], path: str, seen: tuple[str, ...]) -> set[tuple[str, str | None]]:
    """(JSON path, JSON type) of all values."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _leaves(_OPENAPI["components"]["schemas"][name], path, (*seen, name)) if name not in seen else set()
    options = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
    if options:
        return set().union(*(_leaves(option, path, seen) for option in options))
    if schema.get("type") == "array":
        return {(path, "array")} | _leaves(schema["items"], f"{path}[0]", seen)
    if "properties" in schema:
        inner = (_leaves(item, f"{path}.{name}", seen) for name, item in schema["properties"].items())
        return {(path, "object")}.union(*inner)
    return {(path, schema.get("type"))}
