"""One attempt: sends a request on a lane, times it, and reads its answer until it ends, loses or runs out of time."""

from __future__ import annotations

import asyncio
import email.utils
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Protocol

from hedgectl.probe.lanes import Lane, LanePool
from hedgectl.probe.records import AttemptRecord
from hedgectl.probe.wire import Piece, Provider, WireRequest

if TYPE_CHECKING:
    import httpx

DRAIN_S = 0.25  # how long a connection may stay open after the answer's end before it is thrown away
# Response headers by which gateways and engines name who served; the first one present is taken.
REPLICA_HEADERS = ("x-replica", "x-gateway-destination-endpoint-served", "target-pod", "x-litellm-model-id")


class Listener(Protocol):
    """What the race hears from its attempts; each answer says whether the attempt may go on."""

    def headers(self, record: AttemptRecord) -> bool: ...

    def piece(self, record: AttemptRecord, piece: Piece) -> bool: ...

    def complete(self, record: AttemptRecord) -> bool: ...


class Failed(Exception):
    """The attempt has failed for the reason in ``kind``; never shown to a user."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Superseded(Exception):
    """Another attempt has won."""


async def run(
    provider: Provider,
    wire: WireRequest,
    pool: LanePool,
    record: AttemptRecord,
    listener: Listener,
    *,
    stream: bool,
    until_ns: int,
) -> None:
    """Runs one attempt to its end and settles its record; raises only CancelledError.

    ``until_ns`` is the attempt's own deadline (monotonic): reaching it censors the attempt as ``timeout``.
    Cancelling the task closes the connection before anything else happens.
    """
    lane = pool.acquire()
    record.connected = lane.fresh
    record.request_bytes = len(wire.body)
    clean = False
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout_at(loop.time() + (until_ns - time.monotonic_ns()) / 1e9):
            clean = await _exchange(provider, wire, lane, record, listener, stream)
        record.settle("ok", None, time.monotonic_ns())
    except TimeoutError:
        record.settle("censored", "timeout", time.monotonic_ns())
    except Superseded:
        record.cancelled_ns = time.monotonic_ns()
        record.settle("censored", "loser", record.cancelled_ns)
    except Failed as failure:
        clean = clean or failure.kind in ("rate_limited", "upstream_status")
        record.settle("error", failure.kind, time.monotonic_ns())
    except asyncio.CancelledError:
        record.cancelled_ns = time.monotonic_ns()
        record.settle("censored", record.cancel_kind, record.cancelled_ns)
        raise
    except Exception as error:
        record.settle("error", _kind(error), time.monotonic_ns())
    finally:
        if clean:
            pool.release(lane)
        else:
            pool.discard(lane)


async def _exchange(
    provider: Provider, wire: WireRequest, lane: Lane, record: AttemptRecord, listener: Listener, stream: bool
) -> bool:
    """Sends and reads; returns whether the connection may be used again. Raises Failed or Superseded."""
    request = lane.client.build_request(wire.method, wire.url, headers=list(wire.headers), content=wire.body)
    response = await lane.client.send(request, stream=True)
    try:
        record.headers_ns = time.monotonic_ns()
        record.http_status = response.status_code
        record.replica = next((v for h in REPLICA_HEADERS if (v := response.headers.get(h))), None)
        if not 200 <= response.status_code < 300:
            record.retry_after_s = retry_after(response.headers.get("retry-after"))
            # The body of an error is read, so that the connection survives, and not kept: it may hold anything.
            async for chunk in response.aiter_raw():
                record.response_bytes += len(chunk)
                if record.response_bytes > 1 << 20:
                    break
            raise Failed("rate_limited" if response.status_code == 429 else "upstream_status")
        if not listener.headers(record):
            raise Superseded
        if stream:
            return await _stream(provider, response, record, listener)
        return await _whole(provider, response, record, listener)
    finally:
        await response.aclose()


async def _stream(provider: Provider, response: httpx.Response, record: AttemptRecord, listener: Listener) -> bool:
    decoder = provider.decoder()
    finished = False
    chunks = response.aiter_bytes()
    async for chunk in chunks:
        now = time.monotonic_ns()
        if record.first_byte_ns is None:
            record.first_byte_ns = now
        record.response_bytes += len(chunk)
        for payload in decoder.feed(chunk):
            piece = _take(provider, payload, record, listener, now)
            finished = finished or piece.finished
            if piece.last:
                record.ended_ns = now
                _must_be_answer(record, finished, listener)
                return await _drained(chunks)
    now = time.monotonic_ns()
    for payload in decoder.finish():
        finished = _take(provider, payload, record, listener, now).finished or finished
    _must_be_answer(record, finished, listener)
    return True


def _take(provider: Provider, payload: str, record: AttemptRecord, listener: Listener, now: int) -> Piece:
    """Books one payload. Raises Failed for an error inside the stream, Superseded if another attempt has won."""
    try:
        piece = provider.piece(payload)
    except ValueError:
        raise Failed("malformed") from None
    if piece.error is not None:
        raise Failed(piece.error)
    if piece.usage is not None:
        record.usage = record.usage.merged(piece.usage)
    if piece.token:
        record.pieces += 1
        if record.first_token_ns is None:
            record.first_token_ns = now
        if piece.text:
            record.content_chars += len(piece.text)
            if record.first_content_ns is None:
                record.first_content_ns = now
        if not listener.piece(record, piece):
            raise Superseded
    return piece


async def _whole(provider: Provider, response: httpx.Response, record: AttemptRecord, listener: Listener) -> bool:
    body = bytearray()
    async for chunk in response.aiter_bytes():
        if record.first_byte_ns is None:
            record.first_byte_ns = time.monotonic_ns()
        body += chunk
    record.response_bytes = len(body)
    try:
        piece = provider.whole(bytes(body))
    except ValueError:
        raise Failed("malformed") from None
    if piece.error is not None:
        raise Failed(piece.error)
    if piece.usage is not None:
        record.usage = record.usage.merged(piece.usage)
    if not piece.token:
        raise Failed("empty_answer")
    record.ended_ns = time.monotonic_ns()
    record.content_chars = len(piece.text)
    if not listener.piece(record, piece) or not listener.complete(record):
        raise Superseded
    return True


def _must_be_answer(record: AttemptRecord, finished: bool, listener: Listener) -> None:
    # A 200 without a token is no success, and neither is a stream that stops without saying that it ends.
    if record.pieces == 0:
        raise Failed("empty_answer")
    if not finished:
        raise Failed("cut_stream")
    if not listener.complete(record):
        raise Superseded


async def _drained(chunks: AsyncIterator[bytes]) -> bool:
    """Whether the rest of the response ends soon, so that its connection can be reused."""
    try:
        async with asyncio.timeout(DRAIN_S):
            async for _ in chunks:
                pass
    except Exception:
        return False
    return True


def retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header (a number or an HTTP date); None if absent or unreadable."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def _kind(error: Exception) -> str:
    """A stable short name for a transport failure; never the message, which may quote a URL or a header."""
    import httpx

    if isinstance(error, httpx.ConnectError):
        return "connect"
    if isinstance(error, httpx.RemoteProtocolError):
        return "reset" if "disconnect" in str(error).lower() or "closed" in str(error).lower() else "protocol"
    if isinstance(error, httpx.ReadError | httpx.WriteError):
        return "reset"
    if isinstance(error, httpx.TransportError):
        return "transport"
    if isinstance(error, httpx.InvalidURL):
        return "invalid_url"
    return "client"
