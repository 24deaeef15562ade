"""An Envoy process between a small HTTP client and two upstreams that remember what they were sent."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [int(each.getsockname()[1]) for each in sockets]
    for each in sockets:
        each.close()
    return ports


@dataclass
class Seen:
    """What reached the upstreams for one request."""

    sent: float = 0.0  # when the client began; no attempt can be earlier, however busy the machine is
    ports: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    cancelled: list[int] = field(
        default_factory=list
    )  # attempts whose connection was closed or reset before the answer


@dataclass
class Answer:
    status: int
    body: bytes


class Upstreams:
    """Two servers. A request's ``x-script`` says what attempt 0, 1, ... meet, as ``/``-separated words.

    ``ok`` answers at once, ``hang`` never does, ``wait`` answers when ``release`` is set, ``503@N`` answers 503 after N
    ms, ``stream`` sends headers at once and its body over 600 ms. ``slow_port`` hangs whatever the script says.
    """

    def __init__(self, ports: list[int]) -> None:
        self.ports = ports
        self.slow_port: int | None = None
        self.seen: dict[str, Seen] = {}
        self.release = asyncio.Event()
        self._servers: list[asyncio.Server] = []

    async def start(self) -> None:
        for port in self.ports:
            handler = lambda r, w, p=port: self._connection(r, w, p)  # noqa: E731
            self._servers.append(await asyncio.start_server(handler, "127.0.0.1", port, limit=2**24))

    async def stop(self) -> None:
        for server in self._servers:
            server.close()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines[1:])}
                await reader.readexactly(int(headers.get("content-length") or 0))
                seen = self.seen.setdefault(headers["x-id"], Seen())
                number = len(seen.ports)
                seen.ports.append(port)
                seen.times.append(time.monotonic())
                words = headers.get("x-script", "ok").split("/")
                word = words[min(number, len(words) - 1)]
                if port == self.slow_port:
                    word = "hang"
                if not await self._answer(reader, writer, word, number):
                    seen.cancelled.append(number)
                    break
        writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, word: str, number: int) -> bool:
        """Whether the answer could be sent before the caller went away."""
        body = f"answer {number}".encode()
        status = "200 OK"
        if word in ("hang", "wait") or "@" in word:
            if word == "wait":
                waiting: asyncio.Future[object] = asyncio.ensure_future(self.release.wait())
            else:
                status, _, ms = word.partition("@")
                waiting = asyncio.ensure_future(asyncio.sleep(int(ms or 3_600_000) / 1000))
                status = f"{status} X"
            gone = asyncio.ensure_future(reader.read(1))
            await asyncio.wait({waiting, gone}, return_when=asyncio.FIRST_COMPLETED)
            left = gone.done()
            for task in (waiting, gone):
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            if left:
                return False
        if word == "stream":
            writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
            for _ in range(6):
                await writer.drain()
                await asyncio.sleep(0.1)
                writer.write(b"2\r\nc%d\r\n" % number)
            writer.write(b"0\r\n\r\n")
        else:
            writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        return True


class Live:
    """One running Envoy with its upstreams."""

    def __init__(self, port: int, admin: int, upstreams: Upstreams) -> None:
        self.port, self.admin, self.upstreams = port, admin, upstreams
        self._count = 0

    async def send(
        self, script: str = "ok", path: str = "/v1/chat", body: bytes = b"{}", **headers: str
    ) -> tuple[Answer, Seen]:
        """One request; header names are written with ``_``."""
        self._count += 1
        request_id = f"{self._count}"
        lines = {"host": "llm", "x-id": request_id, "x-script": script, "connection": "close"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        seen = self.upstreams.seen.setdefault(request_id, Seen(sent=time.monotonic()))
        return await http(self.port, "POST", path, lines, body), seen

    async def switch(self, key: str, value: str) -> None:
        """Sets a runtime key."""
        answer = await http(
            self.admin, "POST", f"/runtime_modify?{key}={value}", {"host": "a", "connection": "close"}, b""
        )
        assert answer.status == 200


async def http(port: int, method: str, path: str, headers: dict[str, str], body: bytes) -> Answer:
    """One HTTP/1.1 request on a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    writer.write(f"{method} {path} HTTP/1.1\r\n{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    with contextlib.suppress(ConnectionError):
        await writer.drain()
    top, _, rest = (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n\r\n")
    writer.close()
    if b"transfer-encoding: chunked" in top.lower():
        rest = b"".join(rest.split(b"\r\n")[1::2])
    return Answer(int(top.split()[1]), rest)


@contextlib.asynccontextmanager
async def running(envoy: str, config: Path, port: int, admin: int, upstream_ports: list[int]) -> AsyncIterator[Live]:
    """Envoy from start to stop."""
    upstreams = Upstreams(upstream_ports)
    await upstreams.start()
    command = (envoy, "-c", str(config), "-l", "error", "--concurrency", "1", "--disable-hot-restart")
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    try:
        for _ in range(400):
            with contextlib.suppress(ConnectionError, IndexError):
                ready = await http(admin, "GET", "/ready", {"host": "a", "connection": "close"}, b"")
                if ready.status == 200:
                    break
            assert process.returncode is None, (await process.stderr.read()).decode() if process.stderr else ""
            await asyncio.sleep(0.05)
        else:
            raise AssertionError("Envoy did not become ready")
        yield Live(port, admin, upstreams)
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
        await upstreams.stop()
