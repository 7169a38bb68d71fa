"""How many groups may be admitted now, and what holds the rest back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rollway.types import Admission
from rollway_service.policies.views import AheadView, JobShareView


@dataclass(frozen=True, slots=True)
class Allowance:
    """`groups` may be admitted; `held_by` names the tightest gate, for a person to read."""

    groups: int
    held_by: str


def allowance(view: AheadView, config: Admission) -> Allowance:
    """The tightest of the gates.

    Source: staleness gate, AReaL (arXiv:2505.24298, section 5): submitted in total <= (version + S + 1) x batch.
    Differs: groups that no trainer will see (dropped, failed, cancelled, stale) do not count, so that they never starve
    it; and no more than (S + 1) x batch may be out at once, which the first rule implies only as long as each publish
    follows a batch and nothing is rewound.
    """
    gates = [
        Allowance(
            config.max_ahead_groups - view.groups_ahead,
            f"max_ahead_groups: {view.groups_ahead} of {config.max_ahead_groups} groups wait for the trainer",
        )
    ]
    if config.max_staleness_versions is not None and config.groups_per_step is not None:
        steps_ahead = config.max_staleness_versions + 1
        bound = (view.versions_since_start + steps_ahead) * config.groups_per_step
        bound_out = steps_ahead * config.groups_per_step
        gates.append(
            Allowance(
                bound - view.groups_counted,
                f"staleness_gate: {view.groups_counted} of ({view.versions_since_start} published +"
                f" {config.max_staleness_versions} + 1) x {config.groups_per_step} groups are out; waits for a publish",
            )
        )
        gates.append(
            Allowance(
                bound_out - view.groups_ahead,
                f"staleness_gate: {view.groups_ahead} of ({config.max_staleness_versions} + 1) x"
                f" {config.groups_per_step} groups wait for the trainer",
            )
        )
    if view.bytes_ahead >= config.max_ahead_bytes:
        gates.append(
            Allowance(0, f"max_ahead_bytes: {view.bytes_ahead} of {config.max_ahead_bytes} bytes wait for the trainer")
        )
    tightest = min(gates, key=lambda gate: gate.groups)
    return Allowance(max(0, tightest.groups), tightest.held_by)


def share_pool(jobs: Sequence[JobShareView], room_rollouts: int, queue_target: int) -> dict[str, int]:
    """Groups to admit per job so that about `room_rollouts` rollouts join the queue.

    Higher priority first; jobs of one priority take turns, one group each. A job that already has `queue_target`
    rollouts queued gets none: what waits there may wait for weights that no worker has.
    """
    shares = {job.job_id: 0 for job in jobs}
    for priority in sorted({job.priority for job in jobs}, reverse=True):
        level = [job for job in jobs if job.priority == priority]
        while room_rollouts > 0:
            open_jobs = [
                job
                for job in level
                if shares[job.job_id] < job.groups_allowed
                and job.rollouts_queued + shares[job.job_id] * job.group_size < queue_target
            ]
            if not open_jobs:
                break
            for job in open_jobs:
                if room_rollouts <= 0:
                    break
                shares[job.job_id] += 1
                room_rollouts -= job.group_size
    return shares
