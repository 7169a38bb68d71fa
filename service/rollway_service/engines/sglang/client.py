"""SGLang behind the engine port: which calls it takes, and what its answers mean."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import numpy as np

from rollway.container import Float32Array, Int32Array
from rollway.types import EngineFacts
from rollway_service.engines.ports import (
    Chunk,
    EngineError,
    EngineInfo,
    EngineProtocolError,
    EngineRejected,
    EngineStreamCut,
    SamplingParams,
    SwapMode,
    WeightSource,
)
from rollway_service.engines.sglang.http import SGLangHttp, SGLangTimeouts
from rollway_service.engines.sglang.stops import cut_at_stop
from rollway_service.engines.sglang.stream import EngineRestarted, GenerationReader, KnownVersions

_MODEL_INFO = ("/model_info", "/get_model_info")
_ROUTING_HEADER = "X-SMG-Routing-Key"
"""Read by SGLang's router (SMG) under its `manual` policy, or with `--routing-key-override` under any."""
_SERVER_INFO = ("/server_info", "/get_server_info")


class SGLangEngine:
    """One SGLang server (or router) by its base URL."""

    def __init__(
        self,
        base_url: str,
        *,
        timeouts: SGLangTimeouts | None = None,
        profile: str = "default",
        worker: str = "",
        launched_version: int = 0,
    ) -> None:
        self._http = SGLangHttp(base_url, timeouts or SGLangTimeouts())
        self._profile = profile
        self._worker = worker
        self._launched_version = launched_version
        self._version = launched_version
        self._loads = 0
        self._is_held = False
        self._is_loading = False

    @property
    def is_paused(self) -> bool:
        """Whether this client has paused the server."""
        return self._is_held or self._is_loading

    @property
    def _known_versions(self) -> KnownVersions:
        return KnownVersions(launched=self._launched_version, current=self._version)

    async def generate(
        self,
        request_id: str,
        token_ids: Sequence[int] | Int32Array,
        params: SamplingParams,
        *,
        chunk_tokens: int,
        routing_key: str = "",
    ) -> AsyncGenerator[Chunk, None]:
        """Stream a generation; see the port. SGLang's own flags decide the size of chunks."""
        del chunk_tokens
        await self._check_restart()
        reader = GenerationReader(self._known_versions)
        body = self._generate_body(request_id, token_ids, params)
        headers = {_ROUTING_HEADER: routing_key} if routing_key else {}
        watched = params.stop_token_ids if params.ignore_eos else ()
        async for event in self._http.events("/generate", body, headers):
            try:
                chunk = reader.read(event)
            except EngineRestarted:
                self._http.has_broken = True
                raise
            if watched:
                found = cut_at_stop(chunk, watched, reader.num_tokens - len(chunk.token_ids))
                if found is not chunk and chunk.finish_reason is None:
                    with contextlib.suppress(EngineError):
                        await self.abort(request_id)
                chunk = found
            yield chunk
            if chunk.finish_reason is not None:
                return
        self._http.has_broken = True
        raise EngineStreamCut(
            f"the stream of {request_id} ended after {reader.num_tokens} tokens without a finish reason"
        )

    async def _check_restart(self) -> None:
        """After a broken connection, make sure that the server still runs the weights that were loaded.

        Raises:
            EngineUnreachable: it was restarted, and samples of its old weights would only be thrown away.
        """
        if not self._http.has_broken:
            return
        found = await self.loaded_version()
        if found != self._version:
            raise EngineRestarted(
                f"{self._http.base_url} was restarted and runs version {found}; version {self._version} must be loaded again"
            )
        self._http.has_broken = False

    def _generate_body(
        self, request_id: str, token_ids: Sequence[int] | Int32Array, params: SamplingParams
    ) -> dict[str, Any]:
        sampling: dict[str, Any] = {
            "temperature": params.temperature,
            "top_p": params.top_p,
            "top_k": params.top_k or -1,
            "min_p": params.min_p,
            "max_new_tokens": params.max_new_tokens,
            "ignore_eos": params.ignore_eos,
            "sampling_seed": params.seed,
        }
        if params.stop_token_ids:
            sampling["stop_token_ids"] = list(params.stop_token_ids)
        if params.stop:
            sampling["stop"] = list(params.stop)
        return {
            "rid": request_id,
            "input_ids": np.ascontiguousarray(token_ids, dtype=np.int32),
            "sampling_params": sampling,
            "return_logprob": True,
            "stream": True,
            # Prefixes are shared only among requests that began under the same load of the same weights: a server that
            # was restarted serves others until it is noticed.
            "extra_key": f"weights-{self._version}-{self._loads}",
        }

    async def score(self, token_ids: Sequence[int] | Int32Array, *, temperature: float = 1.0) -> Float32Array:
        """Log-probs of given ids; the first has none (NaN)."""
        ids = np.asarray(token_ids).tolist()
        body = {
            "input_ids": ids,
            "sampling_params": {"temperature": temperature, "max_new_tokens": 1},
            "return_logprob": True,
            "logprob_start_len": 0,
        }
        answer = await self._http.call("POST", "/generate", body, timeout_s=self._http.timeouts.idle_s)
        entries = answer.get("meta_info", {}).get("input_token_logprobs") if isinstance(answer, dict) else None
        if not entries or [entry[1] for entry in entries] != ids:
            raise EngineProtocolError("the engine did not return one log-prob for each input id")
        return np.array([np.nan if entry[0] is None else entry[0] for entry in entries], dtype=np.float32)

    async def abort(self, request_id: str) -> None:
        await self._http.call("POST", "/abort_request", {"rid": request_id})

    async def pause(self) -> None:
        self._is_held = True
        await self._http.call("POST", "/pause_generation", {"mode": "in_place"})

    async def resume(self) -> None:
        self._is_held = False
        await self._continue()

    async def _continue(self) -> None:
        await self._http.call("POST", "/continue_generation", {})

    async def load_weights(self, source: WeightSource, mode: SwapMode) -> None:
        """Pause, load from disk, go on, and check that the server says the new version.

        A server that was paused before stays so. `/update_weight_version` is never used: it aborts all running requests.
        """
        # A build that cannot pause lets running requests finish first, and its update waits for them.
        self._is_loading = True
        with contextlib.suppress(EngineRejected):
            await self._http.call("POST", "/pause_generation", {"mode": mode})
        try:
            answer = await self._http.call(
                "POST",
                "/update_weights_from_disk",
                {
                    "model_path": source.path,
                    "weight_version": str(source.version),
                    "abort_all_requests": False,
                    # In place, running requests hold the cache; new ones are kept from it by their extra_key.
                    "flush_cache": mode == "retract",
                },
                timeout_s=self._http.timeouts.load_s,
            )
        finally:
            self._is_loading = False
            if not self._is_held:
                with contextlib.suppress(EngineRejected):
                    await self._continue()
        if not (isinstance(answer, dict) and answer.get("success")):
            raise EngineError(f"{self._http.base_url} could not load version {source.version}: {answer}")
        reported = (await self._http.first_answer(*_MODEL_INFO)).get("weight_version")
        if reported is not None and self._known_versions.parse(reported) != source.version:
            raise EngineError(f"{self._http.base_url} says version {reported} after loading version {source.version}")
        self._version = source.version
        self._loads += 1
        self._http.has_broken = False

    async def loaded_version(self) -> int | None:
        model = await self._http.first_answer(*_MODEL_INFO)
        return self._known_versions.parse(model.get("weight_version"))

    async def info(self) -> EngineInfo:
        model = await self._http.first_answer(*_MODEL_INFO)
        server = await self._http.first_answer(*_SERVER_INFO)
        context_length = server.get("context_length") or server.get("max_req_input_len")
        version = self._known_versions.parse(model.get("weight_version"))
        if self._loads == 0:
            self._version = version
        return EngineInfo(
            facts=EngineFacts(
                kind="sglang",
                build=str(server.get("version") or "unknown"),
                profile=self._profile,
                worker=self._worker,
                deterministic=bool(server.get("enable_deterministic_inference")),
            ),
            vocab_size=server.get("vocab_size") if isinstance(server.get("vocab_size"), int) else None,
            context_length=context_length if isinstance(context_length, int) else None,
            weight_version=version,
            logprob_kind="tempered",
            max_running_requests=int(server.get("max_running_requests") or 64),
            supports_stop_strings=True,
            supports_seeds=bool(server.get("enable_deterministic_inference")),
            model_path=str(model["model_path"]) if model.get("model_path") else None,
        )

    async def close(self) -> None:
        await self._http.close()
