"""The one table of states and allowed transitions. Every change in the store is a compare-and-set along it."""

from __future__ import annotations

from collections.abc import Mapping

from rollway_service.core.errors import WrongState

Table = Mapping[str, frozenset[str]]


def _table(**transitions: str) -> Table:
    return {state: frozenset(targets.split()) for state, targets in transitions.items()}


TRANSITIONS: Mapping[str, Table] = {
    "job": _table(open="closed cancelled", closed="completed cancelled", completed="", cancelled=""),
    "group": _table(open="ready dropped failed cancelled", ready="", dropped="", failed="", cancelled=""),
    "work_item": _table(
        queued="claimed cancelled done",
        claimed="queued done cancelled",
        done="",
        cancelled="",
    ),
    "rollout": _table(
        awaiting_reward="completed failed cancelled",
        completed="",
        failed="",
        cancelled="",
    ),
    "delivery": _table(
        offered="leased dropped",
        leased="offered consumed dropped",
        consumed="checkpointed offered",
        checkpointed="offered",
        dropped="",
    ),
    "session": _table(live="closed lost", closed="", lost=""),
    "batch": _table(leased="consumed returned expired", consumed="", returned="", expired=""),
}


def sources(kind: str, target: str) -> tuple[str, ...]:
    """The states from which `target` may be reached: the expected side of a compare-and-set."""
    found = tuple(state for state, targets in TRANSITIONS[kind].items() if target in targets)
    if not found:
        raise ValueError(f"no {kind} ever becomes {target!r}")
    return found


def check_transition(kind: str, state: str, target: str, label: str) -> None:
    """Raise WrongState unless a thing of this kind may go from `state` to `target`."""
    if target not in TRANSITIONS[kind][state]:
        raise WrongState(f"{label} is {state}; it cannot become {target}")


def is_terminal(kind: str, state: str) -> bool:
    return not TRANSITIONS[kind][state]
