"""Things that tests begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from rollway.types import EngineFacts, RewardValue, RolloutFailure, Usage
from rollway_service.core.tree import PackedTree, Tree
from rollway_service.operations.messages import ClaimedItem, FinishedRollout, FinishedTrajectory


def token_tasks(number: int, *, length: int = 4, reference: Any = None) -> list[dict[str, Any]]:
    """Tasks of different token prompts."""
    return [
        {"token_ids": [10 + (index + offset) % 200 for offset in range(length)], "reference": reference}
        for index in range(number)
    ]


def weights_folder(tmp_path: Path, number: int = 1) -> Path:
    """A folder with some safetensors weights, different for each number."""
    folder = tmp_path / f"weights-{number}"
    folder.mkdir(exist_ok=True)
    save_file({"weight": np.full(4, number, dtype=np.float32)}, folder / "model.safetensors")
    return folder


def a_tree(
    *, prompt: int = 4, sampled: int = 3, version: int = 0, logprobs: list[float] | None = None
) -> PackedTree:
    """A packed chain."""
    tree = Tree()
    root = tree.add("prompt", list(range(10, 10 + prompt)), parent=-1, turn=0)
    leaf = tree.add("model", parent=root, turn=0)
    values = np.array([-0.5] * sampled if logprobs is None else logprobs, dtype=np.float32)
    versions = np.full(len(values), version, dtype=np.int32)
    tree.extend_sampled(leaf, np.arange(20, 20 + len(values), dtype=np.int32), values, versions, versions)
    return tree.pack()


def a_finished(
    item: ClaimedItem,
    *,
    reward: float | None = 1.0,
    failure: RolloutFailure | None = None,
    tree: PackedTree | None = None,
    version: int = 0,
    is_repeatable: bool = True,
) -> FinishedRollout:
    """The end of a claimed item, as a worker would tell it."""
    packed = tree or a_tree(version=version)
    rewards = [] if reward is None else [RewardValue(name="exact", value=reward, weight=1.0, source="exact")]
    return FinishedRollout(
        work_item_id=item.work_item_id,
        fence=item.fence,
        tree=packed,
        trajectories=[FinishedTrajectory(path=[0, 1], stop_reason="completed", finish_reasons=["stop"])],
        rewards=rewards,
        failure=failure,
        is_repeatable=is_repeatable,
        usage=Usage(prompt_tokens=packed.layout.lengths[0], sampled_tokens=packed.layout.lengths[1], requests=1),
        engine=EngineFacts(kind="scripted", build="test"),
    )
