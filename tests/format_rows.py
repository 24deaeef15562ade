"""Runs a format's SELECT over records without the ingest stage, for tests of formats: text or a file in, rows out."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from hedgectl import sql
from hedgectl.formats import catalogue
from hedgectl.formats.catalogue import Format
from hedgectl.formats.sample import sample_of

Row = dict[str, Any]

MS = 1_000_000
T = 1770000000.0
"""The moment of records made by hand, s; ``T_NS`` the same, ns."""
T_NS = 1770000000_000000000


@cache
def connection() -> duckdb.DuckDBPyConnection:
    """One in-memory database with the canonical tables and the macros; the session zone is odd on purpose."""
    con = duckdb.connect()
    con.execute("SET TimeZone = 'Asia/Tokyo'")
    for name in sorted(sql.names("schema")):
        con.execute(sql.text(f"schema/{name}"))
    con.execute(sql.text("formats/_macros"))
    return con


def read_text(path: Path) -> str:
    """The text of a sample, unpacked."""
    raw = path.read_bytes()
    return (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()


def rows(fmt: Format | str, text: str | Sequence[str], *, tz: str | None = None) -> list[Row]:
    """Rows that ``fmt`` makes of a log's text (or of its records), in order; NULL columns are left out."""
    fmt = catalogue.get(fmt) if isinstance(fmt, str) else fmt
    con = connection()
    con.execute("SET VARIABLE hedgectl_tz = $1", [tz])
    lines = text.splitlines() if isinstance(text, str) else list(text)
    sample = sample_of(lines)
    texts = list(sample.lines if fmt.input == "text" else sample.texts)
    numbers = np.arange(1, len(texts) + 1, dtype=np.int64)
    con.register(
        "block",
        {"line": numbers, "record": np.zeros(len(texts), np.int32), "t": np.array([*texts, None], dtype=object)[:-1]},
    )
    shape = "t AS text" if fmt.input == "text" else "CAST(t AS JSON) AS j"
    con.execute(f"CREATE OR REPLACE TEMP VIEW raw AS SELECT line, record, {shape} FROM block")
    out = con.execute(f"SELECT * FROM ({fmt.select_sql}) ORDER BY ALL")
    names = [d[0] for d in out.description]
    return [{k: v for k, v in zip(names, r, strict=True) if v is not None} for r in out.fetchall()]


def attempts(fmt: Format | str, text: str | Sequence[str], **options: Any) -> list[Row]:
    """The rows that are attempts."""
    return [r for r in rows(fmt, text, **options) if r.get("kind", "attempt") == "attempt"]


def samples(name: str) -> list[Path]:
    """The sample files of a format."""
    folder = sql.samples_dir() / name
    return sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []


def first(name: str, file: str | None = None) -> dict[str, Any]:
    """The first record of a format's sample, to be changed."""
    path = next(p for p in samples(name) if file is None or p.name == file)
    record: dict[str, Any] = json.loads(read_text(path).splitlines()[0])
    return record


def one(name: str, record: dict[str, Any] | str, **options: Any) -> Row:
    found = rows(name, [record if isinstance(record, str) else json.dumps(record)], **options)
    assert len(found) == 1
    return found[0]


def view(found: list[Row], *keys: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.get(k) for k in keys) for r in found)
