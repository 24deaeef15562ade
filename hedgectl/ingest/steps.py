"""The records of a recognised file in order, step by step: blocks of lines, unwrapped lines, documents, tables, Parquet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hedgectl import sql
from hedgectl.ingest.ledger import HEAD_BYTES
from hedgectl.ingest.reading import Opened
from hedgectl.lines import ENVELOPES, Block, Inner, Rows, Table, Unwrapper, blocks, decode, records

if TYPE_CHECKING:
    import duckdb

_AT_ONCE = 20_000
_CHARS_AT_ONCE = 8 << 20


@dataclass(slots=True)
class Step:
    """Records that follow one another in a file, and how far the file is read with them.

    ``end`` counts decompressed bytes, ``raw`` are the bytes passed (their last 64 kB are enough), ``last_line`` the physical lines up
    to there. ``open`` marks a last line without a newline: it is read again when the file grows, so it moves nothing.
    Either a ``block`` of lines, or ``texts`` with their ``lines`` (1-based) and ``records`` (0-based within the line).
    """

    end: int
    last_line: int
    raw: bytes = b""
    open: bool = False
    block: Block | None = None
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)  # line, reason, text
    others: list[tuple[int, str]] = field(default_factory=list)  # line, reason why it is no request
    bad_utf8: int = 0
    size: int = 0  # bytes, for the progress
    rest: int = 0  # bytes behind ``end`` that hold no record: the closing brackets of a document


def steps(opened: Opened, con: duckdb.DuckDBPyConnection) -> Iterator[Step]:
    """What a recognised file holds from where it was left. ``con`` reads Parquet."""
    if opened.mode == "parquet":
        return _parquet(opened, con)
    if opened.mode == "document":
        return _document(opened)
    if opened.mode == "csv":
        return _table(opened)
    if opened.envelope is not None:
        return _unwrapped(opened)
    return _lines(opened)


def _blocks(opened: Opened) -> Iterator[Block]:
    return blocks(opened.tape, offset=opened.offset, first=opened.first_line)


def _raw(block: Block) -> bytes:
    raw = block.data if block.too_long is None else block.last
    return raw if block.open else raw + b"\n"


def _lines(opened: Opened) -> Iterator[Step]:
    for block in _blocks(opened):
        last = (block.data if block.too_long is None else block.last)[-HEAD_BYTES:]
        raw = last if block.open else last + b"\n"
        yield Step(
            block.end, block.first + block.count - 1, raw, open=block.open, block=block, size=block.end - block.offset
        )


def _too_long(block: Block, raw: bytes) -> Step:
    """A step for a line that was dropped; the block says so itself."""
    return Step(block.end, block.first, raw, open=block.open, block=block, size=block.end - block.offset)


def _held(pending: list[str], block: Block, raw: bytes) -> tuple[int, int]:
    """Bytes and lines at the end of ``raw`` that wait for more, so that they are read again if the file ends here."""
    if not pending:
        return 0, 0
    if len(pending) >= block.count:
        return len(raw), block.count
    # counted in the block itself: decoding may have changed the length
    tail = block.data.rsplit(b"\n", len(pending))[1:]
    return sum(map(len, tail)) + len(pending), len(pending)


def _unwrapped(opened: Opened) -> Iterator[Step]:
    """Lines inside an envelope; pieces of one line that the shipper cut are put together."""
    assert opened.envelope is not None
    assert opened.format is not None
    unwrapper = Unwrapper(opened.envelope)
    json = opened.format.input != "text"
    for block in _blocks(opened):
        raw = _raw(block)
        if block.too_long is not None:
            yield _too_long(block, raw)
            continue
        text, bad = decode(block.data, json=json, first_in_file=block.offset == 0)
        step = Step(block.end, block.first + block.count - 1, raw, open=block.open, bad_utf8=bad, size=len(raw))
        _fill(step, unwrapper.feed(text.split("\n"), block.first))
        yield step
    last = Step(0, 0)
    _fill(last, unwrapper.rest())
    yield last


def _fill(step: Step, found: list[tuple[int, int, str]]) -> None:
    for line, place, text in found:
        step.texts.append(text)
        step.lines.append(line)
        step.records.append(place)


def _table(opened: Opened) -> Iterator[Step]:
    """Rows of a CSV file as JSON objects; the header is taken from the start of the file, also when it has grown."""
    table: Table | None = None
    if opened.offset:
        head, _ = decode(opened.head, json=True, first_in_file=True)
        table = Table(next(line for line in head.split("\n") if line.strip()))
    kept = b""
    for block in _blocks(opened):
        raw = kept + _raw(block)
        kept = b""
        if block.too_long is not None:
            yield _too_long(block, raw)
            continue
        text, bad = decode(block.data, json=True, first_in_file=block.offset == 0)
        lines, first = text.split("\n"), block.first
        while table is None and lines:
            line = lines.pop(0)
            first += 1
            if line.strip():
                table = Table(line)
        if table is None:
            continue
        rows = table.feed(lines, first)
        held_bytes, held_lines = _held(table.pending, block, raw)
        if block.open and table.pending:
            # the row that is open at the end of the file
            rows.rejects.append((table.pending_line, "cut_csv", table.pending[0]))
            table.pending = []
        elif held_bytes:
            raw, kept = raw[:-held_bytes], raw[-held_bytes:]
        yield _rows_step(rows, block, raw, bad, held_bytes, held_lines)
    if table is not None and table.pending and kept:
        yield Step(
            0, 0, kept, open=True, size=len(kept), rejects=[(table.pending_line, "open_quote", table.pending[0])]
        )


def _rows_step(rows: Rows, block: Block, raw: bytes, bad: int, held_bytes: int, held_lines: int) -> Step:
    moved = 0 if block.open else held_bytes
    return Step(
        block.end - moved,
        block.first + block.count - 1 - (0 if block.open else held_lines),
        raw,
        open=block.open,
        texts=rows.texts,
        lines=rows.lines,
        records=[0] * len(rows.lines),
        rejects=rows.rejects,
        others=[(block.first, "header")] * rows.headers,
        bad_utf8=bad,
        size=len(raw),
    )


def _document(opened: Opened) -> Iterator[Step]:
    """Records of a JSON document. One that has grown is read from its start again, and what was counted is passed over.

    How far it was read is only known at its end: up to the closing brackets, which move when it grows.
    """
    skip = _counted_before(opened)
    if opened.known is not None:
        opened.restart()
    opener = ENVELOPES[opened.envelope] if opened.envelope is not None else None
    step, chars, before, counted, last_line = Step(0, 0), 0, 0, 0, 0
    cut: Step | None = None
    for found in records(opened.tape, unwrap=opened.unwrap):
        record = found.record
        texts = [record.text]
        if opener is not None and record.counted_as == "object":
            texts = [inner.text for inner in opener(record.text) or [Inner(record.text)]]
        for place, text in enumerate(texts):
            counted += 1
            if counted <= skip:
                continue
            if record.reason == "cut_json":
                cut = Step(0, 0, open=True, rejects=[(found.line, "cut_json", text)])
            elif record.counted_as == "rejected":
                step.rejects.append((found.line, str(record.reason), text))
            elif record.counted_as == "object":
                step.texts.append(text)
                step.lines.append(found.line)
                step.records.append(found.place + place)
            else:
                step.others.append((found.line, str(record.reason)))
            chars += len(text)
        if record.reason != "cut_json":
            last_line = found.line
        if chars >= _CHARS_AT_ONCE or len(step.texts) >= _AT_ONCE:
            step.size, before = found.end - before, found.end
            yield step
            step, chars = Step(0, 0), 0
    step.size = max(0, opened.tape.position - before)
    last = opened.tape.last
    kept = last.rstrip(b" \t\r\n,]}")
    if cut is not None:
        # what is cut is read again when the document has grown
        yield cut
        kept = b""
    if kept:
        step.raw, step.rest = kept, len(last) - len(kept)
        step.end = opened.tape.position - step.rest
    step.last_line = last_line
    yield step


def _counted_before(opened: Opened) -> int:
    return opened.known.lines - sum(opened.known.open_counts) if opened.known is not None else 0


def _parquet(opened: Opened, con: duckdb.DuckDBPyConnection) -> Iterator[Step]:
    """Rows of a Parquet file as JSON objects."""
    skip = _counted_before(opened)
    cursor = con.cursor()
    cursor.execute("SET TimeZone = 'UTC'")
    cursor.execute(sql.text("ingest/parquet_rows"), {"path": opened.path})
    last_line = 0
    while rows := cursor.fetchmany(_AT_ONCE):
        last_line = rows[-1][0]
        fresh = [(line, text) for line, text in rows if line > skip]
        yield Step(0, 0, texts=[text for _, text in fresh], lines=[line for line, _ in fresh], records=[0] * len(fresh))
    cursor.close()
    for _ in opened.tape:
        pass
    yield Step(opened.tape.position, last_line, opened.tape.last, size=opened.size or 0)
