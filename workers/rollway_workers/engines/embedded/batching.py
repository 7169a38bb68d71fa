"""The seam to transformers' continuous batching: everything that touches its private names is here.

transformers 5.24 is pinned exactly. `attach` fails at start when a name that we hook is gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from transformers import GenerationConfig, PreTrainedModel
from transformers.generation.configuration_utils import ContinuousBatchingConfig
from transformers.generation.continuous_batching.continuous_api import OutputRouter
from transformers.generation.continuous_batching.requests import RequestStatus


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Cost on a CPU grows with the square of `max_requests_per_batch`; more requests wait in the queue.

    num_blocks x page_size tokens of KV cache. Without these, the defaults take 60 % of the free memory.
    """

    max_batch_tokens: int = 256
    num_blocks: int = 2048
    page_size: int = 8
    max_requests_per_batch: int = 32
    allow_prefix_sharing: bool = True

    @property
    def cache_tokens(self) -> int:
        return self.num_blocks * self.page_size


class Listener(Protocol):
    """What the engine does at the points of a step; called in the generation thread."""

    def on_sample(self, scores: torch.Tensor, rows: Sequence[Any]) -> torch.Tensor: ...

    def on_step(self, finished: Sequence[tuple[str, bool]]) -> None: ...

    def on_cancelled(self, request_ids: Sequence[str]) -> None: ...

    def on_failed(self, request_id: str, error: str) -> None: ...

    def may_share_blocks(self, request_id: str) -> bool: ...


class _Failures(OutputRouter):
    """Takes failures and drops finished outputs, which nobody would ever fetch from the queue."""

    def __init__(self, on_failed: Callable[[str, str], None]) -> None:
        super().__init__()
        self._on_failed = on_failed

    def deliver(self, output: Any) -> None:
        if output.status == RequestStatus.FAILED:
            self._on_failed(output.request_id, str(output.error))

    def deliver_batch(self, outputs: Any) -> None:
        for output in outputs:
            self.deliver(output)


class BatchingManager:
    """A running continuous-batching manager with our hooks in it."""

    def __init__(self, model: PreTrainedModel, settings: BatchSettings, listener: Listener) -> None:
        self._listener = listener
        self._settings = settings
        untyped: Any = GenerationConfig
        generation = untyped(do_sample=False, eos_token_id=-1, pad_token_id=0, max_new_tokens=16)
        batching = ContinuousBatchingConfig(
            max_batch_tokens=settings.max_batch_tokens,
            num_blocks=settings.num_blocks,
            page_size=settings.page_size,
            max_requests_per_batch=settings.max_requests_per_batch,
            allow_block_sharing=settings.allow_prefix_sharing,
            use_async_batching=False,
            use_cuda_graph=False,
            return_logprobs=False,
            auto_switch_to_flash=False,
            seed=0,
        )
        random_state = torch.get_rng_state()
        with torch.no_grad():
            untyped = model
            self._manager: Any = untyped.init_continuous_batching(
                generation_config=generation, continuous_batching_config=batching
            )
            # Before the processor exists: it keeps a reference of its own.
            self._manager.output_router = _Failures(listener.on_failed)
            self._manager.warmup()
            self._attach()
            _in_daemon_thread(self._manager.start)
        # Making the processor seeds torch globally; the caller's random state is none of its business.
        torch.set_rng_state(random_state)

    def _attach(self) -> None:
        processor = self._manager.batch_processor
        for owner, name in (
            (processor.model_runner, "_sample"),
            (processor, "update_batch"),
            (processor.cache, "mark_complete_blocks"),
            (processor.cache, "evict_cached_blocks"),
            (processor.scheduler, "clear_cancelled_requests"),
            (processor.scheduler, "active_requests"),
            (processor.inputs_and_outputs, "requests_in_batch"),
        ):
            if not hasattr(owner, name):
                raise RuntimeError(f"this transformers has no {type(owner).__name__}.{name}: pin transformers==5.24.0")
        self._processor = processor
        self._update = processor.update_batch
        self._mark = processor.cache.mark_complete_blocks
        self._clear = processor.scheduler.clear_cancelled_requests
        processor.model_runner._sample = self._sample  # noqa: SLF001 - the hook, see the module's docstring
        processor.update_batch = self._update_batch
        processor.cache.mark_complete_blocks = self._mark_complete
        processor.scheduler.clear_cancelled_requests = self._clear_cancelled

    def _sample(self, scores: torch.Tensor, output_ids: torch.Tensor) -> None:
        """Stands in for the runner's sampler; rows after those with a new token are split prefills."""
        rows = [row for row in self._processor.inputs_and_outputs.requests_in_batch if row.has_new_token]
        if rows:
            output_ids[0, : len(rows)].copy_(self._listener.on_sample(scores[0, : len(rows)], rows))

    def _update_batch(self) -> None:
        rows = [row for row in self._processor.inputs_and_outputs.requests_in_batch if row.has_new_token]
        self._update()
        self._listener.on_step([(row.state.request_id, row.state.status == RequestStatus.FINISHED) for row in rows])

    def _mark_complete(self, state: Any, blocks: Any) -> None:
        if self._listener.may_share_blocks(state.request_id):
            self._mark(state, blocks)

    def _clear_cancelled(self) -> Any:
        states = self._clear()
        self._listener.on_cancelled([state.request_id for state in states])
        return states

    @property
    def is_running(self) -> bool:
        return not self._manager.background_thread_status.can_accept_new_requests()

    def add(self, request_id: str, token_ids: list[int], max_new_tokens: int, stop_token_ids: Sequence[int]) -> None:
        self._manager.add_request(
            token_ids, request_id=request_id, max_new_tokens=max_new_tokens, eos_token_id=list(stop_token_ids)
        )

    def cancel(self, request_id: str) -> None:
        self._manager.cancel_request(request_id)

    def pause(self) -> Any:
        """A context in which no step runs; enter and leave it in one thread."""
        return self._manager.pause()

    def restart_requests(self) -> list[str]:
        """While paused: every active request starts over from its prompt and ids so far. Returns their ids."""
        scheduler, cache = self._processor.scheduler, self._processor.cache
        restarted = []
        for request_id, state in list(scheduler.active_requests.items()):
            replacement = state.create_equivalent_initial_request()
            state._status = RequestStatus.FINISHED  # noqa: SLF001 - keeps the old state from being scheduled
            cache.free_blocks(request_id, no_cache=True)
            scheduler.active_requests.pop(request_id)
            scheduler.add_waiting_request(replacement)
            restarted.append(request_id)
        return restarted

    def active_requests(self) -> list[str]:
        return list(self._processor.scheduler.active_requests)

    def forget_shared_blocks(self) -> None:
        """While paused: no new request may find keys and values of the old weights."""
        cache = self._processor.cache
        if cache.use_prefix_sharing:
            cache.evict_cached_blocks()
            for allocator in cache.cache_allocators.values():
                allocator.ledger.hash_to_block.clear()
                allocator.ledger.block_to_hash.clear()

    def stop(self) -> None:
        self._manager.stop(block=True, timeout=10, hard_stop=True)
        self._manager.destroy()


def _in_daemon_thread(call: Callable[[], None]) -> None:
    """Threads inherit being a daemon: one started from here never keeps a process that has failed from ending."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join()
