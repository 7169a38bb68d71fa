"""Stop ids that the client watches for itself."""

import numpy as np

from rollway_service.engines.ports import Chunk
from rollway_service.engines.sglang.stops import cut_at_stop


def a_chunk(ids, logprobs=None, **fields):
    count = len(ids)
    return Chunk(
        token_ids=np.array(ids, dtype=np.int32),
        logprobs=np.array(logprobs or [-0.5] * count, dtype=np.float32),
        weight_versions=np.full(count, 3, dtype=np.int32),
        kv_versions=np.full(count, 2, dtype=np.int32),
        **fields,
    )


def test_a_chunk_without_a_stop_id_is_left_alone():
    chunk = a_chunk([5, 6, 7])
    assert cut_at_stop(chunk, (9,), 4) is chunk


def test_the_first_stop_id_ends_the_generation_and_is_kept():
    chunk = a_chunk([5, 9, 7, 9], [-0.1, -0.2, -0.3, -0.4])
    found = cut_at_stop(chunk, (9, 7), 4)
    assert found.token_ids.tolist() == [5, 9]
    assert found.logprobs.tolist() == np.array([-0.1, -0.2], dtype=np.float32).tolist()
    assert (found.finish_reason, found.finish_detail) == ("stop", "matched 9")
    assert len(found.weight_versions) == len(found.kv_versions) == 2


def test_spans_of_the_whole_generation_are_cut_too():
    versions = np.arange(8, dtype=np.int32)
    chunk = a_chunk([5, 6, 9, 7], finish_reason="length", generation_versions=versions, generation_kv_versions=versions)
    found = cut_at_stop(chunk, (9,), 4)
    assert found.generation_versions.tolist() == found.generation_kv_versions.tolist() == list(range(7))
    assert found.finish_reason == "stop"


def test_unusable_logprobs_beyond_the_stop_are_not_counted():
    nan = float("nan")
    assert cut_at_stop(a_chunk([5, 9, 7], [nan, -0.1, nan], nonfinite=2), (9,), 0).nonfinite == 1
    found = cut_at_stop(a_chunk([5, 9, 7], [nan, nan, nan], missing=3), (9,), 0)
    assert (found.missing, found.nonfinite) == (2, 0)
