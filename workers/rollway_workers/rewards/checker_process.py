"""One checker process: takes a request from its pipe, answers, until it is told to stop or is killed."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import resource
import signal
from multiprocessing.connection import Connection
from typing import Any

from rollway_workers.rewards.slow_checks import run_check

_PR_SET_PDEATHSIG = 1
READY = "ready"
_MEMORY_BYTES = 4 * 2**30


def limit_myself() -> None:
    """Die with the parent, and never eat the machine's memory."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # math-verify warns at every call that its own time limit is off; ours is the one that works.
    logging.getLogger("math_verify").setLevel(logging.ERROR)
    os.setpgid(0, 0)


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Do one check; whatever it does, there is an answer: a value, or an error."""
    try:
        return {"value": run_check(request)}
    except MemoryError:
        return {"error": f"the checker needed more than {_MEMORY_BYTES >> 30} GiB"}
    except BaseException as error:  # noqa: BLE001
        # A checker is other people's code: whatever it raises is an answer of its own, never a score.
        return {"error": _told(error)}


def _told(error: BaseException) -> str:
    """What is stored: valid Unicode, and short. The error's own text is other people's code too."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text}"[:2000].encode(errors="backslashreplace").decode()[:2000]


def serve(pipe: Connection) -> None:
    """Answer requests until the pipe closes."""
    limit_myself()
    pipe.send(READY)
    while True:
        try:
            request = pipe.recv()
        except (EOFError, OSError):
            return
        if request is None:
            return
        pipe.send(answer(request))
