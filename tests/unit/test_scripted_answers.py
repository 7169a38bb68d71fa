"""The scripted engine's seeded answers: a function of seed and position alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_workers.engines.scripted.script import Call, seeded_responder

seeds = st.integers(0, 2**53 - 1)


def a_call(seed, inputs=4, cap=64):
    return Call("r", tuple(range(inputs)), {"sampling_seed": seed, "max_new_tokens": cap}, None, True, {})


@given(seeds, st.integers(1, 20), st.integers(0, 64))
@settings(deadline=None, max_examples=80)
def test_a_generation_that_was_cut_goes_on_with_the_same_tokens(seed, inputs, cut):
    respond = seeded_responder(vocab_size=300, eos_token_id=2)
    whole = respond(a_call(seed, inputs))
    cut %= len(whole.token_ids)
    rest = respond(a_call(seed, inputs + cut, 64 - cut))
    assert list(whole.token_ids[cut:]) == list(rest.token_ids)
    assert list(whole.logprobs[cut:]) == list(rest.logprobs)


@given(seeds, st.integers(1, 1000), st.integers(0, 100))
@settings(deadline=None, max_examples=60)
def test_answers_are_within_vocabulary_and_cap_and_have_true_log_probs(seed, vocab_size, cap):
    answer = seeded_responder(vocab_size=vocab_size)(a_call(seed, cap=cap))
    assert len(answer.token_ids) == len(answer.logprobs) == cap
    assert all(0 <= token_id < vocab_size for token_id in answer.token_ids)
    assert all(-5 <= value <= 0 for value in answer.logprobs)
    assert answer.finish == "length"


@given(seeds)
@settings(deadline=None, max_examples=60)
def test_the_end_token_ends_an_answer_and_comes_once(seed):
    answer = seeded_responder(vocab_size=300, eos_token_id=299, mean_tokens=8)(a_call(seed, cap=40))
    if answer.finish == "stop":
        assert list(answer.token_ids).index(299) == len(answer.token_ids) - 1
    else:
        assert (len(answer.token_ids), 299 in answer.token_ids) == (40, False)


@pytest.mark.parametrize("mean", [4, 16])
def test_answers_are_about_as_long_as_was_asked(mean):
    respond = seeded_responder(vocab_size=300, eos_token_id=299, mean_tokens=mean)
    lengths = [len(respond(a_call(seed, cap=500)).token_ids) for seed in range(400)]
    assert 0.8 * mean < sum(lengths) / len(lengths) < 1.2 * mean


def test_other_seeds_give_other_tokens_and_the_same_seed_the_same():
    respond = seeded_responder(vocab_size=50_000)
    answers = [tuple(respond(a_call(seed, cap=16)).token_ids) for seed in range(100)]
    assert len(set(answers)) == 100
    assert answers == [tuple(respond(a_call(seed, cap=16)).token_ids) for seed in range(100)]


def test_a_call_without_a_seed_is_seed_0():
    call = Call("r", (1,), {"max_new_tokens": 5}, None, True, {})
    assert seeded_responder(vocab_size=300)(call) == seeded_responder(vocab_size=300)(a_call(0, inputs=1, cap=5))
