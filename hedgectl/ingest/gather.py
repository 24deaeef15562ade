"""The records of one job of the stage: pieces of several files put behind one another, each with its position."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from hedgectl.ingest.arrow import Part, part_of
from hedgectl.lines import newlines

_LARGE = 256 << 10  # bytes of a block that is scanned where it lies; smaller ones are put together


class Records:
    """Records in the order they were read: ``lines`` (int64, positions in the stage) and ``records`` (int32) of all ``parts``."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts = parts
        self.lines: Any = np.concatenate([np.zeros(0, np.int64), *(part.lines for part in parts)])
        self.records: Any = np.concatenate([np.zeros(0, np.int32), *(part.records for part in parts)])
        self._starts: Any = np.cumsum([0, *(len(part.lines) for part in parts)])

    def __len__(self) -> int:
        return len(self.lines)

    def _place(self, i: int) -> tuple[Part, int]:
        number = int(np.searchsorted(self._starts, i, side="right")) - 1
        return self.parts[number], i - int(self._starts[number])

    def text(self, i: int) -> str:
        """The i-th record as it was written."""
        part, at = self._place(i)
        return part.text(at)

    def hide(self, i: int) -> None:
        """Keeps the i-th record from the format."""
        part, at = self._place(i)
        if part.hidden is None:
            part.hidden = np.zeros(len(part.lines), bool)
        part.hidden[at] = True

    def empty(self) -> Any:
        """Which records no format can see (bool): blank or hidden."""
        return np.concatenate(
            [np.zeros(0, bool), *(p.blank() if p.hidden is None else p.blank() | p.hidden for p in self.parts)]
        )

    def at_lines(self, lines: Iterable[int]) -> list[int]:
        """The records that stand at ``lines``."""
        found: list[int] = np.flatnonzero(np.isin(self.lines, np.array(sorted(lines), np.int64))).tolist()
        return found

    def picked(self, numbers: Sequence[int]) -> Records:
        """The records of these numbers that a format can see; their bytes are copied."""
        empty = self.empty()
        kept = [i for i in numbers if not empty[i]]
        texts = [part.data[int(part.offsets[at]) : int(part.offsets[at + 1])] for part, at in map(self._place, kept)]
        return Records([part_of(self.lines[kept].tolist(), self.records[kept].tolist(), texts)])

    def cut(self, low: int, high: int) -> Records:
        """The records low .. high - 1; the bytes are shared."""
        bounds = zip(self.parts, self._starts[:-1].tolist(), self._starts[1:].tolist(), strict=True)
        return Records([p.cut(max(low, a) - a, min(high, b) - a) for p, a, b in bounds if max(low, a) < min(high, b)])


class Gathered:
    """Collects records; small pieces, such as files of one line, go into one part."""

    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._lines: list[int] = []
        self._records: list[int] = []
        self._texts: list[bytes] = []

    def add(self, lines: Sequence[int], records: Sequence[int], texts: Sequence[str]) -> None:
        """Records that stand apart. A half of a surrogate pair, which no UTF-8 has, becomes a question mark."""
        self._lines += lines
        self._records += records
        self._texts += [text.encode("utf-8", "replace") for text in texts]

    def add_block(self, data: bytes, breaks: Any, first: int) -> None:
        """Whole lines from position ``first`` on; ``breaks`` are the places of the newlines in ``data``, if known."""
        if len(data) < _LARGE:
            split = data.split(b"\n")
            self._lines += range(first, first + len(split))
            self._records += [0] * len(split)
            self._texts += split
            return
        self._settle()
        if breaks is None:
            breaks = newlines(data)
        offsets = np.empty(len(breaks) + 2, np.int64)
        offsets[0], offsets[-1] = 0, len(data)
        offsets[1:-1] = breaks + 1
        rows = len(offsets) - 1
        self._parts.append(
            Part(np.arange(first, first + rows, dtype=np.int64), np.zeros(rows, np.int32), data, offsets)
        )

    def _settle(self) -> None:
        if self._lines:
            self._parts.append(part_of(self._lines, self._records, self._texts))
            self._lines, self._records, self._texts = [], [], []

    def done(self) -> Records:
        """All that was added, in that order."""
        self._settle()
        return Records(self._parts)
