"""The batch frame (`application/vnd.rollway.batch`): a JSON header, then the containers as they are stored.

    8 bytes  magic "RWBATCH1"
    8 bytes  header length, little endian
    header   JSON (`BatchHeader`), padded with spaces to a multiple of 8
    data     containers, each at a multiple of 8; the header's trees say where

Containers are views into the received bytes; nothing is copied.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import orjson
from pydantic import ValidationError

from rollway.arrays import TreeArrays, check_path, expand_tree
from rollway.container import ContainerError, read_container
from rollway.types.batches import BatchHeader

BATCH_MEDIA_TYPE = "application/vnd.rollway.batch"
MAGIC = b"RWBATCH1"
_PREFIX_BYTES = 16
_ALIGNMENT = 8


def aligned(length: int) -> int:
    return -(-length // _ALIGNMENT) * _ALIGNMENT


def container_offsets(lengths: Sequence[int]) -> list[int]:
    """Offsets in the data section of containers of these lengths in bytes."""
    offsets, position = [], 0
    for length in lengths:
        offsets.append(position)
        position += aligned(length)
    return offsets


def frame_start(header_json: bytes) -> bytes:
    """The frame up to its data section."""
    padded = header_json.ljust(aligned(len(header_json)), b" ")
    return MAGIC + len(padded).to_bytes(8, "little") + padded


def padding_after(length: int) -> bytes:
    """What follows a container of this length in bytes."""
    return bytes(aligned(length) - length)


def read_frame(data: bytes) -> tuple[BatchHeader, list[TreeArrays]]:
    """Header and trees of a frame, the arrays as views into `data`.

    Raises:
        ContainerError: not a frame, cut short, or bytes whose hash differs from the stored one.
    """
    view = memoryview(data)
    if view[:8] != MAGIC:
        raise ContainerError("this is not a Rollway batch: the magic bytes are missing")
    header_end = _PREFIX_BYTES + int.from_bytes(view[8:_PREFIX_BYTES], "little")
    if header_end > len(view):
        raise ContainerError(f"the batch was cut short: its header ends at byte {header_end}, it has {len(view)}")
    try:
        header = BatchHeader.model_validate(orjson.loads(view[_PREFIX_BYTES:header_end]))
    except (orjson.JSONDecodeError, ValidationError) as error:
        raise ContainerError(f"the batch header cannot be read: {error}") from None
    trees = []
    for tree in header.trees:
        start = header_end + tree.offset
        container = view[start : start + tree.length]
        if len(container) != tree.length:
            raise ContainerError(f"the batch was cut short: tree {tree.tree_id} is incomplete")
        if hashlib.sha256(container).hexdigest() != tree.sha256:
            raise ContainerError(f"tree {tree.tree_id} differs from what was stored: its hash does not match")
        trees.append(expand_tree(tree.layout, *read_container(container)))
    _check_samples(header)
    return header, trees


def _check_samples(header: BatchHeader) -> None:
    """Every sample must be a path of a tree that came along: a trainer should learn it now, not in mid-step."""
    for sample in (sample for group in header.groups for sample in group.samples):
        if not 0 <= sample.tree < len(header.trees):
            raise ContainerError(f"sample {sample.trajectory_id} is of tree {sample.tree}; {len(header.trees)} came")
        check_path(header.trees[sample.tree].layout, sample.path)
