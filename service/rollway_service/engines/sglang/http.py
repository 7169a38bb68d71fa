"""HTTP as SGLang speaks it: server-sent events, plain calls, and what each way of failing means.

aiohttp, not httpx: a worker reads thousands of small chunks a second, and this is where they pass.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from rollway_service.engines.ports import (
    EngineProtocolError,
    EngineRejected,
    EngineStreamCut,
    EngineTimeout,
    EngineUnavailable,
    EngineUnreachable,
)

_DONE = b"[DONE]"


@dataclass(frozen=True, slots=True)
class SGLangTimeouts:
    """connect_s: to a listening port. idle_s: between two pieces of a stream, the first included. call_s: other calls.

    load_s: a weight update.
    """

    connect_s: float = 5.0
    idle_s: float = 300.0
    call_s: float = 30.0
    load_s: float = 900.0


class SGLangHttp:
    """Calls to one server. `has_broken`: a connection broke since somebody last said that the server is as it was."""

    def __init__(self, base_url: str, timeouts: SGLangTimeouts) -> None:
        self.base_url = base_url.rstrip("/")
        self.timeouts = timeouts
        self.has_broken = False
        self._session: aiohttp.ClientSession | None = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=self.timeouts.connect_s),
                headers={"Content-Type": "application/json"},
            )
        return self._session

    async def events(
        self, path: str, body: dict[str, Any], headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[dict[str, Any]]:
        """JSON events of an SSE answer."""
        try:
            async with asyncio.timeout(self.timeouts.idle_s):
                response = await self._open().post(self.base_url + path, data=_dump(body), headers=headers)
        except TimeoutError:
            raise EngineTimeout(f"{self.base_url} gave no answer within {self.timeouts.idle_s} s") from None
        except aiohttp.ClientConnectorError as error:
            self.has_broken = True
            raise EngineUnreachable(f"{self.base_url} cannot be reached: {error}") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            self.has_broken = True
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
            self.has_broken = True
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
                self.has_broken = True
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

    async def call(
        self, method: str, path: str, body: dict[str, Any] | None = None, *, timeout_s: float | None = None
    ) -> Any:
        """One call with a whole answer: its JSON, or its text where it is none."""
        try:
            async with asyncio.timeout(timeout_s or self.timeouts.call_s):
                async with self._open().request(
                    method, self.base_url + path, data=None if body is None else _dump(body)
                ) as response:
                    if response.status != 200:
                        await self._raise_status(response)
                    data = await response.read()
        except TimeoutError:
            raise EngineTimeout(f"{self.base_url}{path} gave no answer in time") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            self.has_broken = True
            raise EngineUnreachable(f"{self.base_url}{path} cannot be reached: {error}") from error
        try:
            return _load(data)
        except EngineProtocolError:
            return data.decode(errors="replace")

    async def first_answer(self, *paths: str) -> dict[str, Any]:
        """The answer of the first path that this build has; empty when it has none of them."""
        for path in paths:
            try:
                answer = await self.call("GET", path)
            except EngineRejected:
                continue
            return answer if isinstance(answer, dict) else {}
        return {}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None


def _dump(body: dict[str, Any]) -> bytes:
    """JSON; arrays of ids go out as they are, a prompt of 64 k ids is no list of Python's on the way."""
    return orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)


def _load(data: bytes) -> Any:
    """JSON as SGLang writes it; some builds write bare NaN and Infinity."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data)
        except ValueError:
            raise EngineProtocolError(f"the engine sent what is not JSON: {data[:200]!r}") from None
