"""Rows of a gateway and of an engine for one request, joined, and what came of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from analysis_logs import MS, START_NS, log

from hedgectl import decompose, join

S = 1000 * MS


def gateway(request_id: str, at: int = 0, e2e: int = 1000, **more: Any) -> dict[str, Any]:
    """A gateway's row, times in ms."""
    return {"request_id": request_id, "arrival_ns": START_NS + at * MS, "e2e_ns": e2e * MS, "format": "plain"} | more


def engine(
    request_id: str, at: int = 0, parts: tuple[int, int, int] | None = (100, 200, 600), **more: Any
) -> dict[str, Any]:
    """An engine's row with queue, prefill and decode in ms; its clock is its own."""
    queue, prefill, decode = parts or (None, None, None)
    timed: dict[str, Any] = {"queue_ns": queue, "prefill_ns": prefill, "decode_ns": decode}
    row = {name: None if value is None else value * MS for name, value in timed.items()}
    row |= {name.replace("_ns", "_basis"): None if value is None else "measured" for name, value in timed.items()}
    row |= {"request_id": request_id, "arrival_ns": START_NS + at * MS, "e2e_ns": sum(parts or (900,)) * MS}
    return row | {"format": "spans", "observer": "engine", "resolution_ns": 1000} | more


@contextmanager
def joined(*rows: dict[str, Any]) -> Iterator[Any]:
    with log(rows) as con:
        decompose.prepare(con)
        yield con


def fetch(con: Any, text: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = con.execute(text).fetchall()
    return found


def count(con: Any) -> dict[str, int]:
    """What is not zero in the one row of counts."""
    (only,) = join.counts(con)
    parts = ("joined", "parts", "copies", "too_long", "ambiguous", "inner_unmatched")
    assert sum(only[p] for p in parts) == only["inner_rows"]
    assert only["joined"] + only["outer_unmatched"] == only["outer_rows"]
    return {k: v for k, v in only.items() if v and not k.endswith(("format", "rows"))}


def attempts(con: Any, columns: str = "attempt_no, cause, status, queue_ns // 1000000") -> list[tuple[Any, ...]]:
    return fetch(con, f"SELECT {columns} FROM selected_attempt ORDER BY request_key, attempt_no")
