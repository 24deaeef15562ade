"""The paired ratio of two arms on the same arrivals, with an interval only where enough independent episodes stand behind it.

Slow requests come in episodes (one sick replica, one rush), so a tail percentile rests on episodes, not on requests.
Below 80 of them a nominal 95 % interval covers far less, and the ratio speaks for "this log only": interval None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CLAIMED_FROM = 80  # tail episodes
REPLICATES = 400
MOST_BLOCKS = 400
GAPS_OF_MEMORY = 10.0
WIDEN = 1.3  # a few episodes make most of the tail: plain percentiles cover too little
SMALL = 0.1  # an episode below this share of the (size-weighted) mean one does not count


@dataclass(frozen=True, slots=True)
class Episodes:
    """Runs of tail requests that share a cause: how many matter, and how long they last (95 %), seconds."""

    count: int
    length_s: float


def episodes(latency: ArrayLike, arrival_s: ArrayLike, p: float) -> Episodes:
    """Group the requests beyond the p-quantile of `latency` (n,) by time of arrival (n,), seconds.

    Two of them belong together if the second came within the memory: the median latency, or ten mean gaps between
    arrivals where that is longer. Single slow requests beside large episodes are not counted, else ten outages in a
    log with some long answers would pass for hundreds of independent events.
    """
    x, t = np.asarray(latency, dtype=np.float64), np.asarray(arrival_s, dtype=np.float64)
    order = np.argsort(t, kind="stable")
    x, t = x[order], t[order]
    if len(x) < 2:
        return Episodes(0, 0.0)
    span = float(t[-1] - t[0])
    memory = max(float(np.median(x)), GAPS_OF_MEMORY * span / len(x))
    when = t[x > np.quantile(x, p)]
    if not len(when):
        return Episodes(0, 0.0)
    first = np.concatenate([[True], np.diff(when) > memory])
    begins = np.flatnonzero(first)
    ends = np.append(begins[1:], len(when)) - 1
    sizes = ends - begins + 1
    typical = float(np.sum(sizes.astype(np.float64) ** 2) / np.sum(sizes))
    counted = sizes >= SMALL * typical
    return Episodes(int(counted.sum()), float(np.quantile(when[ends] - when[begins], 0.95)) + memory)


def paired_ratio(
    unhedged: ArrayLike, hedged: ArrayLike, arrival_s: ArrayLike, p: float, *, seed: int = 0
) -> Mapping[str, Any]:
    """`{"ratio", "interval", "episodes", "kind"}` of hedged over unhedged at quantile `p` (a share of 1).

    All three (n,), same requests in the same order; pairs with an unknown value are left out. Ratio None for no pair or
    an unhedged quantile of 0. Interval: 95 %, blocks of time longer than an episode resampled together for both arms.
    """
    a, b, t = (np.asarray(v, dtype=np.float64) for v in (unhedged, hedged, arrival_s))
    known = np.isfinite(a) & np.isfinite(b) & np.isfinite(t)
    a, b, t = a[known], b[known], t[known]
    empty = {"ratio": None, "interval": None, "episodes": 0, "kind": "block_bootstrap"}
    if not len(a):
        return empty
    before = float(np.quantile(a, p))
    if before <= 0:
        return empty
    ratio = float(np.quantile(b, p)) / before
    # the worse arm's episodes count: copies may merge into one what were many
    seen = min((episodes(x, t, p) for x in (a, b)), key=lambda e: e.count)
    found: dict[str, Any] = {"ratio": ratio, "interval": None, "episodes": seen.count, "kind": "block_bootstrap"}
    if seen.count >= CLAIMED_FROM:
        longest = max(episodes(x, t, p).length_s for x in (a, b))
        found["interval"] = _interval(a, b, t, p, longest, ratio, seed)
    return found


def _interval(a: Floats, b: Floats, t: Floats, p: float, episode_s: float, ratio: float, seed: int) -> list[float]:
    """95 % of the ratio over resampled blocks of time."""
    span = float(np.ptp(t))
    count = int(np.clip(span / max(2.0 * episode_s, 1e-9), 20, MOST_BLOCKS))
    block = np.minimum(((t - t.min()) / max(span, 1e-9) * count).astype(np.int64), count - 1)
    sizes = np.bincount(block, minlength=count)
    rng = np.random.default_rng([seed, 31])
    draws = rng.multinomial(count, np.full(count, 1.0 / count), size=REPLICATES)
    totals = draws @ sizes
    over, under = (_quantiles(x, block, draws, totals, p) for x in (b, a))
    logs = np.sort(np.log(np.maximum(over, 1e-12) / np.maximum(under, 1e-12)))
    # percentiles, widened by the degrees of freedom that the blocks have
    wider = np.sqrt(count / (count - 1.0)) * WIDEN
    centre = float(np.log(max(ratio, 1e-12)))
    low, high = np.quantile(logs, [0.025, 0.975])
    middle = float(np.median(logs))
    half = wider * max(middle - low, high - middle)
    low, high = min(low, centre - half), max(high, centre + half)
    return [float(np.exp(low)), float(np.exp(high))]


def _quantiles(x: Floats, block: Ints, draws: Ints, totals: Ints, p: float) -> Floats:
    """The p-quantile of every replicate: values in falling order, each as often as its block was drawn."""
    order = np.argsort(-x, kind="stable")
    out = np.empty(len(draws))
    top = min(len(x), int(len(x) * min(1.0, 3.0 * (1.0 - p))) + 50)
    for k, times in enumerate(draws):
        beyond = (1.0 - p) * max(totals[k] - 1, 0)  # rank from above, as linear interpolation counts it
        weight = np.cumsum(times[block[order[:top]]])
        if weight[-1] <= beyond:
            weight = np.cumsum(times[block[order]])
        at = int(np.searchsorted(weight, beyond, side="right"))
        out[k] = x[order[min(at, len(x) - 1)]]
    return out
