"""How far a percentile of a log with requests cut short can be told: the estimate between its two bounds."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgectl import quantiles
from hedgectl.model import CENSORED, ERROR, Workload
from hedgectl.recommend.arms import milliseconds

TOLERANCE = 0.10  # bounds further apart than this leave the percentile open


def bounds(workload: Workload, metric: str, p: float) -> dict[str, Any] | None:
    """The percentile by Kaplan-Meier, and what it would be if every request that was cut short had ended there (low) or
    had outlasted all others (high; None = beyond everything that was seen). None if nothing was cut short.

    Kaplan-Meier takes it that those cut short were like the others that waited as long; the bounds take nothing.
    """
    w = workload
    counted = w.status != ERROR
    value = w.ttft_s if metric == "ttft" else w.e2e_s
    cut = (w.status == CENSORED) & (~np.isfinite(w.ttft_s) if metric == "ttft" else True)
    value = np.where(cut, w.e2e_s, value)
    rows = counted & np.isfinite(value)
    value, cut, weight = value[rows], cut[rows], w.weight[rows]
    if not cut.any():
        return None
    estimate, _ = quantiles.kaplan_meier(value, ~cut, p, weight)
    low = quantiles.quantile(value, p, weight)
    never = np.where(cut, np.inf, value)
    order = np.argsort(never, kind="stable")
    mass = np.cumsum(weight[order])
    at = min(int(np.searchsorted(mass, p * mass[-1])), len(order) - 1)
    high = float(never[order[at]])
    known = low is not None and estimate is not None and np.isfinite(high) and high <= (1.0 + TOLERANCE) * low
    return {
        "metric": f"{metric}_{quantiles.name(p)}_ms",
        "kaplan_meier_ms": None if estimate is None else milliseconds(estimate),
        "low_ms": None if low is None else milliseconds(low),
        "high_ms": milliseconds(high) if np.isfinite(high) else None,
        "censored_ratio": round(float(weight[cut].sum() / weight.sum()), 6),
        "identified": bool(known),
    }


def note(found: dict[str, Any]) -> dict[str, Any] | None:
    """Said where the bounds leave the percentile open; None where they agree."""
    if found["identified"]:
        return None
    low = "?" if found["low_ms"] is None else f"{found['low_ms']:.6g} ms"
    high = "beyond all that was seen" if found["high_ms"] is None else f"{found['high_ms']:.6g} ms"
    name = str(found["metric"]).removesuffix("_ms").replace("_", " ")
    text = (
        f"the unhedged {name} is not identified: {found['censored_ratio']:.1%} of requests were cut short, so it lies between "
        f"{low} and {high}. The estimate takes those requests to be like the others that waited as long; "
        "hedgectl verify on switchback blocks measures it"
    )
    return {"code": "not_identified", "level": "warning", "share": found["censored_ratio"], "text": text}
