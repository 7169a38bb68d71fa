"""Checkpoints of a rollout in flight: what its tree gained since the last one, and where the loop stands.

    4 bytes  CRC-32 of all that follows, little endian
    4 bytes  header length, little endian
    header   JSON: layout of the gain, where it goes on from, loop state
    rest     the container with the gained tokens

A work item's checkpoints, applied in order, give back the tree exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from zlib import crc32

import orjson

from rollway.types import TreeLayout
from rollway_service.core.tree import PackedTree, Tree

_LENGTH_BYTES = 4


@dataclass(slots=True)
class LoopState:
    """What the rollout loop must know to go on: generations so far and what they cost.

    generations: (finish reason, tokens added) of each that ended. nonfinite, missing: log-probs that were not usable.
    findings: what went wrong on the way, by name, with how often.
    """

    generations: list[tuple[str, int]] = field(default_factory=list)
    requests: int = 0
    cached_tokens: int = 0
    wasted_tokens: int = 0
    nonfinite: int = 0
    missing: int = 0
    generate_s: float = 0.0
    findings: dict[str, int] = field(default_factory=dict)

    def note(self, finding: str, count: int = 1) -> None:
        if count:
            self.findings[finding] = self.findings.get(finding, 0) + count

    def finding_labels(self) -> list[str]:
        return [f"{name}:{count}" for name, count in sorted(self.findings.items())]


def encode_checkpoint(gain: PackedTree, state: LoopState) -> bytes:
    header = orjson.dumps(
        {
            "layout": gain.layout.model_dump(mode="json"),
            "first_node": gain.first_node,
            "continues": gain.continues,
            "base_tokens": gain.base_tokens,
            "state": asdict(state),
        }
    )
    body = len(header).to_bytes(_LENGTH_BYTES, "little") + header + gain.container
    return crc32(body).to_bytes(_LENGTH_BYTES, "little") + body


def _decode(payload: bytes) -> tuple[PackedTree, LoopState]:
    body = payload[_LENGTH_BYTES:]
    if crc32(body) != int.from_bytes(payload[:_LENGTH_BYTES], "little"):
        raise ValueError("the checkpoint's bytes have changed since it was written")
    end = _LENGTH_BYTES + int.from_bytes(body[:_LENGTH_BYTES], "little")
    header = orjson.loads(body[_LENGTH_BYTES:end])
    state = LoopState(**header["state"])
    state.generations = [(reason, tokens) for reason, tokens in state.generations]
    layout = TreeLayout.model_validate(header["layout"])
    gain = PackedTree(body[end:], layout, header["first_node"], header["continues"], header["base_tokens"])
    return gain, state


def restore(payloads: Sequence[bytes]) -> tuple[Tree, LoopState]:
    """Tree and loop state from all checkpoints of a work item, in order.

    One that cannot be read, or that does not go on from what was read before it, is left out: what it held is generated
    again, and the loop state says so.
    """
    tree, state, unreadable = Tree(), LoopState(), 0
    for payload in payloads:
        try:
            gain, gained_state = _decode(payload)
            tree.apply(gain)
        except (ValueError, KeyError, TypeError):
            unreadable += 1
        else:
            state = gained_state
    state.note("checkpoint_unreadable", unreadable)
    return tree, state
