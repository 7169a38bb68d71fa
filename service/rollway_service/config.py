"""Every setting of service, steward and workers, with one environment prefix."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

ENVIRONMENT_PREFIX = "ROLLWAY_"


def default_data_dir() -> Path:
    return Path(os.environ.get(f"{ENVIRONMENT_PREFIX}DATA_DIR", Path.home() / ".rollway"))


class Settings(BaseModel):
    """Settings come from arguments, else from `ROLLWAY_<NAME>`, else from the defaults here."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    data_dir: Path = Field(default_factory=default_data_dir)
    database_url: Annotated[str, Field(description="sqlite:///path or postgresql://...; empty: SQLite in data_dir")] = (
        ""
    )
    database_pool_size: Annotated[int, Field(ge=1, le=1000)] = 10
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    grpc_port: Annotated[
        int | None, Field(ge=-1, le=65535, description="0: any free one; -1: no gRPC; else 8081, or 0 as port")
    ] = None
    grpc_tls_cert: Annotated[Path | None, Field(description="PEM file; with grpc_tls_key, gRPC is served with TLS")] = (
        None
    )
    grpc_tls_key: Path | None = None
    grpc_url_file: Annotated[Path | None, Field(description="as url_file, for gRPC")] = None
    url_file: Annotated[Path | None, Field(description="the service writes its URL here once it takes work")] = None
    max_body_bytes: Annotated[int, Field(ge=1024)] = 64 * 2**20
    session_lease_s: Annotated[
        float, Field(gt=0, description="a worker that is silent this long has lost its work")
    ] = 15.0
    checkpoint_interval_s: Annotated[float, Field(gt=0)] = 0.5
    stretch_tokens: Annotated[int, Field(ge=1)] = 256
    steward_interval_s: Annotated[float, Field(gt=0)] = 1.0
    deadline_grace_s: Annotated[float, Field(ge=0)] = 5.0
    queue_target_rollouts: Annotated[
        int, Field(ge=1, description="rollouts of a job that may wait in a pool's queue")
    ] = 256
    array_retention_s: Annotated[float, Field(gt=0)] = 14 * 24 * 3600.0
    model_roots: Annotated[
        str, Field(description="folders, colon-separated, that model and weight paths must lie in; empty: any")
    ] = ""
    reward_functions: Annotated[str, Field(description="name=module:function, comma-separated")] = ""
    broker_url: Annotated[
        str,
        Field(
            pattern=r"^$|^(redis|rediss|redis\+socket)://.+",
            description="redis://...: processes wake each other by Celery; empty: they poll",
        ),
    ] = ""
    broker_namespace: Annotated[
        str, Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$", description="keeps deployments that share a broker apart")
    ] = "rollway"
    reward_dispatch: Annotated[
        Literal["local", "celery"], Field(description="where slow checks run: in the worker, or on `rollway rewards`")
    ] = "local"
    reward_processes: Annotated[int, Field(ge=1, le=256)] = 2

    def __init__(self, **given: Any) -> None:
        names = type(self).model_fields
        found = {name: os.environ[key] for name in names if (key := ENVIRONMENT_PREFIX + name.upper()) in os.environ}
        super().__init__(**{**found, **{key: value for key, value in given.items() if value is not None}})

    @property
    def url(self) -> str:
        return self.database_url or f"sqlite:///{self.data_dir / 'rollway.db'}"

    @property
    def rpc_port(self) -> int:
        if self.grpc_port is not None:
            return self.grpc_port
        return 8081 if self.port else 0
