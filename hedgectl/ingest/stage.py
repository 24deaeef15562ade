"""Pieces of files -> rows of their format, in tables beside the database; several threads, no lock on the database.

Row positions: ``line`` in the stage is ``slot << 40 | line``, where ``slot`` numbers the files of the batch.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgectl import sql
from hedgectl.errors import UsageError
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.steps import Step
from hedgectl.lines import decode, look_again
from hedgectl.store import Store, explained, sql_error

if TYPE_CHECKING:
    import duckdb

SLOT_BITS = 40
"""A file of a batch may have 2^40 lines."""

CHUNK_BYTES = 32 << 20
"""Text handed to DuckDB at once; small files are put together up to it. Planning a format's query costs as much as 5 MB of log."""

_LINE_MASK = (1 << SLOT_BITS) - 1
_ATTEMPT, _TOOL, _REJECT, _OTHER = 0, 1, 2, 3
_START = 200


@dataclass(slots=True)
class Piece:
    """A step of the file in ``slot``."""

    slot: int
    step: Step

    @property
    def size(self) -> int:
        """Characters or bytes, roughly."""
        step = self.step
        return len(step.block.data) if step.block is not None else sum(map(len, step.texts)) + len(step.texts)


@dataclass(slots=True)
class Counts:
    """What became of the records of one file in one job."""

    accepted: int = 0
    rejected: int = 0
    not_requests: Counter[str] = field(default_factory=Counter)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)  # line, reason, first characters
    open_counts: list[int] = field(default_factory=lambda: [0, 0, 0, 0])  # accepted, duplicates, not_requests, rejected
    open_line: int | None = None
    bad_utf8: int = 0
    repaired: int = 0

    @property
    def lines(self) -> int:
        """Records seen."""
        return self.accepted + self.rejected + sum(self.not_requests.values())

    def add(self, other: Counts) -> None:
        """Sums another job of the same file into this one."""
        self.accepted += other.accepted
        self.rejected += other.rejected
        self.not_requests.update(other.not_requests)
        self.rejects.extend(other.rejects)
        self.open_counts = [a + b for a, b in zip(self.open_counts, other.open_counts, strict=True)]
        if other.open_line is not None:
            self.open_line = other.open_line
        self.bad_utf8 += other.bad_utf8
        self.repaired += other.repaired

    def reject(self, line: int, reason: str, text: str, *, is_open: bool) -> None:
        """Counts one record that cannot be used."""
        self.rejected += 1
        self.rejects.append((line, reason, text[:_START]))
        if is_open:
            self.open_counts[3] += 1

    def not_request(self, reason: str, *, is_open: bool) -> None:
        """Counts one record that is no request."""
        self.not_requests[reason] += 1
        if is_open:
            self.open_counts[2] += 1


