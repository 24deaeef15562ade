"""What ingest says about its work: the document ingest.v1."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hedgectl import sql
from hedgectl.errors import HedgectlError, InputError

if TYPE_CHECKING:
    from hedgectl.ingest.stage import Counts
    from hedgectl.store import Store

SHOWN_REJECTS = 20
"""Rejects of a file that stand in the document; all of them stand in the table ``reject``."""


@dataclass(slots=True)
class File:
    """What happened to one file in this run."""

    path: str
    format: str | None = None
    why: str = ""
    already: bool = False
    failure: HedgectlError | None = None
    lines: int = 0
    accepted: int = 0
    duplicates: int = 0
    not_requests: int = 0
    rejected: int = 0
    bytes: int = 0
    rejects: list[tuple[int, str, str]] = field(default_factory=list)
    unknown_fields: tuple[str, ...] = ()
    near_fields: dict[str, str] = field(default_factory=dict)

    def add(self, count: Counts, duplicates: int) -> None:
        """Adds what one batch found; duplicates are no longer in ``count.accepted``."""
        self.lines += count.lines + duplicates
        self.accepted += count.accepted
        self.duplicates += duplicates
        self.not_requests += sum(count.not_requests.values())
        self.rejected += count.rejected
        room = SHOWN_REJECTS - len(self.rejects)
        self.rejects += count.rejects[: max(0, room)]

    def check(self) -> None:
        """Raises AssertionError if a record was lost or counted twice."""
        parts = self.accepted + self.duplicates + self.not_requests + self.rejected
        if self.lines != parts or min(self.accepted, self.duplicates, self.not_requests, self.rejected) < 0:
            raise AssertionError(f"{self.path}: {self.lines} lines are not {parts} counted records")


def build(store: Store, files: list[File], notes: Counter[str]) -> dict[str, Any]:
    """The document. Raises InputError if no file held a request."""
    usable = [f for f in files if f.accepted or f.duplicates or f.already]
    if not usable:
        _nothing(files)
    con = store.con
    totals = {name: sum(getattr(f, name) for f in files) for name in ("lines", "accepted", "duplicates", "not_requests", "rejected")}
    attempts, requests = con.execute(sql.text("ingest/totals")).fetchone() or (0, 0)
    return {
        "schema": "hedgectl/ingest.v1",
        "database": store.name,
        "files": [_file(f) for f in files],
        "totals": {**totals, "attempts": attempts, "requests": requests},
        "observers": [row[0] for row in con.execute(sql.text("ingest/observers")).fetchall()],
        "coverage": _row(con, "ingest/coverage"),
        "window": _row(con, "ingest/window"),
        "notes": [],
    }


def _nothing(files: list[File]) -> None:
    failures = [f for f in files if f.failure is not None]
    if len(files) == 1 and failures:
        failure = failures[0].failure
        assert failure is not None
        raise failure
    raise InputError("no requests found", where=", ".join(f.path for f in files[:5]))


def _row(con: Any, name: str) -> dict[str, Any]:
    result = con.execute(sql.text(name))
    columns = [c[0] for c in result.description]
    return dict(zip(columns, result.fetchone(), strict=True))


def _file(f: File) -> dict[str, Any]:
    return {
        "path": f.path,
        "format": f.format,
        "lines": f.lines,
        "accepted": f.accepted,
        "duplicates": f.duplicates,
        "not_requests": f.not_requests,
        "rejected": f.rejected,
        "already_ingested": f.already,
        "rejects": [{"line": line, "reason": reason, "text": text} for line, reason, text in f.rejects],
    }
