"""SGLang's HTTP API behind the engine port.

aiohttp, not httpx: a worker reads thousands of small chunks a second, and this is where they pass.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp
import numpy as np
import orjson

from rollway.container import Float32Array, Int32Array
from rollway.types import EngineFacts
from rollway_service.engines.ports import (
    Chunk,
    EngineError,
    EngineInfo,
    EngineProtocolError,
    EngineRejected,
    EngineStreamCut,
    EngineTimeout,
    EngineUnavailable,
    EngineUnreachable,
    SamplingParams,
    SwapMode,
    WeightSource,
)
from rollway_service.engines.sglang.stream import GenerationReader, KnownVersions

_DONE = b"[DONE]"
_MODEL_INFO = ("/model_info", "/get_model_info")
_SERVER_INFO = ("/server_info", "/get_server_info")


@dataclass(frozen=True, slots=True)
class SGLangTimeouts:
    """connect_s: to a listening port. idle_s: between two pieces of a stream, the first included. call_s: other calls.

    load_s: a weight update.
    """

    connect_s: float = 5.0
    idle_s: float = 300.0
    call_s: float = 30.0
    load_s: float = 900.0


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
        self.base_url = base_url.rstrip("/")
        self.timeouts = timeouts or SGLangTimeouts()
        self._profile = profile
        self._worker = worker
        self._launched_version = launched_version
        self._version = launched_version
        self._loads = 0
        self._may_have_restarted = False
        self._session: aiohttp.ClientSession | None = None

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeouts.connect_s),
                json_serialize=lambda value: orjson.dumps(value).decode(),
            )
        return self._session

    @property
    def _known_versions(self) -> KnownVersions:
        return KnownVersions(launched=self._launched_version, current=self._version)

    async def generate(
        self, request_id: str, token_ids: Sequence[int] | Int32Array, params: SamplingParams, *, chunk_tokens: int
    ) -> AsyncGenerator[Chunk, None]:
        """Stream a generation; see the port. SGLang's own flags decide the size of chunks."""
        del chunk_tokens
        await self._check_restart()
        reader = GenerationReader(self._known_versions)
        body = self._generate_body(request_id, token_ids, params)
        async for event in self._events("/generate", body):
            chunk = reader.read(event)
            yield chunk
            if chunk.finish_reason is not None:
                return
        self._may_have_restarted = True
        raise EngineStreamCut(
            f"the stream of {request_id} ended after {reader.num_tokens} tokens without a finish reason"
        )

    async def _check_restart(self) -> None:
        """After a broken connection, make sure that the server still runs the weights that were loaded.

        Raises:
            EngineUnreachable: it was restarted, and samples of its old weights would only be thrown away.
        """
        if not self._may_have_restarted:
            return
        found = await self.loaded_version()
        if found != self._version:
            raise EngineUnreachable(
                f"{self.base_url} was restarted and runs version {found}; version {self._version} must be loaded again"
            )
        self._may_have_restarted = False

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
            "input_ids": np.asarray(token_ids).tolist(),
            "sampling_params": sampling,
            "return_logprob": True,
            "stream": True,
            # Prefixes are shared only among requests that began under the same load of the same weights: a server that
            # was restarted serves others until it is noticed.
            "extra_key": f"weights-{self._version}-{self._loads}",
        }

    async def _events(self, path: str, body: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """JSON events of an SSE answer."""
        try:
            async with asyncio.timeout(self.timeouts.idle_s):
                response = await self._http().post(self.base_url + path, json=body)
        except TimeoutError:
            raise EngineTimeout(f"{self.base_url} gave no answer within {self.timeouts.idle_s} s") from None
        except aiohttp.ClientConnectorError as error:
            self._may_have_restarted = True
            raise EngineUnreachable(f"{self.base_url} cannot be reached: {error}") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            self._may_have_restarted = True
            raise EngineStreamCut(f"{self.base_url} broke the connection: {error}") from error
        try:
            if response.status != 200:
                await self._raise_status(response)
            if response.content_type == "application/json":
                # A proxy in between, or a build that does not stream: the whole answer is one event.
                yield await self._whole(response)
                return
            async for data in self._data_lines(response):
                if data == _DONE:
                    return
                yield _load(data)
        finally:
            response.close()

    async def _whole(self, response: aiohttp.ClientResponse) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self.timeouts.idle_s):
                answer = _load(await response.read())
        except TimeoutError:
            raise EngineTimeout(f"{self.base_url} sent nothing for {self.timeouts.idle_s} s") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            self._may_have_restarted = True
            raise EngineStreamCut(f"{self.base_url} broke the answer: {error}") from error
        if not isinstance(answer, dict):
            raise EngineProtocolError(f"{self.base_url} answered with {type(answer).__name__}, not with an object")
        return answer

    async def _data_lines(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """Payloads of `data:` lines; a time-out between two pieces is an error, so that no wait is endless."""
        rest = b""
        while True:
            try:
                async with asyncio.timeout(self.timeouts.idle_s):
                    piece = await response.content.readany()
            except TimeoutError:
                raise EngineTimeout(f"{self.base_url} sent nothing for {self.timeouts.idle_s} s") from None
            except (aiohttp.ClientError, ConnectionError) as error:
                self._may_have_restarted = True
                raise EngineStreamCut(f"{self.base_url} broke the stream: {error}") from error
            if not piece:
                return
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if line.startswith(b"data:"):
                    yield line[5:].strip()

    async def _raise_status(self, response: aiohttp.ClientResponse) -> None:
        text = (await response.text(errors="replace"))[:2000]
        message = f"{self.base_url} answered {response.status}: {text}"
        if 400 <= response.status < 500 and response.status not in {408, 429}:
            raise EngineRejected(message)
        raise EngineUnavailable(message)

    async def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """One call with a whole answer: its JSON, or its text where it is none."""
        try:
            async with asyncio.timeout(timeout_s or self.timeouts.call_s):
                async with self._http().request(method, self.base_url + path, json=body) as response:
                    if response.status != 200:
                        await self._raise_status(response)
                    data = await response.read()
        except TimeoutError:
            raise EngineTimeout(f"{self.base_url}{path} gave no answer in time") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            self._may_have_restarted = True
            raise EngineUnreachable(f"{self.base_url}{path} cannot be reached: {error}") from error
        try:
            return _load(data)
        except EngineProtocolError:
            return data.decode(errors="replace")

    async def score(self, token_ids: Sequence[int] | Int32Array, *, temperature: float = 1.0) -> Float32Array:
        """Log-probs of given ids; the first has none (NaN)."""
        ids = np.asarray(token_ids).tolist()
        body = {
            "input_ids": ids,
            "sampling_params": {"temperature": temperature, "max_new_tokens": 1},
            "return_logprob": True,
            "logprob_start_len": 0,
        }
        answer = await self._call("POST", "/generate", body, timeout_s=self.timeouts.idle_s)
        entries = answer.get("meta_info", {}).get("input_token_logprobs") if isinstance(answer, dict) else None
        if not entries or [entry[1] for entry in entries] != ids:
            raise EngineProtocolError("the engine did not return one log-prob for each input id")
        return np.array([np.nan if entry[0] is None else entry[0] for entry in entries], dtype=np.float32)

    async def abort(self, request_id: str) -> None:
        await self._call("POST", "/abort_request", {"rid": request_id})

    async def pause(self) -> None:
        await self._call("POST", "/pause_generation", {"mode": "in_place"})

    async def resume(self) -> None:
        await self._call("POST", "/continue_generation", {})

    async def load_weights(self, source: WeightSource, mode: SwapMode) -> None:
        """Pause, load from disk, go on, and check that the server says the new version.

        `/update_weight_version` is never used: it aborts all running requests.
        """
        # A build that cannot pause lets running requests finish first, and its update waits for them.
        with contextlib.suppress(EngineRejected):
            await self._call("POST", "/pause_generation", {"mode": mode})
        try:
            answer = await self._call(
                "POST",
                "/update_weights_from_disk",
                {
                    "model_path": source.path,
                    "weight_version": str(source.version),
                    "abort_all_requests": False,
                    # In place, running requests hold the cache; new ones are kept from it by their extra_key.
                    "flush_cache": mode == "retract",
                },
                timeout_s=self.timeouts.load_s,
            )
        finally:
            with contextlib.suppress(EngineRejected):
                await self.resume()
        if not (isinstance(answer, dict) and answer.get("success")):
            raise EngineError(f"{self.base_url} could not load version {source.version}: {answer}")
        reported = (await self._first_answer(*_MODEL_INFO)).get("weight_version")
        if reported is not None and self._known_versions.parse(reported) != source.version:
            raise EngineError(f"{self.base_url} says version {reported} after loading version {source.version}")
        self._version = source.version
        self._loads += 1
        self._may_have_restarted = False

    async def loaded_version(self) -> int | None:
        model = await self._first_answer(*_MODEL_INFO)
        return self._known_versions.parse(model.get("weight_version"))

    async def info(self) -> EngineInfo:
        model = await self._first_answer(*_MODEL_INFO)
        server = await self._first_answer(*_SERVER_INFO)
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

    async def _first_answer(self, *paths: str) -> dict[str, Any]:
        """The answer of the first path that this build has; empty when it has none of them."""
        for path in paths:
            try:
                answer = await self._call("GET", path)
            except EngineRejected:
                continue
            return answer if isinstance(answer, dict) else {}
        return {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _load(data: bytes) -> Any:
    """JSON as SGLang writes it; some builds write bare NaN and Infinity."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except ValueError:
            raise EngineProtocolError(f"the engine sent what is not JSON: {data[:200]!r}") from None
