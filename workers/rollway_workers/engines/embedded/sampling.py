"""Sampling as a pure function of logits, seeds and positions.

The noise of a token depends on (seed, position, token id) alone. So a generation gives the same ids alone and in a
batch, and one that was interrupted goes on as if it had not been, as far as the logits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from rollway_service.engines.ports import SamplingParams

_ROWS_PER_BLOCK = 8
"""Noise for many rows of a large vocabulary at once falls out of the cache and takes many times longer."""

_U = np.uint64
_GOLDEN = _U(0x9E3779B97F4A7C15)
_POSITION = _U(0xD1342543DE82EF95)
_SEED_MASK = 2**64 - 1


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """splitmix64's finaliser, modulo 2**64."""
    words = (words ^ (words >> _U(30))) * _U(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> _U(27))) * _U(0x94D049BB133111EB)
    return words ^ (words >> _U(31))


def gumbel_noise(seeds: Sequence[int], positions: Sequence[int], vocab_size: int) -> NDArray[np.float64]:
    """Standard Gumbel noise, shape (B, V), float64, a pure function of (seed, position, token id)."""
    noise = np.empty((len(seeds), vocab_size), dtype=np.float64)
    tokens = np.arange(1, vocab_size + 1, dtype=_U) * _GOLDEN
    with np.errstate(over="ignore"):
        words = _mix(np.array([seed & _SEED_MASK for seed in seeds], dtype=_U) + _GOLDEN)
        base = _mix(words ^ (np.array(positions, dtype=_U) * _POSITION))
        for start in range(0, len(seeds), _ROWS_PER_BLOCK):
            block = _mix(base[start : start + _ROWS_PER_BLOCK, None] + tokens)
            uniform = ((block >> _U(11)).astype(np.float64) + 0.5) * 2.0**-53
            noise[start : start + _ROWS_PER_BLOCK] = -np.log(-np.log(uniform))
    return noise


def _keep_mask(logprobs: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """Ids that top_k, top_p and min_p leave, shape (V,), bool; never empty."""
    values, order = logprobs.sort(descending=True)
    probabilities = values.exp()
    keep = torch.ones_like(values, dtype=torch.bool)
    if params.top_k > 0:
        keep[params.top_k :] = False
    if params.top_p < 1:
        keep &= probabilities.cumsum(0) - probabilities < params.top_p
    if params.min_p > 0:
        keep &= probabilities >= params.min_p * probabilities[0]
    keep[0] = True
    return torch.zeros_like(keep).scatter(0, order, keep)


def sample(
    logits: torch.Tensor, params: Sequence[SamplingParams], positions: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draw one id per row.

    Args:
        logits: shape (B, V), float.
        params: one per row; temperature 0 is greedy.
        positions: absolute position of the new token, one per row.
    Returns: ids (B,), int64, and their log-probs (B,), of the tempered and uncut distribution (temperature 1 when
        greedy), in the logits' dtype but at least float32.
    """
    scores = logits if logits.dtype == torch.float64 else logits.float()
    temperatures = torch.tensor([p.temperature or 1.0 for p in params], dtype=scores.dtype, device=scores.device)
    logprobs = torch.log_softmax(scores / temperatures[:, None], dim=-1)
    # A copy: of float64, `double()` would be the log-probs themselves, and the noise would end up in them.
    keys = logprobs.to(torch.float64, copy=True)
    drawn = [row for row, p in enumerate(params) if p.temperature > 0]
    if drawn:
        noise = gumbel_noise([params[row].seed for row in drawn], [positions[row] for row in drawn], scores.shape[-1])
        keys[drawn] += torch.from_numpy(noise).to(scores.device)
    for row in drawn:
        p = params[row]
        if p.top_p < 1 or p.top_k > 0 or p.min_p > 0:
            keys[row].masked_fill_(~_keep_mask(logprobs[row], p), -torch.inf)
    ids = keys.argmax(-1)
    return ids, logprobs.gather(1, ids[:, None])[:, 0]
