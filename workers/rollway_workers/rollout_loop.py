"""One rollout: decide, generate, append, score, finish.

The policy decides between generations; everything that touches the world (engine, checker, clock) happens here. Ids
are kept as they stream in, so nothing depends on what an engine says when it is aborted or fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import structlog

from rollway.types import (
    Decision,
    JobCreate,
    LogprobKind,
    RewardFailure,
    RewardValue,
    RolloutFailure,
    StopReason,
    Timings,
    Usage,
)
from rollway_service.core.checkpoint import encode_checkpoint, restore
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
from rollway_service.operations.messages import CheckpointPiece, ClaimedItem, FinishedRollout, FinishedTrajectory
from rollway_service.policies.decisions import Finish, Sample
from rollway_service.policies.recipes import GENERATE
from rollway_service.policies.views import GenerationFact, RolloutView
from rollway_service.tokenization.ports import Tokenizer
from rollway_workers.rewards.scorer import Scorer

_MAX_FAULTS_IN_A_ROW = 5
_MAX_UNREACHABLE_S = 300.0
"""An engine that is being restarted refuses connections; rollouts wait for it so long before they fail."""
_ABORT_S = 5.0
_FIRST_BACKOFF_S = 0.1
_MAX_BACKOFF_S = 5.0
_UNKNOWN_WINDOW = 2**31 - 1
_FAULT_NAMES: dict[type[EngineUnavailable], str] = {
    EngineStreamCut: "stream_cut",
    EngineTimeout: "engine_timeout",
    EngineUnreachable: "engine_unreachable",
}
_SCORED_STOPS: frozenset[StopReason] = frozenset({"completed", "length", "max_turns", "early_stopped", "budget"})

log = structlog.get_logger()


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


class RolloutLoop:
    """A claimed rollout on its way to its end."""

    def __init__(self, item: ClaimedItem, spec: JobCreate, parts: LoopParts) -> None:
        self.item = item
        self.spec = spec
        self._parts = parts
        self._decisions: list[Decision] = []
        self._faults_in_a_row = 0
        self._fault_since_s = time.monotonic()
        self._started_s = time.monotonic()
        self._reward_s: float | None = None
        self.tree, self.state = restore(item.checkpoints)
        self._saved = self.tree.mark()
        if self.tree.nodes:
            self._note_lost_generation()
        else:
            self.tree.add("prompt", item.prompt_ids, parent=-1, turn=0)
        self._leaf = len(self.tree.nodes) - 1
        self._sequence = len(item.checkpoints)
        self._stretch = (self.tree.num_sampled(self._leaf), time.monotonic())
        self._has_stretch = False

    def _note_lost_generation(self) -> None:
        """A checkpoint in mid-generation: what it holds counts as a generation that was aborted."""
        sampled = sum(node.num_tokens for node in self.tree.nodes if node.is_model)
        lost = sampled - sum(tokens for _, tokens in self.state.generations)
        if lost > 0:
            self.state.generations.append(("abort", lost))
        self.state.note("worker_resumed")

    def _window(self) -> int:
        known = [
            size
            for size in (self._parts.window, self._parts.info.context_length, self.spec.limits.max_context_tokens)
            if size is not None
        ]
        return min(known) if known else _UNKNOWN_WINDOW

    def view(self) -> RolloutView:
        return RolloutView(
            num_prompt_tokens=len(self.item.prompt_ids),
            num_sampled=self.tree.num_sampled(self._leaf),
            max_new_tokens=self.spec.sampling.max_new_tokens,
            window=self._window(),
            max_resumes=self.spec.limits.max_resumes,
            generations=tuple(
                GenerationFact(reason, tokens)  # type: ignore[arg-type]
                for reason, tokens in self.state.generations
            ),
        )

    async def run(self) -> FinishedRollout:
        """Run to the end. Only cancellation gets out; everything else is data."""
        deadline = asyncio.timeout(max(0.0, self.item.remaining_s))
        try:
            async with deadline:
                finish = await self._run_policy()
        except TimeoutError as error:
            if not deadline.expired():
                return self._crashed(error)
            detail = f"limits.rollout_deadline_s = {self.spec.limits.rollout_deadline_s:g} passed"
            return self._finished("deadline", detail, failure=RolloutFailure(kind="deadline", detail=detail))
        except RolloutFailed as error:
            return self._finished(
                "error", error.failure.detail, failure=error.failure, is_repeatable=error.is_repeatable
            )
        except Exception as error:  # noqa: BLE001
            # The rollout is one of many: whatever its policy or engine raises ends it, as data, and nothing else.
            return self._crashed(error)
        failure = self._version_failure()
        if failure is not None:
            return self._finished(finish.stop_reason, finish.detail, failure=failure)
        rewards = await self._score(finish.stop_reason)
        return self._finished(
            finish.stop_reason,
            finish.detail,
            rewards=rewards,
            is_repeatable=not (finish.reason == "window_full" and self.tree.num_sampled(self._leaf) == 0),
        )

    def _crashed(self, error: Exception) -> FinishedRollout:
        log.error("rollout_crashed", rollout_id=self.item.rollout_id, exc_info=error)
        failure = RolloutFailure(kind="policy", detail=f"{type(error).__name__}: {error}")
        return self._finished("error", failure.detail, failure=failure)

    async def _run_policy(self) -> Finish:
        decide = GENERATE[self.spec.recipe.generate.name]
        while True:
            decision = decide(self.view())
            self._decisions.append(
                Decision(
                    policy=self.spec.recipe.generate.name,
                    action=decision.action,
                    reason=decision.reason,
                    propensity=decision.propensity,
                )
            )
            if isinstance(decision, Finish):
                return decision
            assert isinstance(decision, Sample)
            await self._generate(decision.max_tokens)

    def _params(self, max_tokens: int) -> SamplingParams:
        sampling = self.spec.sampling
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
            seed=self.item.seed,
        )

    async def _generate(self, max_tokens: int) -> None:
        """One generation, or what an engine gives of it before it fails."""
        params = self._params(max_tokens)
        if not self.tree.nodes[self._leaf].is_model:
            self._leaf = self.tree.add("model", parent=self._leaf, turn=0)
        before = self.tree.nodes[self._leaf].num_tokens
        request_id = f"{self.item.rollout_id}-{self.item.fence}-{self.state.requests}"
        self.state.requests += 1
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
            self.state.note("protocol_error")
            raise RolloutFailed(RolloutFailure(kind="engine", detail=str(error))) from error
        finally:
            self.state.generate_s += time.monotonic() - started_s
            if reason is None:
                # The engine may still be at it: no second request before the first is stopped.
                await self._abort(request_id)
        gained = self.tree.nodes[self._leaf].num_tokens - before
        if reason is not None or gained:
            self.state.generations.append((reason or "abort", gained))
        await self._after_fault(fault, gained)

    async def _stream(self, request_id: str, params: SamplingParams, before: int) -> str:
        token_ids = self.tree.path_ids(self._leaf)
        stream = self._parts.engine.generate(request_id, token_ids, params, chunk_tokens=self._parts.stretch_tokens)
        async with aclosing(stream):
            async for chunk in stream:
                self._append(chunk, before, params.max_new_tokens)
                if chunk.finish_reason is not None:
                    self.state.cached_tokens += chunk.cached_tokens
                    return chunk.finish_reason
        raise EngineStreamCut(f"the stream of {request_id} ended without a finish reason")

    def _append(self, chunk: Chunk, before: int, max_new_tokens: int) -> None:
        node = self.tree.nodes[self._leaf]
        vocab_size = self._parts.vocab_size
        if vocab_size is not None and len(chunk.token_ids) and int(chunk.token_ids.max()) >= vocab_size:
            raise EngineProtocolError(f"the engine sampled an id outside the vocabulary of {vocab_size}")
        if node.num_tokens - before + len(chunk.token_ids) > max_new_tokens:
            raise EngineProtocolError(f"the engine sampled more than the {max_new_tokens} tokens it was asked for")
        self.tree.extend_sampled(self._leaf, chunk.token_ids, chunk.logprobs, chunk.weight_versions, chunk.kv_versions)
        if chunk.generation_versions is not None and chunk.generation_kv_versions is not None:
            if node.num_tokens - before != len(chunk.generation_versions):
                raise EngineProtocolError("the engine's version spans cover another number of tokens than it gave")
            self.tree.correct_versions(self._leaf, chunk.generation_versions, chunk.generation_kv_versions)
        self.state.nonfinite += chunk.nonfinite
        self.state.missing += chunk.missing
        self.state.note("nonfinite_logprobs", chunk.nonfinite)
        self.state.note("missing_logprobs", chunk.missing)
        self._note_stretch()

    def _note_stretch(self) -> None:
        sampled, now_s = self.tree.num_sampled(self._leaf), time.monotonic()
        since_tokens, since_s = self._stretch
        if sampled - since_tokens >= self._parts.stretch_tokens or now_s - since_s >= self._parts.stretch_s:
            self._stretch = (sampled, now_s)
            self._has_stretch = True

    async def _abort(self, request_id: str) -> None:
        with contextlib.suppress(EngineError, TimeoutError):
            await asyncio.wait_for(self._parts.engine.abort(request_id), _ABORT_S)

    async def _after_fault(self, fault: EngineUnavailable | None, gained: int) -> None:
        """Wait a little and let the policy go on from what is there, or give up after too many faults in a row."""
        if fault is None or gained:
            self._faults_in_a_row, self._fault_since_s = 0, time.monotonic()
        if fault is None:
            return
        self.state.note(_FAULT_NAMES.get(type(fault), "engine_unavailable"))
        self._faults_in_a_row += 1
        lasted_s = time.monotonic() - self._fault_since_s
        is_over = lasted_s > _MAX_UNREACHABLE_S
        if not isinstance(fault, EngineUnreachable):
            is_over = self._faults_in_a_row >= _MAX_FAULTS_IN_A_ROW
        if is_over:
            detail = f"{fault} ({self._faults_in_a_row} times in a row)"
            raise RolloutFailed(RolloutFailure(kind="engine", detail=detail)) from fault
        await asyncio.sleep(min(_MAX_BACKOFF_S, _FIRST_BACKOFF_S * 2 ** (self._faults_in_a_row - 1)))

    def _version_failure(self) -> RolloutFailure | None:
        """Weights that changed in mid-rollout may break the job's version constraint."""
        versions = {
            int(version) for node in self.tree.nodes for part in node.weight_versions for version in np.unique(part)
        }
        exact, minimum = self.item.exact_version, self.item.min_version
        if exact is not None and versions - {exact}:
            detail = f"version.exact_version = {exact}, but tokens were sampled by versions {sorted(versions)}"
            return RolloutFailure(kind="engine", detail=detail)
        if minimum is not None and any(version < minimum for version in versions):
            detail = f"version.min_version = {minimum}, but tokens were sampled by versions {sorted(versions)}"
            return RolloutFailure(kind="engine", detail=detail)
        return None

    def _sampled_ids(self) -> list[int]:
        return [
            token_id
            for index in self.tree.path(self._leaf)
            if self.tree.nodes[index].is_model
            for part in self.tree.nodes[index].token_ids
            for token_id in part.tolist()
        ]

    async def _score(self, stop_reason: StopReason) -> list[RewardValue]:
        specs = [spec for spec in self.spec.rewards if spec.kind != "posted"]
        if not specs or stop_reason not in _SCORED_STOPS:
            return []
        started_s = time.monotonic()
        if self._parts.tokenizer is None:
            failure = RewardFailure(kind="infra", detail="this worker has no tokenizer to read the answer with")
            return [
                RewardValue(name=spec.label, value=None, weight=spec.weight, source=spec.kind, failure=failure)
                for spec in specs
            ]
        answer = self._parts.tokenizer.decode(self._sampled_ids())
        rewards = await self._parts.scorer.score(specs, answer, self.item.reference, self.item.metadata)
        self._reward_s = time.monotonic() - started_s
        return rewards

    def _logprob_kind(self) -> LogprobKind:
        return "raw" if self.spec.sampling.temperature == 0 else self._parts.info.logprob_kind

    def _finished(
        self,
        stop_reason: StopReason,
        detail: str | None,
        *,
        rewards: Sequence[RewardValue] = (),
        failure: RolloutFailure | None = None,
        is_repeatable: bool = True,
    ) -> FinishedRollout:
        sampled = sum(node.num_tokens for node in self.tree.nodes if node.is_model)
        return FinishedRollout(
            work_item_id=self.item.work_item_id,
            fence=self.item.fence,
            tree=self.tree.pack(),
            trajectories=[
                FinishedTrajectory(
                    path=self.tree.path(self._leaf),
                    stop_reason=stop_reason,
                    stop_detail=detail,
                    finish_reasons=[reason for reason, _ in self.state.generations],
                    findings=self.state.finding_labels(),
                )
            ],
            rewards=rewards,
            failure=failure,
            is_repeatable=is_repeatable,
            usage=Usage(
                prompt_tokens=len(self.item.prompt_ids),
                cached_tokens=self.state.cached_tokens,
                sampled_tokens=sampled,
                wasted_tokens=self.state.wasted_tokens,
                requests=self.state.requests,
                resumes=sum(reason == "abort" for reason, _ in self.state.generations),
            ),
            timings=Timings(
                queued_s=self.item.queued_s,
                generate_s=self.state.generate_s,
                reward_s=self._reward_s,
                total_s=time.monotonic() - self._started_s,
            ),
            decisions=self._decisions,
            engine=self._parts.info.facts,
            logprob_kind=self._logprob_kind(),
            nonfinite_logprobs=self.state.nonfinite,
            missing_logprobs=self.state.missing,
        )

    def take_checkpoint(self, *, force: bool = False) -> tuple[CheckpointPiece, Callable[[], None]] | None:
        """What was gained since the last checkpoint, if a stretch has passed; call the second value once it is kept.

        With `force`, whatever was gained, if any.
        """
        mark, sequence = self.tree.mark(), self._sequence
        if mark == self._saved or not (self._has_stretch or force):
            return None
        gain = self.tree.pack(since=self._saved)
        piece = CheckpointPiece(
            work_item_id=self.item.work_item_id,
            fence=self.item.fence,
            sequence=sequence,
            sampled_tokens=sum(
                length
                for origin, length in zip(gain.layout.origins, gain.layout.lengths, strict=True)
                if origin == "model"
            ),
            payload=encode_checkpoint(gain, self.state),
        )
        self._has_stretch = False

        def keep() -> None:
            self._saved, self._sequence = mark, sequence + 1

        return piece, keep
