"""Where slow checks run: in processes beside the worker, or on reward workers."""

from __future__ import annotations

from typing import Any, Protocol


class CheckTimeout(Exception):
    """The check passed its time limit and was killed."""


class CheckerLost(Exception):
    """The checker's process died under it."""


class CheckerFailed(Exception):
    """The checker raised an error."""


class Checkers(Protocol):
    """Runs checks. A check has no side effects: it may be run again when its answer is lost."""

    async def warm(self) -> None:
        """Get ready, so that the first check does not wait for imports."""
        ...

    async def run(self, request: dict[str, Any], timeout_s: float) -> float:
        """Do one check.

        Raises:
            CheckTimeout, CheckerLost, CheckerFailed: there is no value.
        """
        ...

    async def close(self) -> None: ...
