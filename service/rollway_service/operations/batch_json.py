"""A leased batch as JSON, for those who want to look: the header with the arrays in each sample."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson

from rollway.arrays import expand_tree, sample_arrays
from rollway.container import read_container
from rollway.framing import BATCH_MEDIA_TYPE
from rollway.types import BatchHeader, BatchLease, BatchReturn
from rollway_service.core.errors import InvalidRequest
from rollway_service.operations.batch_frames import batch_containers
from rollway_service.operations.consumption import return_batch
from rollway_service.operations.context import Caller, Context
from rollway_service.operations.leases import lease_batch

MAX_BYTES = 32 * 2**20
"""Of arrays; as JSON they are several times as large, and all in memory at once."""


async def lease_as_json(context: Context, caller: Caller, run_id: str, request: BatchLease) -> bytes:
    """Lease a batch and encode it as JSON.

    Raises:
        InvalidRequest: its arrays are too large for JSON; they are on offer again.
    """
    batch = await lease_batch(context, caller, run_id, request)
    if batch.num_bytes > MAX_BYTES and batch.header.batch_id is not None:
        await return_batch(context, caller, batch.header.batch_id, BatchReturn())
        raise InvalidRequest(
            f"the batch holds {batch.num_bytes} bytes of arrays, more than the {MAX_BYTES} that are sent as JSON; lease"
            f" fewer groups, or send Accept: {BATCH_MEDIA_TYPE}. Nothing is leased"
        )
    containers = [container async for container in batch_containers(context, batch)]
    return await asyncio.to_thread(batch_as_json, batch.header, containers)


def batch_as_json(header: BatchHeader, containers: Sequence[bytes]) -> bytes:
    """The header, and in each sample `arrays` with one value per token; log-probs are 0.0 where the mask is 0."""
    body = header.model_dump(mode="json", exclude={"trees"})
    trees = [
        expand_tree(tree.layout, *read_container(container))
        for tree, container in zip(header.trees, containers, strict=True)
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
