"""What has been read before: which file a stream of bytes is, however it is called now, and where to go on in it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hedgectl import sql

if TYPE_CHECKING:
    import duckdb

HEAD_BYTES = 64 << 10
"""Decompressed bytes at the start of a file, and before the point read so far, that tell it from others."""


_STEPS = (4096, 1024, 256, 64, 0)
"""Lengths of beginnings: among 100,000 files of 20,000 lengths few begin alike, and only their lengths are tried on a new one."""


def fingerprint(data: bytes) -> str:
    """sha256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def start_of(data: bytes) -> str:
    """A fingerprint of the longest beginning of a usual length."""
    return next(_start(data[:step]) for step in _STEPS if step <= len(data))


def _start(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


@dataclass(slots=True)
class Entry:
    """One file in the ledger; fields as in the table ``ingested_file``."""

    file_id: int
    path: str
    format: str
    fingerprint: str
    fingerprint_bytes: int
    bytes_read: int
    tail_fingerprint: str
    open_bytes: int = 0
    open_counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    lines: int = 0
    accepted: int = 0
    duplicates: int = 0
    not_requests: int = 0
    rejected: int = 0
    last_line: int = 0  # number of physical lines up to bytes_read
    batch_id: int = 0
    start_fingerprint: str | None = None  # None where a version before this column wrote it

    def begins(self, data: bytes) -> None:
        """Takes ``data`` for the beginning of the file."""
        if len(data) != self.fingerprint_bytes or self.start_fingerprint is None:
            self.fingerprint, self.fingerprint_bytes, self.start_fingerprint = (
                fingerprint(data),
                len(data),
                start_of(data),
            )

    def count_from(self, before: Entry) -> None:
        """Goes on counting where the part of the file before ended."""
        self.lines, self.accepted, self.duplicates = before.lines, before.accepted, before.duplicates
        self.not_requests, self.rejected = before.not_requests, before.rejected

    def check(self) -> None:
        """The promise of the ledger. Raises AssertionError if a record was lost or counted twice."""
        parts = self.accepted + self.duplicates + self.not_requests + self.rejected
        if self.lines != parts or min(self.accepted, self.duplicates, self.not_requests, self.rejected) < 0:
            raise AssertionError(
                f"{self.path}: {self.lines} lines, but {self.accepted} accepted + {self.duplicates} duplicates + "
                f"{self.not_requests} not requests + {self.rejected} rejected = {parts}"
            )


_COLUMNS = (
    "file_id", "path", "format", "fingerprint", "fingerprint_bytes", "bytes_read", "tail_fingerprint", "open_bytes", "open_counts",
    "lines", "accepted", "duplicates", "not_requests", "rejected", "last_line", "batch_id", "start_fingerprint",
)  # fmt: skip


class Ledger:
    """The table ``ingested_file`` in memory, found by the beginning of a file; empty without a database."""

    def __init__(self, con: duckdb.DuckDBPyConnection | None = None) -> None:
        self._by_head: dict[tuple[int, str], list[Entry]] = {}
        self._by_id: dict[int, Entry] = {}
        self._stored: set[int] = set()
        self._sizes: dict[str | None, set[int]] = {}  # by start_fingerprint
        self._next_id = 1
        self.batch_id = 1
        for row in con.execute(sql.text("ingest/ledger")).fetchall() if con is not None else ():
            entry = Entry(*row)
            self._index(entry)
            self._stored.add(entry.file_id)
            self._next_id = max(self._next_id, entry.file_id + 1)
            self.batch_id = max(self.batch_id, entry.batch_id + 1)

    def new_id(self) -> int:
        """A file_id nobody has."""
        self._next_id += 1
        return self._next_id - 1

    def _index(self, entry: Entry) -> None:
        self._sizes.setdefault(entry.start_fingerprint, set()).add(entry.fingerprint_bytes)
        self._by_head.setdefault((entry.fingerprint_bytes, entry.fingerprint), []).append(entry)
        self._by_id[entry.file_id] = entry

    def entries(self) -> list[Entry]:
        """Every file that was read."""
        return list(self._by_id.values())

    def candidates(self, head: bytes) -> list[Entry]:
        """Files that begin like ``head`` (the first 64 kB, or all of a smaller file), the longest read first."""
        found: list[Entry] = []
        starts = {None, *(_start(head[:step]) for step in _STEPS if step <= len(head))}
        sizes = set().union(*(self._sizes.get(start, ()) for start in starts))
        digest, at = hashlib.sha256(), 0
        for size in sorted(size for size in sizes if size <= len(head)):
            digest.update(head[at:size])
            at = size
            found += self._by_head.get((size, digest.copy().hexdigest()), [])
        return sorted(found, key=lambda e: -e.bytes_read)

    def put(self, entry: Entry) -> None:
        """Adds or replaces the entry of a file."""
        old = self._by_id.get(entry.file_id)
        if old is not None:
            self._by_head[old.fingerprint_bytes, old.fingerprint].remove(old)
        self._index(entry)

    def write(self, con: duckdb.DuckDBPyConnection, entries: list[Entry]) -> None:
        """Stores entries in the caller's transaction, after checking that every line is accounted for."""
        if not entries:
            return
        for entry in entries:
            entry.check()
        # looking for rows that are not there would take longer with every batch
        if again := [e.file_id for e in entries if e.file_id in self._stored]:
            con.execute(sql.text("ingest/ledger_forget"), {"ids": again})
        self._stored.update(e.file_id for e in entries)
        con.execute(sql.text("ingest/ledger_write"), {name: [getattr(e, name) for e in entries] for name in _COLUMNS})


def copy_of(entry: Entry) -> Entry:
    """An entry to change while the old one stays in the index."""
    return replace(entry, open_counts=list(entry.open_counts))
