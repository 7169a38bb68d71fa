"""Checks that run other people's code and may hang: math, reasoning-gym, operators' functions.

They run in processes of their own, which are killed at the time limit. Libraries' own time limits are switched off:
they use signals, which work in the main thread alone, and they swallow what happened.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import math
from collections.abc import Mapping
from typing import Any, SupportsFloat

ENTRY_POINTS = "rollway.rewards"


def check_math(answer: str, reference: Any) -> float:
    """1.0 when math-verify finds the answer equal to the reference."""
    from math_verify import parse, verify  # noqa: PLC0415 - only in checker processes

    text = str(reference)
    expected = parse(text, parsing_timeout=None, raise_on_error=True) or parse(
        f"${text}$", parsing_timeout=None, raise_on_error=True
    )
    if not expected:
        raise ValueError(f"math-verify cannot read the reference {text!r}")
    found = parse(answer, parsing_timeout=None, raise_on_error=True)
    return float(bool(found) and verify(expected, found, timeout_seconds=None, raise_on_error=True))


def check_reasoning_gym(dataset: str, answer: str, reference: Any) -> float:
    """The data set's own score of the answer."""
    from reasoning_gym import get_score_answer_fn  # noqa: PLC0415 - only in checker processes

    if not isinstance(reference, dict) or "answer" not in reference:
        raise ValueError("the task's reference must be a reasoning-gym entry (an object with question and answer)")
    return _number(get_score_answer_fn(dataset)(answer=answer.strip(), entry=reference))


def check_python(target: str, answer: str, reference: Any, metadata: Any, arguments: Mapping[str, Any]) -> float:
    """What the operator's function returns: `function(answer, reference=..., metadata=..., **arguments) -> float`."""
    return _number(_load(target)(answer, reference=reference, metadata=metadata, **arguments))


def _load(target: str) -> Any:
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _number(value: Any) -> float:
    """Text is no number, even where float() reads it as one: who returns it means something else."""
    if not isinstance(value, SupportsFloat):
        raise TypeError(f"the checker returned {type(value).__name__}, which is no number")
    return float(value)


def run_check(request: Mapping[str, Any]) -> float:
    """Do one check in this process, or load its function ahead of it, which gives 0.

    Raises whatever the checker raises; a value that is not finite is an error.
    """
    kind = request["kind"]
    if kind == "load":
        _load(request["target"])
        return 0.0
    answer, reference = request["answer"], request["reference"]
    if kind == "math":
        value = check_math(answer, reference)
    elif kind == "reasoning_gym":
        value = check_reasoning_gym(request["dataset"], answer, reference)
    elif kind == "python":
        value = check_python(request["target"], answer, reference, request["metadata"], request["arguments"])
    else:
        raise ValueError(f"no check {kind!r}")
    if not math.isfinite(value):
        raise ValueError(f"the checker returned {value}")
    return value


def registered_functions(setting: str) -> dict[str, str]:
    """Reward functions by name: entry points of installed packages, and `name=module:function` of the setting."""
    found = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
    for part in filter(None, setting.split(",")):
        name, separator, target = part.strip().partition("=")
        if not separator or ":" not in target:
            raise ValueError(f"ROLLWAY_REWARD_FUNCTIONS: {part!r} is not name=module:function")
        found[name] = target
    return found
