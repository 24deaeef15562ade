"""Start, end and level of each slow period, by least squares on the work equations around it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hedgectl.model import Floats, Ints

if TYPE_CHECKING:
    from hedgectl.fit.slowness import Measure, Rows

PASSES = 2
STEPS = 12
PAD_S = 3.0
OFFSETS = (-1.5, -0.5, 0.0, 0.5, 1.5)
MAX_PERIODS = 20_000
SLOWEST = 0.03

Guess = tuple[float, float, float]  # start, end, 1 - level


@dataclass(frozen=True, slots=True)
class Period:
    """One slow period: speed `level` (0 < level < 1) from `start` to `end`, composite seconds."""

    start: float
    end: float
    level: float


def refine(measure: Measure, rows: Rows, periods: list[Period]) -> list[Period]:
    """The same periods with edges and level that satisfy the rows around them best; ascending and disjoint.

    Gauss-Newton with damping on (start, end, 1 - level), Cauchy weights, the other periods of a row held fixed;
    a few passes over all. Periods that explain nothing are dropped.
    """
    if len(periods) > MAX_PERIODS:
        return periods
    order = np.argsort(rows.lo, kind="stable")
    lo, hi, kind = rows.lo[order], rows.hi[order], rows.is_decode[order]
    unit, noise = rows.unit_s[order], rows.noise_s[order]
    deficit = measure.at(hi, kind) - measure.at(lo, kind) - rows.work[order]
    longest = float(np.max(hi - lo, initial=0.0))
    state: list[Guess] = [(p.start, p.end, 1.0 - p.level) for p in periods]
    problems: list[_Problem] = []
    members: list[Ints] = []
    lost = np.zeros(len(lo))
    for guess in state:
        s, e, _ = guess
        near = np.arange(np.searchsorted(lo, s - PAD_S - longest), np.searchsorted(lo, e + PAD_S))
        near = near[hi[near] > s - PAD_S]
        limits = (s - PAD_S, e + PAD_S)
        problem = _Problem(measure, lo[near], hi[near], kind[near], unit[near], noise[near], limits)
        problems.append(problem)
        members.append(near)
        lost[near] += problem.taken(guess)
    for sweep in range(PASSES):
        for n, (problem, near) in enumerate(zip(problems, members, strict=True)):
            if not len(near):
                continue
            mine = problem.taken(state[n])
            target = deficit[near] - (lost[near] - mine)
            floor = state[n - 1][1] if n else -np.inf
            ceiling = state[n + 1][0] if n + 1 < len(state) else np.inf
            state[n] = problem.best(target, state[n], (floor, ceiling), widely=sweep == 0)
            lost[near] += problem.taken(state[n]) - mine
    shrunk = [(*_shrink(measure, s, e), u) for s, e, u in state]
    found = [Period(s, e, 1.0 - u) for s, e, u in shrunk if e - s > 1e-3 and u > 0.05]
    return sorted(found, key=lambda p: p.start)


def _shrink(measure: Measure, s: float, e: float) -> tuple[float, float]:
    """The same period without the parts at both ends that are known to be at full speed (no uncovered work)."""
    if e <= s:
        return s, s
    i = max(int(np.searchsorted(measure.times, s, side="right")) - 1, 0)
    j = min(int(np.searchsorted(measure.times, e, side="left")) + 1, len(measure.times))
    gains = np.diff(measure.decode[i:j]) + np.diff(measure.prefill[i:j])
    uncovered = np.flatnonzero(gains > 1e-9)
    if not len(uncovered):
        return s, s
    return max(s, float(measure.times[i + uncovered[0]])), min(e, float(measure.times[i + uncovered[-1] + 1]))


class _Problem:
    """The rows near one period; answers what a period (start, end, 1 - level) takes from each of them."""

    __slots__ = ("decode", "from_k", "is_decode", "limits", "noise", "prefill", "times", "to_k", "unit")

    def __init__(
        self,
        measure: Measure,
        lo: Floats,
        hi: Floats,
        kind: Floats,
        unit: Floats,
        noise: Floats,
        limits: tuple[float, float],
    ) -> None:
        i = max(int(np.searchsorted(measure.times, limits[0], side="right")) - 1, 0)
        j = min(int(np.searchsorted(measure.times, limits[1], side="left")) + 2, len(measure.times))
        # small arrays: they are searched a few hundred times a period
        window = type(measure)(measure.times[i:j], measure.decode[i:j], measure.prefill[i:j])
        self.times, self.decode, self.prefill = window.times, window.decode, window.prefill
        self.is_decode = kind > 0
        self.from_k = window.at(np.clip(lo, *limits), kind)
        self.to_k = window.at(np.clip(hi, *limits), kind)
        self.unit, self.noise, self.limits = unit, noise, limits

    def _level(self, t: float) -> Floats:
        """K at one time, cut to what each row spans: K never falls, so cutting the time or the value is the same."""
        i = min(max(int(self.times.searchsorted(t, side="right")) - 1, 0), len(self.times) - 2)
        width = self.times[i + 1] - self.times[i]
        share = min(max((t - self.times[i]) / width, 0.0), 1.0) if width > 0 else 0.0
        d = self.decode[i] + share * (self.decode[i + 1] - self.decode[i])
        p = self.prefill[i] + share * (self.prefill[i + 1] - self.prefill[i])
        value: Floats = np.where(self.is_decode, d, p)
        np.maximum(value, self.from_k, out=value)
        np.minimum(value, self.to_k, out=value)
        return value

    def amount(self, s: float, e: float) -> Floats:
        """Full-speed work of each row between s and e, in the row's own unit."""
        return np.maximum(self._level(e) - self._level(s), 0.0)

    def taken(self, guess: Guess) -> Floats:
        """Work each row lost to the period."""
        return guess[2] * self.amount(guess[0], guess[1])

    def residual(self, target: Floats, guess: Guess) -> Floats:
        """Seconds by which the period takes more than each row lost."""
        return (self.taken(guess) - target) * self.unit

    def cost(self, residual: Floats) -> float:
        """Cauchy: a row that contradicts the others counts little."""
        return float(np.sum(np.log1p((residual / self.noise) ** 2)))

    def best(self, target: Floats, guess: Guess, between: tuple[float, float], *, widely: bool) -> Guess:
        """Best period near `guess` that stays `between` its neighbours. `widely`: where rows are left unexplained,
        other starting points are tried too, since the cost has a kink wherever an edge crosses a row's end."""
        limits = (max(self.limits[0], between[0]), min(self.limits[1], between[1]))
        value, found = self._descend(target, guess, limits)
        if widely and value > 4.0 * len(self.noise):
            starts = self._nearby(target, found, limits)
            starts.sort(key=lambda g: self.cost(self.residual(target, g)))
            value, found = min([(value, found), *(self._descend(target, g, limits) for g in starts[:3])])
        return found

    def _nearby(self, target: Floats, guess: Guess, limits: tuple[float, float]) -> list[Guess]:
        starts: list[Guess] = []
        for ds in OFFSETS:
            for de in OFFSETS:
                s, e = max(guess[0] + ds, limits[0]), min(guess[1] + de, limits[1])
                amount = self.amount(s, e) * self.unit
                touched = amount > 0
                if e - s < 0.05 or not np.any(touched):
                    continue
                u = float(np.median(target[touched] * self.unit[touched] / amount[touched]))
                starts.append((s, e, min(max(u, 0.02), 1.0 - SLOWEST)))
        return starts

    def _descend(self, target: Floats, guess: Guess, limits: tuple[float, float]) -> tuple[float, Guess]:
        h = 1e-3  # seconds, for the slope of K at an edge
        s, e, u = guess
        r = self.residual(target, guess)
        best, damping = self.cost(r), 1e-2
        for _ in range(STEPS):
            weight = 1.0 / (self.noise**2 + r**2)
            amount = self.amount(s, e)
            js = u * (self._level(s - h) - self._level(s + h)) / (2 * h)
            je = u * (self._level(e + h) - self._level(e - h)) / (2 * h)
            jacobian = np.stack([js, je, amount], axis=1) * self.unit[:, None]
            normal = jacobian.T @ (jacobian * weight[:, None])
            gradient = jacobian.T @ (weight * r)
            scale = np.diag(np.diag(normal) + 1e-9)
            moved = False
            for _ in range(6):
                step = np.linalg.solve(normal + damping * scale, -gradient)
                s_new = min(max(s + float(np.clip(step[0], -1.0, 1.0)), limits[0]), limits[1])
                e_new = min(max(e + float(np.clip(step[1], -1.0, 1.0)), s_new + 1e-3), max(limits[1], s_new + 1e-3))
                trial = (s_new, e_new, min(max(u + float(np.clip(step[2], -0.3, 0.3)), 0.0), 1.0 - SLOWEST))
                r_new = self.residual(target, trial)
                value = self.cost(r_new)
                if value < best:
                    (s, e, u), r = trial, r_new
                    moved = best - value > 1e-6 * abs(best)
                    best, damping = value, damping * 0.3
                    break
                damping *= 5.0
            if not moved:
                break
        return best, (s, e, u)
