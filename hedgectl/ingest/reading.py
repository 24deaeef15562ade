"""One file -> what it is (known, grown, new; which format; lines, document or table) and the pieces it consists of."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

from hedgectl.formats.catalogue import Format
from hedgectl.formats.detect import Sample, detect, field_report, refuse_aggregates, sample_of
from hedgectl.ingest.ledger import HEAD_BYTES, Entry, Ledger, fingerprint
from hedgectl.lines import STDIN, Block, Damage, blocks, byte_chunks, decode, kind_of

SAMPLE_BYTES = 256 << 10
SAMPLE_LINES = 400


class _Tape:
    """Chunks of a stream, the first ones readable twice; remembers the last 64 kB and the position."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._ahead: list[bytes] = []
        self.position = 0
        self.ended = False

    def head(self, size: int) -> bytes:
        """The first ``size`` bytes, or all."""
        have = sum(map(len, self._ahead))
        while have < size and not self.ended:
            chunk = next(self._chunks, None)
            if chunk is None:
                self.ended = True
                break
            self._ahead.append(chunk)
            have += len(chunk)
        return b"".join(self._ahead)[:size]

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        if self._ahead:
            chunk = self._ahead.pop(0)
        else:
            chunk = next(self._chunks)
        self.position += len(chunk)
        return chunk

    def skip(self, size: int) -> bytes | None:
        """Passes over ``size`` bytes; their last 64 kB, or None if the stream is shorter."""
        last = b""
        while self.position < size:
            chunk = next(self, None)
            if chunk is None:
                return None
            over = self.position - size
            if over > 0:
                self._ahead.insert(0, chunk[len(chunk) - over :])
                self.position = size
                chunk = chunk[: len(chunk) - over]
            last = (last + chunk)[-HEAD_BYTES:]
        return last


@dataclass(slots=True)
class Opened:
    """A file ready to be read."""

    path: str
    source: BinaryIO
    tape: _Tape
    damage: Damage
    head: bytes
    known: Entry | None = None  # the ledger's entry if this file was read before
    same: bool = False  # nothing new since
    offset: int = 0
    first_line: int = 1
    tail: bytes = b""  # last 64 kB before offset
    format: Format | None = None
    why: str = ""
    sample: Sample | None = None
    size: int | None = None  # bytes on disk

    def close(self) -> None:
        """Closes the file."""
        self.source.close()


def open_file(path: str, ledger: Ledger) -> Opened:
    """Opens a file and looks it up in the ledger. Raises OSError, or InputError for what is no log."""
    source: BinaryIO
    if path == STDIN:
        source = _spooled(sys.stdin.buffer)
    else:
        source = open(path, "rb")  # noqa: SIM115 - closed by Opened.close
    try:
        size = os.fstat(source.fileno()).st_size if path != STDIN else None
        opened = _start(path, source)
        opened.size = size
        for entry in ledger.candidates(opened.head):
            if _is_continued(opened, entry):
                opened.known = entry
                opened.offset, opened.first_line = entry.bytes_read, entry.last_line + 1
                opened.same = _nothing_new(opened, entry)
                return opened
            opened.source.seek(0)
            opened = _start(path, source)
            opened.size = size
        return opened
    except BaseException:
        source.close()
        raise


def _spooled(stdin: BinaryIO) -> BinaryIO:
    """Standard input in a temporary file: whether it was read before can only be told by reading it."""
    spool = tempfile.SpooledTemporaryFile(max_size=64 << 20)  # noqa: SIM115 - closed by Opened.close
    while chunk := stdin.read(1 << 20):
        spool.write(chunk)
    spool.seek(0)
    return spool  # type: ignore[return-value]


def _start(path: str, source: BinaryIO) -> Opened:
    damage = Damage()
    tape = _Tape(byte_chunks(source, damage, where=path))
    return Opened(path, source, tape, damage, tape.head(HEAD_BYTES))


def _is_continued(opened: Opened, entry: Entry) -> bool:
    """Whether the file holds what the ledger read, at the same place; leaves the tape behind it."""
    tail = opened.tape.skip(entry.bytes_read)
    if tail is None:
        # shorter than what was read, with the same long beginning: a copy that is not finished, or cut
        opened.same = entry.fingerprint_bytes >= HEAD_BYTES
        return opened.same
    opened.tail = tail
    return fingerprint(tail) == entry.tail_fingerprint


def _nothing_new(opened: Opened, entry: Entry) -> bool:
    return opened.same or len(opened.tape.head(entry.open_bytes + 1)) <= entry.open_bytes


def recognise(opened: Opened, *, chosen: Format | None) -> None:
    """Fills ``format``, ``why`` and ``sample``. Raises InputError or UsageError as ``detect`` does."""
    head = opened.tape.head(SAMPLE_BYTES)
    text, _ = decode(head, json=False, first_in_file=opened.offset == 0)
    lines = text.split("\n")[:SAMPLE_LINES]
    if len(head) == SAMPLE_BYTES and len(lines) > 1:
        lines.pop()  # cut by the sample, not by the writer
    opened.sample = sample_of(lines)
    if chosen is not None:
        refuse_aggregates(opened.sample, where=opened.path)
        opened.format, opened.why = chosen, "named"
        return
    found = detect(opened.sample, where=opened.path)
    opened.format, opened.why = found.format, found.why


def unknown_fields(opened: Opened) -> tuple[tuple[str, ...], dict[str, str]]:
    """Top-level fields of the sample that the format does not read, and near matches."""
    if opened.format is None or opened.sample is None:
        return (), {}
    report = field_report(opened.format, opened.sample.records)
    return report.unknown, report.near


@dataclass(slots=True)
class Step:
    """Records that follow one another in a file, and how far the file is read with them.

    ``end`` counts decompressed bytes, ``raw`` are the bytes passed (their last 64 kB are enough), ``last_line`` the physical lines up
    to there. ``open`` marks a last line without a newline: it is read again when the file grows, so it moves nothing.
    """

    end: int
    last_line: int
    raw: bytes = b""
    open: bool = False
    block: Block | None = None
    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    records: list[int] = field(default_factory=list)
    bad_utf8: int = 0


def steps(opened: Opened) -> Iterator[Step]:
    """What a recognised file holds from where it was left."""
    for block in blocks(opened.tape, offset=opened.offset, first=opened.first_line):
        raw = block.data if block.too_long is None else block.last
        yield Step(
            block.end, block.first + block.count - 1, raw if block.open else raw + b"\n", open=block.open, block=block
        )


__all__ = ["Opened", "Step", "kind_of", "open_file", "recognise", "steps", "unknown_fields"]
