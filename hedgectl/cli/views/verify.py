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
    if doc.get("billing"):
        blocks += _billing(doc["billing"])
    return [*blocks, *notes(doc)]


def _billing(bill: dict[str, Any]) -> list[Block]:
    days = f"{bill['days_before']} days before and {bill['days_after']} after {bill['since']}"
    if not bill["enough"]:
        return [Text(f"no estimate: {days}, {bill['needed_a_side']} of each are needed", "bill")]
    low, high = bill["interval"]
    against = {"requests": "beyond what traffic grew", "other_services": "beyond what the other services grew"}
    beyond = against.get(bill["control"], "with the growth of traffic in it")
    text = f"{share(bill['growth_ratio'])} ({share(low)} to {share(high)}) {beyond}; {days}"
    return [Text(text, "bill"), *(Text(n["text"], " ") for n in bill["notes"])]


def _number(metric: str, value: float | None) -> str:
    if value is None:
        return UNKNOWN
    if metric.endswith("_ratio") and not metric.startswith("error"):
        return change(value)
    return share(value) if metric.startswith(_SHARES) or "rate" in metric or "cancels" in metric else f"{value:g}"
