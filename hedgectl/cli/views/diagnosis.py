"""What the tail is made of: the verdict in plain words, then its evidence."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, count, ms, share, window
from hedgectl.cli.views.plot import sparkline

WORDS = {
    "isolated": "isolated: one replica is slow while others are not",
    "shared": "shared: replicas are slow together",
    "mixed": "mixed: part of the tail is one replica's, part is shared",
    "long_work": "long work: slow requests simply have more to do",
    "outlier_replica": "outlier replica: one replica is slower than the others all the time",
    "tools": "tools: the time goes into tool calls, not into the model",
    "no_tail": "no tail: the slowest requests are close to the typical one",
    "cannot_tell": "cannot tell from this log",
}


def view(doc: dict[str, Any]) -> View:
    tail = doc.get("tail") or {}
    blocks: list[Block] = [Text(window(doc))] if doc.get("window") else []
    blocks.append(
        Text(f"{WORDS.get(doc['verdict'], doc['verdict'])} ({doc['confidence']} confidence)", "verdict", "bold")
    )
    blocks += [Text(r["text"], "why" if i == 0 else " ") for i, r in enumerate(doc.get("reasons", []))]
    if tail.get("attribution"):
        parts = [[k.replace("_", " "), share(v)] for k, v in tail["attribution"].items() if v]
        title = f"what the {count(tail.get('n'))} requests beyond {ms(tail.get('threshold_ms'))} have more than typical ones"
        blocks.append(Table(title, ("part", "share"), parts))
    lifts = [
        [name.replace("_", " "), *_lift(value)]
        for name, value in (doc.get("co_movement") or {}).items()
        if isinstance(value, dict) and value.get("lift") is not None
    ]
    if lifts:
        blocks.append(
            Table(
                "do other replicas get slow at the same moment? (1 = no, as by chance)",
                ("measured on", "lift", "interval", "pairs"),
                lifts,
            )
        )
    replicas = doc.get("replicas") or []
    shares = [s for r in replicas for s in r.get("slow_share_over_time") or [] if s is not None]
    top = max(shares, default=0.0)
    if replicas:
        blocks.append(
            Table(
                "replicas",
                ("replica", "requests", "slow", "time against the others", "all the time"),
                [
                    [
                        str(r["replica"]),
                        count(r["requests"]),
                        share(r.get("slow_share")),
                        UNKNOWN if r.get("speed_ratio") is None else f"{r['speed_ratio']:.2f} times",
                        "yes" if r.get("persistent") else "no",
                    ]
                    for r in replicas
                ],
                records=replicas,
                main=True,
            )
        )
    if top > 0:
        # a table of its own, so that the lines are whole on 60 columns
        rows = [[str(r["replica"]), sparkline(r.get("slow_share_over_time") or (), top)] for r in replicas]
        caption = f"share of slow requests in equal parts of the window; full height {share(top)}, · no request"
        blocks.append(Table("", ("replica", "over time"), rows, caption=caption))
    routing = doc.get("routing") or {}
    if routing.get("seen"):
        text = routing["seen"].replace("_", " ")
        if routing.get("share_to_least_outstanding") is not None:
            text += (
                f": {share(routing['share_to_least_outstanding'])} went to the least outstanding replica, "
                f"{share(routing.get('by_chance'))} would by chance"
            )
        blocks.append(Text(text, "routing"))
    differs = doc.get("differs_by") or []
    if differs:
        rows = [
            [d["field"], str(d["value"]), share(d["share_in_tail"]), share(d["share_overall"]), f"{d['lift']:.2f}"]
            for d in differs
        ]
        blocks.append(
            Table("the tail against the rest", ("field", "value", "in the tail", "overall", "lift"), rows, left=2)
        )
    blocks += [Text(a["text"], "do" if i == 0 else " ") for i, a in enumerate(doc.get("advice", []))]
    return [*blocks, *notes(doc)]


def _lift(value: dict[str, Any]) -> tuple[str, str, str]:
    interval = value.get("interval")
    return (
        f"{value['lift']:.2f}",
        UNKNOWN if not interval or interval[0] is None else f"{interval[0]:.2f} to {interval[1]:.2f}",
        count(value.get("pairs")),
    )
