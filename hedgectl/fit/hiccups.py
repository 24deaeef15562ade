"""Delays before the engine that no engine explains: found by contradiction, kept as a pool of extra delays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgectl.fit.decode import DecodeLaw
from hedgectl.fit.timeline import EPSILON_S, Attempts, Bools, Timeline, timeline
from hedgectl.model import Floats, Ints

ROUNDS = 30
POOL = 20_000


@dataclass(frozen=True, slots=True, eq=False)
class Hiccups:
    """Which attempts came late to the engine, and what to draw from in a replay."""

    late: Bools  # (n,) of the attempts
    delay_s: Floats  # sorted pool, seconds
    probability: float  # per attempt
    interval: tuple[float, float]


def late_attempts(a: Attempts, earliest: Floats, work: Floats, law: DecodeLaw, static: Floats) -> Bools:
    """Attempts whose wait cannot have been prefill, because others decoded meanwhile, shape (n,) of bool.

    If a wait before the first token had been slow prefill, nobody could have decoded beside it. An answer that got
    more tokens than the time left by all such waits allows is a contradiction: the longest wait inside it was a delay
    before the engine. Repeated until none is left.
    """
    late = np.zeros(len(a), dtype=bool)
    if not len(a):
        return late
    wait = a.first - earliest - work
    candidate = (wait > _least(work)) & ~a.cut
    tolerance = max(0.002, 4.0 * law.spread)
    for _ in range(ROUNDS):
        start = np.where(late, np.maximum(earliest, a.first - work), earliest)
        line = timeline(a, start)
        possible = line.over_decode(law.tokens_per_s(line)) / static[a.replica]
        broken = np.flatnonzero(np.isfinite(a.tokens) & (possible < a.tokens * (1.0 - tolerance) - 1.0))
        open_ = np.flatnonzero(candidate & ~late)
        if not len(broken) or not len(open_):
            break
        worst = _longest_inside(a.first[open_], wait[open_], a.first[broken], a.end[broken])
        hit = np.unique(worst[worst >= 0])
        if not len(hit):
            break
        late[open_[hit]] = True
    return late


def _least(work: Floats) -> Floats:
    """Seconds of wait that cannot be taken for a slow prefill of `work` seconds."""
    return np.maximum(0.25 * work, 0.02)


def _longest_inside(at: Floats, wait: Floats, lo: Floats, hi: Floats) -> Ints:
    """Index of the longest wait that overlaps each interval (lo, hi], -1 = none; waits end at `at`, which ascends."""
    left = np.searchsorted(at, lo + EPSILON_S, side="right")
    right = np.searchsorted(at, hi, side="right")
    best = np.full(len(lo), -1, dtype=np.int64)
    longest = np.zeros(len(lo))

    def consider(rows: Ints, index: Ints) -> None:
        better = wait[index] > longest[rows]
        best[rows[better]] = index[better]
        longest[rows[better]] = wait[index[better]]

    after = np.flatnonzero(right < len(at))  # one that ends after hi may have begun inside
    after = after[at[right[after]] - wait[right[after]] < hi[after]]
    consider(after, right[after])
    rows = np.flatnonzero(left < right)
    step = 0
    while len(rows):  # few waits per answer: a handful of rounds
        consider(rows, left[rows] + step)
        step += 1
        rows = rows[left[rows] + step < right[rows]]
    return best


def hiccup_pool(a: Attempts, earliest: Floats, work: Floats, late: Bools) -> Hiccups:
    """The pool of delays and their probability.

    A delay shows only where the engine had been free for a while when it ended, so it is counted against the attempts
    that found the engine free for as long: late / (late + began at once).
    """
    shown = late & (a.first - work - earliest > 0)
    delays = np.sort(np.maximum(a.first - work - a.arrival, 0.0)[shown])
    previous = np.concatenate([[-np.inf], a.first[:-1]])
    free = a.arrival - previous > _least(work)
    at_once = int(np.sum(~late & ~a.cut & (earliest <= a.arrival + EPSILON_S) & free))
    n = len(delays)
    total = n + at_once
    p = n / total if total else 0.0
    half = 1.96 * float(np.sqrt(p * (1.0 - p) / total)) if total else 0.0
    if n > POOL:
        delays = delays[np.linspace(0, n - 1, POOL).astype(np.int64)]
    return Hiccups(late, delays, p, (max(p - half, 0.0), p + half))


def residual_pool(residual_s: Floats, typical_s: float) -> Hiccups:
    """The pool where waits do not pause decode: what is left of TTFT far beyond its own spread.

    `residual_s` sorted; beyond 8 robust deviations and a quarter of the typical TTFT it is no noise of a step.
    """
    n = len(residual_s)
    deviation = 1.4826 * float(np.median(np.abs(residual_s))) if n else 0.0
    delays = residual_s[residual_s > max(8.0 * deviation, 0.25 * typical_s)]
    p = len(delays) / n if n else 0.0
    half = 1.96 * float(np.sqrt(p * (1.0 - p) / n)) if n else 0.0
    if len(delays) > POOL:
        delays = delays[np.linspace(0, len(delays) - 1, POOL).astype(np.int64)]
    return Hiccups(np.zeros(0, dtype=bool), delays, p, (max(p - half, 0.0), p + half))


def starts(a: Attempts, earliest: Floats, work: Floats, late: Bools) -> Floats:
    """When each prefill began: at once, or for a late attempt one full-speed prefill before its first token."""
    return np.where(late, np.maximum(earliest, a.first - work), earliest)


def line_of(a: Attempts, earliest: Floats, work: Floats, late: Bools) -> Timeline:
    """The event axis once late attempts are known."""
    return timeline(a, starts(a, earliest, work, late))
