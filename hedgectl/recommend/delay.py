"""Delays from the log: a quantile of the healthy mode plus a margin, between a floor and a ceiling, on every clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import quantiles
from hedgectl.model import CENSORED, ERROR, Floats, Workload
from hedgectl.policy import Delay, DelayRule, Delays

CLOCKS = {"first_token": "ttft_ms", "response": "e2e_ms", "response_headers": "headers_ms"}
RULE_QUANTILE = 0.95
_MIN_CLOCK_SHARE = 0.5  # a clock that most rows lack cannot carry a delay
LATER = (0.95, 0.97, 0.98, 0.99)  # quantiles of all requests, the slow ones among them, at which a later copy is tried
_MAX_MARGIN_S = 0.2
_SLOW_SHARE = 0.05

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Limits:
    """What the user fixes about the delay, in seconds; None = from the log."""

    margin_s: float | None = None
    floor_s: float | None = None
    ceiling_s: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Clock:
    """One clock over the eligible requests: values in seconds, which of them are only lower bounds, and its healthy part."""

    trigger: str
    value_s: Floats
    censored: Bools
    healthy_s: Floats
    slow_share: float  # share beyond the healthy mode; 0 if there is one mode

    @property
    def in_slow_mode(self) -> bool:
        """More than 5 % are slow, so the plain p95 lies inside the slow mode."""
        return self.slow_share > _SLOW_SHARE

    def quantile(self, p: float) -> float:
        """The delay at which a share 1 - p of eligible requests would be hedged, seconds; a lower bound counts as it is."""
        found, bound = quantiles.kaplan_meier(self.value_s, ~self.censored, p)
        return float(found if found is not None else bound if bound is not None else 0.0)

    def position(self, seconds: float) -> float:
        """Share of eligible requests that are back by then."""
        return float(np.mean(self.value_s <= seconds)) if len(self.value_s) else 0.0


def clock(workload: Workload, trigger: str, eligible: Bools) -> Clock | None:
    """The clock of a trigger; None if the log does not have it for at least half of the eligible requests."""
    w = workload
    values = {"first_token": w.ttft_s, "response": w.e2e_s, "response_headers": w.headers_s}[trigger]
    rows = eligible & (w.status != ERROR)
    if not rows.any() or float(np.isfinite(values[rows]).mean()) < _MIN_CLOCK_SHARE:
        return None
    # A request cut off before the clock's event waited at least until then.
    cut = (w.status == CENSORED) & ((trigger == "response") | ~np.isfinite(values))
    values = np.where(cut, w.e2e_s, values)
    rows &= np.isfinite(values)
    chosen = values[rows]
    censored = cut[rows]
    whole = _restored(chosen, censored)
    limit = healthy_limit(whole)
    slow = 0.0 if limit is None else float(np.mean(whole > limit))
    healthy = whole if limit is None or slow <= _SLOW_SHARE else whole[whole <= limit]
    return Clock(trigger, chosen, censored, healthy, slow)


def _restored(seconds: Floats, censored: Bools) -> Floats:
    """As many values as were given, with those cut short moved to where the others that waited as long ended.

    Taken at their bounds they would fill the valley between the modes: a policy's own losers would shift its delay.
    Mass beyond the last finished value stays at the largest bound.
    """
    if not censored.any():
        return seconds
    events, mass, _ = quantiles.redistribute(seconds, np.ones(len(seconds)), ~censored)
    rank = np.arange(len(seconds)) + 0.5
    at = np.searchsorted(np.cumsum(mass), rank)
    ends = np.append(events, max(float(seconds.max()), float(events[-1]) if len(events) else 0.0))
    return np.asarray(ends[np.minimum(at, len(events))])


def healthy_limit(seconds: Floats) -> float | None:
    """Where a slow second mode begins, in seconds; None if there is one mode.

    A second mode is a valley in the smoothed histogram of log time: at most half as high as the lower of the two peaks,
    with 2 to 50 % of the requests beyond it, which take at least twice the healthy median.
    """
    values = np.sort(seconds[np.isfinite(seconds) & (seconds > 0)])
    if len(values) < 12 or values[-1] < 2 * np.median(values):
        return None
    log = np.log(values)
    width = max(0.02, 1.5 * float(np.subtract(*np.quantile(log, [0.75, 0.25]))) / len(log) ** (1 / 3))
    bins = int(np.clip(np.ceil((log[-1] - log[0]) / width), 8, 200))
    counts, edges = np.histogram(log, bins=bins)
    kernel = np.array([1.0, 2.0, 3.0, 2.0, 1.0]) / 9.0
    smooth = np.convolve(counts, kernel, mode="same")
    peak = int(np.argmax(smooth))
    beyond = 1.0 - np.searchsorted(values, np.exp(edges[1:]), side="right") / len(values)
    right = np.maximum.accumulate(smooth[::-1])[::-1]
    inside = np.flatnonzero((np.arange(bins) > peak) & (beyond >= 0.02) & (beyond <= 0.5))
    if not len(inside):
        return None
    depth = smooth[inside] / np.maximum(np.minimum(float(smooth[peak]), right[inside]), 1e-12)
    at = int(inside[int(np.argmin(depth))])
    limit = float(np.exp(edges[at + 1]))
    apart = float(np.median(values[values > limit])) >= 2 * float(np.median(values[values <= limit]))
    return limit if apart and float(depth.min()) <= 0.5 else None


def rule_for(found: Clock, quantile: float, limits: Limits, later_s: float = 0.0) -> DelayRule:
    """The rule by which the delay follows the log: from the healthy mode only, so that trouble does not move it.

    `later_s` is added to the margin (see ``later``).
    """
    healthy = found.healthy_s
    p50, p95 = (float(np.quantile(healthy, p)) for p in (0.5, 0.95))
    margin = limits.margin_s if limits.margin_s is not None else min(_MAX_MARGIN_S, 0.25 * p50) + later_s
    # Below the median most copies would be sent for nothing; twice the healthy p95 is slow on any day.
    floor = limits.floor_s if limits.floor_s is not None else p50
    ceiling = limits.ceiling_s if limits.ceiling_s is not None else 2.0 * p95 + margin
    return DelayRule(
        of=CLOCKS[found.trigger],
        quantile=quantile,
        margin_ms=_ms(margin),
        floor_ms=_ms(min(floor, ceiling)),
        ceiling_ms=_ms(max(ceiling, 1e-6)),
    )


def later(found: Clock, limits: Limits) -> tuple[float, ...]:
    """Seconds to wait beyond the plain rule where more requests are slow than a budget pays for.

    The first slow ones would use it up; who waits longer spends it on the slowest. Nothing where the user fixed the
    margin or the ceiling.
    """
    if not found.in_slow_mode or limits.margin_s is not None or limits.ceiling_s is not None:
        return ()
    plain = rule_delay_s(found, rule_for(found, RULE_QUANTILE, limits))
    return tuple(wait for p in LATER if (wait := found.quantile(p) - plain) > 0)


def rule_delay_s(found: Clock, rule: DelayRule) -> float:
    """What the rule gives on this log, seconds, to the microsecond (as the document says it)."""
    base = quantiles.quantile(found.healthy_s, rule.quantile) or 0.0
    clamped = min(max(base * 1e3 + rule.margin_ms, rule.floor_ms), rule.ceiling_ms)
    return max(round(clamped, 3), 0.001) / 1e3


def describe(found: Clock | None, delay_s: float | None, budget_ratio: float | None) -> Delay | None:
    """The entry of ``delays`` for one clock; None if the log lacks it."""
    if found is None or delay_s is None:
        return None
    at_budget = None if not budget_ratio else _ms(found.quantile(1.0 - min(budget_ratio, 1.0)))
    return Delay(
        ms=_ms(delay_s), n=len(found.value_s), quantile=round(found.position(delay_s), 6), at_budget_ms=at_budget
    )


def delays(clocks: dict[str, Clock | None], chosen: dict[str, float], budget_ratio: float | None) -> Delays:
    """All clocks of the document; `chosen` holds the delay in seconds of each clock that has one."""
    return Delays(**{t: describe(clocks.get(t), chosen.get(t), budget_ratio) for t in CLOCKS})


def slow_mode_note(found: Clock) -> dict[str, Any] | None:
    """Said when more than 5 % are slow: then p95 is a slow request and a delay there comes after the answer."""
    if not found.in_slow_mode:
        return None
    healthy = float(np.quantile(found.healthy_s, RULE_QUANTILE)) * 1e3
    return {
        "code": "p95_in_slow_mode",
        "level": "warning",
        "share": round(found.slow_share, 6),
        "text": f"{found.slow_share:.1%} of requests are slow, so p95 lies inside the slow mode: the delay comes from the "
        f"healthy mode (its p95 is {healthy:.6g} ms)",
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 3)
