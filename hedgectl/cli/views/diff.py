"""What changed between two policies: what matters first, then the rest."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Rows, Table, Text, View
from hedgectl.cli.views.notes import notes


def view(doc: dict[str, Any]) -> View:
    if not doc["rows"]:
        return [Text("no difference"), Rows(()), *notes(doc)]
    matter = sum(bool(r["matters"]) for r in doc["rows"])
    told = f"{matter or 'none'} of them {'matter' if matter > 1 else 'matters'}"
    if len(doc["rows"]) == 1:
        told = "it matters" if matter else "it does not matter"
    rows = [
        (r["field"], _cell(r["old"]), _cell(r["new"]), "yes" if r["matters"] else "no", r["why"]) for r in doc["rows"]
    ]
    return [
        Text(f"{len(rows)} {'difference' if len(rows) == 1 else 'differences'}: {told}"),
        Table("", _COLUMNS, rows, doc["rows"], main=True, left=5),
        *notes(doc),
    ]


_COLUMNS = ("field", "old", "new", "matters", "why")


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
