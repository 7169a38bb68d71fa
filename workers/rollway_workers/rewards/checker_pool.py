"""A pool of checker processes with hard time limits.

A check that passes its limit is killed with its process; waiting for it longer would not stop its work. Hung checks do
not hold up others: when all processes are busy and a request has waited a moment, more are started, up to a bound.
Processes are forked from a server that has the libraries loaded, so a new one costs milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import signal
import time
from collections import deque
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import structlog

from rollway_workers.rewards.checker_process import serve
from rollway_workers.rewards.ports import CheckerFailed, CheckerLost, CheckTimeout

PRELOAD = ["math_verify", "reasoning_gym", "rollway_workers.rewards.checker_process"]
_START_S = 120.0
_GROW_AFTER_S = 0.25
_MAX_GROWTH = 4

log = structlog.get_logger()


@dataclass(slots=True, eq=False)
class _Checker:
    """A process and our end of its pipe."""

    process: Any
    pipe: Connection
    loaded: set[str] = field(default_factory=set)


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
        self._methods.set_forkserver_preload(PRELOAD)
        self._idle: deque[_Checker] = deque()
        self._all: set[_Checker] = set()
        self._starting = 0
        self._waiting: deque[_Waiting] = deque()
        self._grower: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

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
        target = request.get("target", "")
        is_loading = target != "" and target not in checker.loaded
        try:
            if is_loading:
                # Where loading takes longer than a check may, no answer would ever be scored.
                async with asyncio.timeout(_START_S):
                    await _exchange(checker.pipe, {"kind": "load", "target": target})
                checker.loaded.add(target)
                is_loading = False
            async with asyncio.timeout(timeout_s):
                answer = await _exchange(checker.pipe, request)
        except TimeoutError:
            await self._discard(checker)
            detail = f"{target} was not loaded within {_START_S} s" if is_loading else f"killed after {timeout_s} s"
            raise CheckTimeout(detail) from None
        except (EOFError, OSError) as error:
            await self._discard(checker)
            detail = f": {error}" if str(error) else ""
            raise CheckerLost(f"the checker process died (exit code {checker.process.exitcode}){detail}") from None
        except BaseException:
            await self._discard(checker)
            raise
        self._give_back(checker)
        if "error" in answer:
            raise CheckerFailed(answer["error"])
        return float(answer["value"])

    async def close(self) -> None:
        self._is_closed = True
        if self._grower is not None:
            self._grower.cancel()
        while self._waiting:
            self._fail_first(CheckerLost("the checkers were closed"))
        # Processes that are still on their way would outlive us.
        while self._tasks:
            await asyncio.wait(self._tasks)
        for checker in list(self._all):
            await self._discard(checker)

    async def _take(self) -> _Checker:
        while self._idle:
            checker = self._idle.popleft()
            if checker.process.is_alive():
                return checker
            await self._discard(checker)
        waiting = _Waiting(asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if len(self._all) + self._starting < self._size:
            self._start()
        self._watch()
        try:
            return await waiting.future
        except asyncio.CancelledError:
            if waiting.future.cancelled():
                with contextlib.suppress(ValueError):
                    self._waiting.remove(waiting)
            elif waiting.future.exception() is None:
                self._give_back(waiting.future.result())
            raise

    def _start(self) -> None:
        """Start a process for whoever waits longest: a task of its own, so that no caller's end loses the process."""
        self._starting += 1
        self._later(self._start_one())

    async def _start_one(self) -> None:
        try:
            checker = await asyncio.to_thread(self._spawn)
        except Exception as error:  # noqa: BLE001
            log.warning("checker_not_started", error=repr(error))
            if not self._all:
                self._fail_first(error)
            return
        finally:
            self._starting -= 1
        self._all.add(checker)
        self._give_back(checker)

    def _fail_first(self, error: Exception) -> None:
        while self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.future.done():
                waiting.future.set_exception(error)
                return

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
        if self._is_closed:
            self._later(self._discard(checker))
            return
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
        """Kill a process with all that it started, and reap it; another takes its place when one is needed."""
        self._all.discard(checker)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(checker.process.pid, signal.SIGKILL)
        checker.process.kill()
        checker.pipe.close()
        await asyncio.to_thread(checker.process.join)
        if self._waiting and len(self._all) + self._starting < self._size:
            self._start()

    def _watch(self) -> None:
        if self._grower is None:
            self._grower = asyncio.get_running_loop().call_later(_GROW_AFTER_S, self._grow)

    def _grow(self) -> None:
        """Start another process if the first in the queue has waited a moment, and look again while any waits."""
        self._grower = None
        if not self._waiting:
            return
        has_waited = time.monotonic() - self._waiting[0].since_s >= _GROW_AFTER_S
        if has_waited and not self._starting and len(self._all) < self._max_size:
            self._start()
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
