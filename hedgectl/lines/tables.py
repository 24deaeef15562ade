"""CSV text -> JSON objects, one a row: header, quoting, newlines inside quotes; rows that do not fit are told."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

_MAX_QUOTED_LINES = 1000
_MAX_QUOTED_CHARS = 4 << 20
_quote = json.encoder.encode_basestring
# a list of token times in one field is longer than the 128 kB that the csv module takes by itself
csv.field_size_limit(max(csv.field_size_limit(), 64 << 20))


@dataclass(slots=True)
class Rows:
    """JSON objects with the line each starts on, and the rows that are none: line, reason, text."""

    texts: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    headers: int = 0  # the header once more: files put one behind the other


class Table:
    """A CSV file after its header. ``pending`` holds the lines of a row whose quotes are still open, from ``pending_line`` on."""

    def __init__(self, header: str) -> None:
        self._mark = max(",;\t", key=header.count)
        self._names = [name.strip() for name in next(csv.reader([header], delimiter=self._mark))]
        self._keys = [_quote(name) + ":" for name in self._names]
        self.pending: list[str] = []
        self.pending_line = 0

    def feed(self, lines: Iterable[str], first: int) -> Rows:
        """Rows that are complete with these lines; the first has number ``first``."""
        rows = Rows()
        for number, line in enumerate(lines, first):
            if not self.pending and '"' not in line:
                if line and not line.isspace():
                    self._row(rows, line.split(self._mark), number, line)
                continue
            if not self.pending:
                self.pending_line = number
            self.pending.append(line)
            self._settle(rows)
        return rows

    def _settle(self, rows: Rows) -> None:
        text = "\n".join(self.pending)
        if text.count('"') % 2 == 0:
            line, self.pending = self.pending_line, []
            try:
                fields = next(csv.reader(_with_ends(text), delimiter=self._mark, strict=True))
            except (csv.Error, StopIteration):
                rows.rejects.append((line, "bad_csv", text))
                return
            self._row(rows, fields, line, text)
        elif len(self.pending) > _MAX_QUOTED_LINES or len(text) > _MAX_QUOTED_CHARS:
            # a stray quote would eat the rest of the file: give up its line only
            rows.rejects.append((self.pending_line, "open_quote", self.pending[0]))
            again, start = self.pending[1:], self.pending_line + 1
            self.pending = []
            more = self.feed(again, start)
            rows.texts += more.texts
            rows.lines += more.lines
            rows.rejects += more.rejects
            rows.headers += more.headers

    def _row(self, rows: Rows, fields: list[str], line: int, text: str) -> None:
        if len(fields) > len(self._keys) and not any(fields[len(self._keys) :]):
            fields = fields[: len(self._keys)]
        if len(fields) != len(self._keys):
            rows.rejects.append((line, "wrong_field_count", text))
            return
        if fields == self._names:
            rows.headers += 1
            return
        body = ",".join(
            [key + (_quote(value) if value else "null") for key, value in zip(self._keys, fields, strict=True)]
        )
        rows.texts.append("{" + body + "}")
        rows.lines.append(line)


def _with_ends(text: str) -> Iterator[str]:
    """Lines as csv wants them: with their ends, so that a newline inside quotes survives."""
    return iter(text.splitlines(keepends=True)) if text else iter(())
