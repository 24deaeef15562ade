"""Co-movement: when one replica is slow, are the others slow at the moment a copy would reach them?

lift = P(an attempt on another replica is slow | it starts about when the copy of a slow one would) / its base rate.
Base rates are those of the same hour of day and load stratum, so that daily rhythm alone is no co-movement.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]

WINDOW_S = 5.0  # half width around the copy's start
MAX_WINDOW_S = 120.0
HOUR_S = 3600.0
MIN_HOURS = 6
MIN_DAYS = 3
MIN_STRATUM = 300
RESAMPLES = 400


@dataclass(frozen=True, slots=True)
class CoMovement:
    """`lift` within strata with its 95 % block-bootstrap interval; `overall` without strata.

    `copy_slow` is the share of slow attempts a copy would have met, `pairs` how many attempts that rests on.
    """

    lift: float
    low: float
    high: float
    overall: float
    copy_slow: float
    pairs: int
    blocks: int
    window_s: float


def strata(arrival_s: Floats, t0_ns: int) -> tuple[Codes, str]:
    """(stratum of each row, what it is made of): hour of day (UTC) times third of load by the hour; shape (n,).

    The hour of day counts from three days of log on, the load from six hours on: with one instance of each, conditioning
    on it would take out the very episodes that are looked for. Likewise the load is that of whole hours: a burst of
    minutes that slows everybody is co-movement itself. Thin strata fall back to the hour of day, then to all.
    """
    absolute = arrival_s + t0_ns / 1e9
    hour = (absolute // HOUR_S).astype(np.int64)
    _, which, count = np.unique(hour, return_inverse=True, return_counts=True)
    days = float(absolute[-1] - absolute[0]) / 86400
    none = np.zeros(len(arrival_s), dtype=np.int64)
    of_day = hour % 24 if days >= MIN_DAYS else none
    third = none
    if len(count) >= MIN_HOURS:
        # The first and last hour are cut by the log: their rate is over the part that was seen.
        span = np.full(len(count), HOUR_S)
        span[0] = max(HOUR_S - absolute[0] % HOUR_S, 60.0)
        span[-1] = max(absolute[-1] % HOUR_S, 60.0)
        rate = count / span
        third = np.searchsorted(np.quantile(rate, [1 / 3, 2 / 3]), rate, side="right")[which].astype(np.int64)
    used = [
        name for name, on in (("hour of day", days >= MIN_DAYS), ("load by the hour", len(count) >= MIN_HOURS)) if on
    ]
    return _merged(of_day * 3 + third, of_day), ", ".join(used) or "none: the log is too short"


def _merged(fine: Codes, coarse: Codes) -> Codes:
    """Codes from 0: the fine stratum where it has enough rows, else the coarse one, else one for all the rest."""
    enough = np.bincount(fine)[fine] >= MIN_STRATUM
    coarse_enough = np.bincount(coarse)[coarse] >= MIN_STRATUM
    label = np.where(enough, fine, np.where(coarse_enough, 1000 + coarse, 2000))
    return np.unique(label, return_inverse=True)[1].astype(np.int64)


def _between(counts: Floats, lo: Codes, hi: Codes) -> Floats:
    return np.asarray(counts[hi] - counts[lo])


def co_movement(
    arrival_s: Floats,
    slow: Bools,
    place: Codes,
    stratum: Codes,
    delay_s: float,
    *,
    seed: int,
    min_pairs: int = 30,
) -> CoMovement | None:
    """Shapes (n,), in order of arrival; `place` is the replica or pool that must differ, -1 = unknown (left out).

    None if fewer than `min_pairs` pairs exist or nothing was slow.
    """
    use = place >= 0
    arrival_s, slow, place, stratum = arrival_s[use], slow[use], place[use], stratum[use]
    hot = np.flatnonzero(slow)
    if not len(hot) or len(np.unique(place)) < 2:
        return None
    base = np.bincount(stratum, weights=slow) / np.maximum(np.bincount(stratum), 1)
    expected = base[stratum]
    start = arrival_s[hot] + delay_s
    window, found = WINDOW_S, None
    # Sparse logs: widen until half of the slow attempts have others enough to look at.
    wanted = 8 if len(arrival_s) >= 1000 else 2
    while True:
        found = _count(arrival_s, slow.astype(np.float64), expected, place, hot, start, window)
        if np.median(found[0]) >= wanted or window >= MAX_WINDOW_S:
            break
        window = min(window * 1.6, MAX_WINDOW_S)
    pairs, seen, chance = found
    total = float(pairs.sum())
    if total < min_pairs or chance.sum() <= 0:
        return None
    overall_rate = float(slow.mean())
    block_s = max(60.0, 2 * window, float(arrival_s[-1] - arrival_s[0]) / 500)
    _, block = np.unique((arrival_s // block_s).astype(np.int64), return_inverse=True)
    blocks = int(block.max()) + 1
    seen_b = np.bincount(block[hot], weights=seen, minlength=blocks)
    chance_b = np.bincount(block[hot], weights=chance, minlength=blocks)
    slow_b = np.bincount(block, weights=slow, minlength=blocks)
    base_b = np.bincount(block, weights=expected, minlength=blocks)
    rng = np.random.default_rng(seed)
    draws = rng.integers(0, blocks, size=(RESAMPLES, blocks))
    # A draw with fewer episodes has a lower base rate too: both are drawn together, else the interval is far too wide.
    top = seen_b[draws].sum(axis=1) * base_b[draws].sum(axis=1)
    bottom = chance_b[draws].sum(axis=1) * slow_b[draws].sum(axis=1)
    drawn = bottom > 0
    low, high = np.quantile(top[drawn] / bottom[drawn], [0.025, 0.975]) if drawn.any() else (0.0, np.inf)
    return CoMovement(
        lift=float(seen.sum() / chance.sum()),
        low=float(low),
        high=float(high),
        overall=float(seen.sum() / total / overall_rate),
        copy_slow=float(seen.sum() / total),
        pairs=int(total),
        blocks=blocks,
        window_s=window,
    )


def _count(
    arrival_s: Floats, slow: Floats, expected: Floats, place: Codes, hot: Codes, start: Floats, window: float
) -> tuple[Floats, Floats, Floats]:
    """Per slow attempt: others within the window on other places, how many were slow, how many chance expects."""
    zero = np.zeros(1)
    slow_sum, expected_sum = np.concatenate((zero, np.cumsum(slow))), np.concatenate((zero, np.cumsum(expected)))
    lo = np.searchsorted(arrival_s, start - window, side="left")
    hi = np.searchsorted(arrival_s, start + window, side="right")
    pairs = (hi - lo).astype(np.float64)
    seen, chance = _between(slow_sum, lo, hi), _between(expected_sum, lo, hi)
    for p in np.unique(place[hot]):
        mine = np.flatnonzero(place == p)
        asked = place[hot] == p
        own = arrival_s[mine]
        a = np.searchsorted(own, start[asked] - window, side="left")
        b = np.searchsorted(own, start[asked] + window, side="right")
        pairs[asked] -= b - a
        seen[asked] -= _between(np.concatenate((zero, np.cumsum(slow[mine]))), a, b)
        chance[asked] -= _between(np.concatenate((zero, np.cumsum(expected[mine]))), a, b)
    return pairs, seen, chance


def episodes(arrival_s: Floats, slow: Bools) -> int:
    """How many independent events the slow requests amount to: their number over the dispersion of their counts in blocks.

    Slow requests that come alone count one each; a spell that makes thirty slow at once counts one.
    """
    at = arrival_s[slow]
    if len(at) < 2:
        return len(at)
    span = float(arrival_s[-1] - arrival_s[0])
    blocks = int(np.clip(span / 60.0, 5, 2000))
    edges = np.linspace(float(arrival_s[0]), float(arrival_s[-1]) + 1e-9, blocks + 1)
    hot, all_ = np.histogram(at, edges)[0], np.histogram(arrival_s, edges)[0]
    share = len(at) / len(arrival_s)
    expected = all_ * share
    seen = expected > 0
    # Dispersion against the load of the block, so that a busy hour alone is no episode.
    dispersion = float(((hot[seen] - expected[seen]) ** 2).sum() / expected[seen].sum())
    return max(1, round(len(at) / max(1.0, dispersion)))
