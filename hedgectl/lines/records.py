"""A line that is not one valid JSON object, looked at closely: glued, nested, escaped, cut, or no JSON at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hedgectl.lines.envelopes import take_off


class _NotFiniteError(ValueError):
    """A bare NaN or Infinity: Python and DuckDB take it, JSON does not have it."""


def _refuse(name: str) -> Any:
    raise _NotFiniteError(name)


_DECODER = json.JSONDecoder(parse_constant=_refuse)
_LENIENT = json.JSONDecoder(strict=False, parse_constant=_refuse)
_ANY_NUMBER = json.JSONDecoder(strict=False)
_SPACE = re.compile(r"\s*")
_LONE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_CONTROL = re.compile(r"[\x00-\x1f]")
_MAX_RESYNC = 20


@dataclass(frozen=True, slots=True)
class Record:
    """One piece of a line: ``text`` of a JSON object to be read, or ``reason`` why it is not (``text`` is then the start).

    ``counted_as``: ``object``, ``rejected`` or ``not_request``.
    """

    text: str
    counted_as: str
    reason: str | None = None


def look_again(line: str, *, complete: bool = True) -> list[Record]:
    """What a line holds when the fast path could not use it; ``[]`` for a blank one.

    ``complete`` is False for a last line without a newline: a record that does not end there is the usual half-written one.
    """
    text = line.strip().strip("\x00").strip()
    if not text:
        return []
    if text[0] not in "{[":
        inner = take_off(text)
        if inner is None:
            return [Record(text, "not_request", "text_line")]
        text = inner
    found: list[Record] = []
    at = 0
    while True:
        at = _skip(text, at)
        if at >= len(text):
            return found
        if found and text[at] in ",;":  # records joined by a separator
            at += 1
            continue
        try:
            end, is_finite = value_end(text, at)
        except json.JSONDecodeError as error:
            onward = _next_record(text, at)
            cut = onward is not None or not complete or _runs_out(error, text)
            found.append(Record(text[at:onward], "rejected", "cut_json" if cut else "bad_json"))
            if onward is None:
                return found
            at = onward
        except RecursionError:
            found.append(Record(text[at:], "rejected", "too_deep"))
            return found
        else:
            found.extend(_pieces(text, at, end) if is_finite else [Record(text[at:end], "rejected", "nan_in_json")])
            at = end


def value_end(text: str, at: int) -> tuple[int, bool]:
    """Where the value ends and whether its numbers are finite; JSONDecodeError also for what breaks off behind a NaN."""
    try:
        return end_of(text, at), True
    except _NotFiniteError:
        return end_of(text, at, any_number=True), False


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def end_of(text: str, at: int, *, any_number: bool = False) -> int:
    """Where the JSON value that starts at ``at`` ends; raw control characters in strings are let pass.

    Raises ValueError for what is not JSON; ``any_number`` lets NaN and Infinity pass.
    """
    if any_number:
        return _ANY_NUMBER.raw_decode(text, at)[1]
    try:
        return _DECODER.raw_decode(text, at)[1]
    except json.JSONDecodeError as error:
        if error.msg.startswith("Invalid control character"):
            return _LENIENT.raw_decode(text, at)[1]
        raise


def _runs_out(error: json.JSONDecodeError, text: str) -> bool:
    """Whether the text ended before the value did."""
    return error.pos >= len(text.rstrip()) - 1 or error.msg.startswith("Unterminated string")


def _next_record(text: str, at: int) -> int | None:
    """Where a whole record begins behind a cut one on the same line (two writers, one file)."""
    start = at
    for _ in range(_MAX_RESYNC):
        start = text.find('{"', start + 1)
        if start < 0:
            return None
        # after these a brace is an inner object of the cut record, not a new one
        if text[start - 1] in ':,[ \t"\\':
            continue
        try:
            end_of(text, start)
        except (ValueError, RecursionError):
            continue
        return start
    return None


def _pieces(text: str, at: int, end: int) -> Iterator[Record]:
    """The records of one valid value: the object itself, or each element of an array, as it was written."""
    if text[at] == "{":
        yield Record(clean(text[at:end]), "object")
        return
    if text[at] != "[":  # a bare number or text between records
        yield Record(text[at:end], "rejected", "not_an_object")
        return
    at = _skip(text, at + 1)
    if at < end and text[at] == "]":
        yield Record(text[:end], "not_request", "empty_array")
        return
    while at < end:
        stop = end_of(text, at)
        if text[at] == "{":
            yield Record(clean(text[at:stop]), "object")
        else:
            yield Record(text[at:stop], "rejected", "not_an_object")
        at = _skip(text, stop)
        if at >= end or text[at] == "]":
            return
        at = _skip(text, at + 1)


def clean(text: str) -> str:
    """A valid JSON object on one line, as DuckDB accepts it: no raw control characters, no lone surrogates.

    Numbers keep the digits they were written with, unless raw control characters force a rewrite.
    """
    if _CONTROL.search(text):
        spaced = text.replace("\n", " ").replace("\r", " ").replace("\t", " ")
        text = spaced if not _CONTROL.search(spaced) and _same(text, spaced) else _rewritten(text)
    return _LONE.sub(lambda _: "\\ufffd", text)


def _same(text: str, spaced: str) -> bool:
    """Whether white space was only replaced outside of strings."""
    try:
        _DECODER.raw_decode(text)
    except ValueError:
        return False
    return len(text) == len(spaced)


def _rewritten(text: str) -> str:
    value, _ = _LENIENT.raw_decode(text)
    return json.dumps(value, separators=(",", ":"))
