"""Reward functions that do what they should not. Checker processes import this module, so it imports next to nothing."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SLOW_IMPORT_S = float(os.environ.get("ROLLWAY_TEST_SLOW_IMPORT_S", "0"))
time.sleep(SLOW_IMPORT_S)


def as_told(answer: str, *, reference: Any, metadata: Any, give: str) -> Any:
    """What the job's arguments ask for."""
    del answer, metadata
    return {
        "text": "1.0",
        "bytes": b"1",
        "nothing": None,
        "list": [1.0],
        "nan": float("nan"),
        "infinity": float("inf"),
        "huge": 10**400,
        "complex": 1j,
        "beyond": 1.1e9,
        "yes": True,
        "whole": 2,
        "reference": reference,
    }[give]


def raises(answer: str, *, reference: Any, metadata: Any, what: str) -> float:
    del answer, reference, metadata
    errors: dict[str, BaseException] = {
        "error": ValueError("no such thing"),
        "exit": SystemExit(3),
        "interrupt": KeyboardInterrupt(),
        "long": RuntimeError("x" * 1_000_000),
        "odd text": RuntimeError("a\0b \ud800"),
    }
    raise errors[what]


def eats_memory(answer: str, *, reference: Any, metadata: Any) -> float:
    del reference, metadata
    return float(len(answer) + len(bytearray(64 * 2**30)))


def recurses(answer: str, *, reference: Any, metadata: Any) -> float:
    return recurses(answer, reference=reference, metadata=metadata)


def hangs_with_a_child(answer: str, *, reference: Any, metadata: Any, pid_file: str) -> float:
    """As one that runs the answer as a program does."""
    del answer, reference, metadata
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(pid_file).write_text(str(child.pid))
    child.wait()
    return 1.0


def takes_a_second(answer: str, *, reference: Any, metadata: Any) -> float:
    del answer, reference, metadata
    time.sleep(1)
    return 0.5


def hangs(answer: str, *, reference: Any, metadata: Any) -> float:
    del answer, reference, metadata
    time.sleep(600)
    return 1.0


def ends_its_process(answer: str, *, reference: Any, metadata: Any) -> float:
    del answer, reference, metadata
    os.kill(os.getpid(), 9)
    return 1.0


def is_a_plain_object(answer: str, *, reference: Any, metadata: Any) -> float:
    del answer, metadata
    return float(isinstance(reference, dict) and set(reference) == {"__type__", "__value__"})
