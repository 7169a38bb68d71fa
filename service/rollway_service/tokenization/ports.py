"""Text to ids and back. Ids are the truth; text is a view of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rollway.types import Message


class TokenizerError(Exception):
    """The tokenizer cannot be loaded, or cannot do this. The message is for a person."""


class Tokenizer(Protocol):
    """One model's tokenizer. Methods are quick and thread-safe."""

    @property
    def vocab_size(self) -> int: ...

    @property
    def eos_token_ids(self) -> tuple[int, ...]: ...

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the rendered chat template with the generation prompt.

        Raises:
            TokenizerError: there is no template, or it refuses these messages.
        """
        ...

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:
        """Text of the ids; bytes that are no character become U+FFFD."""
        ...


class Tokenizers(Protocol):
    """Tokenizers by the folder they lie in."""

    async def load(self, source: str) -> Tokenizer:
        """The tokenizer of a model folder, kept after the first load. Raises TokenizerError."""
        ...
