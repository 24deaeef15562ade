"""Scripted model servers on loopback, HTTP/1.1 and HTTP/2: real sockets, one coroutine that decides every byte."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from hedgectl.probe.sandbox.http import Reply, Request, Server


def chunk(text: str | None = None, *, role: bool = False, finish: str | None = None, **more: Any) -> bytes:
    """One OpenAI stream event."""
    delta: dict[str, Any] = {"role": "assistant"} if role else {}
    if text is not None:
        delta["content"] = text
    return _event({"choices": [{"index": 0, "delta": delta | more, "finish_reason": finish}]})


def usage(prompt: int, completion: int) -> bytes:
    return _event({"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion}})


DONE = b"data: [DONE]\n\n"


def _event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@dataclass
class Exchange:
    """One request and what the script did with it."""

    number: int  # in order of arrival, from 0
    headers: dict[str, str]
    body: dict[str, Any]
    _start: Callable[[int, dict[str, str]], None]
    _write: Callable[[bytes], None]
    _end: Callable[[], None]
    _reset: Callable[[], None]
    _half_close: Callable[[], None]
    gone: asyncio.Event
    arrived: float = field(default_factory=time.monotonic)
    gone_at: float | None = None
    tokens: int = 0
    finished: bool = False

    @property
    def is_copy(self) -> bool:
        return "x-hedge-of" in self.headers

    def start(self, status: int = 200, **headers: str) -> None:
        kind = "text/event-stream" if status == 200 else "application/json"
        self._start(status, {"content-type": kind} | {k.replace("_", "-"): v for k, v in headers.items()})

    def token(self, text: str) -> None:
        self.tokens += 1
        self._write(chunk(text))

    def send(self, data: bytes) -> None:
        self._write(data)

    def end(self, prompt: int = 7) -> None:
        """A proper end with usage."""
        self._write(chunk(finish="stop") + usage(prompt, self.tokens) + DONE)
        self._end()
        self.finished = True

    def finish(self) -> None:
        """Ends the body with no word about it."""
        self._end()

    def reset(self) -> None:
        self._reset()

    def half_close(self) -> None:
        """Closes our sending side in the middle of the body; the receiving side stays open."""
        self._half_close()

    async def wait(self, seconds: float) -> bool:
        """Sleeps; False at once if the client goes away meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self.gone.wait()
        except TimeoutError:
            return True
        return False


Script = Callable[[Exchange], Awaitable[None]]


class Scripted:
    """A server that runs ``script`` for every POST. ``exchanges`` keeps what it saw."""

    def __init__(
        self,
        script: Script,
        *,
        http2: bool = False,
        metrics: Callable[[], str] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._script = script
        self._http2 = http2
        self._tls = tls
        self.metrics = metrics
        self.exchanges: list[Exchange] = []
        self.posts: list[str] = []
        self.seen_headers: list[dict[str, str]] = []
        self._server: Server | None = None
        self._h2: asyncio.Server | None = None
        self._connections: set[_H2Connection] = set()
        self.url = ""

    async def __aenter__(self) -> Scripted:
        if self._http2:
            loop = asyncio.get_running_loop()
            self._h2 = await loop.create_server(lambda: _H2Connection(self), "127.0.0.1", 0, ssl=self._tls)
            port = self._h2.sockets[0].getsockname()[1]
        else:
            self._server = Server(self._http1)
            port = await self._server.start("127.0.0.1", 0, tls=self._tls)
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            await self._server.close()
        if self._h2 is not None:
            self._h2.close()
            for connection in list(self._connections):
                connection.shut()
            await self._h2.wait_closed()

    @property
    def connections(self) -> int:
        return self._server.connections if self._server is not None else len(self._connections)

    async def _http1(self, request: Request, reply: Reply) -> None:
        if request.method == "GET":
            return self._page(request.path, lambda status, body: reply.whole(status, body))
        self.posts.append(request.path)
        self.seen_headers.append(dict(request.headers))
        if not request.path.endswith("/completions"):
            return reply.whole(404, b"{}")
        exchange = Exchange(
            len(self.exchanges),
            dict(request.headers),
            json.loads(request.body),
            lambda status, headers: reply.start(status, headers),
            reply.write,
            reply.end,
            reply.abort,
            lambda: reply._transport.write_eof(),
            reply.gone,
        )
        await self.run(exchange)
        return None

    def _page(self, path: str, answer: Callable[[int, bytes], None]) -> None:
        if path == "/metrics" and self.metrics is not None:
            answer(200, self.metrics().encode())
        elif path == "/v1/models":
            answer(200, b'{"data":[{"id":"scripted"}]}')
        else:
            answer(404, b"{}")

    async def run(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)
        watch = asyncio.create_task(self._note(exchange))
        try:
            await self._script(exchange)
        finally:
            if not exchange.gone.is_set():
                watch.cancel()

    @staticmethod
    async def _note(exchange: Exchange) -> None:
        await exchange.gone.wait()
        exchange.gone_at = time.monotonic()


class _H2Connection(asyncio.Protocol):
    """HTTP/2 in clear text with prior knowledge."""

    def __init__(self, owner: Scripted) -> None:
        self._owner = owner
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, tuple[dict[str, str], bytearray]] = {}
        self._gone: dict[int, asyncio.Event] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._owner._connections.add(self)
        self._h2.initiate_connection()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner._connections.discard(self)
        for event in self._gone.values():
            event.set()

    def shut(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        for event in self._h2.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                self._streams[event.stream_id] = (dict(event.headers), bytearray())
            elif isinstance(event, h2.events.DataReceived):
                self._streams[event.stream_id][1].extend(event.data)
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self._serve(event.stream_id)
            elif isinstance(event, h2.events.StreamReset) and event.stream_id in self._gone:
                self._gone[event.stream_id].set()
        self._flush()

    def _flush(self) -> None:
        data = self._h2.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            with contextlib.suppress(RuntimeError):  # half closed
                self._transport.write(data)

    def _serve(self, stream: int) -> None:
        headers, body = self._streams.pop(stream)
        if headers[":method"] == "GET":
            return self._owner._page(headers[":path"], lambda status, answer: self._answer(stream, status, answer))
        self._owner.posts.append(headers[":path"])
        self._owner.seen_headers.append(headers)
        gone = self._gone[stream] = asyncio.Event()

        def start(status: int, more: dict[str, str]) -> None:
            self._safely(lambda: self._h2.send_headers(stream, [(":status", str(status)), *more.items()]))

        exchange = Exchange(
            len(self._owner.exchanges),
            headers,
            json.loads(bytes(body)),
            start,
            lambda data: self._safely(lambda: self._h2.send_data(stream, data)),
            lambda: self._safely(lambda: self._h2.end_stream(stream)),
            lambda: self._safely(lambda: self._h2.reset_stream(stream, 2)),
            self._half_close,
            gone,
        )
        task = asyncio.create_task(self._owner.run(exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return None

    def _half_close(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()

    def _answer(self, stream: int, status: int, body: bytes) -> None:
        self._h2.send_headers(stream, [(":status", str(status))])
        self._h2.send_data(stream, body, end_stream=True)
        self._flush()

    def _safely(self, action: Callable[[], None]) -> None:
        try:
            action()
        except h2.exceptions.ProtocolError:
            return  # the stream is gone
        self._flush()
