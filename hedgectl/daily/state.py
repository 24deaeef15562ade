"""A few kilobytes between runs for runners without a disk: the history's rows, compressed, beside the policy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hedgectl import sql
from hedgectl.daily import files
from hedgectl.errors import InputError, UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAME = "history.json"
_TABLES = {
    "history_bucket": ["day", "model", "route", "metric", "bucket", "events", "censored"],
    "history_day": [
        "day", "model", "route", "currency", "requests", "attempts", "hedges", "hedge_wins", "cancels", "errors", "censored",
        "costed", "cost", "winners_cost",
    ],
}  # fmt: skip


def restore(con: DuckDBPyConnection, folder: Path) -> None:
    """Fills the empty history tables of an in-memory database from the state folder, if it holds any."""
    if not folder.is_dir():
        raise UsageError(
            f"there is no state folder {folder}",
            where=str(folder),
            hint=f"mkdir {folder}; it keeps a few kB between runs and is not created unasked",
        )
    document = files.read_json(folder / NAME)
    if document is None:
        return
    try:
        for table, columns in _TABLES.items():
            for row in document[table]:
                con.execute(sql.text(f"history/restore_{table}"), dict(zip(columns, row, strict=True)))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{folder / NAME} is not as hedgectl writes it: {error}", where=str(folder)) from error


def keep(con: DuckDBPyConnection, folder: Path) -> None:
    """Writes the history tables to the state folder."""
    document: dict[str, Any] = {}
    for table in _TABLES:
        found = con.execute(sql.text(f"history/keep_{table}")).fetchall()
        document[table] = [[v if isinstance(v, int) else str(v) for v in row] for row in found]
    files.write(folder / NAME, json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n")
