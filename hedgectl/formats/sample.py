"""The head of a log: which container it is, and its records of named fields, whole ones only where the head ends inside a document."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

csv.field_size_limit(max(csv.field_size_limit(), 64 << 20))  # as the reader of tables: fields may hold long lists

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sample:
    """The head of a log: its container, its records of named fields with their text, and its lines.

    ``container``: ``json`` (lines, array or ``{"data": [...]}``), ``csv``, ``parquet`` or ``text``.
    Of a document that is larger than the sample only whole records are in it.
    """

    container: str
    records: tuple[Record, ...]
    texts: tuple[str, ...]
    lines: tuple[str, ...]


def sample_of(lines: Sequence[str], *, parquet_rows: Sequence[Record] | None = None) -> Sample:
    """The sample of the first lines of a file (decoded, envelopes taken off), or of the first rows of a Parquet file."""
    if parquet_rows is not None:
        rows = [dict(r) for r in parquet_rows]
        return Sample("parquet", tuple(rows), tuple(json.dumps(r, default=str) for r in rows), ())
    kept = tuple(stripped for line in lines if (stripped := line.strip("\ufeff\r\n")).strip())
    # below a bracket of its own stands one document: a line of it that is an object says nothing
    spread = kept[:1] in (("{",), ("[",))
    pairs = [] if spread else list(_json_lines(kept))
    pairs = pairs or list(_json_document("\n".join(kept))) or list(_json_lines(kept))
    if pairs:
        return Sample("json", tuple(r for r, _ in pairs), tuple(t for _, t in pairs), kept)
    rows = list(_csv_rows(kept))
    if rows:
        return Sample("csv", tuple(rows), tuple(json.dumps(r) for r in rows), kept)
    return Sample("text", (), (), kept)


_PAGE_HEAD = 16384  # characters in which a page has to come to its data


@lru_cache(maxsize=1)
def decoded(line: str) -> Any:
    """What a line of JSON says, not to be changed: the first line of a small file is asked for more than once. Raises as ``json.loads``."""
    return json.loads(line)


def _json_lines(lines: Iterable[str]) -> Iterable[tuple[Record, str]]:
    for line in lines:
        if line.lstrip()[:1] not in ("{", "["):
            continue
        try:
            value = decoded(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and not _wrapped(value):
            yield value, line
        else:
            for item in value if isinstance(value, list) else _wrapped(value) or []:
                if isinstance(item, dict):
                    yield item, json.dumps(item)


def _wrapped(value: Mapping[str, Any]) -> list[Any] | None:
    data = value.get("data")
    return data if isinstance(data, list) and data and isinstance(data[0], dict) else None


def page_start(body: str) -> int:
    """Where the list of a cut ``{..., "data": [`` begins, -1 if none does: other keys, such as a list of columns, may stand before it."""
    for found in re.finditer(r'"data"\s*:\s*\[', body[:_PAGE_HEAD]):
        try:
            json.loads(body[: found.end()] + "]}")  # whole only if the key is one of the object itself
        except (ValueError, RecursionError):
            continue
        return found.end() - 1
    return -1


def _json_document(text: str) -> Iterable[tuple[Record, str]]:
    """Records of one document that spans lines; whole elements only if the head ends inside it."""
    body = text.lstrip()
    if body[:1] not in ("{", "["):
        return
    try:
        value = json.loads(body)
    except RecursionError:
        return
    except ValueError:
        at = body.find("[") if body[0] == "[" else page_start(body)
        if at < 0:
            if record := _cut_object(body):
                yield record, body
            return
        decoder, whole = json.JSONDecoder(), False
        at += 1
        while True:
            while at < len(body) and body[at] in " \t\r\n,":
                at += 1
            try:
                item, at = decoder.raw_decode(body, at)
                whole = True
            except ValueError:
                # a first element larger than the head: its leading fields have to do
                if not whole and (record := _cut_object(body[at:])):
                    yield record, body[at:]
                return
            if isinstance(item, dict):
                yield item, json.dumps(item)
    if isinstance(value, dict):
        for item in _wrapped(value) or [value]:
            if isinstance(item, dict):
                yield item, json.dumps(item)
    elif isinstance(value, list):
        yield from ((item, json.dumps(item)) for item in value if isinstance(item, dict))


_FIELD = re.compile(r'[\s,]*"((?:[^"\\]|\\.)*)"\s*:\s*')


def _cut_object(body: str) -> dict[str, Any]:
    """The leading fields of an object that is larger than the head; the field that is cut has an empty value."""
    found: dict[str, Any] = {}
    decoder, at = json.JSONDecoder(), 1
    while match := _FIELD.match(body, at):
        try:
            found[match[1]], at = decoder.raw_decode(body, match.end())
        except (ValueError, RecursionError):
            found[match[1]] = ""
            break
    return found


def _csv_rows(lines: Sequence[str]) -> Iterable[dict[str, Any]]:
    if not lines or not any(mark in lines[0] for mark in ",;\t"):
        return
    mark = max(",;\t", key=lines[0].count)
    try:
        names = [h.strip() for h in next(csv.reader([lines[0]], delimiter=mark))]
    except csv.Error:  # not a header that anybody wrote: a carriage return or a field of megabytes
        return
    plausible = all(re.fullmatch(r"[A-Za-z_][\w .:/@()%+-]*", n) for n in names) and len(set(names)) == len(names) >= 2
    if not plausible:
        return
    found = False
    rows = csv.reader(lines[1:], delimiter=mark)
    while True:
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error:  # one bad row says nothing of the others; reading rejects it with its line
            continue
        if len(row) == len(names):
            found = True
            yield dict(zip(names, row, strict=True))
    if not found:
        # a header without rows still tells the format
        yield dict.fromkeys(names, "")
