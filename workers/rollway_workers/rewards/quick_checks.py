"""Checks that cannot hang: exact, numeric, and regular expressions in linear time (RE2). Pure."""

from __future__ import annotations

import math
import re
from typing import Any

import re2

from rollway.types import ExactReward, NumericReward, RegexReward

_NUMBER = re.compile(
    r"(?:(?<![\w.)\]])[-+\u2212])?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|(?<!\d)\.\d+)(?:[eE][-+]?\d+)?"
)
"""A sign belongs to a number unless something stands before it (5-3); commas only between groups of three digits."""
_MAX_NUMBER_CHARS = 400


class CheckFailed(Exception):
    """The check itself cannot be done: its message says why. The answer is not scored."""


def _reference_text(reference: Any) -> str:
    if isinstance(reference, str):
        return reference
    if isinstance(reference, bool) or not isinstance(reference, int | float):
        raise CheckFailed(f"the task's reference must be text or a number, it is {type(reference).__name__}")
    return str(reference)


def check_exact(spec: ExactReward, answer: str, reference: Any) -> float:
    """1.0 when the answer is the reference, after the normalisation that the spec asks for."""
    expected = _reference_text(reference)
    if spec.strip:
        answer, expected = answer.strip(), expected.strip()
    if spec.ignore_case:
        answer, expected = answer.casefold(), expected.casefold()
    return float(answer == expected)


def _number(text: str) -> float | None:
    """The last number in the text."""
    found = [match for match in _NUMBER.findall(text) if len(match) <= _MAX_NUMBER_CHARS]
    try:
        return float(found[-1].replace(",", "").replace("\u2212", "-")) if found else None
    except ValueError:
        return None


def check_numeric(spec: NumericReward, answer: str, reference: Any) -> float:
    """1.0 when the last number of the answer is within tolerance of the reference."""
    expected = _number(_reference_text(reference))
    if expected is None or not math.isfinite(expected):
        raise CheckFailed(f"the task's reference {reference!r} holds no finite number")
    found = _number(answer)
    if found is None or not math.isfinite(found):
        return 0.0
    return float(abs(found - expected) <= max(spec.absolute_tolerance, spec.relative_tolerance * abs(expected)))


def compile_pattern(pattern: str) -> Any:
    """Compile in RE2's syntax. Raises CheckFailed with RE2's own words."""
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        raise CheckFailed(f"the pattern is not valid in RE2's syntax: {error}") from None


def check_regex(spec: RegexReward, answer: str, reference: Any) -> float:
    """1.0 when the pattern matches, and its group, if asked for, is the reference."""
    pattern = compile_pattern(spec.pattern)
    match = pattern.fullmatch(answer) if spec.full_match else pattern.search(answer)
    if match is None:
        return 0.0
    if spec.compare_group is None:
        return 1.0
    try:
        group = match.group(spec.compare_group)
    except IndexError:
        raise CheckFailed(f"the pattern has no group {spec.compare_group}") from None
    return float(group is not None and group.strip() == _reference_text(reference).strip())
