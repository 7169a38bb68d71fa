"""A leased batch as JSON, for those who want to look: the header with the arrays in each sample."""

from __future__ import annotations

import orjson

from rollway.arrays import expand_tree, sample_arrays
from rollway.container import read_container
from rollway_service.operations.batch_frames import LeasedBatch


def batch_as_json(batch: LeasedBatch) -> bytes:
    """The header, and in each sample `arrays` with one value per token; log-probs are 0.0 where the mask is 0."""
    body = batch.header.model_dump(mode="json", exclude={"trees"})
    trees = [
        expand_tree(tree.layout, *read_container(container))
        for tree, container in zip(batch.header.trees, batch.containers, strict=True)
    ]
    for group in body["groups"]:
        for sample in group["samples"]:
            arrays = sample_arrays(trees[sample["tree"]], sample["path"], mask_versions=sample["stale_versions"])
            sample["arrays"] = {
                "token_ids": arrays.token_ids.tolist(),
                "behavior_logprobs": arrays.behavior_logprobs.tolist(),
                "loss_mask": arrays.loss_mask.tolist(),
                "weight_versions": arrays.weight_versions.tolist(),
            }
    return orjson.dumps(body)
