"""Waiting and background work, the async way. The sync twin of this file is written by hand."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable


async def sleep(seconds: float) -> None:
    await asyncio.sleep(seconds)


class Repeater:
    """Calls something again and again in the background until it is stopped or the call fails."""

    def __init__(self, call: Callable[[], Awaitable[object]], every_s: float) -> None:
        self._call = call
        self._every_s = every_s
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            await self._call()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self._task
            self._task = None
