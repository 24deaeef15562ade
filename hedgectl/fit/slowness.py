"""Slow periods per replica by work accounting, then each period's edges and level by least squares.

Every interval in which a request was surely being served gives one equation: the integral of speed x(t) over it is the
time that the work takes at full speed. Rows that show full speed settle x = 1 wherever they reach; what is left is
solved in bins by SIRT (both operators are running sums), cut into periods, and each period's start, end and level are
refined on the rows around it, so that edges are sharper than the bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgectl.fit.decode import DecodeLaw
from hedgectl.fit.edges import Period, refine
from hedgectl.fit.timeline import Bools, Timeline
from hedgectl.model import Floats, Ints

SWEEPS = 200
SLOWEST = 0.03  # clip of x: nothing is seen as more than 33 times slower
SLOW_BELOW = 0.75
MAX_BINS = 4_000_000


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Work equations: integral over [lo, hi] of x(t) dK(t) = work, K = `decode` or `prefill` cumulative work.

    All arrays (m,). `unit_s` turns a residual into seconds, `noise_s` is what the law leaves unexplained.
    """

    lo: Floats
    hi: Floats
    work: Floats
    is_decode: Floats
    unit_s: Floats
    noise_s: Floats
    replica: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Measure:
    """Cumulative work at full speed along the axis, decode in tokens and prefill in seconds, uncovered parts only."""

    times: Floats
    decode: Floats
    prefill: Floats

    def at(self, t: Floats, is_decode: Floats) -> Floats:
        """K at composite times, for rows of either kind."""
        index = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        width = self.times[index + 1] - self.times[index]
        share = np.clip(np.where(width > 0, (t - self.times[index]) / np.where(width > 0, width, 1.0), 0.0), 0.0, 1.0)
        d = self.decode[index] + share * (self.decode[index + 1] - self.decode[index])
        p = self.prefill[index] + share * (self.prefill[index + 1] - self.prefill[index])
        return np.where(is_decode > 0, d, p)


def slow_periods(line: Timeline, law: DecodeLaw, work: Floats, static: Floats, spread: float) -> list[Period]:
    """Slow periods of all replicas where a prefill pauses decode, in composite time, ascending.

    `work` (n,) prefill seconds at full speed with the replica's static factor; `spread` is the prefill law's.
    """
    if len(line.attempts) < 3:
        return []
    rate = law.tokens_per_s(line) / static[_replica_of(line)]
    busy = (line.prefilling > 0).astype(np.float64)
    rows = _rows(line, law, rate, work, spread)
    return solve(line, rows, rate, busy, line.prefilling > 0, law.base_s + law.per_sequence_s)


def solve(
    line: Timeline, rows: Rows, rate: Floats, busy: Floats, prefilling: Bools, step_s: float, least: float = 0.0
) -> list[Period]:
    """Slow periods from work equations.

    `rate` and `busy` (3n,) are the work per second of decode and prefill rows at full speed, `prefilling` the intervals
    that belong to prefill rows; `step_s` turns decode work into seconds. Periods with a factor below 1 + `least` go.
    """
    measure = Measure(line.times, line.cumulative(rate), line.cumulative(busy))
    full = measure.at(rows.hi, rows.is_decode) - measure.at(rows.lo, rows.is_decode)
    missing_s = (full - rows.work) * rows.unit_s
    tight = missing_s <= 2.0 * rows.noise_s
    covered = _covered(line.times, rows.lo[tight], rows.hi[tight], rows.is_decode[tight], prefilling)
    measure = Measure(line.times, line.cumulative(rate * ~covered), line.cumulative(busy * ~covered))
    left = measure.at(rows.hi, rows.is_decode) - measure.at(rows.lo, rows.is_decode)
    work_left = np.maximum(rows.work - (full - left), 0.0)
    keep = (left * rows.unit_s > 1e-6) & ~tight
    if not np.any(keep):
        return []
    picked = Rows(
        rows.lo[keep], rows.hi[keep], work_left[keep], rows.is_decode[keep],
        rows.unit_s[keep], rows.noise_s[keep], rows.replica[keep],
    )  # fmt: skip
    span, replicas = line.attempts.span, line.attempts.replicas
    width = _bin_width(span, replicas)
    bins, x, mass_s = _solve(measure, picked, width, step_s)
    found = refine(measure, picked, _runs(bins, x, mass_s, width, round(span / width)))
    return [p for p in found if 1.0 / p.level >= 1.0 + least]


