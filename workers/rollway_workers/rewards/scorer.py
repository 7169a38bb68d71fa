"""Scoring a finished answer by all rewards of its job."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import structlog

from rollway.types import (
    ExactReward,
    NumericReward,
    PostedReward,
    PythonReward,
    ReasoningGymReward,
    RegexReward,
    RewardFailure,
    RewardSpec,
    RewardValue,
)
from rollway.types.rewards import MAX_REWARD
from rollway_workers.rewards.checker_pool import CheckerPool
from rollway_workers.rewards.ports import CheckerFailed, CheckerLost, Checkers, CheckTimeout
from rollway_workers.rewards.quick_checks import CheckFailed, check_exact, check_numeric, check_regex
from rollway_workers.rewards.slow_checks import registered_functions

_INFRA_TRIES = 2

log = structlog.get_logger()


class Scorer:
    """Gives each reward a value, or a failure with its reason."""

    def __init__(self, checkers: Checkers, functions: Mapping[str, str]) -> None:
        self._checkers = checkers
        self._functions = functions

    @classmethod
    def from_settings(cls, processes: int, reward_functions: str) -> Scorer:
        """A scorer with checker processes of its own."""
        return cls(CheckerPool(processes), registered_functions(reward_functions))

    async def warm(self) -> None:
        await self._checkers.warm()

    async def close(self) -> None:
        await self._checkers.close()

    async def score(
        self, specs: Sequence[RewardSpec], answer: str, reference: Any, metadata: Mapping[str, Any]
    ) -> list[RewardValue]:
        """One value per reward that is not posted, in order."""
        due = [spec for spec in specs if not isinstance(spec, PostedReward)]
        return list(await asyncio.gather(*(self._score_one(spec, answer, reference, metadata) for spec in due)))

    async def _score_one(
        self, spec: RewardSpec, answer: str, reference: Any, metadata: Mapping[str, Any]
    ) -> RewardValue:
        value, failure = None, None
        try:
            value = await self._value(spec, answer, reference, metadata)
        except CheckTimeout as error:
            failure = RewardFailure(kind="timeout", detail=str(error))
        except CheckerLost as error:
            failure = RewardFailure(kind="infra", detail=str(error))
        except (CheckerFailed, CheckFailed) as error:
            failure = RewardFailure(kind="checker", detail=str(error))
        except Exception as error:
            # A checker process that cannot be started, say: this reward fails, with the others as they are.
            log.exception("reward_crashed", reward=spec.label)
            failure = RewardFailure(kind="infra", detail=f"{type(error).__name__}: {error}")
        return RewardValue(name=spec.label, value=value, weight=spec.weight, source=spec.kind, failure=failure)

    async def _value(self, spec: RewardSpec, answer: str, reference: Any, metadata: Mapping[str, Any]) -> float:
        if isinstance(spec, ExactReward):
            return check_exact(spec, answer, reference)
        if isinstance(spec, NumericReward):
            return check_numeric(spec, answer, reference)
        if isinstance(spec, RegexReward):
            return check_regex(spec, answer, reference)
        request: dict[str, Any] = {"kind": spec.kind, "answer": answer, "reference": reference}
        if isinstance(spec, ReasoningGymReward):
            request["dataset"] = spec.dataset
        if isinstance(spec, PythonReward):
            if spec.function not in self._functions:
                known = ", ".join(sorted(self._functions)) or "none"
                raise CheckFailed(f"no reward function {spec.function!r} is registered here; there are: {known}")
            request |= {
                "target": self._functions[spec.function],
                "metadata": dict(metadata),
                "arguments": spec.arguments,
            }
        value = await self._run(request, spec.timeout_s)
        if abs(value) > MAX_REWARD:
            raise CheckFailed(f"the checker returned {value}; rewards are between {-MAX_REWARD:g} and {MAX_REWARD:g}")
        return value

    async def _run(self, request: dict[str, Any], timeout_s: float) -> float:
        """A process that dies under a check may have been killed for something else: once more, then it is a failure."""
        for _ in range(_INFRA_TRIES - 1):
            try:
                return await self._checkers.run(request, timeout_s)
            except CheckerLost:
                continue
        return await self._checkers.run(request, timeout_s)
