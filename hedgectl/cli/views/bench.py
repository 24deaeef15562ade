"""Timings as ratios: ours against a bare tool on the same work in the same run."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Table, Text, View
from hedgectl.cli.views.notes import notes


def view(doc: dict[str, Any]) -> View:
    machine = ", ".join(f"{k} {v}" for k, v in doc["machine"].items())
    rows = [
        [
            c["case"],
            _number(c["ours"], c["unit"]),
            _number(c["bare"], c["unit"]),
            _ratio(c["ratio"]),
            str(c["runs"]),
            c.get("text") or "",
        ]
        for c in doc["cases"]
    ]
    columns = ("case", "ours", "bare", "ratio", "runs", "")
    return [Text(machine, "machine"), Table("", columns, rows, records=doc["cases"], main=True), *notes(doc)]


def _number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{value:,.3g} {unit}" if abs(value) < 1000 else f"{value:,.0f} {unit}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
