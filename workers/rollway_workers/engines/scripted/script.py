"""What the scripted engine is told to answer. Pure."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

FaultKind = Literal["status", "hang", "cut", "reset", "error_event", "garbage"]


@dataclass(frozen=True, slots=True)
class Call:
    """One /generate request."""

    request_id: str
    input_ids: tuple[int, ...]
    sampling: Mapping[str, Any]
    cache_namespace: str | None
    is_stream: bool
    body: Mapping[str, Any]

    @property
    def seed(self) -> int:
        return int(self.sampling.get("sampling_seed") or 0)

    @property
    def max_new_tokens(self) -> int:
        return int(self.sampling["max_new_tokens"])


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong after `after_tokens` tokens.

    status: an HTTP error before anything (`status`). hang: silence for ever. cut: the stream ends without a finish
    reason. reset: the connection is torn. error_event: an error inside the stream. garbage: bytes that are not JSON.
    """

    kind: FaultKind
    after_tokens: int = 0
    status: int = 500
    message: str = "scripted fault"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a generation gives.

    logprobs: one for each id, None for -1.0 each; a shorter list is sent as it is; NaN, infinities and None too.
    finish: stop, length or abort. spans: (version, start, end) over the output ids, None for one span of the server's
    version. chunk_tokens: ids in one event. first_delay_s, chunk_delay_s: seconds before the first and each event.
    """

    token_ids: Sequence[int]
    logprobs: Sequence[float | None] | None = None
    finish: str = "stop"
    matched: int | str | None = None
    spans: Sequence[tuple[int, int, int]] | None = None
    chunk_tokens: int = 64
    first_delay_s: float = 0.0
    chunk_delay_s: float = 0.0
    cached_tokens: int = 0
    fault: Fault | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)


Responder = Callable[[Call], Answer | Awaitable[Answer]]

_MASK = 2**64 - 1


def _mix(value: int) -> int:
    """splitmix64's finaliser."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def seeded_responder(
    *,
    vocab_size: int,
    eos_token_id: int | None = None,
    mean_tokens: int = 32,
    chunk_tokens: int = 64,
    chunk_delay_s: float = 0.0,
) -> Responder:
    """Answers that depend on seed and position alone, as a seeded engine's do.

    A generation that was interrupted and goes on from its ids gives the same tokens as one that was not.

    Args:
        vocab_size: ids are drawn from [0, vocab_size).
        eos_token_id: ends a generation; None lets every generation run to its cap.
        mean_tokens: mean length until the end token.
    """

    def respond(call: Call) -> Answer:
        ids: list[int] = []
        logprobs: list[float | None] = []
        position = len(call.input_ids)
        finish = "length"
        for _ in range(call.max_new_tokens):
            word = _mix((call.seed * 0x9E3779B97F4A7C15 + position * 0xD1342543DE82EF95 + 1) & _MASK)
            token_id = (word >> 20) % vocab_size
            if eos_token_id is not None and (word & 0xFFFFF) < (1 << 20) // mean_tokens:
                token_id = eos_token_id
            ids.append(token_id)
            logprobs.append(round(-math.log1p((word >> 44) / 2**20 * 8), 6))
            position += 1
            if token_id == eos_token_id:
                finish = "stop"
                break
        return Answer(ids, logprobs, finish, chunk_tokens=chunk_tokens, chunk_delay_s=chunk_delay_s)

    return respond
