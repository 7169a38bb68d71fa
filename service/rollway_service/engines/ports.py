"""The engine port: what the rollout loop knows of the thing that samples.

An engine gives ids, the log-prob of each under the distribution that sampled it, and the weight version of each. A
stream that ends without a finish reason was cut; what came before is kept by the caller.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from rollway.container import Float32Array, Int32Array
from rollway.types import EngineFacts, LogprobKind

FinishReason = Literal["stop", "length", "abort"]
SwapMode = Literal["in_place", "retract"]


class EngineError(Exception):
    """The engine did not do what was asked. The message is for a person."""


class EngineRejected(EngineError):
    """The request itself is wrong (4xx): asking again would fail again."""


class EngineUnavailable(EngineError):
    """No answer, or one that blames the server: asking again may work."""


class EngineUnreachable(EngineUnavailable):
    """No connection to the engine: it has not seen the request."""


class EngineStreamCut(EngineUnavailable):
    """The stream ended before the engine said that it had finished."""


class EngineTimeout(EngineUnavailable):
    """Nothing came for longer than the time limit."""


class EngineProtocolError(EngineError):
    """The engine answered something that cannot be true; what it said of these tokens is not used."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Sampling of one generation. `seed` is in [0, 2**63); `stop_token_ids` includes the model's end tokens."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    max_new_tokens: int
    stop_token_ids: tuple[int, ...] = ()
    stop: tuple[str, ...] = ()
    ignore_eos: bool = False
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens that came together, all arrays of shape (T,), T >= 0.

    token_ids: int32, as sampled. logprobs: float32, nats, NaN where the engine gave none or a non-finite one.
    weight_versions, kv_versions: int32, per token; kv is the oldest version whose keys and values it attended to.
    nonfinite: how many log-probs were infinite, NaN or above zero. missing: how many could not be assigned to an id.
    finish_reason: None while the generation goes on. cached_tokens: prompt tokens served from the prefix cache.
    """

    token_ids: Int32Array
    logprobs: Float32Array
    weight_versions: Int32Array
    kv_versions: Int32Array
    finish_reason: FinishReason | None = None
    finish_detail: str | None = None
    cached_tokens: int = 0
    nonfinite: int = 0
    missing: int = 0
    generation_versions: Int32Array | None = None
    generation_kv_versions: Int32Array | None = None


@dataclass(frozen=True, slots=True)
class EngineInfo:
    """What an engine is. `vocab_size`, `context_length` and `model_path` are None where it does not say."""

    facts: EngineFacts
    vocab_size: int | None
    context_length: int | None
    weight_version: int | None
    logprob_kind: LogprobKind = "tempered"
    max_running_requests: int = 64
    supports_stop_strings: bool = True
    supports_seeds: bool = True
    model_path: str | None = None


@dataclass(frozen=True, slots=True)
class WeightSource:
    """Weights to load: a folder of safetensors files that the engine can read."""

    version: int
    path: str
    digest: str | None


class Engine(Protocol):
    """One engine. All methods are safe to call at once from one event loop."""

    def generate(
        self,
        request_id: str,
        token_ids: Sequence[int] | Int32Array,
        params: SamplingParams,
        *,
        chunk_tokens: int,
        routing_key: str = "",
    ) -> AsyncGenerator[Chunk, None]:
        """Stream a generation in chunks of about `chunk_tokens`. Closing the generator aborts the request.

        Requests with one `routing_key` share a prefix: a router keeps them on one server.

        Raises:
            EngineRejected, EngineUnavailable, EngineStreamCut, EngineTimeout, EngineProtocolError.
        """
        ...

    async def score(self, token_ids: Sequence[int] | Int32Array, *, temperature: float = 1.0) -> Float32Array:
        """Log-prob of each id given those before it, shape (T,), float32, NaN first."""
        ...

    async def abort(self, request_id: str) -> None:
        """Stop a request; its stream ends with finish reason `abort`. Unknown ids are ignored."""
        ...

    async def load_weights(self, source: WeightSource, mode: SwapMode) -> None:
        """Swap the weights. Returns when tokens are sampled from them; nothing made with older ones serves new work.

        Raises:
            EngineError: they could not be loaded; the old ones still serve.
        """
        ...

    async def loaded_version(self) -> int | None:
        """The version that the engine runs now; None where it cannot tell."""
        ...

    async def pause(self) -> None: ...

    async def resume(self) -> None: ...

    async def info(self) -> EngineInfo: ...

    async def close(self) -> None: ...
