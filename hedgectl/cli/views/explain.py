"""The argument for a policy: per scope its sentence, then why, effect, price, what is left out, what else would help."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Rows, Table, Text, View
from hedgectl.cli.views.notes import notes


def view(doc: dict[str, Any]) -> View:
    blocks: list[Block] = [Text(doc["goal"], label="goal")]
    records: list[dict[str, Any]] = []
    for entry in doc["scopes"]:
        blocks.append(Text(f"{entry['sentence']} Confidence: {entry['confidence']}."))
        if entry["argument"]:
            rows = [(row["topic"], row["text"]) for row in entry["argument"]]
            blocks.append(Table("", ("", ""), rows, left=2))
        records += [{**entry["scope"], "decision": entry["decision"], **row} for row in entry["argument"]]
    return [*blocks, Rows(records), *notes(doc)]
