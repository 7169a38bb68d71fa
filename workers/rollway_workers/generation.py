"""One generation after the other on one path of a rollout: stream, append, and what to do when the engine fails.

Ids are kept as they stream in, so nothing depends on what an engine says when it is aborted or fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from contextlib import aclosing
from dataclasses import dataclass

from rollway.types import JobCreate, RolloutFailure
from rollway_service.core.checkpoint import LoopState
from rollway_service.core.tree import Tree
from rollway_service.engines.ports import (
    Chunk,
    Engine,
    EngineError,
    EngineInfo,
    EngineProtocolError,
    EngineRejected,
    EngineStreamCut,
    EngineTimeout,
    EngineUnavailable,
    EngineUnreachable,
    SamplingParams,
)
from rollway_service.operations.messages import ClaimedItem
from rollway_service.tokenization.ports import Tokenizer
from rollway_workers.rewards.scorer import Scorer

_MAX_FAULTS_IN_A_ROW = 5
_MAX_UNREACHABLE_S = 300.0
"""An engine that is being restarted refuses connections; rollouts wait for it so long before they fail."""
_ABORT_S = 5.0
_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 5.0
_FAULT_NAMES: dict[type[EngineUnavailable], str] = {
    EngineStreamCut: "stream_cut",
    EngineTimeout: "engine_timeout",
    EngineUnreachable: "engine_unreachable",
}


@dataclass(frozen=True, slots=True)
class LoopParts:
    """What rollouts of a worker share. `window`: tokens that prompt and output may have together."""

    engine: Engine
    info: EngineInfo
    tokenizer: Tokenizer | None
    scorer: Scorer
    window: int | None
    vocab_size: int | None
    eos_token_ids: tuple[int, ...]
    stretch_tokens: int
    stretch_s: float = 2.0


class RolloutFailed(Exception):
    """The rollout yields no usable sample; `failure` says why."""

    def __init__(self, failure: RolloutFailure, *, is_repeatable: bool = True) -> None:
        self.failure = failure
        self.is_repeatable = is_repeatable
        super().__init__(failure.detail)


class Generator:
    """The model's part of a rollout. `leaf`: the node it writes to. `has_stretch`: enough came for a checkpoint."""

    def __init__(self, item: ClaimedItem, spec: JobCreate, parts: LoopParts, tree: Tree, state: LoopState) -> None:
        self._item = item
        self._spec = spec
        self._parts = parts
        self._tree = tree
        self._state = state
        self.leaf = len(tree.nodes) - 1
        self.has_stretch = False
        self._stretch = (tree.num_sampled(self.leaf), time.monotonic())
        self._faults_in_a_row = 0
        self._fault_since_s = time.monotonic()

    def _params(self, max_tokens: int) -> SamplingParams:
        sampling = self._spec.sampling
        info = self._parts.info
        if sampling.stop and not info.supports_stop_strings:
            detail = (
                f"sampling.stop: stop strings are not supported by the {info.facts.kind} engine; use stop_token_ids"
            )
            raise RolloutFailed(RolloutFailure(kind="request", detail=detail), is_repeatable=False)
        stops = set(sampling.stop_token_ids)
        if not sampling.ignore_eos:
            stops |= set(self._parts.eos_token_ids)
        return SamplingParams(
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            max_new_tokens=max_tokens,
            stop_token_ids=tuple(sorted(stops)),
            stop=tuple(sampling.stop),
            ignore_eos=sampling.ignore_eos,
            seed=self._item.seed,
        )

    async def generate(self, max_tokens: int) -> None:
        """One generation, or what an engine gives of it before it fails."""
        params = self._params(max_tokens)
        if not self._tree.nodes[self.leaf].is_model:
            self.leaf = self._tree.add("model", parent=self.leaf, turn=0)
        before = self._tree.nodes[self.leaf].num_tokens
        request_id = f"{self._item.rollout_id}-{self._item.fence}-{self._state.requests}"
        self._state.requests += 1
        started_s = time.monotonic()
        fault: EngineUnavailable | None = None
        reason: str | None = None
        try:
            reason = await self._stream(request_id, params, before)
        except EngineUnavailable as error:
            fault = error
        except EngineRejected as error:
            failure = RolloutFailure(kind="request", detail=str(error))
            raise RolloutFailed(failure, is_repeatable=False) from error
        except EngineProtocolError as error:
            self._state.note("protocol_error")
            raise RolloutFailed(RolloutFailure(kind="engine", detail=str(error))) from error
        finally:
            self._state.generate_s += time.monotonic() - started_s
            if reason is None:
                # The engine may still be at it: no second request before the first is stopped.
                await self._abort(request_id)
        gained = self._tree.nodes[self.leaf].num_tokens - before
        if reason is not None or gained:
            self._state.generations.append((reason or "abort", gained))
        await self._after_fault(fault, gained)

    async def _stream(self, request_id: str, params: SamplingParams, before: int) -> str:
        token_ids = self._tree.path_ids(self.leaf)
        stream = self._parts.engine.generate(
            request_id,
            token_ids,
            params,
            chunk_tokens=self._parts.stretch_tokens,
            routing_key=self._item.group_id,
        )
        async with aclosing(stream):
            async for chunk in stream:
                self._append(chunk, before, params.max_new_tokens)
                if chunk.finish_reason is not None:
                    self._state.cached_tokens += chunk.cached_tokens
                    return chunk.finish_reason
        raise EngineStreamCut(f"the stream of {request_id} ended without a finish reason")

    def _append(self, chunk: Chunk, before: int, max_new_tokens: int) -> None:
        node = self._tree.nodes[self.leaf]
        vocab_size = self._parts.vocab_size
        if vocab_size is not None and len(chunk.token_ids) and int(chunk.token_ids.max()) >= vocab_size:
            raise EngineProtocolError(f"the engine sampled an id outside the vocabulary of {vocab_size}")
        if node.num_tokens - before + len(chunk.token_ids) > max_new_tokens:
            raise EngineProtocolError(f"the engine sampled more than the {max_new_tokens} tokens it was asked for")
        self._tree.extend_sampled(self.leaf, chunk.token_ids, chunk.logprobs, chunk.weight_versions, chunk.kv_versions)
        if chunk.generation_versions is not None and chunk.generation_kv_versions is not None:
            if node.num_tokens - before != len(chunk.generation_versions):
                raise EngineProtocolError("the engine's version spans cover another number of tokens than it gave")
            self._tree.correct_versions(self.leaf, chunk.generation_versions, chunk.generation_kv_versions)
        self._state.nonfinite += chunk.nonfinite
        self._state.missing += chunk.missing
        self._state.note("nonfinite_logprobs", chunk.nonfinite)
        self._state.note("missing_logprobs", chunk.missing)
        self._note_stretch()

    def _note_stretch(self) -> None:
        sampled, now_s = self._tree.num_sampled(self.leaf), time.monotonic()
        since_tokens, since_s = self._stretch
        if sampled - since_tokens >= self._parts.stretch_tokens or now_s - since_s >= self._parts.stretch_s:
            self._stretch = (sampled, now_s)
            self.has_stretch = True

    async def _abort(self, request_id: str) -> None:
        with contextlib.suppress(EngineError, TimeoutError):
            async with asyncio.timeout(_ABORT_S):
                await self._parts.engine.abort(request_id)

    async def _after_fault(self, fault: EngineUnavailable | None, gained: int) -> None:
        """Wait a little and let the policy go on from what is there, or give up after too many faults in a row."""
        if fault is None or gained:
            self._faults_in_a_row, self._fault_since_s = 0, time.monotonic()
        if fault is None:
            return
        self._state.note(_FAULT_NAMES.get(type(fault), "engine_unavailable"))
        self._faults_in_a_row += 1
        lasted_s = time.monotonic() - self._fault_since_s
        is_over = lasted_s > _MAX_UNREACHABLE_S
        if not isinstance(fault, EngineUnreachable):
            is_over = self._faults_in_a_row >= _MAX_FAULTS_IN_A_ROW
        if is_over:
            detail = f"{fault} ({self._faults_in_a_row} times in a row)"
            raise RolloutFailed(RolloutFailure(kind="engine", detail=detail)) from fault
        await asyncio.sleep(min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** (self._faults_in_a_row - 1)))
