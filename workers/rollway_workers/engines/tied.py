"""Run a command that ends with whoever started it: `python tied.py PARENT_PID COMMAND...`.

A worker that is killed cannot stop its engine; the kernel does it, so that no orphan holds a GPU.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Replace this process by the command, unless the parent is gone already."""
    parent, *command = arguments
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the kernel was told.
    if os.getppid() != int(parent):
        sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606 - a command of the worker


if __name__ == "__main__":
    main(sys.argv[1:])
