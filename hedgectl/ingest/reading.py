"""One file opened: its bytes, and whether the ledger knows it, grown or not, under whatever name."""

from __future__ import annotations

import io
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from hedgectl import place
from hedgectl.formats.catalogue import Format
from hedgectl.formats.sample import Sample
from hedgectl.ingest.ledger import HEAD_BYTES, Entry, Ledger, fingerprint
from hedgectl.lines import STDIN, Damage, byte_chunks, shown


class _Tape:
    """Chunks of a stream, the first ones readable twice; remembers the last 64 kB and the position."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._ahead: list[bytes] = []
        self.position = 0
        self.last = b""  # the last bytes passed, 64 kB at least if there are as many
        self._before = b""
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
        self.last = (self.last + chunk)[-2 * HEAD_BYTES :] if len(chunk) < 2 * HEAD_BYTES else chunk[-2 * HEAD_BYTES :]
        return chunk

    def skip(self, size: int) -> bytes | None:
        """Passes over ``size`` bytes; their last 64 kB, or None if the stream is shorter."""
        while self.position < size:
            chunk = next(self, None)
            if chunk is None:
                return None
            over = self.position - size
            if over > 0:
                before = (self._before + chunk[: len(chunk) - over])[-2 * HEAD_BYTES :]
                self._ahead.insert(0, chunk[len(chunk) - over :])
                self.position, self.last = size, before
            self._before = self.last
        return self.last[-HEAD_BYTES:]


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
    copied: bool = False  # of the same length, too
    offset: int = 0
    first_line: int = 1
    tail: bytes = b""  # last 64 kB before offset
    format: Format | None = None
    why: str = ""
    sample: Sample | None = None
    mode: str = "lines"  # lines | document | csv | parquet
    envelope: str | None = None  # a name of lines.ENVELOPES
    unwrap: bool = False  # a document whose objects carry their records in "data"
    size: int | None = None  # bytes on disk

    def restart(self) -> None:
        """Back to the first byte."""
        self.source.seek(0)
        again = _start(self.path, self.source)
        self.tape, self.damage = again.tape, again.damage
        self.offset, self.first_line, self.tail = 0, 1, b""

    def close(self) -> None:
        """Closes the file."""
        self.source.close()


def open_file(path: str, ledger: Ledger) -> Opened:
    """Opens a file and looks it up in the ledger. Raises OSError, or InputError for what is no log."""
    source: BinaryIO
    name = shown(path)
    if path == STDIN:
        source = _spooled(sys.stdin.buffer)
    elif place.is_remote(path):
        source = place.stream(path)  # type: ignore[assignment]
    else:
        source = open(path, "rb")  # noqa: SIM115 - closed by Opened.close
    try:
        size = _size(path, source)
        opened = _start(name, source)
        opened.size = size
        for entry in ledger.candidates(opened.head):
            if _is_continued(opened, entry):
                opened.known = entry
                opened.offset, opened.first_line = entry.bytes_read, entry.last_line + 1
                if not opened.same:
                    rest = len(opened.tape.head(entry.open_bytes + 1))
                    opened.same, opened.copied = rest <= entry.open_bytes, rest == entry.open_bytes
                return opened
            opened.source.seek(0)
            opened = _start(name, source)
            opened.size = size
        return opened
    except BaseException:
        source.close()
        raise


def _size(path: str, source: BinaryIO) -> int | None:
    if place.is_remote(path):
        end = source.seek(0, os.SEEK_END)
        source.seek(0)
        return end
    return os.fstat(source.fileno()).st_size if path != STDIN else None


def head_of(path: str) -> bytes:
    """The first 64 kB of a file or an object, decompressed: what tells files apart. Raises as :func:`open_file`."""
    if place.is_remote(path):
        # more than one block of any compressor
        return _start(path, io.BytesIO(place.start(path, 1 << 20))).head
    with open(path, "rb") as source:
        return _start(path, source).head


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
