"""One thread of the stage: a cursor that runs a format over pieces of files and accounts for every record."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgectl import sql
from hedgectl.errors import UsageError
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.counts import LINE_MASK, SLOT_BITS, Counts, Piece
from hedgectl.lines import decode, look_again
from hedgectl.store import Store, explained, sql_error

if TYPE_CHECKING:
    import duckdb

_ATTEMPT, _TOOL, _REJECT, _OTHER = 0, 1, 2, 3


class Worker:
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
                    self._con.execute(
                        f"CREATE OR REPLACE TEMP VIEW format_rows AS {fmt.select_sql.rstrip().rstrip(';')}"
                    )
                except sql_error() as error:
                    # a broken mapping of the user's shows here, before any line is read
                    raise UsageError(f"the format {fmt.name} is not valid SQL: {error}", where=str(fmt.path)) from error
            if fmt.name not in tables:
                table = f"shaped_{len(tables)}"
                self._con.execute(f"CREATE TABLE stage.{table} AS SELECT * FROM format_rows LIMIT 0")
                tables[fmt.name] = table
            if self._format != fmt.name:
                table = tables[fmt.name]
                self._con.execute(
                    f"CREATE OR REPLACE TEMP VIEW staged_here AS FROM stage.template UNION ALL BY NAME FROM stage.{table}"
                )
                found = self._con.execute(sql.text("ingest/stage_columns"), {"table": table}).fetchall()
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
        in_order = all(piece.step.block is not None for piece in pieces)
        lines, records, texts, opened = self._gather(fmt, pieces, counts)
        json = fmt.input != "text"
        held: list[str | None] = list(texts)
        if json and opened:
            # a format may not look into every record, and a half-written one must not pass for something else
            for i in np.flatnonzero(np.isin(lines, np.array(sorted(opened), np.int64))).tolist():
                held[i] = (
                    None if any(r.counted_as == "rejected" for r in look_again(texts[i], complete=False)) else texts[i]
                )
        rows = self._insert(fmt, table, lines, records, held, in_order=in_order)
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
                    count.reject(line & LINE_MASK, str(record.reason), record.text, is_open=is_open)
                else:
                    count.not_request(str(record.reason), is_open=is_open)
        if again_texts:
            a, b = np.array(again_lines, np.int64), np.array(again_records, np.int32)
            rows = self._insert(fmt, table, a, b, list(again_texts), sure=True)
            for i in self._account(rows, a, b, again_texts, opened, counts):
                line = again_lines[i]
                counts[line >> SLOT_BITS].reject(line & LINE_MASK, "bad_json", again_texts[i], is_open=line in opened)
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
                step.block = None  # as much memory as the lines themselves
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
        self,
        fmt: Format,
        table: str,
        lines: Any,
        records: Any,
        texts: list[str | None],
        *,
        sure: bool = False,
        in_order: bool = False,
    ) -> dict[str, Any]:
        """Runs the format; its rows as numpy columns line, record, kind, reason. Invalid JSON is left out.

        ``sure`` says that no text holds a bare NaN, which DuckDB takes for valid JSON. ``in_order`` says that ``lines`` are whole
        lines in rising order, so that no other job has rows between the first and the last.
        """
        if not len(texts):
            return {"line": lines, "record": records, "kind": np.zeros(0, np.int8)}
        self._register(lines, records, texts, sure)
        if self._dirty.get(fmt.name):
            self._hide_invalid(lines, records, texts, sure)
        try:
            return self._run(table, lines, records, texts, in_order=in_order)
        except sql_error() as error:
            _give_up_if_not_data(error, fmt)
        if fmt.input != "text" and not self._dirty.get(fmt.name):
            # one invalid line fails the whole block: find it, and expect more in this log
            self._dirty[fmt.name] = True
            self._hide_invalid(lines, records, texts, sure)
            try:
                return self._run(table, lines, records, texts, in_order=in_order)
            except sql_error() as error:
                _give_up_if_not_data(error, fmt)
        return self._by_halves(fmt, table, lines, records, texts, sure=sure, in_order=in_order)

    def _run(self, table: str, lines: Any, records: Any, texts: list[str | None], *, in_order: bool) -> dict[str, Any]:
        statement = f"INSERT INTO stage.{table} SELECT * FROM format_rows"
        if not in_order:
            return self._con.execute(f"{statement} RETURNING {self._returning}").fetchnumpy()
        # handing every row back costs a tenth of the whole; mostly a few sums show that each line gave one attempt
        self._con.execute(statement)
        span = {"low": int(lines[0]), "high": int(lines[-1])}
        (found,) = self._con.execute(sql.text("ingest/stage_check"), span).fetchall()
        kept = lines if "" not in texts and None not in texts else lines[[bool(text) for text in texts]]
        mixed = (kept & 1023) * (kept & 1048575)
        if found == (len(kept), _total(kept & LINE_MASK), _total(mixed), 0):
            return {"line": kept, "record": np.zeros(len(kept), np.int32), "kind": np.zeros(len(kept), np.int8)}
        return self._con.execute(sql.text("ingest/stage_rows"), span).fetchnumpy()

    def _hide_invalid(self, lines: Any, records: Any, texts: list[str | None], sure: bool) -> None:
        """Takes what DuckDB does not call valid JSON out of the registered block."""
        valid = self._con.execute(sql.text("ingest/valid")).fetchnumpy()
        key = _keys(lines, records, lines, records)
        good = _keys(lines, records, valid["line"], valid["record"])
        for i in np.flatnonzero(~np.isin(key, good)):
            texts[int(i)] = None
        self._register(lines, records, texts, sure)

    def _by_halves(
        self, fmt: Format, table: str, lines: Any, records: Any, texts: list[str | None], *, sure: bool, in_order: bool
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
            self._insert(fmt, table, lines[a:b], records[a:b], texts[a:b], sure=sure, in_order=in_order)
            for a, b in ((0, half), (half, len(texts)))
        ]
        names = ("line", "record", "kind", "reason")
        return {name: np.concatenate([_column(part, name) for part in parts]) for name in names}

    def _account(
        self,
        rows: dict[str, Any],
        lines: Any,
        records: Any,
        texts: list[str],
        opened: set[int],
        counts: dict[int, Counts],
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
        at: Any = order[np.minimum(np.searchsorted(keys[order], got), len(order) - 1)]
        np.minimum.at(best, at, kind.astype(np.int8))
        slots = lines >> SLOT_BITS
        used = best <= _TOOL
        for slot, number in zip(*np.unique(slots[used], return_counts=True), strict=True):
            counts[int(slot)].accepted += int(number)
        if opened:
            for i in np.flatnonzero(used & np.isin(lines, np.array(sorted(opened), np.int64))).tolist():
                counts[int(slots[i])].open_counts[0] += 1
        if (best[best < 9] > _TOOL).any():
            reasons = dict(zip(at.tolist(), _column(rows, "reason"), strict=True))
            for i in np.flatnonzero((best == _REJECT) | (best == _OTHER)).tolist():
                line = int(lines[i])
                count, reason, is_open = counts[line >> SLOT_BITS], reasons.get(i), line in opened
                if best[i] == _REJECT:
                    count.reject(line & LINE_MASK, str(reason or "unusable"), texts[i], is_open=is_open)
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
