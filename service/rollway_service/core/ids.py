"""Ids: a prefix that says what is named, and a UUIDv7, so that ids sort by the time they were made."""

from __future__ import annotations

import re

import uuid_utils

PREFIXES: dict[str, str] = {
    "tenant": "ten",
    "key": "key",
    "run": "run",
    "model": "mod",
    "pool": "poo",
    "worker": "wrk",
    "session": "ses",
    "job": "job",
    "task": "tsk",
    "group": "grp",
    "rollout": "rol",
    "work_item": "wki",
    "tree": "tre",
    "trajectory": "trj",
    "batch": "bat",
    "consumer_group": "cgr",
}
_PATTERN = re.compile(r"([a-z]{3})_([0-9a-f]{32})")


def new_id(kind: str) -> str:
    """A fresh id of a kind named in `PREFIXES`."""
    return f"{PREFIXES[kind]}_{uuid_utils.uuid7().hex}"


def is_id(kind: str, value: str) -> bool:
    match = _PATTERN.fullmatch(value)
    return match is not None and match[1] == PREFIXES[kind]


def is_any_id(value: str) -> bool:
    match = _PATTERN.fullmatch(value)
    return match is not None and match[1] in PREFIXES.values()


def id_bound(kind: str, at_s: float) -> str:
    """The smallest id of a kind made at or after `at_s` (seconds since 1970): a bound for ranges of ids."""
    return f"{PREFIXES[kind]}_{max(0, int(at_s * 1000)):012x}{'0' * 20}"


def id_time_s(value: str) -> float:
    """Seconds since 1970 when the id was made."""
    return int(value[4:16], 16) / 1000
