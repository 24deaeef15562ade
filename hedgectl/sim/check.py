"""Is the replay the log? Replayed without copies, its percentiles must be those observed, within a stated limit.

Limit of each percentile: the larger of 15 % and two standard errors. p50 and p95 of TTFT and e2e and the goal's
percentile must hold; the others are shown. The standard error counts clustering: the share of requests beyond the
percentile varies from block to block of time, and that spread is carried over to seconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgectl import quantiles
from hedgectl.model import OK, Floats, Workload
from hedgectl.sim.arm import Arm

LIMIT = 0.15
BLOCKS = 20
MUST = (("ttft", 0.5), ("ttft", 0.95), ("e2e", 0.5), ("e2e", 0.95))


def check(observed: Workload, replayed: Arm, goal: tuple[str, float] = ("e2e", 0.99)) -> dict[str, Any]:
    """`replay_check` of the documents. `goal` is (metric, percentile as a share); arms hold the workload's rows."""
    document: dict[str, Any] = {"passed": True}
    judged = 0
    for metric in ("e2e", "ttft"):
        seen = observed.ttft_s if metric == "ttft" else observed.e2e_s
        good = (observed.status == OK) & np.isfinite(seen)
        rows: dict[str, Any] = {}
        ps = sorted({*quantiles.STANDARD, *([goal[1]] if goal[0] == metric else [])})
        for p in ps:
            row = _row(seen[good], replayed.seconds(metric), p)
            rows[quantiles.name(p)] = row
            if row["passed"] is not None and ((metric, p) in MUST or (metric, p) == goal):
                judged += 1
                document["passed"] = bool(document["passed"] and row["passed"])
        document[f"{metric}_ms"] = rows
    if not judged:
        document["passed"] = False
    return document


def _row(observed: Floats, replayed: Floats, p: float) -> dict[str, Any]:
    replayed = replayed[np.isfinite(replayed)]
    empty = {"observed": None, "replayed": None, "error_ratio": None, "limit_ratio": LIMIT, "passed": None}
    if not len(observed) or not len(replayed) or not quantiles.printable(len(observed), p):
        return empty
    a, b = float(np.quantile(observed, p)), float(np.quantile(replayed, p))
    limit = max(LIMIT, 2.0 * standard_error(observed, p) / a) if a > 0 else LIMIT
    error = b / a - 1.0 if a > 0 else 0.0
    return {
        "observed": round(a * 1e3, 3),
        "replayed": round(b * 1e3, 3),
        "error_ratio": round(error, 4),
        "limit_ratio": round(limit, 4),
        "passed": bool(abs(error) <= limit),
    }


def standard_error(values: Floats, p: float) -> float:
    """Of the p-quantile, in the unit of `values`, which are in order of arrival and may be clustered in time."""
    n = len(values)
    if n < 2:
        return 0.0
    beyond = (values > np.quantile(values, p)).astype(np.float64)
    blocks = np.array_split(beyond, min(BLOCKS, n))
    share = float(np.std([part.mean() for part in blocks], ddof=1)) / np.sqrt(len(blocks)) if len(blocks) > 1 else 0.0
    share = max(share, float(np.sqrt(p * (1 - p) / n)))
    low, high = np.quantile(values, [max(p - share, 0.0), min(p + share, 1.0)])
    return float(high - low) / 2.0
