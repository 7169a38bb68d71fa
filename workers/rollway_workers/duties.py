"""What a worker does over and over, through faults of the service: only a lost session ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from rollway_service.core.errors import InvalidRequest, StaleFence

T = TypeVar("T")

RETRY_S = 0.5
_MAX_RETRY_S = 10.0

log = structlog.get_logger()


class SessionOver(Exception):
    """The lease is lost: nothing that was claimed is ours any more."""


async def persist(call: Callable[[], Awaitable[T]], stop: asyncio.Event, worker: str) -> T | None:
    """Call until it works; None when stopped before.

    Raises:
        StaleFence, InvalidRequest: the same call would be refused again.
    """
    wait_s = RETRY_S
    while not stop.is_set():
        try:
            return await call()
        except (StaleFence, InvalidRequest):
            raise
        except Exception as error:  # noqa: BLE001
            # A service that is away (database, network) comes back; a worker does not give up its engine for it.
            log.warning("service_unreachable", worker=worker, error=str(error))
        await wait(stop, wait_s)
        wait_s = min(_MAX_RETRY_S, wait_s * 2)
    return None


async def guarded(duty: Callable[[], Awaitable[None]], worker: str) -> SessionOver:
    """Do a duty, and take it up again whenever it fails, until the session is over."""
    wait_s = RETRY_S
    while True:
        try:
            await duty()
            wait_s = RETRY_S
        except (SessionOver, StaleFence) as error:
            return SessionOver(str(error))
        except Exception as error:  # noqa: BLE001
            # As above: the duty is taken up again, with all that it had to do.
            log.warning("duty_failed", worker=worker, duty=getattr(duty, "__name__", ""), error=repr(error))
            await asyncio.sleep(wait_s)
            wait_s = min(_MAX_RETRY_S, wait_s * 2)


async def wait(event: asyncio.Event, timeout_s: float) -> bool:
    """True when the event came within the time."""
    try:
        # Not wait_for: in Python 3.11 it swallows a cancellation that comes together with the event, and a duty that was
        # told to end would go on for ever.
        async with asyncio.timeout(timeout_s):
            return await event.wait()
    except TimeoutError:
        return False
