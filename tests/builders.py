"""Things that tests begin with."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from pydantic import BaseModel, ValidationError
from safetensors.numpy import save_file

from rollway.framing import container_offsets
from rollway.types import BatchHeader, EngineFacts, Message, RewardValue, RolloutFailure, Usage
from rollway_service.api.problems import json_path
from rollway_service.core.tree import PackedTree, Tree
from rollway_service.operations.messages import ClaimedItem, FinishedRollout, FinishedTrajectory
from rollway_service.store.rows import JobRow, WorkItemRow


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


def a_tree(*, prompt: int = 4, sampled: int = 3, version: int = 0, logprobs: list[float] | None = None) -> PackedTree:
    """A packed chain."""
    tree = Tree()
    root = tree.add("prompt", list(range(10, 10 + prompt)), parent=-1, turn=0)
    leaf = tree.add("model", parent=root, turn=0)
    values = np.array([-0.5] * sampled if logprobs is None else logprobs, dtype=np.float32)
    versions = np.full(len(values), version, dtype=np.int32)
    tree.extend_sampled(leaf, np.arange(20, 20 + len(values), dtype=np.int32), values, versions, versions)
    return tree.pack()


def a_batch_header(trees: Sequence[PackedTree]) -> BatchHeader:
    """The header of a batch of chains, two to a group; rewards count up from 0, the third has none."""
    offsets = container_offsets([len(tree.container) for tree in trees])
    samples = [_sample_header(index, tree) for index, tree in enumerate(trees)]
    groups = [_group_header(start // 2, samples[start : start + 2]) for start in range(0, len(samples), 2)]
    tree_headers = [
        {
            "tree_id": f"tree_{index}",
            "offset": offset,
            "length": len(tree.container),
            "sha256": tree.sha256,
            "layout": tree.layout,
        }
        for index, (offset, tree) in enumerate(zip(offsets, trees, strict=True))
    ]
    return BatchHeader(
        batch_id="bat_1",
        run_id="run_1",
        model_id="mod_1",
        consumer_group="default",
        trainer_version=4,
        expires_at_s=1e9,
        end_of_data=False,
        groups=groups,
        trees=tree_headers,
    )


def _sample_header(index: int, tree: PackedTree) -> dict[str, Any]:
    versions = [value for _, _, value in tree.layout.weight_versions]
    return {
        "trajectory_id": f"trj_{index}",
        "rollout_id": f"rol_{index}",
        "tree": index,
        "path": list(range(len(tree.layout.parents))),
        "role": "policy",
        "recipe": "chain",
        "member_index": index % 2,
        "stop_reason": "completed",
        "reward": None if index == 2 else float(index),
        "rewards": [],
        "logprob_kind": "tempered",
        "temperature": 1.0,
        "top_p": 1.0,
        "top_k": 0,
        "min_p": 0.0,
        "seed": index,
        "num_tokens": tree.layout.num_tokens,
        "num_trainable": sum(end - start for start, end in tree.layout.trainable),
        "oldest_version": min(versions),
        "staleness": 3 - index,
        "newest_version": max(versions),
        "engine": EngineFacts(kind="scripted", build="test"),
        "timings": {},
        "findings": [],
    }


def _group_header(index: int, samples: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "group_id": f"grp_{index}",
        "job_id": "job_1",
        "task_id": f"tsk_{index}",
        "task_index": index,
        "task_key": None,
        "task_metadata": {},
        "recipe": "chain",
        "group_size": 2,
        "failed_members": 0,
        "stale_members": 0,
        "samples": samples,
    }


def reward_of_length(answer: str, *, reference: Any, metadata: dict[str, Any], scale: float = float("nan")) -> float:
    """A reward function as an operator would write it."""
    return len(answer) * scale + float(metadata.get("bonus", 0))


def reward_or_failure(answer: str, *, reference: Any, metadata: dict[str, Any]) -> float:
    """1 for an answer of one character, 0 for one of two, and a failure for longer ones."""
    del reference, metadata
    if len(answer) > 2:
        raise RuntimeError("as told")
    return 2.0 - len(answer)


def reward_that_ends_its_process(answer: str, *, reference: Any, metadata: dict[str, Any]) -> float:
    """What a checker does that is killed for its memory, or crashes in C."""
    del answer, reference, metadata
    os._exit(7)


def paths_refused(model: type[BaseModel], body: Any) -> list[str]:
    """JSON paths of what is refused in a body, as the service would answer them; empty when it is taken."""
    try:
        model.model_validate(body)
    except ValidationError as error:
        return [json_path(("body", *item["loc"]), item.get("ctx", {})) for item in error.errors()]
    return []


class ScriptedAnswers(httpx.BaseTransport):
    """A network that gives these answers in turn: a response, a status whose problem it makes up, or an error."""

    def __init__(self, answers: Sequence[httpx.Response | httpx.TransportError | int]) -> None:
        self._answers = list(answers)
        self.requests: list[httpx.Request] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._answers[len(self.requests)]
        self.requests.append(request)
        if isinstance(answer, httpx.TransportError):
            raise answer
        if isinstance(answer, httpx.Response):
            return answer
        problem = {"type": "t", "title": "x", "status": answer, "code": "c", "detail": "d"}
        return httpx.Response(answer, json=problem, headers={"Content-Type": "application/problem+json"})


class ByteTokenizer:
    """Ids are bytes of UTF-8: every character but ASCII is spread over several ids. There are no special ones."""

    vocab_size = 256
    eos_token_ids = ()

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        return list("".join(message.content for message in messages).encode())

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:  # noqa: ARG002
        return bytes(token_ids).decode(errors="replace")


class WordTokenizer(ByteTokenizer):
    """Ids are words with a space before, which is dropped at the start of what is decoded, as some tokenizers do."""

    def decode(self, token_ids: Sequence[int], *, skip_special: bool = True) -> str:  # noqa: ARG002
        return "".join(f" {('', 'one', 'two', 'three')[token_id]}" for token_id in token_ids).removeprefix(" ")


_COUNTED = object()


def a_stream_event(
    ids: Sequence[Any],
    logprobs: Sequence[float | None] | None = None,
    *,
    total: Any = _COUNTED,
    finish: str | None = None,
    version: str = "0",
    spans: Sequence[tuple[Any, Any, Any]] | None = None,
) -> dict[str, Any]:
    """An event of SGLang's stream. `total` is its own count of tokens: by default that of `ids`, None for no count."""
    values = [-1.0] * len(ids) if logprobs is None else logprobs
    meta: dict[str, Any] = {
        "finish_reason": None if finish is None else {"type": finish},
        "output_token_logprobs": [[value, token_id, None] for value, token_id in zip(values, ids, strict=False)],
        "weight_version": version,
        "completion_tokens": len(ids) if total is _COUNTED else total,
    }
    if spans is not None:
        meta["weight_versions"] = [{"version": str(v), "start": start, "end": end} for v, start, end in spans]
    return {"text": "", "output_ids": list(ids), "meta_info": meta}


