"""The array container: safetensors bytes with the tokens of one tree, read without a copy.

`token_ids` int32 (N,) holds the tokens of all nodes in node order; `behavior_logprobs` float32 (M,) the log-probs of
the tokens of `model` nodes only, NaN where none was observed. What holds of which token stands in the `TreeLayout`.
The bytes are packed once, by the worker, and are never changed after that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

Int32Array = NDArray[np.int32]
Float32Array = NDArray[np.float32]

_DTYPES: dict[str, type[np.generic]] = {"I32": np.int32, "F32": np.float32}
_HEADER_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 1 << 20


class ContainerError(ValueError):
    """The bytes are not a whole, well-formed container."""


def read_container(data: bytes | memoryview) -> tuple[Int32Array, Float32Array]:
    """Views of (token_ids (N,) int32, behavior_logprobs (M,) float32, NaN = not observed) into `data`.

    Raises:
        ContainerError: cut short, another layout, or a tensor of another type.
    """
    view = memoryview(data)
    header, start = _read_header(view)
    token_ids = _tensor(view, header, start, "token_ids", "I32")
    logprobs = _tensor(view, header, start, "behavior_logprobs", "F32")
    return token_ids.view(np.int32), logprobs.view(np.float32)


def _read_header(view: memoryview) -> tuple[dict[str, Any], int]:
    if len(view) < _HEADER_LENGTH_BYTES:
        raise ContainerError(f"container of {len(view)} bytes is shorter than its length field")
    length = int.from_bytes(view[:_HEADER_LENGTH_BYTES], "little")
    start = _HEADER_LENGTH_BYTES + length
    if length > _MAX_HEADER_BYTES or start > len(view):
        raise ContainerError(f"container header of {length} bytes does not fit in {len(view)} bytes")
    try:
        header = orjson.loads(view[_HEADER_LENGTH_BYTES:start])
    except orjson.JSONDecodeError as error:
        raise ContainerError(f"container header is not JSON: {error}") from None
    if not isinstance(header, dict):
        raise ContainerError("container header is not a JSON object")
    return header, start


def _tensor(view: memoryview, header: dict[str, Any], start: int, name: str, dtype: str) -> NDArray[Any]:
    try:
        entry = header[name]
        first, last = entry["data_offsets"]
        (count,) = entry["shape"]
        found = entry["dtype"]
    except (KeyError, TypeError, ValueError):
        raise ContainerError(f"container has no one-dimensional tensor {name}") from None
    if not isinstance(count, int):
        raise ContainerError(f"container has no one-dimensional tensor {name}")
    if found != dtype:
        raise ContainerError(f"tensor {name} is {found}, expected {dtype}")
    item = np.dtype(_DTYPES[dtype]).itemsize
    if not (isinstance(first, int) and isinstance(last, int) and 0 <= first <= last <= len(view) - start):
        raise ContainerError(f"tensor {name} lies outside the container: it was cut short or altered")
    if last - first != count * item:
        raise ContainerError(f"tensor {name} has {last - first} bytes for {count} items of {item}")
    return np.frombuffer(view[start + first : start + last], dtype=_DTYPES[dtype])
