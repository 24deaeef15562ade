"""What happens to a log on its way: cut, split, turned round, packed, other line ends, marks and envelopes. Drawn from a seed."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass

import zstandard

from hedgectl.lines import find_envelope

TOLD_BY_ORDER = {"llamacpp_slots", "vllm_log", "vllm_router"}
"""Formats in which a line means something by what stands before it: turned round they are other logs."""

JOINED = {"k6_json", "litellm_otel", "ray_serve", "ray_serve_text", "triton_trace", *TOLD_BY_ORDER}
"""Formats that put lines of one request together: a part of a file says less about the requests in it."""


@dataclass(frozen=True, slots=True)
class Variant:
    """A log after something happened to it: the files it is in now, and whether every record is still there, as it was written."""

    label: str
    parts: tuple[bytes, ...]
    lossless: bool
    in_order: bool

    def same_rows(self, name: str) -> bool:
        """Whether the rows of the format ``name`` have to be those of the log as it was."""
        return (self.in_order or name not in TOLD_BY_ORDER) if self.lossless else name not in JOINED


def drawn(data: bytes, *, seed: str, count: int) -> list[Variant]:
    """``count`` variants of a log, each of two or three transformations, the same for the same seed."""
    luck = random.Random(seed)
    return [made(data, luck, number) for number in range(count)]


def made(data: bytes, luck: random.Random, number: int) -> Variant:
    """One variant: the order, the cuts or the envelope first, then the bytes, then the packing."""
    lines = data.decode("utf-8", "replace").splitlines()
    shape = _shape(lines)
    label, parts, lossless = _ORDERS[shape][luck.randrange(len(_ORDERS[shape]))](data, lines, luck)
    what, encode = luck.choice(_ENCODINGS)
    how, pack = luck.choice(_PACKINGS)
    return Variant(
        f"{number} {label} {what} {how}", tuple(pack(encode(part)) for part in parts), lossless, label != "turned"
    )


Made = tuple[str, list[bytes], bool]


def _shape(lines: list[str]) -> str:
    """``json`` = an object a line; ``text``; ``table`` = CSV; ``document`` = JSON over lines."""
    first = lines[0].lstrip()[:1]
    if first in ("{", "["):
        try:
            return (
                "json"
                if all(isinstance(json.loads(line), dict) for line in lines if line.strip()) and len(lines) > 1
                else "document"
            )
        except (ValueError, RecursionError):
            # JSON with bare values is read as text
            return "document" if lines[0].strip() in ("{", "[") or first == "[" else "text"
    return "table" if "," in lines[0] and " " not in lines[0] else "text"


def _joined(lines: list[str]) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


def _same(data: bytes, lines: list[str], luck: random.Random) -> Made:
    return "same", [data + b"\n\n"], True


def _turned(data: bytes, lines: list[str], luck: random.Random) -> Made:
    return "turned", [_joined(lines[::-1])], True


def _table_turned(data: bytes, lines: list[str], luck: random.Random) -> Made:
    # a quoted field may hold line ends: only then the rows are not lines
    whole = all(line.count('"') % 2 == 0 for line in lines)
    return "turned", [_joined([lines[0], *(lines[:0:-1] if whole else lines[1:])])], True


def _split(data: bytes, lines: list[str], luck: random.Random) -> Made:
    at = luck.randint(1, max(1, len(lines) - 1))
    return "split", [part for part in (_joined(lines[:at]), _joined(lines[at:])) if part], False


def _cut(data: bytes, lines: list[str], luck: random.Random) -> Made:
    return "cut", [data[: luck.randrange(len(data) // 2, len(data))]], False


def _cut_lines(data: bytes, lines: list[str], luck: random.Random) -> Made:
    # half a line of text can pass for a whole one with other values
    return "cut", [_joined(lines[: luck.randint(1, len(lines))])], False


def _glued(data: bytes, lines: list[str], luck: random.Random) -> Made:
    at = luck.randrange(len(lines))
    return (
        "glued",
        [_joined(lines[:at]) + "".join(lines[at : at + 2]).encode() + b"\n" + _joined(lines[at + 2 :])],
        True,
    )


def _noisy(data: bytes, lines: list[str], luck: random.Random) -> Made:
    noise = ["\0\0\0\0", "", "   ", '{"unfinished": [1, 2', '{"x": NaN}']
    kept = list(lines)
    for _ in range(3):
        kept.insert(luck.randint(0, len(kept)), luck.choice(noise))
    return "noisy", [_joined(kept)], False


def _enveloped(data: bytes, lines: list[str], luck: random.Random) -> Made:
    if find_envelope(lines) is not None:
        return _same(data, lines, luck)
    kept = [line for line in lines if line.strip()]
    time = "2026-11-20T10:00:00.000000001Z"
    kind = luck.choice(["cri", "docker", "journald", "loki"])
    if kind == "cri":
        half = [len(line) // 2 for line in kept]
        parts = [f"{time} stdout P {line[:h]}\n{time} stdout F {line[h:]}" for line, h in zip(kept, half, strict=True)]
    elif kind == "docker":
        parts = [json.dumps({"log": line + "\n", "stream": "stdout", "time": time}) for line in kept]
    elif kind == "journald":
        parts = [
            json.dumps({"MESSAGE": line, "__REALTIME_TIMESTAMP": "1763632800000000", "_PID": "7"}) for line in kept
        ]
    else:
        values = [["1763632800000000000", line] for line in kept]
        parts = [
            json.dumps(
                {
                    "status": "success",
                    "data": {"resultType": "streams", "result": [{"stream": {"app": "x"}, "values": values}]},
                }
            )
        ]
    return kind, [_joined(parts)], True


_ORDERS: dict[str, list[Callable[[bytes, list[str], random.Random], Made]]] = {
    "json": [_turned, _split, _cut, _glued, _noisy, _enveloped],
    "text": [_turned, _split, _cut_lines, _enveloped],
    "table": [_table_turned, _cut_lines],
    "document": [_same, _cut],
}

_ENCODINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("plain", lambda data: data),
    ("crlf", lambda data: data.replace(b"\n", b"\r\n")),
    ("mark", lambda data: b"\xef\xbb\xbf" + data),
    ("marked crlf", lambda data: b"\xef\xbb\xbf" + data.replace(b"\n", b"\r\n")),
]

_PACKINGS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("as it is", lambda data: data),
    ("gzip", lambda data: gzip.compress(data, mtime=0)),
    (
        "gzip of two",
        lambda data: gzip.compress(data[: len(data) // 2], mtime=0) + gzip.compress(data[len(data) // 2 :], mtime=0),
    ),
    ("zstd", lambda data: zstandard.ZstdCompressor().compress(data)),
]
