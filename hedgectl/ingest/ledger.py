"""What has been read before: which file a stream of bytes is, however it is called now, and where to go on in it."""

from __future__ import annotations

import bisect
import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from hedgectl import sql

if TYPE_CHECKING:
    import duckdb

HEAD_BYTES = 64 << 10
"""Decompressed bytes at the start of a file, and before the point read so far, that tell it from others."""


def fingerprint(data: bytes) -> str:
    """sha256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


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
    "lines", "accepted", "duplicates", "not_requests", "rejected", "last_line", "batch_id",
)  # fmt: skip


class Ledger:
    """The table ``ingested_file`` in memory, found by the beginning of a file."""

    def __init__(self, con: duckdb.DuckDBPyConnection) -> None:
        self._by_head: dict[tuple[int, str], list[Entry]] = {}
        self._by_id: dict[int, Entry] = {}
        self._sizes: list[int] = []
        self._known_sizes: set[int] = set()
        self._next_id = 1
        self.batch_id = 1
        for row in con.execute(sql.text("ingest/ledger")).fetchall():
            entry = Entry(*row)
            self._index(entry)
            self._next_id = max(self._next_id, entry.file_id + 1)
            self.batch_id = max(self.batch_id, entry.batch_id + 1)

    def new_id(self) -> int:
        """A file_id nobody has."""
        self._next_id += 1
        return self._next_id - 1

    def _index(self, entry: Entry) -> None:
        if entry.fingerprint_bytes not in self._known_sizes:
            self._known_sizes.add(entry.fingerprint_bytes)
            bisect.insort(self._sizes, entry.fingerprint_bytes)
        self._by_head.setdefault((entry.fingerprint_bytes, entry.fingerprint), []).append(entry)
        self._by_id[entry.file_id] = entry

    def entries(self) -> list[Entry]:
        """Every file that was read."""
        return list(self._by_id.values())

    def candidates(self, head: bytes) -> list[Entry]:
        """Files that begin like ``head`` (the first 64 kB, or all of a smaller file), the longest read first."""
        found: list[Entry] = []
        digest, at = hashlib.sha256(), 0
        for size in self._sizes:
            if size > len(head):
                break
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
        con.execute(sql.text("ingest/ledger_forget"), {"ids": [e.file_id for e in entries]})
        con.execute(sql.text("ingest/ledger_write"), {name: [getattr(e, name) for e in entries] for name in _COLUMNS})


def copy_of(entry: Entry) -> Entry:
    """An entry to change while the old one stays in the index."""
    return replace(entry, open_counts=list(entry.open_counts))
