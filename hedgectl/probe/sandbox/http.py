"""A minimal HTTP/1.1 server on asyncio: keep-alive, fixed or chunked answers, and prompt news of a client that left."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 413: "Content Too Large"}
_REASONS |= {429: "Too Many Requests", 500: "Internal Server Error", 503: "Service Unavailable"}
_MOST_HEAD, _MOST_BODY = 64 << 10, 16 << 20


@dataclass(frozen=True, slots=True)
class Request:
    """One request; header names are lower-case."""

    method: str
    path: str
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)


class Reply:
    """The answer under way. ``gone`` is set as soon as the client has closed its side."""

    __slots__ = ("_chunked", "_closed", "_transport", "gone", "started")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._chunked = False
        self._closed = False
        self.started = False
        self.gone = asyncio.Event()

    def start(self, status: int, headers: Mapping[str, str], *, length: int | None = None) -> None:
        """Sends status and headers now; without ``length`` the body is chunked."""
        self.started = True
        self._chunked = length is None
        lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines.append("transfer-encoding: chunked" if length is None else f"content-length: {length}")
        self._send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    def write(self, data: bytes) -> None:
        """One piece of the body, sent at once."""
        self._send(b"%x\r\n%s\r\n" % (len(data), data) if self._chunked else data)

    def end(self) -> None:
        """Nothing more follows."""
        if self._chunked:
            self._send(b"0\r\n\r\n")

    def whole(self, status: int, body: bytes, kind: str = "application/json", **headers: str) -> None:
        """A complete answer."""
        self.start(status, {"content-type": kind, **headers}, length=len(body))
        self._send(body)

    def abort(self) -> None:
        """Cuts the connection with a reset."""
        self._transport.abort()

    def _send(self, data: bytes) -> None:
        if not self.gone.is_set() and not self._transport.is_closing():
            self._transport.write(data)


Handler = Callable[[Request, Reply], Awaitable[None]]


class _Connection(asyncio.Protocol):
    """Reads one request after another; a second one waits until the first is answered."""

    def __init__(self, handler: Handler, open_connections: set[_Connection]) -> None:
        self._handler = handler
        self._open = open_connections
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._reply: Reply | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        if self._reply is not None:
            self._reply.gone.set()

    def eof_received(self) -> bool | None:
        if self._reply is not None:
            self._reply.gone.set()
        return None  # closes the transport: a half-closed client is a client that left

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._task is None:
            self._next()

    def close(self) -> asyncio.Task[None] | None:
        """Closes the connection; returns the handler that is still running, if any."""
        if self._transport is not None:
            self._transport.close()
        return self._task

    def _next(self) -> None:
        assert self._transport is not None
        try:
            request = self._take()
        except ValueError:
            reply = Reply(self._transport)
            reply.whole(400, b'{"error":"bad request"}', connection="close")
            self._transport.close()
            return
        if request is not None:
            self._reply = Reply(self._transport)
            self._task = asyncio.create_task(self._serve(request, self._reply))

    async def _serve(self, request: Request, reply: Reply) -> None:
        assert self._transport is not None
        try:
            await self._handler(request, reply)
        except Exception:
            if reply.started:
                self._transport.abort()
            else:
                reply.whole(500, b'{"error":"internal"}')
        finally:
            self._task = None
            self._reply = None
        if request.headers.get("connection", "").lower() == "close":
            self._transport.close()
        elif not self._transport.is_closing():
            self._next()

    def _take(self) -> Request | None:
        """The next whole request in the buffer; None if more has to come. Raises ValueError for what is no request."""
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            if len(self._buffer) > _MOST_HEAD:
                raise ValueError
            return None
        first, *lines = bytes(self._buffer[:at]).decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        if "transfer-encoding" in headers:
            raise ValueError  # no client of ours sends chunked bodies
        size = int(headers.get("content-length", "0"))
        if not 0 <= size <= _MOST_BODY:
            raise ValueError
        end = at + 4 + size
        if len(self._buffer) < end:
            return None
        body = bytes(self._buffer[at + 4 : end])
        del self._buffer[:end]
        return Request(method, path, headers, body)


class Server:
    """Listens until ``close``."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int, *, tls: ssl.SSLContext | None = None) -> int:
        """Binds (port 0 = a free one) and returns the port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self._handler, self._connections), host, port, ssl=tls
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._connections)

    async def close(self) -> None:
        """Stops listening, closes every connection and waits for the handlers."""
        if self._server is not None:
            self._server.close()
        running = [task for c in list(self._connections) if (task := c.close()) is not None]
        for task in running:
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.gather(*running, return_exceptions=True)
        if self._server is not None:
            await self._server.wait_closed()
