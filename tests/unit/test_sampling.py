"""Sampling from logits: the log-prob is of the distribution that was sampled from (B10), seeds decide all else (B33)."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway_service.engines.ports import SamplingParams
from rollway_workers.engines.embedded.sampling import gumbel_noise, sample

LOGITS = torch.tensor([[2.0, 1.0, 0.0]], dtype=torch.float64)
rows_of_logits = st.lists(st.lists(st.floats(-8, 8), min_size=6, max_size=6), min_size=1, max_size=12)


def params(**values):
    return SamplingParams(max_new_tokens=1, **values)


def shares(count=4000, **values):
    """How often each id is drawn, over seeds."""
    ids, _ = sample(LOGITS.repeat(count, 1), [params(seed=seed, **values) for seed in range(count)], [0] * count)
    return np.bincount(ids.numpy(), minlength=3) / count


@pytest.mark.parametrize(("temperature", "scaled"), [(0.5, [4, 2, 0]), (1.0, [2, 1, 0]), (2.0, [1, 0.5, 0])])
def test_the_log_prob_is_that_of_the_tempered_logits(temperature, scaled):
    expected = torch.log_softmax(torch.tensor(scaled, dtype=torch.float64), dim=-1)
    for seed in range(30):
        ids, logprobs = sample(LOGITS, [params(temperature=temperature, seed=seed)], [0])
        assert float(logprobs[0]) == pytest.approx(float(expected[ids[0]]), abs=1e-12)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_ids_are_drawn_as_often_as_their_log_probs_say(temperature):
    expected = torch.softmax(LOGITS[0] / temperature, dim=-1).numpy()
    assert shares(temperature=temperature) == pytest.approx(expected, abs=0.03)


def test_greedy_takes_the_best_and_tells_its_raw_log_prob():
    ids, logprobs = sample(LOGITS, [params(temperature=0.0, seed=5)], [3])
    assert int(ids[0]) == 0
    assert float(logprobs[0]) == pytest.approx(float(torch.log_softmax(LOGITS[0], -1)[0]))


@pytest.mark.parametrize(
    ("cut", "left"),
    [
        ({"top_k": 1}, [0]),
        ({"top_k": 2}, [0, 1]),
        ({"top_p": 0.6}, [0]),
        ({"top_p": 0.7}, [0, 1]),
        ({"top_p": 1e-9}, [0]),
        ({"min_p": 0.3}, [0, 1]),
        ({"min_p": 0.5}, [0]),
        ({"top_k": 2, "min_p": 0.5}, [0]),
        ({}, [0, 1, 2]),
    ],
)
def test_cuts_leave_these_ids_and_the_log_prob_of_the_uncut_distribution(cut, left):
    assert np.flatnonzero(shares(count=600, **cut)).tolist() == left
    ids, logprobs = sample(LOGITS, [params(seed=1, **cut)], [0])
    assert float(logprobs[0]) == pytest.approx(float(torch.log_softmax(LOGITS[0], -1)[ids[0]]))


@given(rows_of_logits, st.integers(0, 2**63 - 1), st.integers(0, 2**20))
@settings(deadline=None, max_examples=60)
def test_a_row_gives_the_same_alone_and_in_any_batch(rows, seed, position):
    logits = torch.tensor(rows, dtype=torch.float64)
    asked = [params(seed=(seed + index) % 2**63, temperature=0.5 + index % 2) for index in range(len(rows))]
    positions = [position + index for index in range(len(rows))]
    ids, logprobs = sample(logits, asked, positions)
    for index in range(len(rows)):
        one_id, one_logprob = sample(logits[index : index + 1], asked[index : index + 1], positions[index : index + 1])
        assert int(one_id[0]) == int(ids[index])
        assert float(one_logprob[0]) == pytest.approx(float(logprobs[index]), abs=1e-12)


def test_noise_depends_on_seed_position_and_id_and_on_nothing_else():
    noise = gumbel_noise([7, 7, 8, 2**63 - 1, 0], [0, 1, 0, 0, 0], 50)
    assert np.isfinite(noise).all()
    assert len({tuple(row) for row in noise.tolist()}) == 5
    assert len(np.unique(noise)) == noise.size
    np.testing.assert_array_equal(noise[2:3], gumbel_noise([8], [0], 50))
    np.testing.assert_array_equal(noise[0, :10], gumbel_noise([7], [0], 10)[0])


def test_noise_is_standard_gumbel():
    noise = gumbel_noise(list(range(200)), [0] * 200, 500)
    assert noise.mean() == pytest.approx(0.5772, abs=0.02)
    assert noise.std() == pytest.approx(math.pi / math.sqrt(6), abs=0.02)


def test_eight_members_of_one_prompt_differ():
    logits = torch.zeros((8, 50_000))
    ids, _ = sample(logits, [params(seed=seed) for seed in range(8)], [10] * 8)
    assert len(set(ids.tolist())) == 8


def test_low_precision_logits_give_log_probs_of_at_least_float32():
    _, logprobs = sample(LOGITS.to(torch.bfloat16), [params(seed=1)], [0])
    assert logprobs.dtype == torch.float32
