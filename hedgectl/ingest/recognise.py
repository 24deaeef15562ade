"""What a file is made of, told from its first lines: container, envelope, format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hedgectl import sql
from hedgectl.errors import InputError
from hedgectl.formats.aggregates import refuse_aggregates
from hedgectl.formats.catalogue import Format, load_all
from hedgectl.formats.detect import detect
from hedgectl.formats.sample import Sample, decoded, page_start, sample_of
from hedgectl.formats.terms import terms
from hedgectl.formats.unread import FieldReport, field_report
from hedgectl.ingest.ledger import HEAD_BYTES
from hedgectl.ingest.reading import Opened
from hedgectl.lines import ENVELOPES, STDIN, Unwrapper, decode, find_envelope, kind_of, take_off

if TYPE_CHECKING:
    import duckdb

SAMPLE_BYTES = 256 << 10
SAMPLE_LINES = 100
_PARQUET_ROWS = 100
_SHAPE_RECORDS = 20


Seen = dict[tuple[object, ...], Format]
"""Shapes of logs that were recognised in this run: among 100,000 small files most look like the one before."""


def recognise(opened: Opened, *, chosen: Format | None, con: duckdb.DuckDBPyConnection, seen: Seen) -> None:
    """Fills ``format``, ``why``, ``sample`` and how to read the file.

    Raises InputError or UsageError as ``detect`` does; ``chosen`` skips the detection, not the refusal of aggregates.
    """
    read_sample(opened, con, chosen)
    assert opened.sample is not None
    before = opened.known.format if opened.known is not None else None
    if chosen is not None:
        refuse_aggregates(opened.sample, where=opened.path)
        opened.format, opened.why = chosen, "named"
    elif before in load_all():
        opened.format, opened.why = load_all()[str(before)], "read before"
    else:
        _detect(opened, opened.sample, seen)
    assert opened.format is not None
    if opened.sample.container == "csv" and opened.format.input in ("json", "csv"):
        opened.mode = "csv"
    if opened.format.input == "text" and opened.mode != "parquet":
        opened.mode = "lines"


def _detect(opened: Opened, sample: Sample, seen: Seen) -> None:
    shape = (sample.container, *{tuple(record) for record in sample.records[:_SHAPE_RECORDS]})
    before = seen.get(shape)
    if before is not None and len(sample.records) <= _SHAPE_RECORDS:
        wanted = terms(before.detect)
        if all(term.holds(r, x) for r, x in zip(sample.records, sample.texts, strict=True) for term in wanted):
            opened.format, opened.why = before, "like a file before it"
            return
    found = detect(sample, where=opened.path)
    opened.format, opened.why = found.format, found.why
    if sample.records and found.share == 1:
        seen[shape] = found.format


def read_sample(opened: Opened, con: duckdb.DuckDBPyConnection, chosen: Format | None = None) -> Sample:
    """The head of a file as records, with its envelope taken off; also kept in ``opened.sample``."""
    if kind_of(opened.head) == "parquet":
        _parquet(opened, con)
    else:
        _text(opened, chosen)
    assert opened.sample is not None
    return opened.sample


def unknown_fields(opened: Opened) -> FieldReport:
    """Top-level fields of the sample that the format does not read, and near matches."""
    if opened.format is None or opened.sample is None:
        return FieldReport((), {})
    return field_report(opened.format, opened.sample.records)


def _text(opened: Opened, chosen: Format | None) -> None:
    # of a grown file the beginning says what it is: what is new may be half a line
    head = opened.tape.head(SAMPLE_BYTES) if opened.known is None else opened.head
    text, _ = decode(head, json=True, first_in_file=True)
    lines = text.split("\n")[:SAMPLE_LINES]
    if len(head) >= HEAD_BYTES and len(lines) > 1:
        lines.pop()  # cut by the sample, not by the writer
    opened.envelope = find_envelope(lines)
    if opened.envelope is not None:
        unwrapper = Unwrapper(opened.envelope)
        lines = [text for _, _, text in (*unwrapper.feed(lines, 1), *unwrapper.rest())]
    elif _is_document(lines):
        opened.mode = "document"
        opened.envelope = _document_envelope(text)
        if opened.envelope is not None:
            lines = [inner.text for inner in ENVELOPES[opened.envelope](text) or ()]
    # where only some lines wear a shipper's prefix they count for the format inside
    opened.sample = sample_of([line if line[:1] in ("{", "[") else take_off(line) or line for line in lines])
    if opened.envelope is None and opened.sample.container == "json":
        opened.unwrap = _is_wrapped(lines) and not (chosen is not None and chosen.input == "text")
        if opened.unwrap:
            opened.mode = "document"


def _is_document(lines: Sequence[str]) -> bool:
    """Whether the JSON is not one object a line: an array, or objects of which most lines are only a part."""
    kept = [line.strip() for line in lines if line.strip()]
    if not kept or kept[0][0] not in "{[":
        return False
    if kept[0][0] == "[":
        return True
    if _loads(kept[0]) is not None:
        return False
    starts = [line for line in kept if line[0] in "{["]
    good = sum(isinstance(_loads(line.rstrip(",")), dict) for line in starts)
    return kept[0] == "{" or good * 2 < len(starts)


def _is_wrapped(lines: Sequence[str]) -> bool:
    """Whether the objects of the sample are pages: their records stand in a ``data`` list."""
    text = "\n".join(lines)
    if '"data"' not in text:
        return False
    values = [v for line in lines if line.lstrip().startswith("{") and isinstance(v := _loads(line), dict)]
    if not values:
        whole = _loads(text)
        if whole is None:
            # a page larger than the sample
            body = text.lstrip()
            return body.startswith("{") and (at := page_start(body)) >= 0 and body[at + 1 :].lstrip().startswith("{")
        values = [whole] if isinstance(whole, dict) else []
    pages = [v for v in values if isinstance(v.get("data"), list) and (not v["data"] or isinstance(v["data"][0], dict))]
    return bool(pages) and len(pages) * 2 >= len(values)


def _document_envelope(text: str) -> str | None:
    """The envelope of an export that is one JSON document, such as the answer of a log store."""
    for name in ("loki", "cloudwatch"):
        if ENVELOPES[name](text):
            return name
    return None


def _loads(text: str) -> Any:
    try:
        return decoded(text)
    except (ValueError, RecursionError):
        pass
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _parquet(opened: Opened, con: duckdb.DuckDBPyConnection) -> None:
    if opened.path == STDIN:
        raise InputError("Parquet cannot be read from standard input", where=STDIN, hint="give the file's name")
    from hedgectl.store import sql_error

    try:
        rows = con.execute(sql.text("ingest/parquet_sample"), {"path": opened.path, "rows": _PARQUET_ROWS}).fetchall()
    except sql_error() as error:
        raise InputError(f"not a readable Parquet file: {str(error).splitlines()[0]}", where=opened.path) from error
    opened.mode = "parquet"
    opened.sample = sample_of([], parquet_rows=[json.loads(text) for (text,) in rows])