def speed_integral(periods: list[Period], t: Floats) -> Floats:
    """Integral of speed from 0 to each composite time `t`."""
    if not periods:
        return t.copy()
    edges = np.array([edge for p in periods for edge in (p.start, p.end)])
    speeds = np.array([value for p in periods for value in (p.level, 1.0)])
    gained = np.concatenate([[edges[0]], edges[0] + np.cumsum(speeds[:-1] * np.diff(edges))])
    index = np.searchsorted(edges, t, side="right") - 1
    safe = np.maximum(index, 0)
    out: Floats = np.where(index < 0, t, gained[safe] + speeds[safe] * (t - edges[safe]))
    return out


def _replica_of(line: Timeline) -> Ints:
    """Replica each event belongs to, shape (3n,)."""
    return np.minimum((line.times // line.attempts.span).astype(np.int64), line.attempts.replicas - 1)


def _rows(line: Timeline, law: DecodeLaw, rate: Floats, work: Floats, spread: float) -> Rows:
    a = line.attempts
    tokens = np.where(np.isfinite(a.tokens), a.tokens, 0.0)
    decode = np.flatnonzero(tokens >= 1)
    gained = line.over_decode(rate)[decode]
    seconds = line.over_decode((rate > 0).astype(np.float64))[decode]
    step = np.where(gained > 0, seconds / np.maximum(gained, 1e-12), law.base_s + law.per_sequence_s)
    prefill = np.flatnonzero(a.first > line.start)
    return Rows(
        np.concatenate([a.first[decode], line.start[prefill]]),
        np.concatenate([a.end[decode], a.first[prefill]]),
        np.concatenate([tokens[decode], work[prefill]]),
        np.concatenate([np.ones(len(decode)), np.zeros(len(prefill))]),
        np.concatenate([step, np.ones(len(prefill))]),
        np.concatenate([
            0.5 * step + max(law.spread, 1e-4) * tokens[decode] * step,
            1e-4 + max(spread, 1e-4) * work[prefill],
        ]),
        np.concatenate([a.replica[decode], a.replica[prefill]]),
    )  # fmt: skip


def _covered(times: Floats, lo: Floats, hi: Floats, is_decode: Floats, prefilling: Bools) -> Bools:
    """Event intervals reached by a row at full speed: a decode row speaks for decoding, a prefill row for its own."""
    out = np.zeros(len(times), dtype=bool)
    for kind in (1.0, 0.0):
        mine = is_decode == kind
        steps = np.zeros(len(times) + 1)
        np.add.at(steps, np.searchsorted(times, lo[mine], side="left"), 1.0)
        np.add.at(steps, np.searchsorted(times, hi[mine], side="left"), -1.0)
        reached = np.cumsum(steps)[:-1] > 0
        out |= reached & (prefilling == (kind == 0.0))
    return out


def _bin_width(span: float, replicas: int) -> float:
    """1 s, or more where a long log would need too many bins."""
    return float(max(1.0, np.ceil(span * replicas / MAX_BINS)))


def _solve(measure: Measure, rows: Rows, width: float, step_s: float) -> tuple[Ints, Floats, Floats]:
    """SIRT over the bins that uncovered rows touch: (bin index, speed, seconds of work at stake), ascending."""
    first, last = np.floor(rows.lo / width).astype(np.int64), np.floor(rows.hi / width).astype(np.int64)
    low, high = int(first.min()), int(last.max())
    touched = np.zeros(high - low + 2, dtype=np.int64)
    np.add.at(touched, first - low, 1)
    np.add.at(touched, last - low + 1, -1)
    bins = np.flatnonzero(np.cumsum(touched)[:-1] > 0) + low
    d, p = np.ones(len(bins)), np.zeros(len(bins))
    left, right = bins.astype(np.float64) * width, (bins + 1).astype(np.float64) * width
    mass = {1: measure.at(right, d) - measure.at(left, d), 0: measure.at(right, p) - measure.at(left, p)}
    mass_s = mass[1] * step_s + mass[0]
    operators = []
    for kind in (1, 0):
        pick = rows.is_decode == kind
        if not np.any(pick):
            continue
        k = rows.is_decode[pick]
        i = np.searchsorted(bins, first[pick])
        j = np.searchsorted(bins, last[pick])
        before = measure.at(rows.lo[pick], k) - measure.at(left[i], k)
        within = measure.at(rows.hi[pick], k) - measure.at(left[j], k)
        operators.append(_Operator(i, j, before, within, mass[kind], rows.work[pick], rows.unit_s[pick]))
    x = np.ones(len(bins))
    columns = sum((o.back(np.ones(len(o.i))) for o in operators), np.zeros(len(bins)))
    scale = np.where(columns > 1e-9, 1.0 / np.maximum(columns, 1e-9), 0.0)
    weights = [np.ones(len(o.i)) for o in operators]
    for sweep in range(SWEEPS):
        step_x = np.zeros(len(bins))
        for n, o in enumerate(operators):
            off = o.residual(x)
            if sweep in (60, 120):  # rows that disagree with all others around them lose their vote
                weights[n] = 1.0 / (1.0 + (off / (0.3 * o.total)) ** 2)
            step_x += o.back(weights[n] * off / o.total)
        if sweep in (60, 120):
            columns = sum((o.back(w) for o, w in zip(operators, weights, strict=True)), np.zeros(len(bins)))
            scale = np.where(columns > 1e-9, 1.0 / np.maximum(columns, 1e-9), 0.0)
        moved = scale * step_x
        x = np.clip(x + moved, SLOWEST, 1.0)
        if sweep > 150 and float(np.max(np.abs(moved), initial=0.0)) < 1e-4:
            break
    return bins, x, mass_s


class _Operator:
    """Running-sum form of one kind of rows over the bins."""

    __slots__ = ("before", "i", "j", "mass", "tail", "total", "unit", "within", "work")

    def __init__(
        self, i: Ints, j: Ints, before: Floats, within: Floats, mass: Floats, work: Floats, unit: Floats
    ) -> None:
        self.i, self.j, self.before, self.within, self.mass, self.work, self.unit = (
            i, j, before, within, mass, work, unit,
        )  # fmt: skip
        self.tail = mass[j] - within
        self.total = np.maximum(self._forward(np.ones(len(mass))), 1e-9)

    def _forward(self, x: Floats) -> Floats:
        total = np.concatenate([[0.0], np.cumsum(x * self.mass)])
        out: Floats = total[self.j] + x[self.j] * self.within - total[self.i] - x[self.i] * self.before
        return out

    def residual(self, x: Floats) -> Floats:
        """work - A x, (m,)."""
        return self.work - self._forward(x)

    def back(self, r: Floats) -> Floats:
        """A' r in seconds, (bins,)."""
        r = r * self.unit
        n = len(self.mass)
        steps = np.bincount(self.i, r, n + 1) - np.bincount(self.j + 1, r, n + 1)
        out: Floats = self.mass * np.cumsum(steps)[:-1]
        out -= np.bincount(self.i, r * self.before, n)
        out -= np.bincount(self.j, r * self.tail, n)
        return out


def _runs(bins: Ints, x: Floats, mass_s: Floats, width: float, per_replica: int) -> list[Period]:
    """Consecutive slow bins of one replica as one period at their mean level; edges share out the bins beside them."""
    slow = (x < SLOW_BELOW) & (mass_s > 1e-6)
    index = np.flatnonzero(slow)
    if not len(index):
        return []
    joined = (np.diff(bins[index]) == 1) & (bins[index][1:] // per_replica == bins[index][:-1] // per_replica)
    cuts = np.flatnonzero(~joined)
    begins = np.concatenate([[0], cuts + 1])
    ends = np.concatenate([cuts, [len(index) - 1]])
    periods = []
    for b, e in zip(begins, ends, strict=True):
        i, j = index[b], index[e]
        weight = mass_s[i : j + 1]
        inner = slice(i + 1, j) if j - i >= 3 else slice(i, j + 1)
        level = float(np.average(x[inner], weights=mass_s[inner])) if mass_s[inner].sum() > 0 else float(x[i])
        lost = float(np.sum((1.0 - x[i : j + 1]) * weight))
        if lost < 0.02:
            continue
        periods.append(Period(float(bins[i] * width), float((bins[j] + 1) * width), max(level, SLOWEST)))
    return periods
