"""One thread of the stage: a cursor that runs a format over pieces of files and accounts for every record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import sql
from hedgectl.errors import HedgectlError, UsageError
from hedgectl.formats import macros
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.arrow import Feed
from hedgectl.ingest.counts import LINE_MASK, SLOT_BITS, Counts, Piece
from hedgectl.ingest.gather import Gathered, Records
from hedgectl.lines import clean, look_again
from hedgectl.store import Store, explained, sql_error

if TYPE_CHECKING:
    import duckdb

# which lines of a file are searched for a field that stands twice: all of the first ones, then every so-manieth; the same for the
# inside of records, where of many small files every so-manieth is searched
_KEYS_OF, _KEYS_EVERY = 5_000, 50
_INSIDE_OF, _INSIDE_EVERY, _INSIDE_FILES = 200, 5_000, 500
_PROBES = 8  # records, spread over a job, that must not all fail if it is the values and not the format
_ATTEMPT, _TOOL, _REJECT, _OTHER = 0, 1, 2, 3


class Worker:
    """One cursor in one thread."""

    def __init__(self, store: Store, tz: str | None) -> None:
        self._name = store.name
        self._con: duckdb.DuckDBPyConnection = store.con.cursor()
        self._con.execute("SET TimeZone = 'UTC'")
        self._con.execute("SET VARIABLE hedgectl_tz = $1", [tz])
        self._feed = Feed()
        self._con.register("block", self._feed)
        self._format: Format | None = None
        self._rows = ""
        self._dirty: dict[str, bool] = {}
        self._begun = 0  # first lines of files that could be searched inside
        self._table = ""
        self._returning = ""

    def use(self, fmt: Format) -> None:
        """Binds ``raw`` to this cursor, and the format to its name."""
        if self._format is fmt:
            return
        with explained(self._name):
            self._con.execute(sql.text("ingest/raw_text" if fmt.input == "text" else "ingest/raw_json"))
            self._con.execute(macros.needed(fmt.select_sql))
        # no view: DuckDB would bind the SELECT, its costliest work on a small log, once more to make one
        select = fmt.select_sql.rstrip().rstrip(";")
        self._rows = f"WITH format_rows AS (\n{select}\n) {sql.text('ingest/hashed')}"
        self._format = fmt

    def create(self, table: str, fmt: Format) -> None:
        """Makes an empty stage table for the rows of the format, which is in use. Raises UsageError if its SELECT is none."""
        with explained(self._name):
            try:
                self._con.execute(f"CREATE TABLE stage.{table} AS {self._rows} LIMIT 0")
            except sql_error() as error:
                _give_up_if_not_data(error, fmt)
                raise

    def fill(self, table: str, fmt: Format) -> None:
        """Names the stage table that ``shape`` fills next."""
        if self._table == table:
            return
        with explained(self._name):
            self._con.execute(
                f"CREATE OR REPLACE TEMP VIEW staged_here AS FROM stage.template UNION ALL BY NAME FROM stage.{table}"
            )
            found = self._con.execute(sql.text("ingest/stage_columns"), {"table": table}).fetchall()
        self._returning = _returning({name for (name,) in found}, fmt)
        self._table = table

    def shape(self, fmt: Format, table: str, pieces: Sequence[Piece]) -> dict[int, Counts]:
        """Runs the format over the pieces; every record is accounted for."""
        counts = {piece.slot: Counts() for piece in pieces}
        in_order = all(piece.step.block is not None for piece in pieces)
        records, opened = self._gather(fmt, pieces, counts)
        json = fmt.input != "text"
        if json and opened:
            # a format may not look into every record, and a half-written one must not pass for something else
            for i in self._not_whole(records, records.at_lines(opened)):
                if any(r.counted_as == "rejected" for r in look_again(records.text(i), complete=False)):
                    records.hide(i)
        rows = self._insert(fmt, table, records, in_order=in_order)
        if json and len(records):
            self._look_for_names(records, counts)
        left = self._account(rows, records, opened, counts)
        again = Gathered()
        for i in left:
            text, line = records.text(i), int(records.lines[i])
            slot, is_open = line >> SLOT_BITS, line in opened
            count = counts[slot]
            if not json:
                if text.strip():
                    count.not_request("unrecognised_line", is_open=is_open)
                continue
            for number, record in enumerate(look_again(text, complete=not is_open)):
                if record.counted_as == "object":
                    again.add([line], [int(records.records[i]) + number], [record.text])
                elif record.counted_as == "rejected":
                    count.reject(line & LINE_MASK, str(record.reason), record.text, is_open=is_open)
                else:
                    count.not_request(str(record.reason), is_open=is_open)
        repaired = again.done()
        if len(repaired):
            self._con.execute(sql.text("ingest/sure"), {"sure": True})
            rows = self._insert(fmt, table, repaired)
            self._con.execute(sql.text("ingest/sure"), {"sure": False})
            for i in self._account(rows, repaired, opened, counts):
                line = int(repaired.lines[i])
                counts[line >> SLOT_BITS].reject(line & LINE_MASK, "bad_json", repaired.text(i), is_open=line in opened)
            for line in repaired.lines.tolist():
                counts[line >> SLOT_BITS].repaired += 1
        self._feed.parts = []
        return counts

    def _gather(self, fmt: Format, pieces: Sequence[Piece], counts: dict[int, Counts]) -> tuple[Records, set[int]]:
        """The records of the pieces, and the positions of last lines without a newline."""
        gathered = Gathered()
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
                data, bad = clean(block.data, json=fmt.input != "text", first_in_file=block.offset == 0)
                count.bad_utf8 += bad
                gathered.add_block(data, block.breaks if data is block.data else None, base + block.first)
                if block.open:
                    opened.add(base + block.first)
                    count.open_line = block.first
            elif step.texts:
                gathered.add([base + line for line in step.lines], step.records, step.texts)
                if step.open:
                    opened.update(base + line for line in step.lines)
                    count.open_line = step.lines[-1]
        return gathered.done(), opened

    def _insert(
        self, fmt: Format, table: str, records: Records, *, in_order: bool = False, part: bool = False
    ) -> dict[str, Any]:
        """Runs the format; its rows as numpy columns line, record, kind, reason. Invalid JSON is left out.

        ``in_order`` says that the records are whole lines in rising order, so that no other job has rows between the first and
        the last; ``part`` that they are a part of those of a job that failed.
        """
        if not len(records):
            return {"line": records.lines, "record": records.records, "kind": np.zeros(0, np.int8)}
        self._feed.parts = records.parts
        if self._dirty.get(fmt.name):
            self._hide_invalid(records)
        try:
            return self._run(table, records, in_order=in_order)
        except sql_error() as error:
            _give_up_if_not_data(error, fmt)
        if fmt.input != "text" and not self._dirty.get(fmt.name):
            # one invalid line fails the whole block: find it, and expect more in this log
            self._dirty[fmt.name] = True
            self._hide_invalid(records)
            try:
                return self._run(table, records, in_order=in_order)
            except sql_error() as error:
                _give_up_if_not_data(error, fmt)
        if not part:
            self._give_up_if_all_fail(fmt, records)
        return self._by_halves(fmt, table, records, in_order=in_order)

    def _give_up_if_all_fail(self, fmt: Format, records: Records) -> None:
        """A format that fails on every record is at fault itself: halving would run it on each of a million alone."""
        seen = np.flatnonzero(~records.empty())
        if len(seen) < _PROBES:
            return
        failure = None
        for i in seen[np.linspace(0, len(seen) - 1, _PROBES).astype(int)].tolist():
            self._feed.parts = records.cut(i, i + 1).parts
            try:
                self._con.execute(self._rows).fetchall()
                return
            except sql_error() as error:
                failure = error
        raise HedgectlError(
            f"the format {fmt.name} fails on every record: {str(failure).splitlines()[0]}",
            where=str(fmt.path),
            hint="this is a fault of the format and not of the log: report it with one record, or read the log with --map",
        ) from failure

    def _run(self, table: str, records: Records, *, in_order: bool) -> dict[str, Any]:
        statement = f"INSERT INTO stage.{table} {self._rows}"
        if not in_order:
            return self._con.execute(f"{statement} RETURNING {self._returning}").fetchnumpy()
        # handing every row back costs a tenth of the whole; mostly a few sums show that each line gave one attempt
        self._con.execute(statement)
        lines = records.lines
        span = {"low": int(lines[0]), "high": int(lines[-1])}
        (found,) = self._con.execute(sql.text("ingest/stage_check"), span).fetchall()
        kept = lines[~records.empty()]
        mixed = (kept & 1023) * (kept & 1048575)
        if found == (len(kept), _total(kept & LINE_MASK), _total(mixed), 0):
            return {"line": kept, "record": np.zeros(len(kept), np.int32), "kind": np.zeros(len(kept), np.int8)}
        return self._con.execute(sql.text("ingest/stage_rows"), span).fetchnumpy()

    def _look_for_names(self, records: Records, counts: dict[int, Counts]) -> None:
        """Counts records in which a field stands twice. Of all lines it would cost a tenth of the reading, so some stand for them."""
        line = records.lines & LINE_MASK
        looked_at = (line <= _KEYS_OF) | (line % _KEYS_EVERY == 0)
        first = np.flatnonzero(line <= _INSIDE_OF)
        number = self._begun + np.arange(len(first))
        self._begun += len(first)
        inside = line % _INSIDE_EVERY == 0
        inside[first[(number < _INSIDE_OF) | (number % _INSIDE_FILES == 0)]] = True
        for which, deep in ((inside, True), (looked_at & ~inside, False)):
            if which.any():
                self._feed.parts = records.picked(np.flatnonzero(which).tolist()).parts
                for slot, found in self._con.execute(sql.text("ingest/named_twice"), {"inside": deep}).fetchall():
                    counts[slot].named_twice += found

    def _not_whole(self, records: Records, at: Sequence[int]) -> list[int]:
        """Which of the records are not one valid JSON object each; a folder of one-record files has no newline in any."""
        empty = records.empty()
        at = [i for i in at if not empty[i]]
        whole = self._valid(records.picked(at))
        return [i for i, good in zip(at, whole.tolist(), strict=True) if not good]

    def _hide_invalid(self, records: Records) -> None:
        """Takes what DuckDB does not call valid JSON out of the scan."""
        for i in np.flatnonzero(~self._valid(records)).tolist():
            records.hide(i)

    def _valid(self, records: Records) -> NDArray[np.bool_]:
        """Which of the records, (n,), DuckDB calls valid JSON; they stand in the scan afterwards."""
        self._feed.parts = records.parts
        found = self._con.execute(sql.text("ingest/valid")).fetchnumpy()
        key = _keys(records.lines, records.records, records.lines, records.records)
        return np.isin(key, _keys(records.lines, records.records, found["line"], found["record"]))

    def _by_halves(self, fmt: Format, table: str, records: Records, *, in_order: bool) -> dict[str, Any]:
        """A record that the format's SQL cannot stand must not take its neighbours along."""
        if len(records) == 1:
            return {
                "line": records.lines,
                "record": records.records,
                "kind": np.array([_REJECT], np.int8),
                "reason": np.array(["format_error"], dtype=object),
            }
        half = len(records) // 2
        parts = [
            self._insert(fmt, table, records.cut(a, b), in_order=in_order, part=True)
            for a, b in ((0, half), (half, len(records)))
        ]
        names = ("line", "record", "kind", "reason")
        return {name: np.concatenate([_column(part, name) for part in parts]) for name in names}

    def _account(
        self,
        rows: dict[str, Any],
        records: Records,
        opened: set[int],
        counts: dict[int, Counts],
    ) -> list[int]:
        """Counts the records that came back; returns the positions of those that did not."""
        lines = records.lines
        if not len(lines):
            return []
        keys = _keys(lines, records.records, lines, records.records)
        got = _keys(lines, records.records, _column(rows, "line"), _column(rows, "record"))
        kind = _column(rows, "kind")
        # a record may give several rows: the best of them says what it is
        best = np.full(len(lines), 9, np.int8)
        order = np.argsort(keys, kind="stable")
        at: Any = order[np.minimum(np.searchsorted(keys[order], got), len(order) - 1)]
        np.minimum.at(best, at, kind.astype(np.int8))
        slots = lines >> SLOT_BITS
        used = best <= _TOOL
        for slot, number in zip(*np.unique(slots[used], return_counts=True), strict=True):
            counts[int(slot)].accepted += int(number)
        if opened:
            for i in records.at_lines(opened):
                counts[int(slots[i])].open_counts[0] += int(used[i])
        if (best[best < 9] > _TOOL).any():
            reasons = dict(zip(at.tolist(), _column(rows, "reason"), strict=True))
            for i in np.flatnonzero((best == _REJECT) | (best == _OTHER)).tolist():
                line = int(lines[i])
                count, reason, is_open = counts[line >> SLOT_BITS], reasons.get(i), line in opened
                if best[i] == _REJECT:
                    count.reject(line & LINE_MASK, str(reason or "unusable"), records.text(i), is_open=is_open)
                else:
                    count.not_request(str(reason or "not_a_request"), is_open=is_open)
        return np.flatnonzero(best == 9).tolist()


