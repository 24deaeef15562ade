"""The targets, what each can see and has; then what cannot hedge and the two ways around."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Table, Text, View


def view(doc: dict[str, Any]) -> View:
    rows = [
        (
            t["target"],
            t["title"],
            ", ".join(t["sees"]) if t["hedges"] else "it watches, it does not hedge",
            ("yes" if t["budget"] else "no: the delay buys it") if t["hedges"] else "-",
            ", ".join([*(f"--{form}" for form in t["forms"][1:]), *(f"--set {name}" for name in t["settings"])]),
        )
        for t in doc["targets"]
    ]
    cannot = [(", ".join(c["names"]), c["title"], c["why"], c["nearest"]) for c in doc["cannot_hedge"]]
    records = [{key: value for key, value in t.items() if key != "settings"} for t in doc["targets"]]
    return [
        Table("targets", ("--to", "writes", "delay counts to", "budget", "more"), rows, records, main=True, left=5),
        Table("cannot hedge", ("system", "", "why", "nearest"), cannot, left=4),
        Text("two ways work around each of these: " + "; or ".join(doc["ways_around"])),
    ]
