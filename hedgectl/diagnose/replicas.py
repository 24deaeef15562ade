"""Replica by replica: share of slow attempts, and who is slow all the time once prompt and output length are taken out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Bools = NDArray[np.bool_]

PERSISTENT_RATIO = 1.2
MIN_ROWS = 30
OVER_TIME = 24


@dataclass(frozen=True, slots=True)
class ReplicaSeen:
    """`speed_ratio`: median of actual over expected time against the other replicas' median (1 = like the others)."""

    replica: str
    requests: int
    slow: int
    speed_ratio: float | None
    low_ratio: float | None  # the same at the lower quartile, worst half of the log
    persistent: bool
    over_time: tuple[float | None, ...] = ()  # share of slow attempts in OVER_TIME equal parts of the window


def replicas_seen(
    names: list[str],
    replica: Codes,
    slow: Bools,
    ratio: Floats,
    min_rows: int = MIN_ROWS,
    arrival_s: Floats | None = None,
) -> list[ReplicaSeen]:
    """One entry a replica. `ratio` (n,): time over what its lengths let expect, NaN where unknown; rows by arrival.

    Persistent: even the lower quartile of its ratios is 1.2 times the others', in both halves of the log. A replica that
    is slow now and then keeps an ordinary lower quartile. `arrival_s` (n,): for the shares over time.
    """
    known = np.isfinite(ratio)
    half = np.arange(len(replica)) >= len(replica) // 2
    out: list[ReplicaSeen] = []
    for code, name in enumerate(names):
        mine = replica == code
        own, rest = mine & known, ~mine & known
        speed = low = None
        persistent = False
        if own.sum() >= min_rows and rest.sum() >= min_rows:
            speed = float(np.median(ratio[own]) / np.median(ratio[rest]))
            halves = [
                float(np.quantile(ratio[own & h], 0.25) / np.quantile(ratio[rest & h], 0.25))
                for h in (half, ~half)
                if (own & h).sum() >= min_rows // 2 and (rest & h).sum() >= min_rows // 2
            ]
            low = min(halves) if halves else None
            persistent = low is not None and len(halves) == 2 and low >= PERSISTENT_RATIO
        course = () if arrival_s is None else over_time(arrival_s, mine, slow)
        out.append(ReplicaSeen(name, int(mine.sum()), int((mine & slow).sum()), speed, low, persistent, course))
    return out


def over_time(arrival_s: Floats, mine: Bools, slow: Bools) -> tuple[float | None, ...]:
    """Share of slow attempts among `mine` in OVER_TIME equal parts of the whole span; None without an attempt."""
    if not len(arrival_s):
        return ()
    first, span = float(arrival_s.min()), float(np.ptp(arrival_s))
    part = np.minimum((arrival_s - first) / (span or 1.0) * OVER_TIME, OVER_TIME - 1).astype(np.int64)
    sent = np.bincount(part[mine], minlength=OVER_TIME)
    late = np.bincount(part[mine & slow], minlength=OVER_TIME)
    return tuple(round(float(b / a), 4) if a else None for a, b in zip(sent, late, strict=True))
