"""A leased batch as the bytes of its frame, part by part."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rollway.framing import aligned, frame_start, padding_after
from rollway_service.operations.batch_frames import LeasedBatch, batch_containers
from rollway_service.operations.context import Context

PART_BYTES = 256 * 1024


def frame_length(batch: LeasedBatch, start: bytes) -> int:
    return len(start) + sum(aligned(tree.length) for tree in batch.header.trees)


def start_of(batch: LeasedBatch) -> bytes:
    """The frame up to its data section."""
    return frame_start(batch.header.model_dump_json().encode())


async def frame_parts(context: Context, batch: LeasedBatch, start: bytes) -> AsyncIterator[bytes]:
    """The frame in parts of at least 256 KiB; one container is never cut."""
    part = bytearray(start)
    async for container in batch_containers(context, batch):
        part += container
        part += padding_after(len(container))
        if len(part) >= PART_BYTES:
            yield bytes(part)
            part.clear()
    yield bytes(part)
