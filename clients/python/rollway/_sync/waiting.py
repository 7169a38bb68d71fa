"""Waiting and background work, the sync way: the hand-written twin of `_async/waiting.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def sleep(seconds: float) -> None:
    time.sleep(seconds)


class Repeater:
    """Calls something again and again in a thread until it is stopped or the call fails."""

    def __init__(self, call: Callable[[], object], every_s: float) -> None:
        self._call = call
        self._every_s = every_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="rollway-lease", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        from rollway.errors import RollwayError  # noqa: PLC0415 - keeps this module free of pydantic

        while not self._stopped.wait(self._every_s):
            try:
                self._call()
            except RollwayError:
                return

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()
