"""Checkpoints of a rollout in flight: what its tree gained since the last one, and where the loop stands.

    4 bytes  header length, little endian
    header   JSON: layout of the gain, first node, whether it continues that node, loop state
    rest     the container with the gained tokens

A work item's checkpoints, applied in order, give back the tree exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

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
            "state": asdict(state),
        }
    )
    return len(header).to_bytes(_LENGTH_BYTES, "little") + header + gain.container


def _decode(payload: bytes) -> tuple[PackedTree, LoopState]:
    end = _LENGTH_BYTES + int.from_bytes(payload[:_LENGTH_BYTES], "little")
    header = orjson.loads(payload[_LENGTH_BYTES:end])
    state = LoopState(**header["state"])
    state.generations = [(reason, tokens) for reason, tokens in state.generations]
    layout = TreeLayout.model_validate(header["layout"])
    return PackedTree(payload[end:], layout, header["first_node"], header["continues"]), state


def restore(payloads: Sequence[bytes]) -> tuple[Tree, LoopState]:
    """Tree and loop state from all checkpoints of a work item, in order."""
    tree, state = Tree(), LoopState()
    for payload in payloads:
        gain, state = _decode(payload)
        tree.apply(gain)
    return tree, state
