"""A SGLang server that belongs to a worker: started, watched, started again when it dies, and gone with the worker."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from logging.handlers import RotatingFileHandler
from pathlib import Path

import aiohttp
import structlog

from rollway_workers.engines.sglang_flags import (
    INCREMENTAL,
    LaunchOptions,
    has_gpu,
    launch_command,
    launch_environment,
)

_TIED = Path(__file__).with_name("tied.py")
_POLL_S = 0.25
_WATCH_S = 2.0
_ANSWER_S = 30.0
"""A paused server takes 20 s to answer /health, with 503."""
_STOP_S = 15.0
_TAIL_LINES = 40
_LOG_BYTES, _LOG_FILES = 16 * 2**20, 3

log = structlog.get_logger()


class LaunchFailed(Exception):
    """The server cannot be kept running; the message says why, with the end of its log."""


class Health:
    """What the answers of /health mean.

    A paused server answers 503 after a while, and so does one that is stuck. It is dead when it does not answer at all
    for `silent_s`, or says 503 for `stuck_s` while nobody here has paused it.
    """

    def __init__(self, *, silent_s: float = 120.0, stuck_s: float = 300.0) -> None:
        self._silent_s = silent_s
        self._stuck_s = stuck_s
        self._answered_s = self._healthy_s = time.monotonic()

    def note(self, status: int | None, *, is_paused: bool, now_s: float) -> str | None:
        """Take an answer's status (None: no answer). Returns why the server must be taken for dead, or None."""
        if status is not None:
            self._answered_s = now_s
        if status == 200 or is_paused:
            self._healthy_s = now_s
        if now_s - self._answered_s > self._silent_s:
            return f"it has not answered for {self._silent_s:.0f} s"
        if now_s - self._healthy_s > self._stuck_s:
            return f"it has been unhealthy for {self._stuck_s:.0f} s, and nobody paused it"
        return None


class Launcher:
    """Keeps one server running.

    Args:
        options: what to serve.
        log_file: where its output goes, with older files beside it.
        start_within_s: how long a start may take; loading a large model takes minutes.
        max_failed_starts: starts in a row that may fail before it is given up.
        is_paused: whether the worker has paused the engine.
    """

    def __init__(
        self,
        options: LaunchOptions,
        log_file: Path,
        *,
        start_within_s: float = 1800.0,
        max_failed_starts: int = 4,
        first_backoff_s: float = 1.0,
        max_backoff_s: float = 60.0,
        is_paused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._options = options
        self._log_file = log_file
        self._start_within_s = start_within_s
        self._max_failed_starts = max_failed_starts
        self._first_backoff_s = first_backoff_s
        self._max_backoff_s = max_backoff_s
        self.is_paused = is_paused
        self._process: asyncio.subprocess.Process | None = None
        self._output: asyncio.Task[None] | None = None
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self.starts = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._options.port}"

    @property
    def pid(self) -> int | None:
        """The server's process; None before the first start."""
        return None if self._process is None else self._process.pid

    async def start(self) -> None:
        """Start the server and wait until it takes requests, trying again a few times.

        Raises:
            LaunchFailed: it does not come up.
        """
        wait_s = self._first_backoff_s
        for failed in range(1, self._max_failed_starts + 1):
            try:
                await self._start_once()
            except LaunchFailed as error:
                await self.stop()
                if self._drop_unknown_flag():
                    continue
                if failed == self._max_failed_starts:
                    raise
                log.warning("engine_did_not_start", attempt=failed, error=str(error).splitlines()[0], again_in_s=wait_s)
                await asyncio.sleep(wait_s)
                wait_s = min(self._max_backoff_s, wait_s * 2)
            else:
                return
        raise LaunchFailed(self._told("SGLang did not start"))

    async def keep_running(self) -> None:
        """Watch the server for ever, and start it again whenever it dies.

        Raises:
            LaunchFailed: it does not come up any more.
        """
        while True:
            reason = await self._until_dead()
            log.error("engine_died", url=self.url, reason=reason, log=str(self._log_file))
            await self.stop()
            await self.start()

    async def stop(self) -> None:
        """End the server with all its processes: politely first."""
        process = self._process
        if process is None:
            return
        _signal_group(process.pid, signal.SIGTERM)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await process.wait()
        # Its children are in its group; some outlive a main process that ends in order.
        _signal_group(process.pid, signal.SIGKILL)
        await process.wait()
        if self._output is not None:
            await asyncio.wait([self._output], timeout=_STOP_S)
        self._process = None

    async def _start_once(self) -> None:
        self._tail.clear()
        on_gpu = has_gpu()
        command = launch_command(self._options, on_gpu=on_gpu)
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, str(_TIED), str(os.getpid()), *command),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=launch_environment(on_gpu=on_gpu),
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchFailed(f"SGLang cannot be started: {error}") from error
        self.starts += 1
        self._output = asyncio.get_running_loop().create_task(self._keep_output(self._process))
        started_s = time.monotonic()
        log.info("engine_starting", url=self.url, pid=self._process.pid, log=str(self._log_file))
        while time.monotonic() - started_s < self._start_within_s:
            if self._process.returncode is not None:
                await asyncio.wait([self._output], timeout=_STOP_S)
                raise LaunchFailed(self._told(f"SGLang ended as it started (exit code {self._process.returncode})"))
            if await self._health() == 200:
                log.info("engine_ready", url=self.url, seconds=round(time.monotonic() - started_s, 1))
                return
            await asyncio.sleep(_POLL_S)
        raise LaunchFailed(self._told(f"SGLang took no requests within {self._start_within_s:.0f} s"))

    async def _until_dead(self) -> str:
        """Wait until the server is dead; returns how."""
        process, health = self._process, Health()
        assert process is not None
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_WATCH_S):
                    return f"its process ended (exit code {await process.wait()})"
            reason = health.note(await self._health(), is_paused=self.is_paused(), now_s=time.monotonic())
            if reason is not None:
                return reason

    async def _health(self) -> int | None:
        """The status of /health; None when it does not answer."""
        try:
            timeout = aiohttp.ClientTimeout(total=_ANSWER_S)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(self.url + "/health") as answer:
                return answer.status
        except (aiohttp.ClientError, TimeoutError, OSError):
            return None

    async def _keep_output(self, process: asyncio.subprocess.Process) -> None:
        handler = RotatingFileHandler(self._log_file, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES, errors="replace")
        assert process.stdout is not None
        try:
            while True:
                try:
                    line = await process.stdout.readline()
                except ValueError:
                    # Longer than a line may be; what follows is read as usual.
                    continue
                if not line:
                    return
                text = line.decode(errors="replace").rstrip("\n")
                self._tail.append(text)
                handler.emit(logging.LogRecord("sglang", logging.INFO, "", 0, text, None, None))
        finally:
            handler.close()

    def _drop_unknown_flag(self) -> bool:
        """Whether this build does not know incremental output; it is not asked for again."""
        if not self._options.is_incremental or not any(
            "unrecognized arguments" in line and INCREMENTAL in line for line in self._tail
        ):
            return False
        log.warning("engine_streams_cumulatively", reason=f"this build of SGLang has no {INCREMENTAL}")
        self._options = replace(self._options, is_incremental=False)
        return True

    def _told(self, what: str) -> str:
        return f"{what}; its log ({self._log_file}) ends:\n" + "\n".join(self._tail)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)
