"""Wake-ups: "topic T has news". They carry nothing, may be lost or doubled, and nothing depends on them but speed.

Topics: `pool:<pool_id>` (work was queued, weights published, items cancelled), `run:<run_id>` (groups became ready, the
end of data came), `job:<job_id>` (progress).
"""

from __future__ import annotations

from typing import Protocol


class WakeUps(Protocol):
    """Sends and awaits wake-ups."""

    async def open(self) -> None:
        """Begin, on the running loop. Wake-ups before it reach this process alone."""
        ...

    async def close(self) -> None: ...

    def wake(self, topic: str) -> None:
        """Wake all that wait on the topic. Never blocks, never raises."""
        ...

    def ticket(self, topic: str) -> int:
        """A moment on the topic. Take it before looking, so that no wake-up between look and wait is missed."""
        ...

    async def wait(self, topic: str, ticket: int, timeout_s: float) -> bool:
        """Wait for a wake-up later than the ticket. True when one came, False after the timeout."""
        ...


def pool_topic(pool_id: str) -> str:
    return f"pool:{pool_id}"


def run_topic(run_id: str) -> str:
    return f"run:{run_id}"


def job_topic(job_id: str) -> str:
    return f"job:{job_id}"
