"""Several observers of the same requests: puts their rows together, so that a request seen twice is counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hedgectl import sql
from hedgectl.formats.catalogue import load_all
from hedgectl.formats.format import OBSERVERS, parse_join_ids

if TYPE_CHECKING:
    import duckdb

    Connection = duckdb.DuckDBPyConnection

CLOCKS_NS = 300_000_000_000
"""How far apart the clocks of two observers may be: rows with one id that are further apart are different requests."""

LEFT_OUT = 0.1
"""Share of an inner log without a counterpart from which the outer log is called incomplete."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One format in the database: who timed its rows (``observer``), how many there are, and which time (UTC ns) they cover."""

    format: str
    observer: str
    attempts: int
    low: int | None
    high: int | None
    with_arrival: int
    with_e2e: int

    def place(self) -> tuple[int, int, int, str]:
        """Orders formats from the caller inwards; of two at the same place the one that times requests comes first."""
        return OBSERVERS.index(self.observer), -bool(self.with_arrival), -bool(self.with_e2e), self.format

    def overlaps(self, other: Seen) -> bool:
        """Whether both may have seen the same requests. A log without a time of day may belong to any."""
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return True
        return self.low <= other.high and other.low <= self.high


def seen(con: Connection) -> list[Seen]:
    """The formats in the database, from the caller inwards."""
    return sorted((Seen(*row) for row in con.execute(sql.text("join/seen")).fetchall()), key=Seen.place)


def overlapping(formats: Sequence[Seen]) -> list[tuple[Seen, Seen]]:
    """Pairs (outer, inner) of formats that may have seen the same requests."""
    return [(a, b) for k, a in enumerate(formats) for b in formats[k + 1 :] if a.overlaps(b)]


def observe(con: Connection) -> None:
    """Makes the TEMP VIEW ``observed``: the rows of ``attempt``, those of overlapping formats put together.

    Does nothing if it is there already; whoever adds rows to ``attempt`` calls :func:`forget` first. The tables themselves are
    left as they were read, so the order in which logs arrive does not matter.
    """
    if con.execute(sql.text("join/known")).fetchall()[0][0]:
        return
    con.execute(sql.text("join/tables"))
    formats = seen(con)
    if not overlapping(formats):
        con.execute(sql.text("join/plain"))
        return
    con.execute(sql.text("decompose/fold"))  # a call that one tracer told twice is one row here
    outers: list[Seen] = []
    inners: list[tuple[Seen, list[Seen]]] = []
    for each in formats:
        over = [o for o in outers if o.overlaps(each)]
        if over:
            inners.append((each, over))
        else:
            outers.append(each)
    con.execute(sql.text("join/outer"), {"formats": [o.format for o in outers]})
    for each in outers:
        _ids(con, each.format)
        con.execute(sql.text("join/keep_ids"), {"format": each.format})
    for place, (each, over) in enumerate(inners):
        _add(con, each, over, place)
    con.execute(sql.text("join/joined"))


def forget(con: Connection) -> None:
    """Rows are about to change: what was put together is no longer true."""
    con.execute("DROP VIEW IF EXISTS observed")


def _ids(con: Connection, name: str) -> None:
    """Fills ``join_id`` with the ids of one format."""
    con.execute(sql.text("join/forget_ids"))
    known = load_all().get(name)
    for column, pattern in parse_join_ids("") if known is None else known.join_ids:
        con.execute(sql.text("join/ids"), {"format": name, "column": column, "pattern": pattern})


def _add(con: Connection, inner: Seen, outers: Sequence[Seen], place: int) -> None:
    """Joins one format to the rows of those further out."""
    names = [o.format for o in outers]
    same = any(o.observer == inner.observer for o in outers)
    _ids(con, inner.format)
    con.execute(sql.text("join/match"), {"outers": names, "same": same, "clocks_ns": CLOCKS_NS})
    con.execute(sql.text("join/pair"), {"place": place, "inner": inner.format, "outers": names})
    con.execute(sql.text("join/verdict"), {"inner": inner.format})
    con.execute(sql.text("join/apply"), {"same": same})
    con.execute(sql.text("join/pass_ids"))


def counts(con: Connection) -> list[dict[str, Any]]:
    """What was put together, one dict a joined format, with the rows left on both sides; empty if nothing overlaps."""
    found = con.execute(sql.text("join/counts"))
    columns = [c[0] for c in found.description or []]
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


def notes(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What :func:`counts` found in words, as the shared note pieces of the documents."""
    return [_note(each) for each in found]


def _note(c: dict[str, Any]) -> dict[str, Any]:
    left = c["inner_unmatched"] + c["too_long"] + c["ambiguous"]
    also = [
        f"{c[name]} {words}"
        for name, words in (
            ("parts", "further choices of joined calls"),
            ("copies", "attempts that only it saw"),
            ("too_long", "not joined, longer than the row they would lie in"),
            ("ambiguous", "not joined, one id for several calls"),
            ("inner_unmatched", "without a counterpart, kept out of the requests"),
        )
        if c[name]
    ]
    share = c["joined"] / c["inner_rows"] if c["inner_rows"] else 0.0
    text = (
        f"{c['inner_format']} joined with {c['outer_format']}: {c['joined']} of {c['outer_rows']} rows of {c['outer_format']} have a "
        f"counterpart among {c['inner_rows']} of {c['inner_format']}" + (f" ({', '.join(also)})" if also else "")
    )
    if not c["joined"]:
        text += ": is the request id passed on, and do the clocks agree (--tz)?"
    bad = not c["joined"] or left > LEFT_OUT * c["inner_rows"]
    return {"code": "joined", "level": "warning" if bad else "info", "share": round(share, 6), "text": text}
