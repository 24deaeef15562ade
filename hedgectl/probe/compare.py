"""The difference between the arms: paired ratios with a bootstrap interval over pairs, or "not significant"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl.probe.records import CallRecord
from hedgectl.quantiles import needed

RESAMPLES = 1000
LEAST_PAIRS = 4  # blocks or neighbours, below which an interval would be a pretence
P95 = 0.95

Value = Callable[[CallRecord], tuple[float, bool] | None]


def e2e_ms(call: CallRecord) -> tuple[float, bool] | None:
    """(milliseconds from the planned start to the last byte, True), or a lower bound with False; None for an error."""
    passed = call.since_plan(call.ended_ns)
    return None if passed is None or call.status == "error" else (passed / 1e6, call.status == "ok")


def ttft_ms(call: CallRecord) -> tuple[float, bool] | None:
    """The same for the first output token, reasoning included; whole answers have none of their own."""
    return _milestone(call, "first_token_ns")


def ttfc_ms(call: CallRecord) -> tuple[float, bool] | None:
    """The same for the first visible content."""
    return _milestone(call, "first_content_ns")


def _milestone(call: CallRecord, name: str) -> tuple[float, bool] | None:
    won = call.winning
    reached: int | None = None if won is None else getattr(won, name)
    if reached is not None and won is not None:
        return (reached - call.planned_ns) / 1e6, True
    if won is not None or call.status != "censored" or call.ended_ns is None:
        return None
    return (call.ended_ns - call.planned_ns) / 1e6, False


def changes(plain: Sequence[CallRecord], hedged: Sequence[CallRecord], seed: int) -> dict[str, Any]:
    """Hedged over unhedged for p95 and mean of both metrics; ``significant`` only with an interval that excludes 1.

    Pairs (neighbours in the plan, or two blocks) are resampled whole, so that what both arms shared stays shared.
    Timeouts count at their bound: a ratio with many of them is nearer to 1 than the truth.
    """
    result = {}
    for name, value in (("ttft", ttft_ms), ("e2e", e2e_ms)):
        a, b = _rows(plain, value), _rows(hedged, value)
        result[f"{name}_p95"] = _ratio(a, b, lambda x: float(np.quantile(x, P95)), needed(P95), seed)
        result[f"{name}_mean"] = _ratio(a, b, lambda x: float(x.mean()), 2, seed)
    return result


def _rows(calls: Sequence[CallRecord], value: Value) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    found = [(v[0], c.pair) for c in calls if (v := value(c)) is not None]
    return np.array([v for v, _ in found], dtype=np.float64), np.array([p for _, p in found], dtype=np.int64)


def _ratio(
    a: tuple[NDArray[np.float64], NDArray[np.int64]],
    b: tuple[NDArray[np.float64], NDArray[np.int64]],
    statistic: Callable[[NDArray[np.float64]], float],
    least: int,
    seed: int,
) -> dict[str, Any]:
    (x, x_pair), (y, y_pair) = a, b
    n = min(len(x), len(y))
    pairs = np.intersect1d(x_pair, y_pair)
    empty: dict[str, Any] = {
        "ratio": None,
        "interval": None,
        "significant": False,
        "n": n,
        "pairs": len(pairs),
        "kind": "paired_bootstrap",
    }
    if not len(x) or not len(y):
        return empty
    base = statistic(x)
    if base <= 0.0:
        return empty
    ratio = statistic(y) / base
    result = {**empty, "ratio": round(ratio, 4)}
    if n < least or len(pairs) < LEAST_PAIRS:
        return result
    grouped_x = [x[x_pair == p] for p in pairs]
    grouped_y = [y[y_pair == p] for p in pairs]
    rng = np.random.default_rng([seed, 7])
    drawn = np.empty(RESAMPLES)
    for i in range(RESAMPLES):
        chosen = rng.integers(0, len(pairs), len(pairs))
        below = statistic(np.concatenate([grouped_x[k] for k in chosen]))
        drawn[i] = statistic(np.concatenate([grouped_y[k] for k in chosen])) / below if below > 0 else np.nan
    low, high = np.nanquantile(drawn, (0.025, 0.975))
    result["interval"] = [round(float(low), 4), round(float(high), 4)]
    result["significant"] = bool(low > 1.0 or high < 1.0)
    return result
