"""Blocks of whole lines cut from a stream of bytes, with line numbers and byte offsets."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BLOCK_SIZE = 16 << 20
"""Bytes after which a block is closed at the next newline."""

MAX_LINE = 32 << 20
"""Longest line kept; a longer one is a counted reject."""

_PIECE = 256 << 10  # bytes searched for newlines at once
_KEPT = 64 << 10  # of both ends of a line that is dropped

_NUL_EDGE = re.compile(r"^\x00+|\x00+$", re.MULTILINE)


def _escape_for_json(error: UnicodeError) -> tuple[str, int]:
    """Bad bytes as the text \\xNN, with the backslash doubled so that a JSON string stays valid."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    bad = error.object[error.start : error.end]
    return "".join(f"\\\\x{byte:02x}" for byte in bad), error.end


codecs.register_error("hedgectl_json", _escape_for_json)


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of one file.

    ``data`` holds ``count`` lines joined by newlines, without the last newline. ``first`` is the 1-based number of its
    first line, ``offset``/``end`` the decompressed bytes it covers. ``open`` says that the last line had no newline
    yet. ``too_long`` is the beginning of one over-long line that was dropped and ``last`` its end; such a block holds
    nothing else. ``breaks`` are the places of the newlines in ``data``.
    """

    data: bytes
    first: int
    count: int
    offset: int
    end: int
    open: bool = False
    too_long: bytes | None = None
    last: bytes = b""
    breaks: Any = field(default=None, compare=False, repr=False)


def blocks(
    chunks: Iterable[bytes],
    *,
    offset: int = 0,
    first: int = 1,
    size: int = BLOCK_SIZE,
    max_line: int = MAX_LINE,
) -> Iterator[Block]:
    """Cuts ``chunks`` (which start at byte ``offset``, line ``first``) into blocks that end at a newline.

    A last line without a newline comes as its own block with ``open`` set.
    """
    stream = iter(chunks)
    parts: list[bytes] = []
    held = 0
    for chunk in stream:
        parts.append(chunk)
        held += len(chunk)
        if held < size:
            continue
        at = chunk.rfind(b"\n")
        if at >= 0:
            parts[-1], rest = chunk[:at], chunk[at + 1 :]
        else:
            joined = b"".join(parts)
            at = joined.rfind(b"\n")
            parts, rest = [joined[: max(at, 0)]], joined[at + 1 :]
        if at >= 0:
            block = _whole(b"".join(parts), first, offset)
            yield block
            first, offset = first + block.count, block.end
        parts, held = ([rest], len(rest)) if rest else ([], 0)
        if held > max_line:
            line = b"".join(parts)
            start, last, dropped, ended, rest = line[:_KEPT], line[-_KEPT:], held, False, b""
            for more in stream:  # the outer loop goes on behind the long line
                at = more.find(b"\n")
                ended, rest = at >= 0, more[at + 1 :] if at >= 0 else b""
                piece = more[:at] if ended else more
                last = (last + piece)[-_KEPT:]
                dropped += len(piece)
                if ended:
                    break
            end = offset + dropped + (1 if ended else 0)
            yield Block(b"", first, 1, offset, end, open=not ended, too_long=start, last=last)
            first, offset = first + 1, end
            parts, held = ([rest], len(rest)) if rest else ([], 0)
    data = b"".join(parts)
    cut = data.rfind(b"\n") + 1
    if cut:
        block = _whole(data[: cut - 1], first, offset)
        yield block
        first, offset = first + block.count, block.end
    if cut < len(data):
        tail = data[cut:]
        if len(tail) > max_line:
            yield Block(b"", first, 1, offset, offset + len(tail), open=True, too_long=tail[:_KEPT], last=tail[-_KEPT:])
        else:
            yield Block(tail, first, 1, offset, offset + len(tail), open=True)


def _whole(body: bytes, first: int, offset: int) -> Block:
    breaks = newlines(body)
    return Block(body, first, len(breaks) + 1, offset, offset + len(body) + 1, breaks=breaks)


def newlines(data: bytes) -> Any:
    """Where the newlines stand (int64), looked for in pieces that stay in the cache."""
    found = [np.zeros(0, np.int64)]
    for low in range(0, len(data), _PIECE):
        piece = np.frombuffer(data, np.uint8, min(_PIECE, len(data) - low), low)
        found.append(np.flatnonzero(piece == 10) + low)
    return np.concatenate(found)


def clean(data: bytes, *, json: bool, first_in_file: bool = False) -> tuple[bytes, int]:
    """What ``decode`` does, as UTF-8; most blocks come back as they are."""
    if not (b"\r" in data or b"\0" in data or data.startswith(codecs.BOM_UTF8)) and _is_utf8(data):
        return data, 0
    text, bad = decode(data, json=json, first_in_file=first_in_file)
    return text.encode("utf-8"), bad


def decode(data: bytes, *, json: bool, first_in_file: bool = False) -> tuple[str, int]:
    """Text of a block and the number of its lines that held bytes which are not UTF-8.

    Bad bytes become the visible text ``\\xNN`` (for JSON with the backslash doubled, so that the record stays valid).
    A byte order mark, the CR of CRLF and runs of NUL at the edges of a line (left by truncation) are taken off.
    """
    if first_in_file and data.startswith(codecs.BOM_UTF8):
        data = data[3:]
    bad = 0
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "hedgectl_json" if json else "backslashreplace")
        bad = sum(1 for line in data.split(b"\n") if not _is_utf8(line))
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    if "\0" in text:
        text = _NUL_EDGE.sub("", text)
    return text, bad


def _is_utf8(line: bytes) -> bool:
    if line.isascii():
        return True
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
