"""The embedded engine behind the engine port."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import structlog
import torch
import transformers
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, PreTrainedModel

from rollway.container import Float32Array, Int32Array
from rollway.types import EngineFacts
from rollway_service.engines.ports import (
    Chunk,
    EngineError,
    EngineInfo,
    EngineRejected,
    EngineUnavailable,
    FinishReason,
    SamplingParams,
    SwapMode,
    WeightSource,
)
from rollway_workers.engines.embedded.batching import BatchingManager, BatchSettings
from rollway_workers.engines.embedded.sampling import sample

_LONGEST_SILENCE_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class EmbeddedSettings:
    """`deterministic` runs the model in float64: the same ids and log-probs at any concurrency. `threads`: of torch."""

    deterministic: bool = False
    threads: int = 1
    device: str = "cpu"
    profile: str = "default"
    worker: str = ""
    batch: BatchSettings = field(default_factory=BatchSettings)


@dataclass(slots=True)
class _Request:
    """A generation in flight. Written by the generation thread, read through the queue."""

    params: SamplingParams
    loop: asyncio.AbstractEventLoop
    queue: asyncio.Queue[Chunk | EngineError]
    chunk_tokens: int
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    kv_versions: list[int] = field(default_factory=list)
    kv_version: int | None = None
    num_sent: int = 0
    sent_s: float = field(default_factory=time.monotonic)
    is_done: bool = False

    def take(self, reason: FinishReason | None, detail: str | None = None) -> Chunk:
        """What has come since the last chunk."""
        where = slice(self.num_sent, len(self.ids))
        self.num_sent, self.sent_s = len(self.ids), time.monotonic()
        logprobs = np.array(self.logprobs[where], dtype=np.float32)
        nonfinite = ~np.isfinite(logprobs)
        return Chunk(
            token_ids=np.array(self.ids[where], dtype=np.int32),
            logprobs=np.where(nonfinite, np.float32(np.nan), logprobs),
            weight_versions=np.array(self.versions[where], dtype=np.int32),
            kv_versions=np.array(self.kv_versions[where], dtype=np.int32),
            finish_reason=reason,
            finish_detail=detail,
            nonfinite=int(nonfinite.sum()),
        )

    def is_due(self) -> bool:
        waiting = len(self.ids) - self.num_sent
        return waiting >= self.chunk_tokens or (waiting > 0 and time.monotonic() - self.sent_s >= _LONGEST_SILENCE_S)


class EmbeddedEngine:
    """Generates with a model in this process.

    One generation thread (transformers' own) samples; one control thread pauses, loads weights and scores. One bad
    request would kill the generation thread, so everything is checked before it is submitted.
    """

    def __init__(
        self, model: PreTrainedModel, settings: EmbeddedSettings | None = None, *, weight_version: int = 0
    ) -> None:
        self.settings = settings or EmbeddedSettings()
        self._model = model
        self._version = weight_version
        self._vocab_size = int(model.config.vocab_size)
        self._window = min(int(model.config.max_position_embeddings), self.settings.batch.cache_tokens)
        self._requests: dict[str, _Request] = {}
        self._engine_ids = itertools.count()
        self._by_caller: dict[str, str] = {}
        self._old_blocks: set[str] = set()
        self._lock = threading.Lock()
        self._control = ThreadPoolExecutor(1, "rollway-engine")
        self._pauses = 0
        self._pause: Any = None
        self._tensors: dict[str, torch.Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        self._manager = BatchingManager(model, self.settings.batch, self)

    @classmethod
    def load(
        cls, path: str | Path, settings: EmbeddedSettings | None = None, *, weight_version: int = 0
    ) -> EmbeddedEngine:
        """The engine over a local model folder of safetensors."""
        settings = settings or EmbeddedSettings()
        torch.set_num_threads(settings.threads)
        transformers.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
        dtype = torch.float64 if settings.deterministic else torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(
            str(path), dtype=dtype, use_safetensors=True, local_files_only=True, trust_remote_code=False
        )
        model.requires_grad_(requires_grad=False).eval()
        return cls(model.to(settings.device), settings, weight_version=weight_version)

    # The listener's part: called in the generation thread.

    def on_sample(self, scores: torch.Tensor, rows: Sequence[Any]) -> torch.Tensor:
        requests = [self._requests.get(row.state.request_id) for row in rows]
        params = [_IDLE if request is None else request.params for request in requests]
        ids, logprobs = sample(scores, params, [int(row.state.position_offset) for row in rows])
        for request, token_id, logprob in zip(requests, ids.tolist(), logprobs.tolist(), strict=True):
            if request is not None and not request.is_done:
                if request.kv_version is None:
                    request.kv_version = self._version
                request.ids.append(token_id)
                request.logprobs.append(logprob)
                request.versions.append(self._version)
                request.kv_versions.append(request.kv_version)
        return ids

    def on_step(self, finished: Sequence[tuple[str, bool]]) -> None:
        due: list[tuple[_Request, Chunk | EngineError]] = []
        for request_id, is_finished in finished:
            request = self._requests.get(request_id)
            if request is None or request.is_done:
                continue
            if is_finished:
                stopped = request.ids[-1] in request.params.stop_token_ids
                due.append((request, self._end(request_id, request, "stop" if stopped else "length")))
            elif request.is_due():
                due.append((request, request.take(None)))
        _deliver(due)

    def on_cancelled(self, request_ids: Sequence[str]) -> None:
        due: list[tuple[_Request, Chunk | EngineError]] = []
        for request_id in request_ids:
            request = self._requests.get(request_id)
            if request is not None and not request.is_done:
                due.append((request, self._end(request_id, request, "abort", "aborted by the caller")))
        _deliver(due)

    def on_failed(self, request_id: str, error: str) -> None:
        request = self._requests.pop(request_id, None)
        if request is not None and not request.is_done:
            request.is_done = True
            _deliver([(request, EngineUnavailable(f"the embedded engine failed: {error}"))])

    def may_share_blocks(self, request_id: str) -> bool:
        return request_id not in self._old_blocks

    def _end(self, request_id: str, request: _Request, reason: FinishReason, detail: str | None = None) -> Chunk:
        request.is_done = True
        self._requests.pop(request_id, None)
        self._old_blocks.discard(request_id)
        return request.take(reason, detail)

    # The port.

    async def generate(
        self,
        request_id: str,
        token_ids: Sequence[int] | Int32Array,
        params: SamplingParams,
        *,
        chunk_tokens: int,
        routing_key: str = "",
    ) -> AsyncGenerator[Chunk, None]:
        del routing_key
        ids = [int(token_id) for token_id in token_ids]
        self._check(request_id, ids, params)
        request = _Request(params, asyncio.get_running_loop(), asyncio.Queue(), max(1, chunk_tokens))
        engine_id = f"e{next(self._engine_ids)}"
        await self._ensure_running()
        self._requests[engine_id] = request
        self._by_caller[request_id] = engine_id
        try:
            self._manager.add(engine_id, ids, params.max_new_tokens, params.stop_token_ids)
            while True:
                item = await request.queue.get()
                if isinstance(item, EngineError):
                    raise item
                yield item
                if item.finish_reason is not None:
                    return
        finally:
            self._by_caller.pop(request_id, None)
            if not request.is_done:
                self._manager.cancel(engine_id)

    def _check(self, request_id: str, ids: list[int], params: SamplingParams) -> None:
        if request_id in self._by_caller:
            raise EngineRejected(f"request {request_id} is running already")
        if not ids:
            raise EngineRejected("the prompt is empty")
        if min(ids) < 0 or max(ids) >= self._vocab_size:
            raise EngineRejected(f"the prompt holds an id outside the vocabulary of {self._vocab_size}")
        if params.max_new_tokens < 1:
            raise EngineRejected("max_new_tokens must be at least 1")
        if len(ids) + params.max_new_tokens > self._window:
            raise EngineRejected(
                f"{len(ids)} prompt tokens and {params.max_new_tokens} new ones pass the window of {self._window}"
            )
        if params.stop:
            raise EngineRejected("stop strings are not supported by the embedded engine; use stop_token_ids")
        if not np.isfinite([params.temperature, params.top_p, params.min_p]).all() or params.temperature < 0:
            raise EngineRejected(f"temperature {params.temperature} is not allowed")

    async def _ensure_running(self) -> None:
        """Start the manager anew if its thread has died; the model and its weights are still here."""
        if not self._manager.is_running:
            await self._in_control(self._restart)

    def _restart(self) -> None:
        with self._lock:
            if self._manager.is_running:
                return
            log.error("embedded_engine_restarted")
            self._manager.stop()
            for request_id in list(self._requests):
                self.on_failed(request_id, "its generation thread died")
            self._old_blocks.clear()
            self._manager = BatchingManager(self._model, self.settings.batch, self)

    async def _in_control(self, call: Any, *arguments: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._control, call, *arguments)

    async def abort(self, request_id: str) -> None:
        engine_id = self._by_caller.get(request_id)
        if engine_id is not None:
            self._manager.cancel(engine_id)

    async def pause(self) -> None:
        await self._in_control(self._enter_pause)

    async def resume(self) -> None:
        await self._in_control(self._leave_pause)

    def _enter_pause(self) -> None:
        # transformers counts pauses per thread: enter and leave both happen in the control thread.
        if self._pauses == 0:
            self._pause = self._manager.pause()
            self._pause.__enter__()
        self._pauses += 1

    def _leave_pause(self) -> None:
        if self._pauses == 0:
            return
        self._pauses -= 1
        if self._pauses == 0:
            self._pause.__exit__(None, None, None)
            self._pause = None

    async def load_weights(self, source: WeightSource, mode: SwapMode) -> None:
        """Swap the weights between two steps; see the port. `retract` computes old requests' KV anew."""
        await self._in_control(self._load, source, mode)

    def _load(self, source: WeightSource, mode: SwapMode) -> None:
        tensors = self._read(source)
        self._enter_pause()
        try:
            with torch.no_grad():
                for name, tensor in tensors.items():
                    self._tensors[name].copy_(tensor)
            self._version = source.version
            if mode == "retract":
                for request_id in self._manager.restart_requests():
                    request = self._requests.get(request_id)
                    if request is not None:
                        request.kv_version = None
            self._manager.forget_shared_blocks()
            self._old_blocks = set(self._manager.active_requests())
        finally:
            self._leave_pause()

    def _read(self, source: WeightSource) -> Mapping[str, torch.Tensor]:
        """All tensors of a folder, checked against the model before any is copied."""
        tensors: dict[str, torch.Tensor] = {}
        for path in sorted(Path(source.path).glob("*.safetensors")):
            try:
                tensors.update(load_file(path))
            except Exception as error:
                # safetensors raises its own error, OSError or ValueError for files that are cut or no safetensors.
                raise EngineError(f"version {source.version}: {path.name} cannot be read: {error}") from error
        wrong = [
            name
            for name, tensor in tensors.items()
            if name not in self._tensors or self._tensors[name].shape != tensor.shape
        ]
        tied = {"lm_head.weight"} if self._model.config.tie_word_embeddings else set()
        parameters = {name for name, _ in self._model.named_parameters()}
        missing = sorted(parameters - set(tensors) - tied)
        unknown = sorted(set(wrong) - tied)
        if unknown or missing:
            raise EngineError(
                f"version {source.version} does not fit the model: unknown or misshapen {unknown[:3]},"
                f" missing {missing[:3]}"
            )
        return {name: tensor for name, tensor in tensors.items() if name not in wrong}

    async def score(self, token_ids: Sequence[int] | Int32Array, *, temperature: float = 1.0) -> Float32Array:
        scored: Float32Array = await self._in_control(self._score, [int(token) for token in token_ids], temperature)
        return scored

    @torch.no_grad()
    def _score(self, ids: list[int], temperature: float) -> Float32Array:
        tokens = torch.tensor([ids], device=self.settings.device)
        logits = self._model(input_ids=tokens, use_cache=False).logits[0, :-1]
        scores = logits if logits.dtype == torch.float64 else logits.float()
        logprobs = torch.log_softmax(scores / (temperature or 1.0), dim=-1)
        chosen = logprobs.gather(1, tokens[0, 1:, None])[:, 0]
        return np.concatenate(([np.nan], chosen.cpu().numpy())).astype(np.float32)

    async def loaded_version(self) -> int | None:
        return self._version

    async def info(self) -> EngineInfo:
        return EngineInfo(
            facts=EngineFacts(
                kind="embedded",
                build=f"transformers {transformers.__version__}",
                profile=self.settings.profile,
                worker=self.settings.worker,
                deterministic=self.settings.deterministic,
            ),
            vocab_size=self._vocab_size,
            context_length=self._window,
            weight_version=self._version,
            logprob_kind="tempered",
            max_running_requests=self.settings.batch.max_requests_per_batch * 2,
            supports_stop_strings=False,
            supports_seeds=True,
        )

    async def close(self) -> None:
        await self._in_control(self._close)
        self._control.shutdown(wait=True)

    def _close(self) -> None:
        while self._pauses:
            self._leave_pause()
        self._manager.stop()
        for request_id in list(self._requests):
            self.on_failed(request_id, "the engine was closed")


_IDLE = SamplingParams(max_new_tokens=1, temperature=0.0)
"""Parameters of a row whose request has left: its token is thrown away."""


def _deliver(due: Sequence[tuple[_Request, Chunk | EngineError]]) -> None:
    """One wake-up of each event loop for all that a step has brought."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Request, Chunk | EngineError]]] = {}
    for request, item in due:
        by_loop.setdefault(request.loop, []).append((request, item))
    for loop, items in by_loop.items():
        if not loop.is_closed():
            loop.call_soon_threadsafe(_put, items)


def _put(items: Sequence[tuple[_Request, Chunk | EngineError]]) -> None:
    for request, item in items:
        request.queue.put_nowait(item)
