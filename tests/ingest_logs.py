"""Small logs in the plain format for the tests of reading: made, not copied."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema

from hedgectl.ingest import ingest
from hedgectl.schemas import load
from hedgectl.store import Store, connect

KEYS = ("lines", "accepted", "duplicates", "not_requests", "rejected")


def row(n: int, *, ids: bool = True, **more: Any) -> dict[str, Any]:
    """Request ``n``: one second after the one before, on one of three replicas."""
    record: dict[str, Any] = {
        "ts": f"2026-11-20T10:{n // 60 % 60:02d}:{n % 60:02d}.{n % 1000:03d}Z",
        "replica": f"r{n % 3}",
        "model": "chat",
        "status": 200,
        "ttft_ms": 100 + n % 7,
        "e2e_ms": 900 + n % 11,
    }
    if ids:
        record = {"request_id": f"q{n}", "attempt_id": f"a{n}", **record}
    return record | more


def lines(numbers: Sequence[int] | range, *, ids: bool = True) -> str:
    """JSON lines of some requests, the last one ended."""
    return "".join(json.dumps(row(n, ids=ids)) + "\n" for n in numbers)


def read(*paths: Path | str, db: Path | None = None, **options: Any) -> dict[str, Any]:
    """The document of one run into ``db`` (or memory)."""
    with connect(db, memory_limit="512MB") as store:
        document = ingest(store, [str(p) for p in paths], **options)
    jsonschema.validate(document, load("ingest"))
    return document


def counts(part: dict[str, Any]) -> tuple[int, ...]:
    """lines, accepted, duplicates, not_requests, rejected; checks that they add up."""
    got = tuple(int(part[key]) for key in KEYS)
    assert got[0] == sum(got[1:]), part
    return got


def query(db: Path | Store, text: str) -> list[tuple[Any, ...]]:
    """Rows of a query on a database that is closed afterwards, or on an open store."""
    if isinstance(db, Store):
        return db.con.execute(text).fetchall()
    with connect(db, read_only=True) as store:
        return store.con.execute(text).fetchall()
