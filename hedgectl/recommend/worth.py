"""What a policy is worth in a month: requests that get faster, what that costs, GPU time, limits of rate at the peak."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgectl.cost import quota_peak
from hedgectl.model import Floats, Ints, Workload
from hedgectl.recommend.arms import Arm, milliseconds
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Paired

MONTH_S = 30 * 86_400.0
# Below an hour a month is over 720 times the log: that multiplies one burst, or one pause, and not a rate of arrivals.
MIN_SPAN_S = 3_600.0
_FASTER_S = 0.001  # what differs by less is the same


def faster(both: Paired | None, workload: Workload) -> dict[str, Any] | None:
    """Requests a month (30 days at this log's rate) that end earlier, and later, with the mean time won and lost; None below an hour."""
    times = _months(workload)
    if both is None or times is None or not len(both.unhedged_s):
        return None
    won = both.unhedged_s - both.hedged_s
    sides = {"faster": won > _FASTER_S, "slower": won < -_FASTER_S}
    found: dict[str, Any] = {}
    for name, rows in sides.items():
        weight = both.weight[rows]
        found[f"{name}_requests"] = round(float(weight.sum()) * times)
        found[f"{name}_mean_ms"] = (
            milliseconds(float(np.average(np.abs(won[rows]), weights=weight))) if rows.any() else None
        )
    return found


def month(bill: dict[str, Any] | None, unhedged: Arm, hedged: Arm, workload: Workload) -> dict[str, Any] | None:
    """The extra bill a month as a range, and for each second that p99 falls; None without a bill, or below an hour."""
    times = _months(workload)
    if bill is None or times is None:
        return None
    extra = {
        name: round(float(bill["before"]) * float(bill[f"{name}_ratio"]) * times, 6)
        for name in ("delta", "low", "high")
    }
    before, after = unhedged.e2e.at(0.99), hedged.e2e.at(0.99)
    saved = None if before is None or after is None else before - after
    per_second = round(extra["delta"] / saved, 6) if saved is not None and saved > _FASTER_S else None
    return {
        "currency": bill["currency"],
        "extra_cost": extra["delta"],
        "extra_cost_low": extra["low"],
        "extra_cost_high": extra["high"],
        "cost_per_p99_second": per_second,
    }


def gpu(unhedged: Arm, hedged: Arm, options: Options) -> dict[str, Any] | None:
    """GPU time and cache residency of both copies, in money where `gpu_hour_cost` is set; None where no replay made them.

    GPU time is attributed work, so its growth is that of the work, not of the bill for engines that run anyway.
    """
    arms = [arm.engine for arm in (unhedged, hedged)]
    if arms[0] is None or arms[1] is None or not arms[0].get("gpu_seconds") or not arms[1].get("gpu_seconds"):
        return None
    busy, kept = (
        [float(arm[key]["primary"]) + float(arm[key]["hedge"]) for arm in arms if arm is not None]
        for key in ("gpu_seconds", "kv_token_seconds")
    )
    found: dict[str, Any] = {
        "gpu_seconds_delta_ratio": round(busy[1] / busy[0] - 1.0, 6) if busy[0] else None,
        "kv_token_seconds_delta_ratio": round(kept[1] / kept[0] - 1.0, 6) if kept[0] else None,
        "currency": None,
        "before": None,
        "after": None,
    }
    config = options.config
    hour = None if config is None else config.get("engine.gpu_hour_cost")
    if config is not None and hour is not None:
        price = float(hour) * float(config.get("engine.gpus_per_replica", 1)) / 3600.0
        found |= {
            "currency": config.get("engine.currency", "USD"),
            "before": round(busy[0] * price, 6),
            "after": round(busy[1] * price, 6),
        }
    return found


def quota(workload: Workload, rows: Ints, delay_s: float) -> dict[str, int | None]:
    """Requests and tokens in the busiest minute and requests in flight at once, with the copies and without them."""
    none: Ints = np.zeros(0, dtype=np.int64)
    alone = quota_peak(workload, none, delay_s)
    return {
        **quota_peak(workload, rows, delay_s),
        "in_flight_peak": in_flight_peak(workload, rows, delay_s),
        "requests_per_minute_peak_unhedged": alone["requests_per_minute_peak"],
        "tokens_per_minute_peak_unhedged": alone["tokens_per_minute_peak"],
        "in_flight_peak_unhedged": in_flight_peak(workload, none, delay_s),
    }


def in_flight_peak(workload: Workload, rows: Ints, delay_s: float) -> int:
    """Most requests in flight at once. A race is taken to last as long as its primary alone would have: an upper bound."""
    w = workload
    known = np.isfinite(w.e2e_s)
    copied = rows[known[rows] & (w.e2e_s[rows] > delay_s)]
    start: Floats = np.concatenate((w.arrival_s[known], w.arrival_s[copied] + delay_s))
    end: Floats = np.concatenate(((w.arrival_s + w.e2e_s)[known], (w.arrival_s + w.e2e_s)[copied]))
    weight = np.concatenate((w.weight[known], w.weight[copied]))
    if not len(start):
        return 0
    at = np.concatenate((end, start))
    step = np.concatenate((-weight, weight))
    # At one moment what ends makes room first: the ends stand first, and the order is stable.
    return round(float(np.cumsum(step[np.argsort(at, kind="stable")]).max()))


def note(workload: Workload) -> dict[str, Any] | None:
    """Why nothing is said of a month; None for a log that is long enough."""
    if _months(workload) is not None:
        return None
    text = f"nothing is said of a month: the log spans {_span_s(workload):.3g} s, and {MIN_SPAN_S:g} s are needed to tell a rate"
    return {"code": "no_month", "level": "info", "share": None, "text": text}


def _span_s(workload: Workload) -> float:
    return float(np.ptp(workload.arrival_s)) if len(workload) > 1 else 0.0


def _months(workload: Workload) -> float | None:
    """How often this log fits into a month; None for one that is too short to tell a rate."""
    length = _span_s(workload)
    return MONTH_S / length if length >= MIN_SPAN_S else None
