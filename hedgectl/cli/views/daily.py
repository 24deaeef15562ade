"""What the cron job did: one line, the decisions, and each gate that has something to say."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, count, ms
from hedgectl.cli.views.policy import DECISIONS

ACTIONS = {
    "written": "a new policy was written",
    "renewed": "the policy is unchanged and was renewed",
    "kept": "THE OLD POLICY STAYS",
    "nothing_new": "nothing new to read; the policy stays",
}


def view(doc: dict[str, Any]) -> View:
    words = ACTIONS[doc["action"]] + (" (dry run: nothing was changed)" if doc["dry_run"] else "")
    blocks: list[Block] = [Text(f"{words}: {doc['policy']}", "daily", "bold")]
    blocks += [Text(r, "because" if i == 0 else " ") for i, r in enumerate(doc["reasons"])]
    if doc["ingested"]:
        t = doc["ingested"]
        text = f"{count(t['lines'])} lines, {count(t['accepted'])} accepted, {count(t['rejected'])} rejected"
        blocks.append(Text(text, "read"))
    rows = [
        [
            ", ".join(str(v) for v in d["scope"].values() if v) or "all requests",
            DECISIONS[d["decision"]].lower(),
            d["trigger"] or UNKNOWN,
            ms(d["delay_ms"]),
        ]
        for d in doc["decisions"]
    ]
    if rows:
        blocks.append(Table("", ("scope", "decision", "trigger", "delay"), rows, left=3))
    gates = [
        [g["gate"], {True: "pass", False: "FAIL", None: "not judged"}[g["passed"]], g["text"]] for g in doc["gates"]
    ]
    blocks.append(Table("", ("gate", "result", "what was looked at"), gates, records=doc["gates"], main=True, left=3))
    return [*blocks, *notes(doc)]
