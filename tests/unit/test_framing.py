"""Batch frames and batches: what was written is read; what was cut, changed or made up is refused."""

import math

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollway.batch import Batch
from rollway.container import ContainerError
from rollway.framing import aligned, container_offsets, frame_start, padding_after, read_frame
from tests.builders import a_batch_header, a_tree

TREES = [
    a_tree(prompt=4, sampled=3, version=1),
    a_tree(prompt=1, sampled=2, version=2, logprobs=[-1.0, math.nan]),
    a_tree(prompt=2, sampled=5, version=3),
]


def frame_of(trees, **changes):
    header = orjson.loads(a_batch_header(trees).model_dump_json()) | changes
    data = b"".join(tree.container + padding_after(len(tree.container)) for tree in trees)
    return frame_start(orjson.dumps(header)) + data


FRAME = frame_of(TREES)


@pytest.mark.parametrize("trees", [[], TREES[:1], TREES])
def test_a_frame_gives_back_header_and_trees(trees):
    header, found = read_frame(frame_of(trees))
    assert header == a_batch_header(trees)
    assert [tree.layout for tree in found] == [tree.layout for tree in trees]
    assert [tree.token_ids[0] for tree in found] == [10] * len(trees)


@given(st.lists(st.integers(0, 100), max_size=10))
@settings(deadline=None, max_examples=50)
def test_containers_lie_aligned_one_after_the_other(lengths):
    offsets = container_offsets(lengths)
    assert all(offset % 8 == 0 for offset in offsets)
    assert offsets == [sum(aligned(length) for length in lengths[:index]) for index in range(len(lengths))]


@given(st.integers(0, len(FRAME) - 9))
@settings(deadline=None, max_examples=150)
def test_a_frame_that_was_cut_anywhere_is_refused(length):
    with pytest.raises(ContainerError):
        read_frame(FRAME[:length])


@given(st.integers(0, len(FRAME) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=250)
def test_a_changed_byte_is_never_a_crash_and_never_other_tokens(position, change):
    data = bytearray(FRAME)
    data[position] ^= change
    try:
        batch = Batch(*read_frame(bytes(data)))
        found = [sample.token_ids.tolist() for sample in batch.samples]
    except ContainerError:
        return
    assert all(ids in EVERY_ID_LIST for ids in found)


EVERY_ID_LIST = [sample.token_ids.tolist() for sample in Batch(*read_frame(FRAME)).samples]


def test_what_lies_in_the_data_is_held_against_its_hash():
    data = bytearray(FRAME)
    data[-20] ^= 1
    with pytest.raises(ContainerError, match="tree_2 differs from what was stored: its hash does not match"):
        read_frame(bytes(data))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "magic bytes are missing"),
        (b"RWBATCH1", "header ends at byte 16, it has 8"),
        (b"RWBATCH2" + FRAME[8:], "magic bytes are missing"),
        (b"RWBATCH1" + b"\xff" * 8 + FRAME[16:], "was cut short"),
        (b"RWBATCH1" + (2).to_bytes(8, "little") + b"{}", "header cannot be read"),
        (b"RWBATCH1" + (2).to_bytes(8, "little") + b"{x", "header cannot be read"),
        (FRAME[: len(FRAME) - 40], "tree tree_2 is incomplete"),
    ],
)
def test_bytes_that_are_no_frame_say_what_is_wrong(data, words):
    with pytest.raises(ContainerError, match=words):
        read_frame(data)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        ({"tree": 3}, "is of tree 3; 3 came"),
        ({"tree": -1}, "is of tree -1"),
        ({"path": [0, 2]}, "is not a walk from a root"),
        ({"path": []}, "path is empty"),
    ],
)
def test_a_sample_of_a_tree_that_did_not_come_is_refused_on_arrival(sample, words):
    header = orjson.loads(a_batch_header(TREES).model_dump_json())
    header["groups"][0]["samples"][0] |= sample
    with pytest.raises(ContainerError, match=words):
        read_frame(frame_of(TREES, groups=header["groups"]))


def test_an_old_client_reads_a_header_with_new_fields():
    header, _ = read_frame(frame_of(TREES, a_field_of_tomorrow={"x": 1}))
    assert header == a_batch_header(TREES)


def test_a_batch_gives_groups_of_samples_as_arrays():
    batch = Batch(*read_frame(FRAME))
    assert (batch.id, len(batch), len(batch.samples), batch.trainer_version) == ("bat_1", 2, 3, 4)
    first, second, third = batch.samples
    assert [sample.prompt_length for sample in batch.samples] == [4, 1, 2]
    assert first.token_ids.tolist() == [10, 11, 12, 13, 20, 21, 22]
    assert second.loss_mask.tolist() == [0, 1, 0]
    assert second.behavior_logprobs.tolist() == [0.0, -1.0, 0.0]
    assert third.weight_versions.tolist() == [-1, -1, 3, 3, 3, 3, 3]
    assert batch.groups[0].rewards.tolist()[0] == 0.0
    assert math.isnan(batch.groups[1].rewards[0])
    assert batch.staleness == pytest.approx((3 + 2 + 1) / 3)


def test_a_padded_batch_is_rectangles_of_zeros_on_the_right():
    padded = Batch(*read_frame(FRAME)).padded()
    assert padded.token_ids.shape == padded.loss_mask.shape == padded.behavior_logprobs.shape == (3, 7)
    assert padded.attention_mask.sum(axis=1).tolist() == [7, 3, 7]
    assert padded.token_ids[1].tolist() == [10, 20, 21, 0, 0, 0, 0]
    assert padded.loss_mask.sum(axis=1).tolist() == [3, 1, 5]
    assert padded.group_index.tolist() == [0, 0, 1]
    assert padded.rewards[:2].tolist() == [0.0, 1.0]
    assert (padded.token_ids.dtype, padded.loss_mask.dtype) == (np.int32, np.uint8)


def test_an_empty_batch_is_no_staleness():
    batch = Batch(*read_frame(frame_of([])))
    assert (batch.staleness, list(batch), batch.samples) == (0.0, [], [])
