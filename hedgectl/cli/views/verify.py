"""Projected against observed, from blocks of time with hedging on and off."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, change, count, share

_SHARES = ("rate", "cancels", "error", "cost")


def view(doc: dict[str, Any]) -> View:
    blocks: list[Block] = []
    for one in doc["scopes"]:
        name = ", ".join(str(v) for v in one["scope"].values() if v) or "all requests"
        b = one["blocks"]
        blocks.append(
            Text(f"{name}: {count(b['on'])} blocks on, {count(b['off'])} off, {b['block_s'] / 60:.0f} min each")
        )
        if one["verdict"]:
            blocks.append(Text(one["verdict"]["text"], "verdict", "bold"))
        blocks += [Text(r["text"], "no" if i == 0 else " ") for i, r in enumerate(one["reasons"])]
        rows = [
            [
                r["metric"].replace("_", " "),
                _number(r["metric"], r["projected"]),
                _number(r["metric"], r["observed"]),
                " to ".join(_number(r["metric"], v) for v in r["interval"]) if r["interval"] else UNKNOWN,
                {True: "inside", False: "OUTSIDE", None: UNKNOWN}[r["inside"]],
            ]
            for r in one["rows"]
        ]
        records = [{**one["scope"], **r} for r in one["rows"]]
        columns = ("on against off", "projected", "observed", "95 % interval", "projection is")
        blocks.append(Table("", columns, rows, records=records, main=True))
    return [*blocks, *notes(doc)]


def _number(metric: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if metric.endswith("_ratio") and not metric.startswith("error"):
        return change(value)
    return share(value) if metric.startswith(_SHARES) or "rate" in metric or "cancels" in metric else f"{value:g}"
