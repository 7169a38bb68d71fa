"""Registering models. What can be read from the folder is read there; what the caller says must agree with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from rollway.digests import template_digest, tokenizer_digest, weights_digest
from rollway.types import Model, ModelCreate, Page
from rollway.types.base import INT32_MAX
from rollway_service.core.errors import AlreadyExists, FieldInvalid, TokenizerMismatch
from rollway_service.core.ids import new_id
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.idempotency import once
from rollway_service.operations.lookups import check_new_name, page_cursor
from rollway_service.operations.lookups import get_model as find_model
from rollway_service.store import models
from rollway_service.store.rows import ModelRow


@dataclass(frozen=True, slots=True)
class FolderFacts:
    """What a model folder says of itself; None where it does not."""

    tokenizer_digest: str | None
    template_digest: str | None
    weights_digest: str | None
    vocab_size: int | None
    context_length: int | None
    eos_token_ids: list[int]


def check_source(context: Context, source: str, path: str) -> None:
    """Refuse paths outside the folders that the operator allows."""
    roots = [Path(root).resolve() for root in context.settings.model_roots.split(":") if root]
    if roots and not any(Path(source).resolve().is_relative_to(root) for root in roots):
        raise FieldInvalid(path, "lies outside the folders that this service may read (ROLLWAY_MODEL_ROOTS)")


def _present(digest: Callable[[str], str | None], source: str) -> str | None:
    try:
        return digest(source)
    except FileNotFoundError:
        return None


def _read_config(file: Path) -> dict[str, Any]:
    config = orjson.loads(file.read_bytes()) if file.is_file() else {}
    if not isinstance(config, dict):
        raise ValueError(f"{file.name} holds no JSON object")  # noqa: TRY004 - the file is wrong, not a type of ours
    return config


def _size(config: dict[str, Any], name: str) -> int | None:
    value = config.get(name)
    if value is not None and (type(value) is not int or not 1 <= value <= INT32_MAX):
        raise ValueError(f"config.json: {name} is {value!r}")
    return value


def _eos_token_ids(config: dict[str, Any]) -> list[int]:
    value = config.get("eos_token_id")
    ids = [] if value is None else value if isinstance(value, list) else [value]
    if not all(type(token_id) is int and 0 <= token_id <= INT32_MAX for token_id in ids):
        raise ValueError(f"config.json: eos_token_id is {value!r}")
    return ids


def read_folder(source: str) -> FolderFacts:
    """Read a model folder; facts whose file is missing are None.

    Raises:
        OSError, ValueError: the folder cannot be read, or a file in it is broken.
    """
    config = _read_config(Path(source) / "config.json")
    return FolderFacts(
        tokenizer_digest=_present(tokenizer_digest, source),
        template_digest=_present(template_digest, source),
        weights_digest=_present(weights_digest, source),
        vocab_size=_size(config, "vocab_size"),
        context_length=_size(config, "max_position_embeddings"),
        eos_token_ids=_eos_token_ids(config),
    )


def _agreed(given: str | None, found: str | None, field: str) -> str | None:
    if given is not None and found is not None and given != found:
        raise TokenizerMismatch(f"$.{field}: the folder has {found}, the request says {given}")
    return given or found


def as_model(row: ModelRow) -> Model:
    return Model(
        id=row.id,
        name=row.name,
        source=row.source,
        tokenizer_digest=row.tokenizer_digest,
        template_digest=row.template_digest,
        vocab_size=row.vocab_size,
        context_length=row.context_length,
        eos_token_ids=row.eos_token_ids,
        latest_version=row.latest_version,
        created_at_s=row.created_at_s,
        metadata=row.metadata,
    )


async def register_model(context: Context, caller: Caller, request: ModelCreate, *, key: str | None = None) -> Model:
    """Register a model; its weights become version 0."""
    check_new_name(request.name)
    check_source(context, request.source, "$.source")
    try:
        facts = await asyncio.to_thread(read_folder, request.source)
    except (OSError, ValueError) as error:
        raise FieldInvalid("$.source", f"the model folder cannot be read: {error}") from None
    tokenizer = _agreed(request.tokenizer_digest, facts.tokenizer_digest, "tokenizer_digest")
    template = _agreed(request.template_digest, facts.template_digest, "template_digest")
    weights = _agreed(request.weights_digest, facts.weights_digest, "weights_digest")

    async def make() -> Model:
        await transaction.alone_with("model", caller.tenant_id, request.name)
        if await models.model_by_name(transaction, caller.tenant_id, request.name) is not None:
            raise AlreadyExists(f"a model {request.name!r} exists already")
        model_id = new_id("model")
        await models.insert_model(
            transaction,
            id=model_id,
            tenant_id=caller.tenant_id,
            name=request.name,
            source=request.source,
            tokenizer_digest=tokenizer,
            template_digest=template,
            vocab_size=request.vocab_size or facts.vocab_size,
            context_length=request.context_length or facts.context_length,
            eos_token_ids=facts.eos_token_ids if request.eos_token_ids is None else request.eos_token_ids,
            metadata=request.metadata,
        )
        await models.insert_version(
            transaction,
            model_id=model_id,
            version=0,
            tenant_id=caller.tenant_id,
            parent=None,
            trainer_step=0,
            digest=weights,
            source=request.source,
            metadata={},
        )
        row = await models.model_by_id(transaction, caller.tenant_id, model_id)
        assert row is not None
        return as_model(row)

    async with context.database.transaction() as transaction:
        return await once(transaction, caller, key, "register_model", request, make, Model)


async def get_model(context: Context, caller: Caller, name_or_id: str) -> Model:
    async with context.database.snapshot() as transaction:
        return as_model(await find_model(transaction, caller.tenant_id, name_or_id))


async def list_models(context: Context, caller: Caller, *, cursor: str | None, limit: int) -> Page[Model]:
    async with context.database.snapshot() as transaction:
        rows = await models.list_models(transaction, caller.tenant_id, page_cursor(cursor, limit, "model"))
    return Page(items=[as_model(row) for row in rows], next_cursor=rows[-1].id if len(rows) == limit else None)
