"""Runs the data checks of queries/check: every file is a rule and returns the rows that break it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from hedgectl import decompose, sql

if TYPE_CHECKING:
    import duckdb

EXAMPLES = 3


def check(con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared) -> dict[str, Any]:
    """The document check.v1: per rule the number of offenders and up to three of them, with file and line."""
    paths = {r["file_id"]: r["path"] for r in decompose.rows(con, "decompose/file_path")}
    rules = []
    for rule in sql.names("check"):
        text = sql.text(f"check/{rule}")
        found = con.execute(text)
        names = [d[0] for d in found.description or []]
        offenders = 0
        examples: list[dict[str, Any]] = []
        while batch := found.fetchmany(10_000):
            if len(examples) < EXAMPLES:
                examples += [_example(names, row, paths) for row in batch[: EXAMPLES - len(examples)]]
            offenders += len(batch)
        rules.append(
            {"rule": rule, "question": sql.header(text)["question"], "offenders": offenders, "examples": examples}
        )
    return {
        "schema": "hedgectl/check.v1",
        "as_of": prepared.as_of,
        "window": prepared.window,
        "rules": rules,
        "notes": list(prepared.notes),
    }


def _example(names: list[str], row: tuple[Any, ...], paths: dict[int, str]) -> dict[str, Any]:
    """One offender as JSON can hold it; the file's path stands for its number where it is known."""
    out: dict[str, Any] = {}
    for name, value in zip(names, row, strict=True):
        if name in ("file_id", "other_file_id") and value in paths:
            out[name.removesuffix("_id")] = paths[value]
        elif isinstance(value, Decimal):
            out[name] = float(value)
        elif isinstance(value, date | datetime):
            out[name] = value.isoformat()
        else:
            out[name] = value
    return out
