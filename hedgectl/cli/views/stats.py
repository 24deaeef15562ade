"""The daily figures: one line a day and scope."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Table, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, count, delta, quantile, share


def view(doc: dict[str, Any]) -> View:
    cells = [
        [
            r["day"],
            r["scope"]["model"] or "(unknown)",
            r["scope"]["route"] or UNKNOWN,
            *(quantile(r["e2e_ms"], p) for p in ("p50", "p95", "p99")),
            *(quantile(r["ttft_ms"], p) for p in ("p95", "p99")),
            quantile(r["ttfc_streamed_ms"], "p95"),
            quantile(r["ttfc_whole_ms"], "p95"),
            share(r["hedge_rate"]),
            share(r["cancels_per_request"]),
            share(r["cancels_per_hedge"]),
            delta(r["cost_growth"]),
            count(r["n"]),
        ]
        for r in doc["rows"]
    ]
    columns = (
        "day", "model", "route", "e2e p50", "p95", "p99", "TTFT p95", "p99", "TTFC streamed p95", "TTFC whole p95",
        "copies", "cancels per request", "cancels per hedge", "cost", "n",
    )  # fmt: skip
    return [Table("", columns, cells, records=[_record(r) for r in doc["rows"]], main=True, left=3), *notes(doc)]


def _record(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {k: v for k, v in row.items() if not isinstance(v, dict)} | row["scope"]
    for metric in ("e2e_ms", "ttft_ms", "ttfc_streamed_ms", "ttfc_whole_ms"):
        flat |= {f"{metric}_{p}": row[metric].get(p) for p in ("n", "p50", "p95", "p99")}
    return flat
