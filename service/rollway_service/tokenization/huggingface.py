"""Tokenizers of Hugging Face model folders, rendered and encoded by transformers itself, as trainers do."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rollway.types import Message
from rollway_service.tokenization.ports import Tokenizer, TokenizerError


class HuggingFaceTokenizer:
    """A transformers tokenizer behind the port."""

    def __init__(self, tokenizer: Any, source: str) -> None:
        self._tokenizer = tokenizer
        self._source = source
        eos = tokenizer.eos_token_id
        self.eos_token_ids: tuple[int, ...] = () if eos is None else (int(eos),)
        self.vocab_size = len(tokenizer)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        try:
            ids = self._tokenizer.apply_chat_template(
                [message.model_dump() for message in messages],
                add_generation_prompt=True,
                tokenize=True,
                return_dict=False,
            )
        except Exception as error:
            # Templates are code of the model's author and raise whatever they like (jinja2 errors, TypeError, ...).
            raise TokenizerError(f"the chat template of {self._source} refuses the messages: {error}") from error
        return [int(token_id) for token_id in ids]

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        text = self._tokenizer.decode(
            list(token_ids), skip_special_tokens=skip_special, clean_up_tokenization_spaces=False
        )
        return str(text)


class HuggingFaceTokenizers:
    """Loads tokenizers from local folders, each once."""

    def __init__(self) -> None:
        self._loaded: dict[str, asyncio.Task[Tokenizer]] = {}

    async def load(self, source: str) -> Tokenizer:
        if source not in self._loaded:
            self._loaded[source] = asyncio.create_task(asyncio.to_thread(_load, source))
        try:
            return await asyncio.shield(self._loaded[source])
        except TokenizerError:
            self._loaded.pop(source, None)
            raise


def _load(source: str) -> Tokenizer:
    if not Path(source).is_dir():
        raise TokenizerError(f"{source} is no folder that the service can read")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    from transformers import AutoTokenizer  # noqa: PLC0415 - seconds of import, only when text is needed

    try:
        return HuggingFaceTokenizer(AutoTokenizer.from_pretrained(source, trust_remote_code=False), source)
    except Exception as error:
        # transformers raises OSError, ValueError, KeyError and more for a folder it cannot read.
        raise TokenizerError(f"no tokenizer could be loaded from {source}: {error}") from error
