"""Prompts of tasks as token ids: rendered, encoded and checked before anything is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollway.types import Task
from rollway_service.core.errors import FieldError, FieldInvalid, InvalidRequest
from rollway_service.operations.context import Context
from rollway_service.store.rows import ModelRow
from rollway_service.tokenization.ports import Tokenizer, TokenizerError

_MAX_REPORTED = 20


@dataclass(frozen=True, slots=True)
class PreparedTask:
    """A task whose prompt is ready; `prompt_ids` holds little-endian int32."""

    task: Task
    prompt_ids: bytes

    @property
    def num_prompt_tokens(self) -> int:
        return len(self.prompt_ids) // 4

    def as_row(self) -> dict[str, Any]:
        messages = self.task.messages
        return {
            "key": self.task.key,
            "prompt_ids": self.prompt_ids,
            "messages": None if messages is None else [message.model_dump() for message in messages],
            "reference": self.task.reference,
            "metadata": self.task.metadata,
        }


async def prepare_tasks(
    context: Context, model: ModelRow, tasks: Sequence[Task], *, window: int | None, path: str = "$.tasks"
) -> list[PreparedTask]:
    """Encode and check the prompts of all tasks.

    Args:
        model: whose vocabulary and tokenizer count.
        window: tokens that prompt and output may have together; None = unknown.
        path: JSON path of the list in the request.

    Raises:
        InvalidRequest: with one error per bad task, at most 20.
    """
    tokenizer = None
    if any(task.messages is not None for task in tasks):
        try:
            tokenizer = await context.tokenizers.load(model.source)
        except TokenizerError as error:
            raise FieldInvalid(
                f"{path}[0].messages", f"this service cannot render chat messages: {error}; send token_ids"
            ) from None
    return await asyncio.to_thread(_prepare, tasks, tokenizer, model.vocab_size, window, path)


def _prepare(
    tasks: Sequence[Task], tokenizer: Tokenizer | None, vocab_size: int | None, window: int | None, path: str
) -> list[PreparedTask]:
    prepared: list[PreparedTask] = []
    errors: list[FieldError] = []
    for index, task in enumerate(tasks):
        where = f"{path}[{index}]"
        try:
            ids = _prompt_ids(task, tokenizer, where)
            _check_ids(ids, vocab_size, window, where)
        except FieldInvalid as error:
            errors.extend(error.errors)
            if len(errors) >= _MAX_REPORTED:
                break
        else:
            prepared.append(PreparedTask(task, ids.tobytes()))
    if errors:
        raise InvalidRequest(f"{errors[0].path}: {errors[0].message}", errors=tuple(errors))
    return prepared


def _prompt_ids(task: Task, tokenizer: Tokenizer | None, where: str) -> np.ndarray:
    if task.token_ids is not None:
        return np.asarray(task.token_ids, dtype="<i4")
    assert tokenizer is not None
    assert task.messages is not None
    try:
        ids = tokenizer.encode_chat(task.messages)
    except TokenizerError as error:
        raise FieldInvalid(f"{where}.messages", str(error)) from None
    if not ids:
        raise FieldInvalid(f"{where}.messages", "the chat template renders to an empty prompt")
    return np.asarray(ids, dtype="<i4")


def _check_ids(ids: np.ndarray, vocab_size: int | None, window: int | None, where: str) -> None:
    if vocab_size is not None and (outside := np.flatnonzero(ids >= vocab_size)).size:
        position = int(outside[0])
        raise FieldInvalid(
            f"{where}.token_ids[{position}]", f"{int(ids[position])} is outside the vocabulary of {vocab_size}"
        )
    if window is not None and len(ids) > window:
        raise FieldInvalid(where, f"the prompt has {len(ids)} tokens, but the window holds {window}")
