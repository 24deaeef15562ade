"""Connections: one lane per attempt in flight, so that closing a lane is a cancel the server sees at once.

Lanes are kept and reused, primary and copies apart. One lane is one httpx client with one connection. Two attempts
never share an HTTP/2 connection: httpx 0.28 releases a stream that is closed early without RST_STREAM, so the engine
would go on; closing the connection is seen at once, in HTTP/1.1 and 2 alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import ssl
import sys
from typing import TYPE_CHECKING, Any

from hedgectl import __version__

if TYPE_CHECKING:
    import httpx

IDLE_S = 15.0  # servers close idle connections after 5 s (uvicorn) to 75 s (nginx); httpx drops one it sees closed


def _settle_imports() -> None:
    """Makes httpcore's search for absent event loop libraries free.

    It tries ``import sniffio`` and then ``import trio`` at every event and lock; a failing import is not remembered and
    walks the whole path each time, which was half of the CPU of a call. ``None`` in ``sys.modules`` fails at once.
    """
    for name in ("sniffio", "trio"):
        if name not in sys.modules and importlib.util.find_spec(name) is None:
            sys.modules[name] = None  # type: ignore[assignment]


class Lane:
    """One client with room for one connection."""

    __slots__ = ("client", "fresh")

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.fresh = True

    async def close(self) -> None:
        """Closes the connection now, whatever is in flight on it."""
        await self.client.aclose()


class LanePool:
    """Lanes for one role (primary or copies); created on demand, at most as many as attempts in flight."""

    def __init__(self, context: ssl.SSLContext | bool, *, http2: bool = False) -> None:
        import httpx  # here, not at the first send, which it would delay

        _settle_imports()
        self._client = httpx.AsyncClient
        self._http2 = http2
        self._context = context  # False: no TLS anywhere
        self._limits = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=IDLE_S)
        self._idle: list[Lane] = []
        self._closing: set[asyncio.Task[None]] = set()
        self.opened = 0

    def acquire(self) -> Lane:
        """A warm lane if one is idle, else a new one."""
        if self._idle:
            lane = self._idle.pop()  # the one used last: least likely to have been closed by the server
            lane.fresh = False
            return lane
        self.opened += 1
        options: dict[str, Any] = {
            "verify": self._context,
            "http1": not self._http2 or self._context is not False,  # over TLS the server chooses
            "http2": self._http2,
            "timeout": None,  # deadlines are ours: one clock for connect, first token and last
            "limits": self._limits,
            "follow_redirects": False,
            # compressed streams arrive in lumps, and a lump is no token time
            "headers": {"accept-encoding": "identity", "user-agent": f"hedgectl/{__version__}"},
        }
        return Lane(self._client(**options))

    def release(self, lane: Lane) -> None:
        """Gives back a lane whose answer was read to its end."""
        self._idle.append(lane)

    def discard(self, lane: Lane) -> None:
        """Closes a lane in the background; ``close`` waits for it."""
        task = asyncio.create_task(self._close(lane))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    @staticmethod
    async def _close(lane: Lane) -> None:
        with contextlib.suppress(Exception):
            await lane.close()

    async def close(self) -> None:
        """Closes every lane that is not in use and waits for those being closed."""
        while self._idle:
            self.discard(self._idle.pop())
        if self._closing:
            await asyncio.gather(*self._closing, return_exceptions=True)
