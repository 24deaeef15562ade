"""JSON that is not one record a line: arrays, ``{"data": [...]}``, pretty-printed or glued values, as a stream of records."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hedgectl.lines.records import Record, clean, end_of, value_end

MAX_VALUE = 256 << 20
"""Longest single record, in characters."""

_NOISE = re.compile(r"[\s,;]*")
_NEXT = re.compile(r"[\n,]\s*(?=\{)")
_WRAPPED = re.compile(r'"data"\s*:\s*\[')
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Found:
    """A record of a document: its number, 1-based line, 0-based place on that line, and the decompressed bytes up to its end."""

    number: int
    line: int
    place: int
    end: int
    record: Record


class _Text:
    """Characters of a stream of bytes, with the line and byte of the current place."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._decode = codecs.getincrementaldecoder("utf-8")("hedgectl_json").decode
        self.text = ""
        self.at = 0
        self.line = 1
        self.byte = 0
        self.ended = False
        self._first = True

    def more(self, wanted: int = _CHUNK) -> bool:
        """Reads on; False at the end. What lies before the current place is let go."""
        if self.ended:
            return False
        parts, got = [self.text[self.at :]], 0
        self.at = 0
        while got < wanted:
            chunk = next(self._chunks, None)
            if chunk is None:
                parts.append(self._decode(b"", True))
                self.ended = True
                break
            if self._first:
                self._first = False
                if chunk.startswith(codecs.BOM_UTF8):
                    chunk = chunk[3:]
                    self.byte += 3
            parts.append(self._decode(chunk))
            got += len(chunk)
        self.text = "".join(parts)
        return True

    def pass_to(self, at: int) -> None:
        """Moves the current place forward."""
        piece = self.text[self.at : at]
        self.line += piece.count("\n")
        self.byte += len(piece) if piece.isascii() else len(piece.encode("utf-8", "surrogatepass"))
        self.at = at

    def skip_noise(self) -> bool:
        """To the next character that is neither white space nor a separator; False at the end of the stream."""
        while True:
            found = _NOISE.match(self.text, self.at)
            self.pass_to(found.end() if found else self.at)
            if self.at < len(self.text):
                return True
            if not self.more():
                return False


def records(chunks: Iterable[bytes], *, unwrap: bool) -> Iterator[Found]:
    """Records of a stream of JSON values. An array gives its elements; with ``unwrap`` so does an object's ``data`` list.

    What is no object, cut or invalid comes as a Record with its reason. An array is read in pieces, an object as a whole.
    """
    text = _Text(chunks)
    number = place = 0
    last_line = 0
    inside = False  # between the brackets of a top-level array
    while text.skip_noise():
        mark = text.text[text.at]
        if mark == "[" and not inside:
            inside = True
            text.pass_to(text.at + 1)
            continue
        if mark == "]" and inside:
            inside = False
            text.pass_to(text.at + 1)
            continue
        start_line = text.line
        for record in _next(text, unwrap and not inside):
            number += 1
            place = place + 1 if start_line == last_line else 0
            last_line = start_line
            yield Found(number, start_line, place, text.byte, record)


def _next(text: _Text, unwrap: bool) -> list[Record]:
    """The value at the current place, passed over; reads as much as it needs."""
    wanted = _CHUNK
    while True:
        start = text.at
        try:
            end, is_finite = value_end(text.text, start)
        except ValueError as error:
            # it may only be cut by the end of what was read so far
            if len(text.text) - start < MAX_VALUE and text.more(wanted):
                wanted *= 2
                continue
            return [_broken(text, error)]
        except RecursionError:
            piece = text.text[start : start + 1000]
            text.pass_to(len(text.text))
            return [Record(piece, "rejected", "too_deep")]
        if end == len(text.text) and text.more(wanted):
            continue  # a number may go on
        piece = text.text[start:end]
        text.pass_to(end)
        if not is_finite:
            return [Record(piece, "rejected", "nan_in_json")]
        if not piece.startswith("{"):
            return [Record(piece[:1000], "rejected", "not_an_object")]
        inner = _data(piece) if unwrap else None
        return inner if inner is not None else [Record(clean(piece), "object")]


def _broken(text: _Text, error: ValueError) -> Record:
    """A value that cannot be read: cut at the end of the file, or invalid; then the next record is looked for."""
    start = text.at
    cut = isinstance(error, json.JSONDecodeError) and (
        error.pos >= len(text.text.rstrip()) - 1 or error.msg.startswith("Unterminated")
    )
    onward = None if cut else _NEXT.search(text.text, max(start + 1, getattr(error, "pos", start)))
    piece = text.text[start : start + 1000]
    text.pass_to(onward.end() if onward else len(text.text))
    return Record(piece, "rejected", "cut_json" if cut else "bad_json")


def _data(piece: str) -> list[Record] | None:
    """The elements of a top-level ``data`` list, as they were written; None if the object has none."""
    try:
        value = json.loads(piece, strict=False)
    except (ValueError, RecursionError):
        return None
    data = value.get("data")
    if not isinstance(data, list):
        return None
    if not data:
        return [Record(piece, "not_request", "empty_array")]
    for found in _WRAPPED.finditer(piece):
        items: list[Record] = []
        at = found.end()
        try:
            while True:
                noise = _NOISE.match(piece, at)
                at = noise.end() if noise else at
                if piece[at] == "]":
                    break
                end = end_of(piece, at)
                text = piece[at:end]
                items.append(
                    Record(clean(text), "object") if text.startswith("{") else Record(text, "rejected", "not_an_object")
                )
                at = end
        except (ValueError, IndexError):
            continue
        if len(items) == len(data):
            return items
    return None
