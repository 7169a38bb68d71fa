"""Pools of workers."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rollway.types.base import Metadata, Name, Request, Response


class PoolCreate(Request):
    """A pool serves one base model with one engine profile."""

    name: Name
    model: Name | None = None
    profile: Name = "default"
    labels: Metadata = {}


class Pool(Response):
    id: str
    name: str
    model_id: str | None
    profile: str
    slots: Annotated[int, Field(description="rollouts that live workers can hold at once")]
    slots_busy: int
    queued: int
    workers: int
    created_at_s: float
    labels: Metadata = {}


class Worker(Response):
    id: str
    name: str
    pool: str
    state: Literal["live", "lost", "closed"]
    epoch: int
    slots: int
    slots_busy: int
    weight_version: int | None
    engine: Metadata
    started_at_s: float
    seen_at_s: float
