"""Where the time goes: per group the percentiles and the share of each component, in the mean and in the tail."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import count, quantile, share, window

COMPONENTS = ("queue", "prefill", "unsplit", "decode", "tool_wait", "other")


def view(doc: dict[str, Any]) -> View:
    groups = doc["groups"]
    blocks: list[Block] = [Text(window(doc))] if doc.get("window") else []
    by = doc.get("by") or []
    blocks.append(
        Table(
            "",
            (*by, "requests", "e2e p50", "p95", "p99", "n", "TTFT p50", "p95", "p99", "n"),
            [
                [
                    *(str(g["key"].get(k) if g["key"].get(k) is not None else "(unknown)") for k in by),
                    count(g["requests"]),
                    *(quantile(g["e2e_ms"], p) for p in ("p50", "p95", "p99")),
                    count(g["e2e_ms"]["n"]),
                    *(quantile(g["ttft_ms"], p) for p in ("p50", "p95", "p99")),
                    count(g["ttft_ms"]["n"]),
                ]
                for g in groups
            ],
            records=[_record(g) for g in groups],
            main=True,
            left=max(1, len(by)),
        )
    )
    for g in groups[: 1 if not by else 12]:
        blocks.append(_split(g, by))
    if by and len(groups) > 12:
        blocks.append(Text(f"the split of {len(groups) - 12} more groups is in -o json"))
    excluded = {k: sum(g["excluded"].get(k, 0) for g in groups) for k in ("cache_hit", "error", "censored")}
    left_out = ", ".join(f"{count(v)} {k.replace('_', ' ')}" for k, v in excluded.items() if v)
    if left_out:
        blocks.append(Text(f"not in the percentiles: {left_out}", label="counted"))
    if any("!" in c for b in blocks if isinstance(b, Table) for row in b.rows for c in row):
        blocks.append(Text("! too few requests for this percentile to be relied on", label="mark"))
    return [*blocks, *notes(doc)]


def _split(group: dict[str, Any], by: list[str]) -> Table:
    name = ", ".join(f"{k} {group['key'].get(k)}" for k in by)
    rows = []
    for key in COMPONENTS:
        c = group["components"].get(key) or {}
        if not c.get("n"):
            continue
        basis = max((c.get("basis") or {"unknown": 0}).items(), key=lambda item: item[1])[0]
        part = c.get("share_of_mean")
        rows.append(
            [
                key.replace("_", " "),
                share(part),
                bar(part),
                share(c.get("share_of_tail_excess")),
                *(quantile(c, p) for p in ("p50", "p95", "p99")),
                basis,
            ]
        )
    return Table(
        f"where the time goes{': ' + name if name else ''}",
        ("part", "of the mean", "", "of the tail", "p50", "p95", "p99", "basis"),
        rows,
    )


def bar(part: float | None, width: int = 20) -> str:
    """A bar of ``width`` cells for a share of 1."""
    if part is None:
        return ""
    eighths = round(max(0.0, min(1.0, part)) * width * 8)
    return "█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")


def _record(group: dict[str, Any]) -> dict[str, Any]:
    record = {**group["key"], "requests": group["requests"], "attempts": group["attempts"], "n": group["e2e_ms"]["n"]}
    for metric in ("e2e_ms", "ttft_ms"):
        record |= {f"{metric}_{p}": group[metric].get(p) for p in ("p50", "p95", "p99")}
    for key in COMPONENTS:
        component = group["components"].get(key) or {}
        record[f"{key}_share_of_mean"] = component.get("share_of_mean")
        record[f"{key}_share_of_tail_excess"] = component.get("share_of_tail_excess")
    return record