class Stage:
    """The stage of one ingest: tables ``stage.shaped_<k>``, one a format of the batch, and threads that fill them."""

    def __init__(self, store: Store, *, tz: str | None, threads: int = 2) -> None:
        self._store = store
        self._tz = tz
        self._lock = threading.Lock()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="hedgectl-shape")
        self._room = threading.Semaphore(threads + 1)
        self._jobs: list[Future[dict[int, Counts]]] = []
        self._pending: dict[str, list[Piece]] = {}
        self._pending_bytes: dict[str, int] = {}
        self.formats: dict[str, Format] = {}
        self.tables: dict[str, str] = {}
        store.con.execute(sql.text("ingest/attach"))

    def close(self) -> None:
        """Waits for the threads and drops the stage."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._store.con.execute("DETACH DATABASE IF EXISTS stage")

    def add(self, fmt: Format, piece: Piece) -> None:
        """Queues a piece; blocks while the threads are behind."""
        self.formats.setdefault(fmt.name, fmt)
        waiting = self._pending.setdefault(fmt.name, [])
        waiting.append(piece)
        total = self._pending_bytes.get(fmt.name, 0) + piece.size
        self._pending_bytes[fmt.name] = total
        if total >= CHUNK_BYTES * 3 // 4:
            self._submit(fmt)

    def _submit(self, fmt: Format) -> None:
        pieces = self._pending.pop(fmt.name, [])
        self._pending_bytes.pop(fmt.name, None)
        if not pieces:
            return
        self._room.acquire()
        job = self._pool.submit(self._shape, fmt, pieces)
        job.add_done_callback(lambda _: self._room.release())
        self._jobs.append(job)

    def finish(self) -> dict[int, Counts]:
        """Waits for all queued pieces; counts by slot. Raises what a thread raised."""
        for fmt in list(self.formats.values()):
            self._submit(fmt)
        total: dict[int, Counts] = {}
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            for slot, counts in job.result().items():
                total.setdefault(slot, Counts()).add(counts)
        return total

    def clear(self) -> None:
        """Empties the stage after a merge."""
        for table in self.tables.values():
            self._store.con.execute(f"TRUNCATE stage.{table}")

    def _shape(self, fmt: Format, pieces: Sequence[Piece]) -> dict[int, Counts]:
        worker: _Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            with self._lock:
                worker = _Worker(self._store, self._tz)
            self._local.worker = worker
        with self._lock:
            table = worker.use(fmt, self.tables)
        return worker.shape(fmt, table, pieces)


class _Worker:
    """One cursor in one thread."""

    def __init__(self, store: Store, tz: str | None) -> None:
        self._name = store.name
        self._con: duckdb.DuckDBPyConnection = store.con.cursor()
        self._con.execute("SET TimeZone = 'UTC'")
        self._con.execute("SET VARIABLE hedgectl_tz = $1", [tz])
        self._con.execute(sql.text("formats/_macros"))
        self._format: str | None = None
        self._dirty: dict[str, bool] = {}
        self._returning = ""

    def use(self, fmt: Format, tables: dict[str, str]) -> str:
        """Binds ``raw`` and the format's SELECT to this cursor; creates the stage table of a format seen first."""
        with explained(self._name):
            if self._format != fmt.name:
                self._register(np.zeros(0, np.int64), np.zeros(0, np.int32), [])
                self._con.execute(sql.text("ingest/raw_text" if fmt.input == "text" else "ingest/raw_json"))
                try:
                    self._con.execute(f"CREATE OR REPLACE TEMP VIEW format_rows AS {fmt.select_sql.rstrip().rstrip(';')}")
                except sql_error() as error:
                    # a broken mapping of the user's shows here, before any line is read
                    raise UsageError(f"the format {fmt.name} is not valid SQL: {error}", where=str(fmt.path)) from error
            if fmt.name not in tables:
                table = f"shaped_{len(tables)}"
                self._con.execute(f"CREATE TABLE stage.{table} AS SELECT * FROM format_rows LIMIT 0")
                tables[fmt.name] = table
            if self._format != fmt.name:
                found = self._con.execute(sql.text("ingest/stage_columns"), {"table": tables[fmt.name]}).fetchall()
                self._returning = _returning({name for (name,) in found}, fmt)
        self._format = fmt.name
        return tables[fmt.name]

    def _register(self, lines: Any, records: Any, texts: Sequence[str | None], sure: bool = False) -> None:
        """Binds ``block``. DuckDB tells the type of an object column by looking for a string in it, so one is always there."""
        column = np.empty(len(texts) + 1, dtype=object)
        column[0], column[1:] = "", texts
        checked = np.full(len(column), sure)
        self._con.register(
            "block", {"line": np.insert(lines, 0, 0), "record": np.insert(records, 0, 0), "t": column, "sure": checked}
        )

    def shape(self, fmt: Format, table: str, pieces: Sequence[Piece]) -> dict[int, Counts]:
        """Runs the format over the pieces; every record is accounted for."""
        counts = {piece.slot: Counts() for piece in pieces}
        lines, records, texts, opened = self._gather(fmt, pieces, counts)
        json = fmt.input != "text"
        held: list[str | None] = list(texts)
        if json and opened:
            # a format may not look into every record, and a half-written one must not pass for something else
            for i in np.flatnonzero(np.isin(lines, np.array(sorted(opened), np.int64))).tolist():
                held[i] = None if any(r.counted_as == "rejected" for r in look_again(texts[i], complete=False)) else texts[i]
        rows = self._insert(fmt, table, lines, records, held)
        left = self._account(rows, lines, records, texts, opened, counts)
        again_lines: list[int] = []
        again_records: list[int] = []
        again_texts: list[str] = []
        for i in left:
            text, line = texts[i], int(lines[i])
            slot, is_open = line >> SLOT_BITS, line in opened
            count = counts[slot]
            if not json:
                if text.strip():
                    count.not_request("unrecognised_line", is_open=is_open)
                continue
            for number, record in enumerate(look_again(text, complete=not is_open)):
                if record.counted_as == "object":
                    again_lines.append(line)
                    again_records.append(int(records[i]) + number)
                    again_texts.append(record.text)
                elif record.counted_as == "rejected":
                    count.reject(line & _LINE_MASK, str(record.reason), record.text, is_open=is_open)
                else:
                    count.not_request(str(record.reason), is_open=is_open)
        if again_texts:
            a, b = np.array(again_lines, np.int64), np.array(again_records, np.int32)
            rows = self._insert(fmt, table, a, b, list(again_texts), sure=True)
            for i in self._account(rows, a, b, again_texts, opened, counts):
                line = again_lines[i]
                counts[line >> SLOT_BITS].reject(line & _LINE_MASK, "bad_json", again_texts[i], is_open=line in opened)
            for line in again_lines:
                counts[line >> SLOT_BITS].repaired += 1
        return counts

    def _gather(
        self, fmt: Format, pieces: Sequence[Piece], counts: dict[int, Counts]
    ) -> tuple[Any, Any, list[str], set[int]]:
        all_lines: list[Any] = []
        all_records: list[Any] = []
        texts: list[str] = []
        opened: set[int] = set()
        for piece in pieces:
            base, count, step = piece.slot << SLOT_BITS, counts[piece.slot], piece.step
            count.bad_utf8 += step.bad_utf8
            for line, reason, text in step.rejects:
                count.reject(line, reason, text, is_open=step.open)
            for _, reason in step.others:
                count.not_request(reason, is_open=step.open)
            block = step.block
            if block is not None and block.too_long is not None:
                start = block.too_long.decode("utf-8", "backslashreplace")
                count.reject(block.first, "line_too_long", start, is_open=block.open)
            elif block is not None:
                text, bad = decode(block.data, json=fmt.input != "text", first_in_file=block.offset == 0)
                split = text.split("\n")
                all_lines.append(np.arange(base + block.first, base + block.first + len(split), dtype=np.int64))
                all_records.append(np.zeros(len(split), np.int32))
                texts += split
                count.bad_utf8 += bad
                if block.open:
                    opened.add(base + block.first)
                    count.open_line = block.first
            elif step.texts:
                all_lines.append(np.array(step.lines, np.int64) + base)
                all_records.append(np.array(step.records, np.int32))
                texts += step.texts
                if step.open:
                    opened.update(base + line for line in step.lines)
                    count.open_line = step.lines[-1]
        if not all_lines:
            return np.zeros(0, np.int64), np.zeros(0, np.int32), [], opened
        return np.concatenate(all_lines), np.concatenate(all_records), texts, opened

    def _insert(
        self, fmt: Format, table: str, lines: Any, records: Any, texts: list[str | None], sure: bool = False
    ) -> dict[str, Any]:
        """Rows of the format as numpy columns line, record, kind, reason; invalid JSON is left out.

        ``sure`` says that no text holds a bare NaN, which DuckDB takes for valid JSON.
        """
        statement = f"INSERT INTO stage.{table} SELECT * FROM format_rows RETURNING {self._returning}"
        self._register(lines, records, texts, sure)
        if self._dirty.get(fmt.name):
            self._hide_invalid(lines, records, texts, sure)
        try:
            return self._con.execute(statement).fetchnumpy()
        except sql_error() as error:
            _give_up_if_not_data(error, fmt)
        if fmt.input != "text" and not self._dirty.get(fmt.name):
            # one invalid line fails the cast of the whole block: find it, and expect more in this log
            self._dirty[fmt.name] = True
            self._hide_invalid(lines, records, texts, sure)
            try:
                return self._con.execute(statement).fetchnumpy()
            except sql_error() as error:
                _give_up_if_not_data(error, fmt)
        return self._by_halves(fmt, table, lines, records, texts, sure)

    def _hide_invalid(self, lines: Any, records: Any, texts: list[str | None], sure: bool) -> None:
        """Takes what DuckDB does not call valid JSON out of the registered block."""
        valid = self._con.execute(sql.text("ingest/valid")).fetchnumpy()
        key = _keys(lines, records, lines, records)
        good = _keys(lines, records, valid["line"], valid["record"])
        for i in np.flatnonzero(~np.isin(key, good)):
            texts[int(i)] = None
        self._register(lines, records, texts, sure)

    def _by_halves(
        self, fmt: Format, table: str, lines: Any, records: Any, texts: list[str | None], sure: bool
    ) -> dict[str, Any]:
        """A record that the format's SQL cannot stand must not take its neighbours along."""
        if len(texts) == 1:
            return {
                "line": lines,
                "record": records,
                "kind": np.array([_REJECT], np.int8),
                "reason": np.array(["format_error"], dtype=object),
            }
        half = len(texts) // 2
        parts = [
            self._insert(fmt, table, lines[a:b], records[a:b], texts[a:b], sure) for a, b in ((0, half), (half, len(texts)))
        ]
        names = ("line", "record", "kind", "reason")
        return {name: np.concatenate([_column(part, name) for part in parts]) for name in names}

    def _account(
        self, rows: dict[str, Any], lines: Any, records: Any, texts: list[str], opened: set[int], counts: dict[int, Counts]
    ) -> list[int]:
        """Counts the records that came back; returns the positions of those that did not."""
        if not len(lines):
            return []
        keys = _keys(lines, records, lines, records)
        got = _keys(lines, records, _column(rows, "line"), _column(rows, "record"))
        kind = _column(rows, "kind")
        # a record may give several rows: the best of them says what it is
        best = np.full(len(lines), 9, np.int8)
        order = np.argsort(keys, kind="stable")
        at = order[np.minimum(np.searchsorted(keys[order], got), len(order) - 1)]
        np.minimum.at(best, at, kind.astype(np.int8))
        slots = lines >> SLOT_BITS
        used = best <= _TOOL
        for slot, number in zip(*np.unique(slots[used], return_counts=True), strict=True):
            counts[int(slot)].accepted += int(number)
        if opened:
            for i in np.flatnonzero(used & np.isin(lines, np.array(sorted(opened), np.int64))):
                counts[int(slots[i])].open_counts[0] += 1
        if (best[best < 9] > _TOOL).any():
            reasons = dict(zip(at.tolist(), _column(rows, "reason"), strict=True))
            for i in np.flatnonzero((best == _REJECT) | (best == _OTHER)).tolist():
                line = int(lines[i])
                count, reason, is_open = counts[line >> SLOT_BITS], reasons.get(i), line in opened
                if best[i] == _REJECT:
                    count.reject(line & _LINE_MASK, str(reason or "unusable"), texts[i], is_open=is_open)
                else:
                    count.not_request(str(reason or "not_a_request"), is_open=is_open)
        return np.flatnonzero(best == 9).tolist()


