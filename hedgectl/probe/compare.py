"""The difference between the arms: paired ratios with a bootstrap interval over pairs, or "not significant"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
        a, b = _Arm.of(plain, value), _Arm.of(hedged, value)
        result[f"{name}_p95"] = _ratio(a, b, P95, seed)
        result[f"{name}_mean"] = _ratio(a, b, None, seed)
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _Arm:
    """Values of one arm, ascending, and the pair each belongs to; both (n,)."""

    values: NDArray[np.float64]
    pair: NDArray[np.int64]

    @classmethod
    def of(cls, calls: Sequence[CallRecord], value: Value) -> _Arm:
        found = [(v[0], c.pair) for c in calls if (v := value(c)) is not None]
        values = np.array([v for v, _ in found], dtype=np.float64)
        order = np.argsort(values, kind="stable")
        return cls(values[order], np.array([p for _, p in found], dtype=np.int64)[order])

    def statistic(self, p: float | None) -> float:
        """Quantile ``p``, or the mean."""
        return float(self.values.mean() if p is None else np.quantile(self.values, p))

    def resampled(self, p: float | None, pairs: NDArray[np.int64], drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        """The statistic of each resample, (r,); ``drawn`` (r, pairs) says how often each pair was drawn."""
        inside = np.isin(self.pair, pairs)
        values = self.values[inside]
        weight = drawn[:, np.searchsorted(pairs, self.pair[inside])]
        if p is None:
            return np.asarray((weight @ values) / weight.sum(axis=1))
        reached = np.cumsum(weight, axis=1)
        # the first value at which the share p of the resample is reached
        return np.asarray(values[np.argmax(reached >= p * reached[:, -1:], axis=1)])


def _ratio(a: _Arm, b: _Arm, p: float | None, seed: int) -> dict[str, Any]:
    n = min(len(a.values), len(b.values))
    pairs = np.intersect1d(a.pair, b.pair)
    result: dict[str, Any] = {
        "ratio": None,
        "interval": None,
        "significant": False,
        "n": n,
        "pairs": len(pairs),
        "kind": "paired_bootstrap",
    }
    if not n or (base := a.statistic(p)) <= 0.0:
        return result
    result["ratio"] = round(b.statistic(p) / base, 4)
    if n < (2 if p is None else needed(p)) or len(pairs) < LEAST_PAIRS:
        return result
    rng = np.random.default_rng([seed, 7])
    drawn = rng.multinomial(len(pairs), np.full(len(pairs), 1.0 / len(pairs)), size=RESAMPLES)
    below = a.resampled(p, pairs, drawn)
    low, high = np.quantile(b.resampled(p, pairs, drawn) / np.maximum(below, 1e-9), (0.025, 0.975))
    result["interval"] = [round(float(low), 4), round(float(high), 4)]
    result["significant"] = bool(low > 1.0 or high < 1.0)
    return result
