"""Stop ids beside `ignore_eos`: SGLang then ignores both, so the client watches for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rollway_service.engines.ports import Chunk


def cut_at_stop(chunk: Chunk, stop_token_ids: Sequence[int], seen_tokens: int) -> Chunk:
    """The chunk up to its first stop id, as the end of the generation; the chunk itself when it has none.

    `seen_tokens`: tokens of the generation before this chunk.
    """
    hits = np.flatnonzero(np.isin(chunk.token_ids, stop_token_ids))
    if not len(hits):
        return chunk
    end = int(hits[0]) + 1
    logprobs = chunk.logprobs[:end]
    unusable = int(np.isnan(logprobs).sum())
    versions, kv_versions = chunk.generation_versions, chunk.generation_kv_versions
    return replace(
        chunk,
        token_ids=chunk.token_ids[:end],
        logprobs=logprobs,
        weight_versions=chunk.weight_versions[:end],
        kv_versions=chunk.kv_versions[:end],
        finish_reason="stop",
        finish_detail=f"matched {int(chunk.token_ids[end - 1])}",
        nonfinite=0 if chunk.missing else unusable,
        missing=unusable if chunk.missing else 0,
        generation_versions=None if versions is None else versions[: seen_tokens + end],
        generation_kv_versions=None if kv_versions is None else kv_versions[: seen_tokens + end],
    )