def _returning(columns: set[str], fmt: Format) -> str:
    """What an insert of the format's rows gives back: the positions, and what each row says it is."""
    if not {"line", "record"} <= columns:
        raise UsageError(f"the format {fmt.name} does not return line and record", where=str(fmt.path))
    kind = "CASE coalesce(kind, 'attempt') WHEN 'attempt' THEN 0 WHEN 'tool' THEN 1 WHEN 'reject' THEN 2 ELSE 3 END"
    parts = ["line", "record", f"{kind if 'kind' in columns else 0}::TINYINT AS kind"]
    return ", ".join([*parts, "reason"] if "reason" in columns else parts)


def _column(rows: dict[str, Any], name: str) -> Any:
    """A result column as a plain array; SQL NULL becomes None."""
    if name not in rows:
        return np.full(len(rows["line"]), None, dtype=object)
    column = rows[name]
    if isinstance(column, np.ma.MaskedArray):
        if column.dtype == object or column.mask.any():
            return np.where(np.ma.getmaskarray(column), None, column.data.astype(object))
        return column.data
    return column


def _keys(lines: Any, records: Any, of_lines: Any, of_records: Any) -> Any:
    """One integer for each (line, record), in the terms of the block ``lines, records``."""
    if not len(records) or int(records.max()) == 0:
        return np.asarray(of_lines, np.int64)
    known = np.unique(lines)
    return np.searchsorted(known, np.asarray(of_lines, np.int64)) * (int(records.max()) + 1) + np.asarray(of_records, np.int64)


_NOT_DATA = re.compile(r"^(Binder|Catalog|Parser|Syntax|Not implemented|Permission|IO|Out of Memory|Internal|Fatal|INTERRUPT)", re.IGNORECASE)


def _give_up_if_not_data(error: Exception, fmt: Format) -> None:
    """Errors of a value are handled line by line; a faulty query, a full disk or a stop are not."""
    text = str(error)
    if not _NOT_DATA.match(text):
        return
    if text.startswith(("Binder", "Catalog", "Parser", "Syntax", "Not implemented")):
        raise UsageError(f"the format {fmt.name} cannot be run: {text.splitlines()[0]}", where=str(fmt.path)) from error
    raise error
