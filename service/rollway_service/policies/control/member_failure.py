"""What happens to a group when one of its members fails."""

from __future__ import annotations

from rollway.types import MemberFailure
from rollway_service.policies.decisions import AcceptLoss, Decision, FailGroup, Keep, Refill
from rollway_service.policies.views import GroupView, MemberFailureView


def decide_member(view: MemberFailureView, config: MemberFailure) -> Decision:
    """Replace a failed member, or go on without it."""
    if config.policy != "refill":
        return AcceptLoss(reason=f"policy_{config.policy}")
    if view.is_past_deadline:
        return AcceptLoss(reason="group_deadline")
    if not view.is_repeatable:
        return AcceptLoss(reason="would_fail_again")
    if view.refills >= config.max_refills:
        return AcceptLoss(reason="refills_spent")
    return Refill(reason="member_failed")


def decide_group(view: GroupView, config: MemberFailure) -> Decision:
    """Whether enough members are usable for the group to count."""
    if config.policy == "drop" and view.num_failed > 0 and len(view.rewards_G) < view.size:
        return FailGroup(reason="member_failed")
    if len(view.rewards_G) < config.min_members:
        return FailGroup(reason="too_few_members")
    return Keep(reason="enough_members")
