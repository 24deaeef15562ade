"""Survival curves: which share of requests is still waiting after how long, with what was cut short kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hedgectl import decompose, quantiles

if TYPE_CHECKING:
    import duckdb

Floats = NDArray[np.float64]
POINTS = 90


def curve(
    values: Floats, observed: NDArray[np.bool_], weights: Floats, points: int = POINTS
) -> list[tuple[float, float]]:
    """[(value, share still waiting after it)], in the unit of `values`; shares fall evenly on a log scale down to 1/n.

    Kaplan-Meier: a censored value (`observed` False) is known only to be longer. Values at or below 0 are left out.
    Empty for no finished value.
    """
    keep = np.isfinite(values) & (values > 0) & (weights > 0)
    x, mass, beyond = quantiles.redistribute(values[keep], weights[keep], observed[keep])
    total = float(mass.sum()) + beyond
    if not len(x) or total <= 0:
        return []
    left = 1.0 - np.cumsum(mass) / total
    levels = np.geomspace(1.0, 1.0 / len(x), points)
    # the first event after which no more than a level is left; what is never reached lies beyond the bounds
    index = np.searchsorted(-left, -levels, side="left")
    index = np.unique(index[index < len(x)])
    found = [(float(x[i]), float(left[i])) for i in index if left[i] >= 0.5 / len(x)]
    return [(float(x[0]), 1.0), *found] if found and found[0][1] < 1.0 else found


def logged(con: duckdb.DuckDBPyConnection, metric: str) -> tuple[list[tuple[float, float]], int, int]:
    """(curve in ms, finished requests, censored requests) of `e2e` or `ttft` over the prepared selection.

    Errors and answers from a response cache are left out, as everywhere.
    """
    found = decompose.columns(con, "decompose/diagnosis_row")
    rows = {k: np.ma.filled(np.ma.asarray(v).astype(np.float64), np.nan) for k, v in found.items()}
    return arrays(rows["status"], rows["e2e_ns"] / 1e6, rows["ttft_ns"] / 1e6, rows["weight"], metric)


def arrays(
    status: Floats, e2e: Floats, ttft: Floats, weight: Floats, metric: str
) -> tuple[list[tuple[float, float]], int, int]:
    """The same from arrays; `status` 0 ok, 1 error, 2 censored. A hang-up before the first token bounds the wait for it."""
    if metric == "e2e":
        value, seen = e2e, status == 0
        bound = (status == 2) & np.isfinite(e2e)
    else:
        value, seen = ttft, np.isfinite(ttft) & (status != 1)
        bound = (status == 2) & ~np.isfinite(ttft) & np.isfinite(e2e) & bool(seen.any())
    value = np.where(bound, e2e, value)
    keep = (seen & np.isfinite(value)) | bound
    told = curve(value[keep], seen[keep], weight[keep])
    return told, int((seen & np.isfinite(value)).sum()), int(bound.sum())
