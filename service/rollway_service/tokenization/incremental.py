"""Text of a growing sequence of ids, without broken characters at the borders of chunks."""

from __future__ import annotations

from collections.abc import Sequence

from rollway_service.tokenization.ports import Tokenizer

_REPLACEMENT = "\ufffd"
_MAX_START_TOKENS = 3
"""All bytes of a character but the last, at one byte a token."""
_MAX_HELD_TOKENS = 8
"""A character is at most 4 bytes, and byte-level tokens hold at least one: longer runs are really broken bytes."""


class IncrementalDecoder:
    """Gives the text that each chunk of ids completes.

    A character may be spread over several tokens: its bytes are held until it is whole. At a true end `flush` gives
    what is left, with U+FFFD for an unfinished character.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._held: list[int] = []
        self._context: list[int] = []

    def push(self, token_ids: Sequence[int]) -> str:
        """Text that became whole with these ids; may be empty."""
        self._held.extend(token_ids)
        if not self._text_of(self._held).endswith(_REPLACEMENT):
            return self._release(len(self._held))
        if self._tail_may_complete():
            return ""
        # Broken bytes for good, but for the last few, which may be the start of a character.
        return self._release(len(self._held) - _MAX_START_TOKENS)

    def flush(self) -> str:
        """The rest, at the end of the sequence."""
        return self._release(len(self._held))

    def _text_of(self, held: Sequence[int]) -> str:
        """Decoded with the ids before, since some tokenizers drop a leading space of what they decode alone."""
        before = self._tokenizer.decode(self._context)
        return self._tokenizer.decode([*self._context, *held])[len(before) :]

    def _tail_may_complete(self) -> bool:
        """Whether the broken end of the text is short enough to be the start of a character."""
        for start in range(len(self._held) - 1, max(-1, len(self._held) - 1 - _MAX_HELD_TOKENS), -1):
            if not self._tokenizer.decode(self._context + self._held[:start]).endswith(_REPLACEMENT):
                return True
        return len(self._held) <= _MAX_HELD_TOKENS

    def _release(self, count: int) -> str:
        """Text of the first `count` held ids, which then are the context of the rest."""
        text = self._text_of(self._held[:count])
        self._context = (self._context + self._held[:count])[-_MAX_HELD_TOKENS:]
        del self._held[:count]
        return text
