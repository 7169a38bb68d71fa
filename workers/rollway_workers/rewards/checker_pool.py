"""A pool of checker processes with hard time limits.

A check that passes its limit is killed with its process; waiting for it longer would not stop its work. Hung checks do
not hold up others: when all processes are busy and a request has waited a moment, more are started, up to a bound.
Processes are forked from a server that has the libraries loaded, so a new one costs milliseconds.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from rollway_workers.rewards.checker_process import serve

_PRELOAD = ["math_verify", "reasoning_gym", "rollway_workers.rewards.checker_process"]
_START_S = 120.0
_GROW_AFTER_S = 0.25
_MAX_GROWTH = 4


class CheckTimeout(Exception):
    """The check passed its time limit and was killed."""


class CheckerLost(Exception):
    """The checker's process died under it."""


class CheckerFailed(Exception):
    """The checker raised an error."""


@dataclass(slots=True, eq=False)
class _Checker:
    """A process and our end of its pipe."""

    process: Any
    pipe: Connection


@dataclass(slots=True)
class _Waiting:
    """A request without a process yet."""

    future: asyncio.Future[_Checker]
    since_s: float = field(default_factory=time.monotonic)


class CheckerPool:
    """Runs checks in `size` processes, and up to four times as many while some hang."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._max_size = size * _MAX_GROWTH
        self._methods = multiprocessing.get_context("forkserver")
        self._methods.set_forkserver_preload(_PRELOAD)
        self._idle: deque[_Checker] = deque()
        self._all: set[_Checker] = set()
        self._starting = 0
        self._waiting: deque[_Waiting] = deque()
        self._grower: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def warm(self) -> None:
        """Start the fork server and the first process, so that the first check does not wait for imports."""
        checker = await self._take()
        self._give_back(checker)

    async def run(self, request: dict[str, Any], timeout_s: float) -> float:
        """Do one check.

        Raises:
            CheckTimeout, CheckerLost, CheckerFailed: there is no value.
        """
        checker = await self._take()
        try:
            answer = await asyncio.wait_for(_exchange(checker.pipe, request), timeout_s)
        except TimeoutError:
            await self._discard(checker)
            raise CheckTimeout(f"killed after {timeout_s} s") from None
        except (EOFError, OSError) as error:
            await self._discard(checker)
            raise CheckerLost(f"the checker process died (exit code {checker.process.exitcode}): {error}") from None
        except BaseException:
            await self._discard(checker)
            raise
        self._give_back(checker)
        if "error" in answer:
            raise CheckerFailed(answer["error"])
        return float(answer["value"])

    async def close(self) -> None:
        if self._grower is not None:
            self._grower.cancel()
        for checker in list(self._all):
            await self._discard(checker)

    async def _take(self) -> _Checker:
        while self._idle:
            checker = self._idle.popleft()
            if checker.process.is_alive():
                return checker
            await self._discard(checker)
        if len(self._all) + self._starting < self._size:
            return await self._start()
        waiting = _Waiting(asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._watch()
        try:
            return await waiting.future
        except asyncio.CancelledError:
            if waiting.future.done() and not waiting.future.cancelled():
                self._give_back(waiting.future.result())
            else:
                self._waiting.remove(waiting)
            raise

    async def _start(self) -> _Checker:
        self._starting += 1
        try:
            checker = await asyncio.to_thread(self._spawn)
        finally:
            self._starting -= 1
        self._all.add(checker)
        return checker

    def _spawn(self) -> _Checker:
        ours, theirs = self._methods.Pipe()
        process = self._methods.Process(target=serve, args=(theirs,), name="rollway-checker", daemon=True)
        process.start()
        theirs.close()
        # Start-up (imports, above all) is no part of any check's time.
        if not ours.poll(_START_S):
            process.kill()
            raise CheckerLost(f"a checker process did not start within {_START_S} s")
        try:
            ours.recv()
        except EOFError:
            process.join()
            raise CheckerLost(f"a checker process died as it started (exit code {process.exitcode})") from None
        return _Checker(process, ours)

    def _give_back(self, checker: _Checker) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                waiting.future.set_result(checker)
                return
        if len(self._all) > self._size:
            self._later(self._discard(checker))
        else:
            self._idle.append(checker)

    async def _discard(self, checker: _Checker) -> None:
        """Kill a process and reap it; another takes its place when one is needed."""
        self._all.discard(checker)
        checker.process.kill()
        checker.pipe.close()
        await asyncio.to_thread(checker.process.join)
        if self._waiting and len(self._all) + self._starting < self._size:
            self._later(self._start_for_waiting())

    async def _start_for_waiting(self) -> None:
        self._give_back(await self._start())

    def _watch(self) -> None:
        if self._grower is None:
            self._grower = asyncio.get_running_loop().call_later(_GROW_AFTER_S, self._grow)

    def _grow(self) -> None:
        """Start another process if the first in the queue has waited a moment, and look again while any waits."""
        self._grower = None
        if not self._waiting:
            return
        has_waited = time.monotonic() - self._waiting[0].since_s >= _GROW_AFTER_S
        if has_waited and len(self._all) + self._starting < self._max_size:
            self._later(self._start_for_waiting())
        self._watch()

    def _later(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _exchange(pipe: Connection, request: dict[str, Any]) -> dict[str, Any]:
    """Send a request and wait for the answer without a thread."""
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    pipe.send(request)

    def on_readable() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(pipe.fileno(), on_readable)
    try:
        await ready
    finally:
        loop.remove_reader(pipe.fileno())
    answer: dict[str, Any] = pipe.recv()
    return answer
