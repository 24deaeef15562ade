"""Steps of files in a batch, and what became of their records."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hedgectl.ingest.steps import Step

SLOT_BITS = 40
"""A position in the stage is ``slot << 40 | line``; ``slot`` numbers the files of the batch. A file may have 2^40 lines."""

LINE_MASK = (1 << SLOT_BITS) - 1

_START = 200  # characters kept of a reject


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
    named_twice: int = 0  # records in which a field stands twice, among those looked at

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
        self.named_twice += other.named_twice

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
