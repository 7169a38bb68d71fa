"""A small GRPO trainer on the SDK alone: one open job, batches as they come, weights published after each step.

The rollouts of a batch may be a version or two old (the service bounds it), so the loss weighs each token by the ratio
of its probability now to its probability when it was sampled, clipped as in PPO.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, PreTrainedModel

import rollway
from rollway._sync.runs import JobHandle, RunHandle
from rollway.demo.problems import TrainingTasks, held_out_tasks

_BACKLOG_STEPS = 16
"""Tasks kept ready, in steps: groups without spread are dropped, so a step uses up more tasks than it trains on."""

REWARDS = [{"kind": "reasoning_gym", "dataset": "chain_sum"}]


@dataclass(frozen=True, slots=True)
class Config:
    """How to train. `max_staleness`: versions that a trained token may be behind."""

    steps: int = 70
    groups_per_step: int = 32
    group_size: int = 8
    max_new_tokens: int = 6
    learning_rate: float = 5e-4
    clip: float = 0.2
    max_staleness: int = 1
    seed: int = 7
    held_out: int = 500
    samples_per_problem: int = 2


@dataclass(slots=True)
class Step:
    """What one step saw. `reward`: mean over all rollouts scored since the last step, dropped groups included."""

    index: int
    reward: float
    version: int
    staleness: float
    sampled_tokens: int
    wait_s: float
    train_s: float


@dataclass(slots=True)
class Report:
    """Sampled accuracy on held-out problems before and after, and every step between."""

    before: float = float("nan")
    after: float = float("nan")
    steps: list[Step] = field(default_factory=list)


def accuracy(run: RunHandle, version: int, config: Config) -> float:
    """Share of held-out problems that this version answers rightly when it samples, by an evaluation job."""
    progress = run.evaluate(
        held_out_tasks(config.held_out),
        group_size=config.samples_per_problem,
        sampling={"max_new_tokens": config.max_new_tokens, "seed": config.seed},
        rewards=REWARDS,
        version={"exact_version": version},
        priority=90,
    )
    return progress.reward_sum / progress.rollouts_scored


def submit(run: RunHandle, config: Config) -> JobHandle:
    """An open job: tasks are appended as training goes on, generation stays within the staleness bound."""
    return run.submit(
        group_size=config.group_size,
        sampling={"max_new_tokens": config.max_new_tokens, "seed": config.seed},
        rewards=REWARDS,
        recipe={"filters": [{"name": "zero_spread"}]},
        admission={
            "max_staleness_versions": config.max_staleness,
            "groups_per_step": config.groups_per_step,
            "max_ahead_groups": (config.max_staleness + 2) * config.groups_per_step,
        },
    )


def grpo_loss(model: PreTrainedModel, batch: rollway.Batch, clip: float) -> torch.Tensor:
    """Clipped policy-gradient loss with advantages normalised within each group."""
    padded = batch.padded()
    advantages = np.concatenate(
        [(rewards - rewards.mean()) / (rewards.std() + 1e-4) for rewards in (group.rewards for group in batch)]
    )
    ids = torch.from_numpy(padded.token_ids).long()
    attention = torch.from_numpy(padded.attention_mask).long()
    logits = model(input_ids=ids, attention_mask=attention).logits[:, :-1]
    logprobs = torch.log_softmax(logits, dim=-1).gather(-1, ids[:, 1:, None])[..., 0]
    behavior = torch.from_numpy(padded.behavior_logprobs)[:, 1:]
    mask = torch.from_numpy(padded.loss_mask)[:, 1:].float()
    advantage = torch.from_numpy(advantages).float()[:, None]
    ratio = torch.exp(logprobs - behavior)
    gain = torch.minimum(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
    return -(gain * mask).sum() / mask.sum()


def save_weights(model: PreTrainedModel, folder: Path, version: int) -> Path:
    """Weights of a version in a folder of their own; those of three versions ago are no longer needed."""
    target = folder / f"v{version}"
    target.mkdir(parents=True)
    tensors = {name: tensor.contiguous() for name, tensor in model.named_parameters()}
    save_file(tensors, target / "model.safetensors", metadata={"format": "pt"})
    shutil.rmtree(folder / f"v{version - 3}", ignore_errors=True)
    return target


def train(client: rollway.Client, folder: Path, config: Config, on_step: Callable[[Step, Report], None]) -> Report:
    """Evaluate, train, evaluate again."""
    torch.manual_seed(config.seed)
    transformers.logging.disable_progress_bar()
    model_info = client.model("tiny")
    model = AutoModelForCausalLM.from_pretrained(model_info.source, dtype=torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.99), weight_decay=0.0)
    run = client.start_run("demo", model="tiny")
    report = Report(before=accuracy(run, model_info.latest_version, config))
    tasks = TrainingTasks()
    job = submit(run, config)
    job.append(tasks.take(_BACKLOG_STEPS * config.groups_per_step))
    version, seen = model_info.latest_version, job.info.progress
    waiting_since_s = time.monotonic()
    for batch in run.batches(
        groups=config.groups_per_step, job_ids=[job.id], max_staleness=config.max_staleness, timeout_s=120.0
    ):
        started_s = time.monotonic()
        loss = grpo_loss(model, batch, config.clip)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        batch.consumed(step=len(report.steps))
        version = run.publish(save_weights(model, folder, version + 1), trainer_step=len(report.steps) + 1).version
        progress = job.refresh().progress
        if progress.backlog < _BACKLOG_STEPS * config.groups_per_step / 2:
            job.append(tasks.take(_BACKLOG_STEPS * config.groups_per_step))
        scored = progress.rollouts_scored - seen.rollouts_scored
        step = Step(
            index=len(report.steps) + 1,
            reward=(progress.reward_sum - seen.reward_sum) / max(1, scored),
            version=version,
            staleness=batch.staleness,
            sampled_tokens=progress.sampled_tokens - seen.sampled_tokens,
            wait_s=started_s - waiting_since_s,
            train_s=time.monotonic() - started_s,
        )
        seen, waiting_since_s = progress, time.monotonic()
        report.steps.append(step)
        on_step(step, report)
        if step.index == config.steps:
            break
    job.cancel()
    report.after = accuracy(run, version, config)
    return report
