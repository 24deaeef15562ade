"""The daily figures: one line a day and scope."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Table, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, count, delta, quantile, share


def view(doc: dict[str, Any]) -> View:
    rows = doc["rows"]
    # two tables, so that the lines are whole on 80 columns
    times = [
        [
            *_scope(r),
            *(quantile(r["e2e_ms"], p) for p in ("p50", "p95", "p99")),
            *(quantile(r["ttft_ms"], p) for p in ("p95", "p99")),
            quantile(r["ttfc_streamed_ms"], "p95"),
            quantile(r["ttfc_whole_ms"], "p95"),
        ]
        for r in rows
    ]
    copies = [
        [
            *_scope(r),
            count(r["n"]),
            share(r["hedge_rate"]),
            share(r["cancels_per_request"]),
            share(r["cancels_per_hedge"]),
            delta(r["cost_growth"]),
        ]
        for r in rows
    ]
    return [
        Table("", _TIMES, times, records=[_record(r) for r in rows], main=True, left=3),
        Table("copies and their price", _COPIES, copies, left=3, caption=_CAPTION if rows else ""),
        *notes(doc),
    ]


_TIMES = ("day", "model", "route", "e2e p50", "p95", "p99", "TTFT p95", "p99", "TTFC p95", "if whole")
_COPIES = ("day", "model", "route", "requests", "copies", "cancels", "of copies", "cost")
_CAPTION = (
    "TTFC: first content a caller can use, of streams and of whole answers; copies and cancels per request, "
    "then cancels per copy; cost: growth by copies"
)


def _scope(row: dict[str, Any]) -> list[str]:
    return [row["day"], row["scope"]["model"] or "(unknown)", row["scope"]["route"] or UNKNOWN]


def _record(row: dict[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {k: v for k, v in row.items() if not isinstance(v, dict)} | row["scope"]
    for metric in ("e2e_ms", "ttft_ms", "ttfc_streamed_ms", "ttfc_whole_ms"):
        flat |= {f"{metric}_{p}": row[metric].get(p) for p in ("n", "p50", "p95", "p99")}
    return flat
