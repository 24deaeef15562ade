"""Says which format fits a log and why; refuses when two fit, and names logs that cannot answer (aggregates, metrics pages).

A format's ``detect`` is a list of terms that must all hold for a record (grammar in ``catalogue.py``). The format whose terms hold for
most records of the sample is taken; a second one that holds for at least half as many makes the choice the user's.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from hedgectl.errors import InputError, NoRequests, UsageError
from hedgectl.formats.aggregates import refuse_aggregates, refuse_summary
from hedgectl.formats.catalogue import Format, load_all
from hedgectl.formats.compile import pointers

csv.field_size_limit(max(csv.field_size_limit(), 64 << 20))  # as the reader of tables: fields may hold long lists

RIVAL = 0.5
"""A second format that fits this share of the records the best one fits is a rival, and the choice is refused."""

Record = Mapping[str, Any]

_LINE_START = 4000
"""Characters of a line that the terms of a text format see."""


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


@dataclass(frozen=True, slots=True)
class Detection:
    """The format that fits, the share of sample records its terms hold for, and the evidence in words."""

    format: Format
    share: float
    why: str


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


@dataclass(frozen=True, slots=True)
class _Term:
    kind: str  # present | absent | equals | matches | text | no_text
    names: tuple[str, ...]
    value: str = ""

    def holds(self, record: Record, text: str) -> bool:
        if self.kind in ("text", "no_text"):
            return (re.search(self.value, text) is not None) == (self.kind == "text")
        values = [_lookup(record, name) for name in self.names]
        if self.kind == "present":
            return any(v is not _ABSENT for v in values)
        if self.kind == "absent":
            return all(v is _ABSENT for v in values)
        texts = [_plain(v) for v in values if v is not _ABSENT]
        if self.kind == "equals":
            return self.value in texts
        return any(re.search(self.value, t) for t in texts)


_ABSENT = object()


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _lookup(record: Any, name: str) -> Any:
    if isinstance(record, Mapping) and name in record:
        return record[name]
    value = record
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _ABSENT
        value = value[part]
    return value


@cache
def terms(detect: str) -> tuple[_Term, ...]:
    """The parsed terms of a ``detect`` line. Raises UsageError for one that is not understood."""
    found = []
    for raw in _split(detect):
        if raw.startswith("/") and raw.endswith("/") and len(raw) > 2:
            found.append(_Term("text", (), raw[1:-1]))
            continue
        if raw.startswith("!/") and raw.endswith("/") and len(raw) > 3:
            found.append(_Term("no_text", (), raw[2:-1]))
            continue
        negated = raw.startswith("!")
        body = raw[1:] if negated else raw
        match = re.fullmatch(r'((?:"[^"]+"|[^"=~|]+)(?:\|(?:"[^"]+"|[^"=~|]+))*)(?:([=~])(.*))?', body)
        if match is None or (negated and match.group(2)):
            raise UsageError(f"detect term {raw!r} is not understood")
        names = tuple(n.strip().strip('"') for n in re.findall(r'"[^"]+"|[^|]+', match.group(1)))
        kind = "absent" if negated else {"=": "equals", "~": "matches", None: "present"}[match.group(2)]
        found.append(_Term(kind, names, match.group(3) or ""))
    return tuple(found)


def _split(detect: str) -> list[str]:
    if detect.startswith("/") and detect.endswith("/"):
        return [detect]
    parts = re.findall(r'\s*(!?/(?:[^/\\]|\\.)+/(?=\s*(?:,|$))|(?:"[^"]*"|[^,"])+)', detect)
    return [p.strip() for p in parts if p.strip()]


def _matched(fmt: Format, sample: Sample) -> tuple[int, int]:
    """How many records (lines, for a text format) fit, out of how many."""
    wanted = terms(fmt.detect)
    if not wanted:
        return 0, 0
    if fmt.input == "text":
        # a term that looks back and forth takes minutes on a line of a megabyte, and such a line is no access log
        return sum(all(t.holds({}, line[:_LINE_START]) for t in wanted) for line in sample.lines), len(sample.lines)
    if fmt.input != "json" and fmt.input != sample.container:
        return 0, len(sample.records)
    pairs = zip(sample.records, sample.texts, strict=True)
    return sum(all(t.holds(r, x) for t in wanted) for r, x in pairs), len(sample.records)


def detect(
    sample: Sample | Sequence[str], *, where: str | None = None, formats: Mapping[str, Format] | None = None
) -> Detection:
    """The one format that fits the sample (or the first lines of a file).

    Raises NoRequests if the log is empty; InputError if it holds aggregates or a metrics page, or fits no format; UsageError if two fit.
    """
    if not isinstance(sample, Sample):
        sample = sample_of(sample)
    if not sample.lines and not sample.records:
        raise NoRequests(
            "the log is empty", where=where, hint="no record means no answer; check the path and the export"
        )
    refuse_aggregates(sample, where=where)
    known = load_all() if formats is None else formats
    # where each line is an object it is searched as text only if nothing else fits: that takes longer than all the rest
    objects = sample.container == "json" and len(sample.records) >= len(sample.lines)
    counts = {n: _matched(fmt, sample) for n, fmt in known.items() if not (objects and fmt.input == "text")}
    if objects and not any(hit for hit, _ in counts.values()):
        counts = {n: _matched(fmt, sample) for n, fmt in known.items() if fmt.input == "text"}
    best = max((hit for hit, _ in counts.values()), default=0)
    fits = [name for name, (hit, _) in counts.items() if hit and hit >= best * RIVAL]
    if not fits:
        refuse_summary(sample, where=where)
        raise InputError(
            "no format fits this log",
            where=where,
            hint=f"{_near_miss(sample, known)}hedgectl formats --detect FILE writes a mapping to start from",
        )
    if len(fits) > 1 and (whole := _whole(fits, known, sample)):
        fits = [whole]
    if len(fits) > 1:
        fits.sort(key=lambda n: (-counts[n][0], n))
        raise UsageError(
            f"more than one format fits this log: {', '.join(f'{n} ({counts[n][0]} of {counts[n][1]})' for n in fits)}",
            where=where,
            hint=f"name it: --format {fits[0]}",
        )
    fmt = known[fits[0]]
    hit, of = counts[fits[0]]
    return Detection(
        fmt, hit / of, f"{hit} of {of} {'lines' if fmt.input == 'text' else 'records'} have {_in_words(fmt.detect)}"
    )


def _whole(fits: Sequence[str], known: Mapping[str, Format], sample: Sample) -> str | None:
    """Of formats NAME and NAME_part that fit different records of one log: NAME, which knows the lines of its parts."""
    base = min(fits, key=len)
    if not all(name == base or name.startswith(f"{base}_") for name in fits):
        return None
    parsed = [terms(known[name].detect) for name in fits]
    pairs = (
        zip(sample.records, sample.texts, strict=True)
        if known[base].input != "text"
        else (({}, line) for line in sample.lines)
    )
    apart = all(sum(all(t.holds(r, x) for t in wanted) for wanted in parsed) <= 1 for r, x in pairs)
    return base if apart else None


def _in_words(detect: str) -> str:
    present = [" or ".join(t.names) for t in terms(detect) if t.kind == "present"]
    valued = [
        f"{t.names[0]} {'=' if t.kind == 'equals' else '~'} {t.value}"
        for t in terms(detect)
        if t.kind in ("equals", "matches")
    ]
    texts = ["the shape of this format" for t in terms(detect) if t.kind == "text"]
    return ", ".join(present + valued + texts[:1]) or "the shape of this format"


def _near_miss(sample: Sample, known: Mapping[str, Format]) -> str:
    """What the closest format lacks, in words; empty if nothing is close."""
    best: tuple[int, str, list[str]] | None = None
    for name, fmt in known.items():
        if fmt.input == "text" or not sample.records:
            continue
        wanted = [t for t in terms(fmt.detect) if t.kind == "present"]
        missing = [t for t in wanted if not any(t.holds(r, "") for r in sample.records)]
        if wanted and len(missing) < len(wanted) and (best is None or len(wanted) - len(missing) > best[0]):
            best = (len(wanted) - len(missing), name, [" or ".join(t.names) for t in missing])
    if best is None or not best[2]:
        return ""
    return f"closest is {best[1]}, which also needs {', '.join(best[2])}; "


@dataclass(frozen=True, slots=True)
class FieldReport:
    """Fields of a log that a format does not read: ``unknown``, and ``near`` = unknown field -> the field it may be.

    ``beside`` are those of ``near`` that never stand in for their field, because every record has that one too.
    ``absent`` are fields of a user's mapping that none of the ``looked`` records has: (our field, its name in the mapping).
    """

    unknown: tuple[str, ...]
    near: dict[str, str]
    beside: frozenset[str] = frozenset()
    absent: tuple[tuple[str, str], ...] = ()
    looked: int = 0


def field_report(fmt: Format, records: Iterable[Record]) -> FieldReport:
    """Top-level fields that a TOML format does not read, and which of them are one of its fields spelled otherwise."""
    if not fmt.keys:
        return FieldReport((), {})
    tops = {k.strip("/").split("/")[0] if k.startswith("/") else k for k in fmt.keys}
    listed = list(records)
    seen = list(dict.fromkeys(name for r in listed for name in r))
    unknown = tuple(n for n in seen if n not in tops)
    folded = {_folded(own): own for own in tops}
    near = {name: folded[_folded(name)] for name in unknown if _folded(name) in folded}
    beside = frozenset(name for name, own in near.items() if all(own in r for r in listed if name in r))
    absent = tuple(
        (ours, " or ".join(map(repr, names)))
        for ours, names in fmt.sought
        if listed and names and not any(_stands(r, name) for name in names for r in listed)
    )
    return FieldReport(tuple(n for n in unknown if n not in near), near, beside, absent, len(listed))


def _stands(record: Record, name: str) -> bool:
    """Whether a record has the field that a mapping calls ``name``, be it empty."""
    for path in pointers(name):
        value: Any = record
        for part in (p.replace("~1", "/").replace("~0", "~") for p in path[1:].split("/")):
            if isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            elif isinstance(value, Mapping) and part in value:
                value = value[part]
            else:
                break
        else:
            return True
    return False


def _folded(name: str) -> str:
    """A field's name without case, blanks and marks: what people vary."""
    return re.sub(r"[\W_]", "", name.lower()) or name


def starter_map(sample: Sample | Sequence[str]) -> str:
    """A TOML mapping to start from, for a flat log of unknown fields; see ``starter.py``."""
    from hedgectl.formats import starter

    return starter.write(sample if isinstance(sample, Sample) else sample_of(sample))


def suggest_unit(name: str) -> str | None:
    """The unit that a field's own name states (``latencyMs``, ``ttft_s``, ``duration_seconds``), or None."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name).lower()
    match = re.search(
        r"(?:^|[_.\-\s(])(ns|nanos?|nanoseconds?|us|micros?|microseconds?|ms|millis?|milliseconds?|msecs?|s|secs?|seconds?)\)?$",
        words,
    )
    if match is None:
        return None
    unit = match.group(1)
    if unit.startswith("n"):
        return "ns"
    if unit == "us" or unit.startswith("micro"):
        return "us"
    return "ms" if unit.startswith("m") else "s"


__all__ = [
    "Detection",
    "FieldReport",
    "Sample",
    "detect",
    "field_report",
    "refuse_aggregates",
    "sample_of",
    "starter_map",
    "suggest_unit",
    "terms",
]
