"""The scripted engine's server: the part of SGLang's HTTP API that the service uses."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

from rollway_workers.engines.scripted.script import Answer, Call, Responder

_MAX_BODY_BYTES = 1 << 28


@dataclass(slots=True)
class _Running:
    """A request that is being answered."""

    call: Call
    aborted: asyncio.Event = field(default_factory=asyncio.Event)
    sent_tokens: int = 0


class ScriptedServer:
    """An engine that answers what `responder` says, and remembers what it was asked.

    `calls`, `aborts`, `loads` are in order of arrival. `is_incremental` chooses between SGLang's two kinds of stream.
    """

    def __init__(
        self,
        responder: Responder,
        *,
        vocab_size: int = 304,
        context_length: int = 4096,
        weight_version: int = 0,
        is_incremental: bool = True,
        max_running_requests: int = 256,
        abort_forgets: bool = False,
    ) -> None:
        self.responder = responder
        self.vocab_size = vocab_size
        self.context_length = context_length
        self.weight_version = self.launched_version = weight_version
        self._reported_version = "default"
        self.is_incremental = is_incremental
        self.max_running_requests = max_running_requests
        self.abort_forgets = abort_forgets
        self.calls: list[Call] = []
        self.aborts: list[str] = []
        self.loads: list[dict[str, Any]] = []
        self.running: dict[str, _Running] = {}
        self.port = 0
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def is_paused(self) -> bool:
        return not self._unpaused.is_set()

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=_MAX_BODY_BYTES)
        app.add_routes(
            [
                web.post("/generate", self._generate),
                web.post("/abort_request", self._abort),
                web.post("/pause_generation", self._pause),
                web.post("/continue_generation", self._continue),
                web.post("/update_weights_from_disk", self._load),
                web.get("/model_info", self._model_info),
                web.get("/server_info", self._server_info),
                web.get("/health", self._health),
            ]
        )
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def restart(self) -> None:
        """As after a crash: requests are cut off, and the weights are those of the launch again."""
        await self.stop()
        self.weight_version = self.launched_version
        self._reported_version = "default"
        await self.start(self.port)

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        return web.Response(text="")

    async def _model_info(self, _request: web.Request) -> web.Response:
        return web.json_response({"model_path": "scripted", "weight_version": self._reported_version})

    async def _server_info(self, _request: web.Request) -> web.Response:
        return web.json_response(
            {
                "version": "scripted",
                "vocab_size": self.vocab_size,
                "context_length": self.context_length,
                "max_running_requests": self.max_running_requests,
                "enable_deterministic_inference": True,
            }
        )

    async def _abort(self, request: web.Request) -> web.Response:
        body = await request.json()
        request_id = str(body.get("rid", ""))
        self.aborts.append(request_id)
        for running in self.running.values():
            if body.get("abort_all") or running.call.request_id == request_id:
                running.aborted.set()
        return web.Response(text="")

    async def _pause(self, request: web.Request) -> web.Response:
        if (await request.json()).get("mode", "abort") == "abort":
            for running in self.running.values():
                running.aborted.set()
        self._unpaused.clear()
        return web.Response(text="Generation paused successfully.\n")

    async def _continue(self, _request: web.Request) -> web.Response:
        self._unpaused.set()
        return web.Response(text="Generation continued successfully.\n")

    async def _load(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.loads.append(body)
        if body.get("weight_version") is not None:
            self.weight_version = int(body["weight_version"])
            self._reported_version = str(self.weight_version)
        return web.json_response({"success": True, "message": "Succeeded to update model weights."})

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        call = Call(
            request_id=str(body.get("rid") or len(self.calls)),
            input_ids=tuple(body["input_ids"]),
            sampling=body.get("sampling_params") or {},
            cache_namespace=body.get("extra_key"),
            is_stream=bool(body.get("stream")),
            body=body,
        )
        self.calls.append(call)
        refused = self._refusal(call)
        if refused is not None:
            return web.json_response({"error": {"message": refused}}, status=400)
        await self._unpaused.wait()
        answer = self.responder(call)
        if inspect.isawaitable(answer):
            answer = await answer
        if answer.fault is not None and answer.fault.kind == "status":
            return web.json_response({"error": {"message": answer.fault.message}}, status=answer.fault.status)
        running = self.running[call.request_id] = _Running(call)
        try:
            if not call.is_stream:
                events = [event async for event in self._events(answer, running)]
                return web.Response(body=events[-1], content_type="application/json")
            return await self._stream(request, answer, running)
        except ConnectionResetError:
            # The client has gone away, which frees its request, as in SGLang.
            return web.Response()
        finally:
            self.running.pop(call.request_id, None)

    def _refusal(self, call: Call) -> str | None:
        if not call.input_ids:
            return "input_ids is empty"
        if len(call.input_ids) >= self.context_length:
            return f"the input has {len(call.input_ids)} tokens, the context {self.context_length}"
        if len(call.input_ids) + call.max_new_tokens > self.context_length:
            return f"input and max_new_tokens pass the context of {self.context_length}"
        if call.request_id in self.running:
            return f"duplicate request id {call.request_id}"
        return None

    async def _stream(self, request: web.Request, answer: Answer, running: _Running) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        fault = answer.fault
        async for event in self._events(answer, running):
            await response.write(b"data: " + event + b"\n\n")
        if fault is not None and not running.aborted.is_set():
            if fault.kind == "hang":
                await running.aborted.wait()
            elif fault.kind == "error_event":
                error = {"error": {"message": fault.message, "code": fault.status}}
                await response.write(b"data: " + orjson.dumps(error) + b"\n\n")
            elif fault.kind == "garbage":
                await response.write(b"data: {not json\n\n")
            if fault.kind in {"cut", "reset", "hang"}:
                transport = request.transport
                if transport is not None and fault.kind == "reset":
                    transport.abort()
                elif transport is not None:
                    transport.close()
                return response
        await response.write(b"data: [DONE]\n\n")
        return response

    async def _events(self, answer: Answer, running: _Running) -> AsyncIterator[bytes]:
        """Events until the answer ends, the request is aborted, or the fault comes."""
        end = len(answer.token_ids)
        if answer.fault is not None:
            end = min(end, answer.fault.after_tokens)
        await _sleep(answer.first_delay_s, running)
        position = 0
        while True:
            await self._unpaused.wait()
            start, position = position, min(position + answer.chunk_tokens, end)
            is_over = position == end and answer.fault is None
            if running.aborted.is_set():
                kept = 0 if self.abort_forgets else start
                yield self._event(answer, running, start, start, kept, {"type": "abort", "message": "Aborted"})
                return
            finish = None
            if is_over:
                finish = {"type": answer.finish}
                if answer.matched is not None:
                    finish["matched"] = answer.matched  # type: ignore[assignment]
            if position > start or is_over:
                yield self._event(answer, running, start, position, position, finish)
                running.sent_tokens = position
            if is_over or position == end:
                return
            await _sleep(answer.chunk_delay_s, running)

    def _event(
        self,
        answer: Answer,
        running: _Running,
        start: int,
        end: int,
        total: int,
        finish: Mapping[str, Any] | None,
    ) -> bytes:
        """One event with the ids [start, end) (or all up to `end` in a cumulative stream) of `total` in the answer."""
        first = start if self.is_incremental else 0
        ids = list(answer.token_ids[first:end]) if total else []
        given = [-1.0] * len(answer.token_ids) if answer.logprobs is None else list(answer.logprobs)
        logprobs = [[value, token_id, None] for value, token_id in zip(given[first:end], ids, strict=False)]
        meta: dict[str, Any] = {
            "id": running.call.request_id,
            "finish_reason": finish,
            "prompt_tokens": len(running.call.input_ids),
            "completion_tokens": total,
            "cached_tokens": answer.cached_tokens,
            "weight_version": self._reported_version,
            "num_retractions": 0,
            "output_token_logprobs": logprobs,
            "output_token_logprobs_length": min(total, len(given)),
            **answer.meta,
        }
        if finish is not None and answer.spans is not None:
            meta["weight_versions"] = [
                {"version": str(version), "start": start, "end": end} for version, start, end in answer.spans
            ]
        # The standard library writes NaN and Infinity bare, as some builds of SGLang do.
        return json.dumps({"text": "", "output_ids": ids, "meta_info": meta}).encode()


async def _sleep(delay_s: float, running: _Running) -> None:
    if delay_s > 0:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay_s):
                await running.aborted.wait()


@asynccontextmanager
async def serving(server: ScriptedServer) -> AsyncIterator[ScriptedServer]:
    """The server, running inside this block."""
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
