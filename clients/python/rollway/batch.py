"""Batches in a trainer's hands: groups of samples, each a set of numpy arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from rollway.arrays import MODEL_CODE, SampleArrays, TreeArrays, UInt8Array, pad_right, sample_arrays
from rollway.container import Float32Array, Int32Array
from rollway.types import BatchHeader, GroupHeader, SampleHeader


class Sample:
    """One trajectory. Arrays have shape (T,), one value per token of prompt and output together."""

    def __init__(self, header: SampleHeader, tree: TreeArrays, group: Group) -> None:
        self.header = header
        self.group = group
        self._tree = tree

    @cached_property
    def arrays(self) -> SampleArrays:
        return sample_arrays(self._tree, self.header.path, mask_versions=self.header.stale_versions)

    @property
    def token_ids(self) -> Int32Array:
        return self.arrays.token_ids

    @property
    def behavior_logprobs(self) -> Float32Array:
        """Log-prob of each sampled token when it was sampled, nats; 0.0 where `loss_mask` is 0."""
        return self.arrays.behavior_logprobs

    @property
    def loss_mask(self) -> UInt8Array:
        """1 = sampled by the model and trainable."""
        return self.arrays.loss_mask

    @property
    def weight_versions(self) -> Int32Array:
        """Version of the weights that sampled each token; -1 off the model's own tokens."""
        return self.arrays.weight_versions

    @property
    def reward(self) -> float | None:
        """Weighted sum of the job's rewards; None when the job has none."""
        return self.header.reward

    @property
    def prompt_length(self) -> int:
        """Tokens before the first that the model sampled."""
        sampled = np.flatnonzero(self.arrays.origins == MODEL_CODE)
        return int(sampled[0]) if len(sampled) else len(self.token_ids)

    def __repr__(self) -> str:
        return f"<Sample {self.header.trajectory_id} {self.header.num_tokens} tokens reward={self.reward}>"


class Group:
    """The samples of one task that are compared with each other."""

    def __init__(self, header: GroupHeader, trees: Sequence[TreeArrays]) -> None:
        self.header = header
        self.samples = [Sample(sample, trees[sample.tree], self) for sample in header.samples]

    @property
    def rewards(self) -> NDArray[np.float64]:
        """Shape (G,), float64; NaN where a sample has no reward."""
        return np.array([np.nan if sample.reward is None else sample.reward for sample in self.samples])

    def __repr__(self) -> str:
        return f"<Group {self.header.group_id} of {len(self.samples)} samples>"


@dataclass(frozen=True, slots=True)
class PaddedBatch:
    """Samples as rectangles (B, T), padded on the right with 0.

    token_ids: int32. behavior_logprobs: float32, 0.0 where loss_mask is 0. loss_mask, attention_mask: uint8.
    rewards: (B,), float64, NaN = none. group_index: (B,), int64, position of the sample's group in the batch.
    """

    token_ids: NDArray[np.int32]
    behavior_logprobs: NDArray[np.float32]
    loss_mask: NDArray[np.uint8]
    attention_mask: NDArray[np.uint8]
    rewards: NDArray[np.float64]
    group_index: NDArray[np.int64]


class Batch:
    """A leased batch."""

    def __init__(self, header: BatchHeader, trees: Sequence[TreeArrays]) -> None:
        self.header = header
        self.groups = [Group(group, trees) for group in header.groups]

    @property
    def id(self) -> str | None:
        return self.header.batch_id

    @property
    def samples(self) -> list[Sample]:
        return [sample for group in self.groups for sample in group.samples]

    @property
    def trainer_version(self) -> int:
        """The version that staleness was counted from."""
        return self.header.trainer_version

    @property
    def staleness(self) -> float:
        """Mean over samples of the age of their oldest trainable token, in versions; 0.0 for an empty batch."""
        ages = [sample.header.staleness for sample in self.samples if sample.header.staleness is not None]
        return float(np.mean(ages)) if ages else 0.0

    def __len__(self) -> int:
        return len(self.groups)

    def __iter__(self) -> Iterator[Group]:
        return iter(self.groups)

    def padded(self) -> PaddedBatch:
        """All samples as rectangles, for trainers that want them so."""
        samples = self.samples
        sizes = [len(group.samples) for group in self.groups]
        return PaddedBatch(
            token_ids=pad_right([sample.token_ids for sample in samples], 0),
            behavior_logprobs=pad_right([sample.behavior_logprobs for sample in samples], 0.0),
            loss_mask=pad_right([sample.loss_mask for sample in samples], 0),
            attention_mask=pad_right([np.ones(len(sample.token_ids), dtype=np.uint8) for sample in samples], 0),
            rewards=np.concatenate([group.rewards for group in self.groups]),
            group_index=np.repeat(np.arange(len(self.groups)), sizes),
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} of {len(self.groups)} groups, {len(self.samples)} samples>"
