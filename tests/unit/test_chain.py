"""The plain rollout: how far it may go on after an abort, and why it ends (cases B13, B56)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.policies.generate.chain import decide, remaining_tokens
from rollway_service.policies.views import GenerationFact, RolloutView


def a_view(*generations, prompt=4, cap=10, window=100, resumes=2):
    facts = tuple(GenerationFact(reason, tokens) for reason, tokens in generations)
    sampled = sum(fact.num_tokens for fact in facts)
    return RolloutView(prompt, sampled, cap, window, resumes, facts)


@pytest.mark.parametrize(
    ("view", "action", "reason", "told"),
    [
        (a_view(), "sample", "first_generation", 10),
        (a_view(window=11), "sample", "first_generation", 7),
        (a_view(("stop", 3)), "finish", "model_stopped", "completed"),
        (a_view(("stop", 10)), "finish", "model_stopped", "completed"),
        (a_view(("stop", 0)), "finish", "model_stopped", "completed"),
        (a_view(("length", 10)), "finish", "cap_spent", "length"),
        (a_view(("length", 6)), "finish", "window_full", "length"),
        (a_view(("abort", 7)), "sample", "resume_after_abort", 3),
        (a_view(("abort", 4), ("abort", 3)), "sample", "resume_after_abort", 3),
        (a_view(("abort", 0)), "sample", "resume_after_abort", 10),
        (a_view(("abort", 10)), "finish", "cap_spent", "length"),
        (a_view(("abort", 7), window=11), "finish", "window_full", "length"),
        (a_view(("abort", 1), ("abort", 1), ("abort", 1)), "finish", "too_many_resumes", "aborted"),
        (a_view(("abort", 1), ("abort", 1), ("stop", 1)), "finish", "model_stopped", "completed"),
        (a_view(("abort", 1), resumes=0), "finish", "too_many_resumes", "aborted"),
        (a_view(("abort", 0), ("abort", 0), ("abort", 10)), "finish", "cap_spent", "length"),
    ],
)
def test_what_comes_next(view, action, reason, told):
    decision = decide(view)
    assert (decision.action, decision.reason) == (action, reason)
    assert (decision.max_tokens if action == "sample" else decision.stop_reason) == told


@pytest.mark.parametrize(("prompt", "asked"), [(8, 2), (9, 1), (10, None), (11, None)])
def test_a_prompt_near_the_window_is_clipped_or_not_asked_at_all(prompt, asked):
    decision = decide(a_view(prompt=prompt, cap=5, window=10))
    if asked is None:
        assert (decision.action, decision.stop_reason) == ("finish", "length")
        assert decision.detail == "the window of 10 tokens is full"
    else:
        assert (decision.action, decision.max_tokens) == ("sample", asked)


def test_the_reports_own_numbers():
    """19,202 in and a cap of 24,576 against a window of 40,960: the second request must not pass the window."""
    view = a_view(("abort", 7_000), prompt=19_202, cap=24_576, window=40_960)
    assert remaining_tokens(view) == 40_960 - 19_202 - 7_000
    assert decide(view).max_tokens == 14_758


@given(
    st.integers(1, 50),
    st.integers(1, 60),
    st.integers(1, 100),
    st.integers(0, 5),
    st.lists(st.tuples(st.sampled_from(["stop", "length", "abort"]), st.integers(0, 60)), max_size=12),
)
@settings(deadline=None, max_examples=150)
def test_no_engine_makes_a_rollout_endless_or_longer_than_its_bounds(prompt, cap, window, resumes, answers):
    """An engine that obeys `max_tokens` and otherwise does what it likes."""
    facts = []
    for reason, tokens in answers:
        decision = decide(a_view(*facts, prompt=prompt, cap=cap, window=window, resumes=resumes))
        if decision.action == "finish":
            break
        assert decision.max_tokens >= 1
        facts.append((reason, min(tokens, decision.max_tokens)))
        sampled = sum(tokens for _, tokens in facts)
        assert sampled <= cap
        assert prompt + sampled <= window
    assert len(facts) <= resumes + 2
