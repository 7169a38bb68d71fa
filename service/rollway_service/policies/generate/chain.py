"""The plain rollout: one prompt, one path, one generation, continued when an engine cuts it short."""

from __future__ import annotations

from rollway_service.policies.decisions import Decision, Finish, Sample
from rollway_service.policies.views import RolloutView


def remaining_tokens(view: RolloutView) -> int:
    """Tokens that may still be sampled: what the cap leaves, clipped to what the window leaves."""
    return min(view.max_new_tokens - view.num_sampled, view.window - view.num_prompt_tokens - view.num_sampled)


def decide(view: RolloutView) -> Decision:
    """Sample until the model stops, the cap is spent or the window is full.

    A generation that the engine aborted (weight update, memory pressure) is continued from the ids it gave, with the
    budget that is left, at most `max_resumes` times.
    """
    last = view.generations[-1] if view.generations else None
    if last is not None and last.finish_reason == "stop":
        return Finish(reason="model_stopped", stop_reason="completed")
    remaining = remaining_tokens(view)
    if remaining < 1 or (last is not None and last.finish_reason == "length"):
        cap_spent = view.num_sampled >= view.max_new_tokens
        detail = "max_new_tokens reached" if cap_spent else f"the window of {view.window} tokens is full"
        return Finish(reason="cap_spent" if cap_spent else "window_full", stop_reason="length", detail=detail)
    if last is None:
        return Sample(reason="first_generation", max_tokens=remaining)
    if view.num_resumes > view.max_resumes:
        return Finish(
            reason="too_many_resumes",
            stop_reason="aborted",
            detail=f"the engine aborted the generation {view.num_resumes} times",
        )
    return Sample(reason="resume_after_abort", max_tokens=remaining)
