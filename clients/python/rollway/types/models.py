"""Models being trained, their weight versions, and the runs that train them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StrictInt

from rollway.types.base import INT32_MAX, Digest, Metadata, Name, Request, Response, Step, Tags, Text, TokenId, Version

Source = Annotated[Text, Field(min_length=1, max_length=4096)]


class ModelCreate(Request):
    """Register a model; its starting weights become version 0.

    `source` is a folder with safetensors weights, config and tokenizer that service and workers can read. Facts that
    the service can read there itself (digests, vocabulary, window) may be left out; given ones must agree.
    """

    name: Name
    source: Source
    tokenizer_digest: Digest | None = None
    template_digest: Digest | None = None
    weights_digest: Digest | None = None
    vocab_size: Annotated[StrictInt | None, Field(ge=1, le=INT32_MAX)] = None
    context_length: Annotated[StrictInt | None, Field(ge=1, le=INT32_MAX)] = None
    eos_token_ids: Annotated[list[TokenId] | None, Field(max_length=64)] = None
    metadata: Metadata = {}


class Model(Response):
    id: str
    name: str
    source: str
    tokenizer_digest: str | None
    template_digest: str | None
    vocab_size: int | None
    context_length: int | None
    eos_token_ids: list[int]
    latest_version: int
    created_at_s: float
    metadata: Metadata = {}


class VersionPublish(Request):
    """New weights. `parent` defaults to the latest version; an older parent is a rollback."""

    source: Source
    digest: Digest
    trainer_step: Step
    parent: Version | None = None
    metadata: Metadata = {}


class WeightVersion(Response):
    model_id: str
    version: int
    parent: int | None
    trainer_step: int
    digest: str | None
    source: str
    created_at_s: float
    workers_active: Annotated[int, Field(description="live workers of the model that run this version now")]
    workers_total: int
    metadata: Metadata = {}

    @property
    def is_converged(self) -> bool:
        return self.workers_total > 0 and self.workers_active == self.workers_total


class RunCreate(Request):
    name: Name
    model: Name
    pool: Name | None = None
    tags: Tags = []
    metadata: Metadata = {}


class Run(Response):
    id: str
    name: str
    model_id: str
    model: str
    pool: str
    tags: list[str]
    created_at_s: float
    metadata: Metadata = {}
