"""One rollout: decide, generate, append, score, finish.

The policy decides between generations; everything that touches the world (engine, checker, clock) happens here and in
`generation.py`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

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
from rollway_service.operations.messages import CheckpointPiece, ClaimedItem, FinishedRollout, FinishedTrajectory
from rollway_service.policies.decisions import Finish, Sample
from rollway_service.policies.recipes import GENERATE
from rollway_service.policies.views import GenerationFact, RolloutView
from rollway_workers.generation import Generator, LoopParts, RolloutFailed

_UNKNOWN_WINDOW = 2**31 - 1
_SCORED_STOPS: frozenset[StopReason] = frozenset({"completed", "length", "max_turns", "early_stopped", "budget"})

log = structlog.get_logger()


class RolloutLoop:
    """A claimed rollout on its way to its end."""

    def __init__(self, item: ClaimedItem, spec: JobCreate, parts: LoopParts) -> None:
        self.item = item
        self.spec = spec
        self._parts = parts
        self._decisions: list[Decision] = []
        self._started_s = time.monotonic()
        self._reward_s: float | None = None
        self.tree, self.state = restore(item.checkpoints)
        self._saved = self.tree.mark()
        if self.tree.nodes:
            self._note_lost_generation()
        else:
            self.tree.add("prompt", item.prompt_ids, parent=-1, turn=0)
        self._generator = Generator(item, spec, parts, self.tree, self.state)
        self._sequence = len(item.checkpoints)

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
            num_sampled=self.tree.num_sampled(self._generator.leaf),
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
        try:
            return await self._run()
        except Exception as error:  # noqa: BLE001
            # The rollout is one of many: whatever policy, engine or checker raises ends it, as data, and nothing else.
            return self._crashed(error)

    async def _run(self) -> FinishedRollout:
        deadline = asyncio.timeout(max(0.0, self.item.remaining_s))
        try:
            async with deadline:
                finish = await self._run_policy()
        except TimeoutError:
            if not deadline.expired():
                raise
            detail = f"limits.rollout_deadline_s = {self.spec.limits.rollout_deadline_s:g} passed"
            return self._finished("deadline", detail, failure=RolloutFailure(kind="deadline", detail=detail))
        except RolloutFailed as error:
            return self._finished(
                "error", error.failure.detail, failure=error.failure, is_repeatable=error.is_repeatable
            )
        failure = self._version_failure()
        if failure is not None:
            return self._finished(finish.stop_reason, finish.detail, failure=failure)
        rewards = await self._score(finish.stop_reason)
        return self._finished(
            finish.stop_reason,
            finish.detail,
            rewards=rewards,
            is_repeatable=not (finish.reason == "window_full" and self.tree.num_sampled(self._generator.leaf) == 0),
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
            await self._generator.generate(decision.max_tokens)

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
            for index in self.tree.path(self._generator.leaf)
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
                    path=self.tree.path(self._generator.leaf),
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
        if mark == self._saved or not (self._generator.has_stretch or force):
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
        self._generator.has_stretch = False

        def keep() -> None:
            self._saved, self._sequence = mark, sequence + 1

        return piece, keep
