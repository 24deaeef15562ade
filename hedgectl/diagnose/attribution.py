"""Exact attribution: which part of the time makes slow requests slower than ordinary ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl.quantiles import quantile

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

KEYS = ("queue", "prefill", "unsplit", "decode_length", "decode_speed", "tool_wait", "other")


def attribution(
    rows: dict[str, Floats], metric: Floats, slow: Bools, weight: Floats, *, per_output_ns: float = 0.0
) -> dict[str, Any] | None:
    """Share of each part in the excess of the slow rows over the p45-p55 band of `metric`; the shares sum to 1.

    `rows`: parts in ns (NaN = not observed, counted as 0) that sum to `metric`, and `output_tokens`. Decode is divided
    into (L - L0) tpot0 and L (tpot - tpot0) with the band's means; where lengths are unknown the two are None and
    `decode` stands for both. `per_output_ns` > 0 moves that much a token of a whole answer's unexplained rest into
    decode_length (a fitted law, not a measurement). None without an excess.
    """
    uniform = bool(np.all(weight == 1.0))
    low, high = (quantile(metric, p, None if uniform else weight) for p in (0.45, 0.55))
    if low is None or high is None or not slow.any():
        return None
    band = (metric >= low) & (metric <= high)
    if not band.any():
        return None
    ws, wb = weight[slow], weight[band]

    def excess(x: Floats) -> float:
        return float((x[slow] * ws).sum() / ws.sum() - (x[band] * wb).sum() / wb.sum())

    total = excess(metric)
    if total <= 0:
        return None
    out: dict[str, Any] = {k: excess(np.nan_to_num(rows[k])) / total for k in ("queue", "prefill", "unsplit")}
    decode, length = rows["decode"], rows["output_tokens"]
    known = np.isfinite(decode) & np.isfinite(length) & (length > 0)
    decode_share = excess(np.nan_to_num(decode)) / total
    moved = 0.0
    if known[slow].mean() >= 0.95 and known[band].mean() >= 0.95 and (decode[band & known] > 0).any():
        use = np.where(known, length, 0.0)
        speed0 = float((np.nan_to_num(decode)[band] * wb).sum() / (use[band] * wb).sum())
        by_length = excess(use) * speed0 / total
        out["decode_length"], out["decode_speed"] = by_length, decode_share - by_length
    elif not np.isfinite(decode).any():
        # No part of the answer was timed. A fitted law may still say what its length costs; unknown lengths count as ordinary.
        out["decode_length"] = out["decode_speed"] = None
        if per_output_ns > 0 and np.isfinite(length[slow]).mean() >= 0.8 and np.isfinite(length[band]).mean() >= 0.8:
            moved = (
                excess(np.where(np.isfinite(length), length, float(np.nanmean(length[band])))) * per_output_ns / total
            )
            out["decode_length"] = moved
    elif abs(decode_share) < 1e-12:
        out["decode_length"] = out["decode_speed"] = 0.0
    else:
        out["decode_length"] = out["decode_speed"] = None
        out["decode"] = decode_share
    out["tool_wait"] = excess(np.nan_to_num(rows["tool_wait"])) / total
    out["other"] = excess(np.nan_to_num(rows["other"])) / total - moved
    return {k: None if v is None else round(v, 9) for k, v in out.items()}
