"""What policies decide. Small frozen values; `reason` is a stable snake_case string and becomes a metric label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rollway.types import StopReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """`propensity` is the probability of this choice where chance was involved, else None."""

    action: ClassVar[str]
    reason: str
    propensity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Decision):
    """Let the model go on from the leaf, for at most `max_tokens`."""

    action = "sample"
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Decision):
    """The trajectory ends."""

    action = "finish"
    stop_reason: StopReason
    detail: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep(Decision):
    """The group becomes visible to trainers."""

    action = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop(Decision):
    """The group stays stored but is not offered."""

    action = "drop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refill(Decision):
    """A failed member is replaced by a new one."""

    action = "refill"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptLoss(Decision):
    """A failed member is not replaced."""

    action = "accept_loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailGroup(Decision):
    """The group ends without a delivery."""

    action = "fail_group"