def a_job_row() -> JobRow:
    """A job as it is stored; its spec is left to the test."""
    owner = {"tenant_id": "ten_1", "run_id": "run_1", "model_id": "mod_1", "pool_id": "poo_1"}
    fields = {"purpose": "train", "state": "open", "paused": False, "priority": 50, "seed": 7, "base_version": 0}
    return JobRow(id="job_1", **owner, **fields, spec={}, created_at_s=1.0, ended_at_s=None)


def a_work_item() -> WorkItemRow:
    """A claimed work item as it is stored."""
    names = ("tenant", "run", "job", "pool", "group", "task", "rollout", "session")
    none = dict.fromkeys(("min_version", "exact_version", "last_error", "deadline_at_s"))
    return WorkItemRow(
        id="wki_1",
        **{f"{name}_id": f"{name[:3]}_1" for name in names},
        **none,
        member_index=0,
        seed=7,
        state="claimed",
        rank=0,
        fence=1,
        attempts=1,
        created_at_s=1.0,
        claimed_at_s=2.0,
        deadline_s=60.0,
    )


def a_finished(
    item: ClaimedItem | WorkItemRow,
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
        work_item_id=item.id if isinstance(item, WorkItemRow) else item.work_item_id,
        fence=item.fence,
        tree=packed,
        trajectories=[FinishedTrajectory(path=[0, 1], stop_reason="completed", finish_reasons=["stop"])],
        rewards=rewards,
        failure=failure,
        is_repeatable=is_repeatable,
        usage=Usage(prompt_tokens=packed.layout.lengths[0], sampled_tokens=packed.layout.lengths[1], requests=1),
        engine=EngineFacts(kind="scripted", build="test"),
    )
