"""``stats -o prometheus``: the newest complete figures in the text format, for a node exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_GAUGES = (
    ("requests", "n", "logical requests of the day"),
    ("attempts", "attempts", "physical attempts of the day"),
    ("hedge_ratio", "hedge_rate", "copies per logical request"),
    ("hedge_win_ratio", "win_rate", "winning copies per copy"),
    ("cancels_per_request_ratio", "cancels_per_request", "cancelled losers per logical request"),
    ("cancels_per_hedge_ratio", "cancels_per_hedge", "cancelled losers per copy"),
    ("error_ratio", "error_ratio", "failed logical requests"),
    ("cost_growth_ratio", "cost_growth", "cost of all attempts over cost of winners, minus 1"),
)
_TIMES = (
    ("e2e_seconds", "e2e_ms", "last byte minus arrival"),
    ("ttft_seconds", "ttft_ms", "first output token minus arrival"),
    ("ttfc_streamed_seconds", "ttfc_streamed_ms", "time to first content of streams"),
    ("ttfc_whole_seconds", "ttfc_whole_ms", "time to first content of whole answers"),
)
# not called quantile: that label belongs to summaries, which have a count and a sum
_PERCENTILES = (("p50", "50"), ("p95", "95"), ("p99", "99"))


def text(doc: dict[str, Any]) -> str:
    """One sample a scope and figure, of the last day in ``doc`` (stats.v1). What is unknown is absent, never 0."""
    if not doc["rows"]:
        return ""
    last = max(row["day"] for row in doc["rows"])
    rows = [row for row in doc["rows"] if row["day"] == last]
    return "".join(f"{line}\n" for line in _lines(rows))


def _lines(rows: list[dict[str, Any]]) -> Iterator[str]:
    for name, key, help_text in _GAUGES:
        yield f"# HELP hedgectl_{name} {help_text}"
        yield f"# TYPE hedgectl_{name} gauge"
        for row in rows:
            if row[key] is not None:
                yield f"hedgectl_{name}{{{_labels(row)}}} {row[key]!r}"
    for name, key, help_text in _TIMES:
        yield f"# HELP hedgectl_{name} {help_text}"
        yield f"# TYPE hedgectl_{name} gauge"
        for row in rows:
            for p, label in _PERCENTILES:
                if row[key][p] is not None:
                    yield f'hedgectl_{name}{{{_labels(row)},percentile="{label}"}} {row[key][p] / 1000!r}'


def _labels(row: dict[str, Any]) -> str:
    values = {"day": row["day"], "model": row["scope"]["model"] or "", "route": row["scope"]["route"] or ""}
    return ",".join(f'{k}="{_escaped(v)}"' for k, v in values.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