def _total(numbers: Any) -> int:
    """The exact sum of integers as Python's; 16 bits of headroom are left in int64 by summing in pieces."""
    return sum(int(part.sum()) for part in np.array_split(numbers, 1 + len(numbers) // 4096))


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
            plain = column.data.astype(object)
            plain[np.ma.getmaskarray(column)] = None
            return plain
        return column.data
    return column


def _keys(lines: Any, records: Any, of_lines: Any, of_records: Any) -> Any:
    """One integer for each (line, record), in the terms of the block ``lines, records``."""
    if not len(records) or int(records.max()) == 0:
        return np.asarray(of_lines, np.int64)
    known = np.unique(lines)
    return np.searchsorted(known, np.asarray(of_lines, np.int64)) * (int(records.max()) + 1) + np.asarray(
        of_records, np.int64
    )


_NOT_DATA = re.compile(
    r"^(Binder|Catalog|Parser|Syntax|Not implemented|Permission|IO|Out of Memory|Internal|Fatal|INTERRUPT)",
    re.IGNORECASE,
)


def _give_up_if_not_data(error: Exception, fmt: Format) -> None:
    """Errors of a value are handled line by line; a faulty query, a full disk or a stop are not."""
    text = str(error)
    if not _NOT_DATA.match(text):
        return
    if text.startswith(("Binder", "Catalog", "Parser", "Syntax", "Not implemented")):
        raise UsageError(f"the format {fmt.name} cannot be run: {text.splitlines()[0]}", where=str(fmt.path)) from error
    raise error
