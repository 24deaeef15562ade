"""The decode law: a step takes `base + per_sequence x running`, with prefill stalls taken out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgectl.fit.robust import KEEP, half_widths, solve_nonnegative, thinned
from hedgectl.fit.timeline import Timeline
from hedgectl.model import Floats, Ints

ROUNDS = 6
TRIMS = 15
ENOUGH = 30


@dataclass(frozen=True, slots=True, eq=False)
class DecodeLaw:
    """Seconds per step at full speed, 95 % intervals, and the rows behind them."""

    base_s: float
    per_sequence_s: float
    base_interval: tuple[float, float]
    per_sequence_interval: tuple[float, float]
    spread: float  # robust relative spread of the rows about the law
    rows: int

    def tokens_per_s(self, line: Timeline) -> Floats:
        """Tokens each running sequence gains per second at full speed, per event interval, shape (3n,)."""
        step = self.base_s + self.per_sequence_s * np.maximum(line.running, 1.0)
        return np.where(line.prefilling > 0, 0.0, 1.0 / step)


def fit_decode(line: Timeline, static: Floats) -> DecodeLaw:
    """Exact regression of each attempt's stall-free decode time on its tokens and the sequences beside it.

    With dV = dt / step, decode time = base x tokens + per_sequence x integral of running dV: linear once V is known,
    so it is solved a few times over. Trimmed: slow periods may hold up to 40 % of the rows. `static` (R,) divides.
    """
    a = line.attempts
    free = (line.prefilling <= 0).astype(np.float64)
    seconds = line.over_decode(free) / static[a.replica]
    rows = thinned(np.flatnonzero(np.isfinite(a.tokens) & (a.tokens >= 1) & (seconds > 0)))
    if not len(rows):
        return DecodeLaw(0.0, 0.0, (0.0, 0.0), (0.0, 0.0), 0.0, 0)
    tokens, seconds = a.tokens[rows], seconds[rows]
    running = np.maximum(line.running, 1.0)
    base, slope = float(np.median(seconds / tokens)), 0.0
    relative = np.zeros(len(rows))
    beside = tokens
    for _ in range(ROUNDS):
        rate = free / (base + slope * running)
        gained = line.over_decode(rate)[rows]
        beside = line.over_decode(rate * running)[rows] * tokens / np.maximum(gained, 1e-9)
        before = (base, slope)
        keep = np.ones(len(rows), dtype=bool)
        for _ in range(TRIMS):
            predicted = np.maximum(base * tokens + slope * beside, 1e-12)
            relative = seconds / predicted - 1.0
            off = np.abs(relative)
            was, keep = keep, off <= np.quantile(off, KEEP)
            base, slope = solve_nonnegative(tokens[keep], beside[keep], seconds[keep])
            if np.array_equal(was, keep):
                break
        if abs(base - before[0]) <= 1e-9 * base and abs(slope - before[1]) <= 1e-9 * max(base, slope):
            break
    predicted = np.maximum(base * tokens + slope * beside, 1e-12)
    relative = seconds / predicted - 1.0
    spread = 1.4826 * float(np.median(np.abs(relative)))
    near = np.abs(relative) <= 3.0 * spread + 1e-9
    half_base, half_slope = half_widths(tokens[near], beside[near], seconds[near], base, slope)
    return DecodeLaw(
        base,
        slope,
        (max(base - half_base, 0.0), base + half_base),
        (max(slope - half_slope, 0.0), slope + half_slope),
        spread,
        len(rows),
    )


def static_factors(actual: Floats, predicted: Floats, replica: Ints, replicas: int, spread: float) -> Floats:
    """How much slower each replica is than its peers at all times: median of actual over predicted, shape (R,).

    1 = the middle replica (the lower one of two). A replica within the dead band (4 %, or half the spread of the rows),
    or with fewer than 30 rows, counts as 1. A median, so that slow periods that fill less than half of the rows do not
    pass for a slow machine.
    """
    ratios = np.full(replicas, np.nan)
    usable = np.isfinite(predicted) & (predicted > 0) & (actual > 0)
    for r in range(replicas):
        rows = usable & (replica == r)
        if int(rows.sum()) >= ENOUGH:
            ratios[r] = float(np.median(actual[rows] / predicted[rows]))
    known = np.sort(ratios[np.isfinite(ratios)])
    if not len(known):
        return np.ones(replicas)
    relative = ratios / known[(len(known) - 1) // 2]
    band = max(0.04, 0.5 * spread)
    return np.where(np.isfinite(relative) & (np.abs(relative - 1.0) > band), relative, 1.0)
