"""Reading SGLang's stream of one generation: which tokens are new, with which log-probs, under which weights. Pure.

SGLang's stream is cumulative by default and incremental on request, and some of its answers mix both: an aborted
request in incremental mode repeats its last id, and comes with all log-probs. So nothing is taken by its place in a
chunk: new tokens are those beyond the number already seen, by the engine's own count, and each log-prob must carry the
id it is for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rollway.container import Float32Array, Int32Array
from rollway_service.engines.ports import (
    Chunk,
    EngineProtocolError,
    EngineRejected,
    EngineUnavailable,
    EngineUnreachable,
    FinishReason,
)

_MAX_LOGPROB = 1e-3
"""Above this a log-prob cannot be true; up to it, it is rounding."""
_FINISH_REASONS: dict[str, FinishReason] = {"stop": "stop", "length": "length", "abort": "abort"}


@dataclass(frozen=True, slots=True)
class KnownVersions:
    """What a report of a weight version is read against.

    launched: the weights that the server was started with, which it calls `default`. current: those it should run now,
    for builds that report nothing.
    """

    launched: int
    current: int

    def is_of_restart(self, value: Any) -> bool:
        """Whether a report shows that a server into which other weights were loaded is back at those of its launch."""
        return value is not None and self.parse(value) == self.launched != self.current

    def parse(self, value: Any) -> int:
        """A weight version as SGLang reports it: our number as text, or its own default.

        A server that was restarted says `default` again, whatever had been loaded into it before.
        """
        if value is None:
            return self.current
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            return value
        if isinstance(value, str) and value.isdecimal():
            return int(value)
        return self.launched


class EngineRestarted(EngineUnreachable):
    """The server lost the weights that were loaded into it; its samples would be too old to be of use."""


class GenerationReader:
    """Turns the events of one stream into chunks."""

    def __init__(self, known_versions: KnownVersions) -> None:
        self._known_versions = known_versions
        self._ids: list[int] = []
        self._versions: list[int] = []
        # A request may wait and be prefilled before a swap that comes before its first event.
        self._stamp = self._kv_version = known_versions.current
        self._retractions = 0
        self._is_cumulative: bool | None = None
        self._kv_versions: list[int] = []

    @property
    def num_tokens(self) -> int:
        return len(self._ids)

    def read(self, event: Mapping[str, Any]) -> Chunk:
        """The chunk that an event adds.

        Raises:
            EngineRejected, EngineUnavailable: the event is an error.
            EngineProtocolError: what it says cannot be true.
        """
        try:
            return self._read(event)
        except (AttributeError, IndexError, OverflowError, TypeError, ValueError) as error:
            raise EngineProtocolError(f"an event of the stream has another form than SGLang's: {error}") from error

    def _read(self, event: Mapping[str, Any]) -> Chunk:
        _raise_error(event)
        meta = event.get("meta_info")
        if not isinstance(meta, Mapping):
            raise EngineProtocolError("an event of the stream has no meta_info")
        if self._known_versions.is_of_restart(meta.get("weight_version")):
            raise EngineRestarted("the engine was restarted: it runs the weights of its launch again")
        reason, detail = _finish(meta.get("finish_reason"))
        ids = self._new_ids(event.get("output_ids") or [], meta, reason)
        logprobs, nonfinite, missing = self._logprobs(ids, meta)
        self._ids.extend(ids)
        new_versions, new_kv, all_versions, all_kv = self._note_versions(len(ids), meta, reason)
        return Chunk(
            token_ids=np.array(ids, dtype=np.int32),
            logprobs=logprobs,
            weight_versions=new_versions,
            kv_versions=new_kv,
            finish_reason=reason,
            finish_detail=detail,
            cached_tokens=_count(meta.get("cached_tokens")),
            nonfinite=nonfinite,
            missing=missing,
            generation_versions=all_versions if reason is not None else None,
            generation_kv_versions=all_kv if reason is not None else None,
        )

    def _new_ids(self, ids: Sequence[Any], meta: Mapping[str, Any], reason: FinishReason | None) -> list[int]:
        seen = len(self._ids)
        if any(not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**31 for value in ids):
            raise EngineProtocolError("the stream holds an output id that is no token id")
        total = meta.get("completion_tokens")
        if not isinstance(total, int):
            total = len(ids) if self._is_cumulative_event(ids, reason) else seen + len(ids)
        new = total - seen
        if new <= 0:
            if new < 0 and reason != "abort":
                raise EngineProtocolError(f"the engine counts {total} tokens and gave {seen} before")
            if ids and list(ids) != self._ids[-len(ids) :]:
                raise EngineProtocolError("the stream holds ids that the engine does not count")
            return []
        if len(ids) == total and list(ids[:seen]) == self._ids:
            return list(ids[seen:])
        if len(ids) == new or (reason == "abort" and len(ids) == new + 1):
            return list(ids[:new])
        if len(ids) == total:
            raise EngineProtocolError("the stream changed ids that it had given before")
        raise EngineProtocolError(f"the engine counts {total} tokens, {seen} were seen, and it gave {len(ids)} ids")

    def _is_cumulative_event(self, ids: Sequence[Any], reason: FinishReason | None) -> bool:
        """Which form a stream without counts has; it keeps the one that an event has shown."""
        seen = len(self._ids)
        if self._is_cumulative is None and seen and ids:
            repeats = list(ids[:seen]) == self._ids
            if repeats and len(ids) == seen and reason is None:
                raise EngineProtocolError(
                    "an event repeats the ids so far and has no completion_tokens: they may be new, or the same again"
                )
            self._is_cumulative = repeats
        return bool(self._is_cumulative) or not seen

    def _logprobs(self, ids: Sequence[int], meta: Mapping[str, Any]) -> tuple[Float32Array, int, int]:
        """Log-probs of the new ids, NaN where there is none; how many were not finite, and how many are missing."""
        count = len(ids)
        entries = meta.get("output_token_logprobs") or []
        total = len(self._ids) + count
        if len(entries) >= total > count:
            entries = entries[-total:][len(self._ids) :]
        if len(entries) != count or any(not _is_entry_of(entry, i) for entry, i in zip(entries, ids, strict=True)):
            # Which log-prob belongs to which id is not known, so none of them can be trusted.
            return np.full(count, np.nan, dtype=np.float32), 0, count
        values = [math.nan if entry[0] is None else float(entry[0]) for entry in entries]
        logprobs = np.array(values, dtype=np.float64)
        untrue = ~np.isfinite(logprobs) | (logprobs > _MAX_LOGPROB)
        logprobs[untrue] = np.nan
        return np.minimum(logprobs, 0.0).astype(np.float32), int(untrue.sum()), 0

    def _note_versions(
        self, count: int, meta: Mapping[str, Any], reason: FinishReason | None
    ) -> tuple[Int32Array, Int32Array, Int32Array | None, Int32Array | None]:
        """Versions of the new tokens, and where the engine gives spans, the true ones of all tokens."""
        current = self._known_versions.parse(meta.get("weight_version"))
        # Without spans, tokens of a chunk that crosses a swap count as the older weights': never younger than they are.
        self._versions.extend([min(self._stamp, current)] * count)
        self._stamp = current
        retractions = _count(meta.get("num_retractions"))
        if retractions > self._retractions:
            self._kv_version, self._retractions = current, retractions
        self._kv_version = min(self._kv_version, current)
        self._kv_versions.extend(
            [min(self._kv_version, version) for version in self._versions[-count:]] if count else []
        )
        spans = meta.get("weight_versions")
        all_versions = None
        # A request that was put back on the queue may answer its abort with nothing: no ids, and spans of no length.
        is_empty_abort = reason == "abort" and not any(span.get("end") for span in spans or ())
        if spans and not is_empty_abort:
            self._versions = _expand_spans(spans, len(self._ids), self._known_versions)
            if self._retractions == 0 and self._versions:
                self._kv_versions = [min(self._kv_version, self._versions[0])] * len(self._versions)
            all_versions = np.array(self._versions, dtype=np.int32)
        new_versions = np.array(self._versions[len(self._versions) - count :], dtype=np.int32)
        new_kv = np.array(self._kv_versions[len(self._kv_versions) - count :], dtype=np.int32)
        all_kv = None if all_versions is None else np.array(self._kv_versions, dtype=np.int32)
        return new_versions, new_kv, all_versions, all_kv


def _expand_spans(spans: Sequence[Mapping[str, Any]], num_tokens: int, known_versions: KnownVersions) -> list[int]:
    """One version per token from half-open spans that must cover [0, num_tokens) without gap or overlap."""
    versions: list[int] = []
    for span in spans:
        start, end = span.get("start"), span.get("end")
        if start != len(versions) or not isinstance(end, int) or not len(versions) <= end <= num_tokens:
            raise EngineProtocolError(
                f"weight version spans do not cover the {num_tokens} tokens: one is [{start}, {end}) after {len(versions)}"
            )
        versions.extend([known_versions.parse(span.get("version"))] * (end - len(versions)))
    if len(versions) != num_tokens:
        raise EngineProtocolError(f"weight version spans end at token {len(versions)} of {num_tokens}")
    return versions


def _count(value: Any) -> int:
    """A count that is only kept for statistics; 0 where it cannot be one."""
    return value if isinstance(value, int) and 0 <= value < 2**31 else 0


def _is_entry_of(entry: object, token_id: int) -> bool:
    if not isinstance(entry, Sequence) or len(entry) < 2 or entry[1] != token_id:
        return False
    return entry[0] is None or (isinstance(entry[0], int | float) and not isinstance(entry[0], bool))


def _finish(value: Any) -> tuple[FinishReason | None, str | None]:
    if value is None:
        return None, None
    kind = value.get("type") if isinstance(value, Mapping) else value
    if kind not in _FINISH_REASONS:
        raise EngineProtocolError(f"unknown finish reason {kind!r}")
    if not isinstance(value, Mapping):
        return _FINISH_REASONS[kind], None
    if kind == "abort":
        _raise_status(value.get("status_code"), str(value.get("message") or "aborted"))
        return "abort", str(value.get("message") or "aborted")
    return _FINISH_REASONS[kind], f"matched {value['matched']}" if "matched" in value else None


def _raise_error(event: Mapping[str, Any]) -> None:
    error = event.get("error")
    if error is not None:
        message = error.get("message") if isinstance(error, Mapping) else error
        code = error.get("code") if isinstance(error, Mapping) else None
        _raise_status(code if isinstance(code, int) else 400, str(message))


def _raise_status(status: object, message: str) -> None:
    if not isinstance(status, int):
        return
    if 400 <= status < 500 and status not in {408, 429}:
        raise EngineRejected(f"the engine refuses the request ({status}): {message}")
    if status >= 400:
        raise EngineUnavailable(f"the engine failed ({status}): {message}")
