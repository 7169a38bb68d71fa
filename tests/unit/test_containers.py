"""Containers: bytes of arrays read as views, and clear errors for bytes that are none."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save

from rollway.container import ContainerError, read_container
from tests.builders import a_tree

GOOD = a_tree(prompt=4, sampled=3).container
IDS = {"dtype": "I32", "shape": [1], "data_offsets": [0, 4]}
LOGPROBS = {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}


def with_header(header, data=b"\0" * 8):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@given(
    st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50),
    st.lists(st.floats(width=32) | st.just(float("nan")), max_size=50),
)
@settings(deadline=None, max_examples=60)
def test_arrays_come_back_bit_by_bit(ids, logprobs):
    token_ids, values = np.array(ids, dtype=np.int32), np.array(logprobs, dtype=np.float32)
    data = save({"token_ids": token_ids, "behavior_logprobs": values})
    found_ids, found_values = read_container(data)
    assert (found_ids.dtype, found_values.dtype) == (np.int32, np.float32)
    assert found_ids.tobytes() == token_ids.tobytes()
    assert found_values.tobytes() == values.tobytes()


def test_arrays_are_views_of_the_bytes_and_cannot_be_written():
    buffer = bytearray(GOOD)
    token_ids, _ = read_container(memoryview(buffer))
    first = token_ids[0]
    where = bytes(buffer).index(int(first).to_bytes(4, "little"), 8 + int.from_bytes(buffer[:8], "little"))
    buffer[where] ^= 1
    assert token_ids[0] == first ^ 1
    with pytest.raises(ValueError, match="read-only"):
        read_container(GOOD)[0][0] = 1


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes is shorter than its length field"),
        (b"\1\2\3", "3 bytes is shorter"),
        ((2**63).to_bytes(8, "little"), "does not fit"),
        (GOOD[:20], "does not fit in 20 bytes"),
        (GOOD[:-1], "lies outside the container: it was cut short"),
        (with_header(b"{nonsense"), "is not JSON"),
        (with_header(b"\xff\xfe"), "is not JSON"),
        (with_header([1, 2]), "is not a JSON object"),
        (with_header({}), "no one-dimensional tensor token_ids"),
        (with_header({"token_ids": IDS}), "no one-dimensional tensor behavior_logprobs"),
        (with_header({"token_ids": "text"}), "no one-dimensional tensor"),
        (with_header({"token_ids": IDS | {"shape": [1, 1]}}), "no one-dimensional tensor"),
        (with_header({"token_ids": IDS | {"shape": [None]}}), "no one-dimensional tensor"),
        (with_header({"token_ids": IDS | {"shape": [{}]}}), "no one-dimensional tensor"),
        (with_header({"token_ids": IDS | {"shape": []}}), "no one-dimensional tensor"),
        (with_header({"token_ids": IDS | {"dtype": "I64"}}), "token_ids is I64, expected I32"),
        (with_header({"token_ids": IDS | {"shape": [2]}}), "has 4 bytes for 2 items of 4"),
        (with_header({"token_ids": IDS | {"data_offsets": [4, 0]}}), "lies outside"),
        (with_header({"token_ids": IDS | {"data_offsets": [-4, 0]}}), "lies outside"),
        (with_header({"token_ids": IDS | {"data_offsets": ["0", 4]}}), "lies outside"),
        (with_header({"token_ids": IDS, "behavior_logprobs": LOGPROBS}, b"\0" * 7), "lies outside"),
    ],
)
def test_bytes_that_are_no_container_say_what_is_wrong(data, words):
    with pytest.raises(ContainerError, match=words):
        read_container(data)


@given(st.integers(0, len(GOOD) - 1), st.integers(1, 255))
@settings(deadline=None, max_examples=150)
def test_a_changed_byte_is_never_a_crash(position, change):
    data = bytearray(GOOD)
    data[position] ^= change
    try:
        lengths = [len(array) for array in read_container(bytes(data))]
    except ContainerError:
        lengths = [7, 3]
    assert lengths == [7, 3]


@given(st.binary(max_size=80))
@settings(deadline=None, max_examples=100)
def test_noise_is_refused(data):
    with pytest.raises(ContainerError):
        read_container(data)
