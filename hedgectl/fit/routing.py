"""Which replica each request went to, against who was least busy then: the routing discipline seen in the log."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hedgectl.model import Workload

ENOUGH = 200  # arrivals at which somebody was busier than somebody else


@dataclass(frozen=True, slots=True)
class RoutingSeen:
    """Share of arrivals sent to a replica with the fewest outstanding requests, and what chance would give.

    Only arrivals at which replicas differed count. None where fewer than 200 such arrivals were seen.
    """

    seen: Literal["random", "least_outstanding", "round_robin", "other", "unknown"]
    share_to_least_outstanding: float | None
    by_chance: float | None
    arrivals: int


def routing_seen(w: Workload) -> RoutingSeen:
    """Count outstanding requests per replica at each arrival; least outstanding from 90 % of the way up from chance.

    Round robin is told by the step from one request's replica to the next: always the same.
    """
    replicas = len(w.replicas)
    rows = np.flatnonzero((w.replica >= 0) & np.isfinite(w.e2e_s))
    if replicas < 2 or len(rows) < ENOUGH:
        return RoutingSeen("unknown", None, None, 0)
    arrival, end, replica = w.arrival_s[rows], (w.arrival_s + w.e2e_s)[rows], w.replica[rows]
    least = np.full(len(rows), np.iinfo(np.int64).max)
    most = np.zeros(len(rows), dtype=np.int64)
    ties = np.zeros(len(rows), dtype=np.int64)
    chosen = np.zeros(len(rows), dtype=np.int64)
    for r in range(replicas):
        mine = replica == r
        came = np.searchsorted(arrival[mine], arrival, side="left")
        left = np.searchsorted(np.sort(end[mine]), arrival, side="right")
        outstanding = came - np.minimum(left, came)
        ties = np.where(outstanding < least, 1, ties + (outstanding == least))
        least, most = np.minimum(least, outstanding), np.maximum(most, outstanding)
        chosen[mine] = outstanding[mine]
    telling = most > least
    n = int(telling.sum())
    if n < ENOUGH:
        return RoutingSeen("unknown", None, None, n)
    share = float(np.mean(chosen[telling] == least[telling]))
    chance = float(np.mean(ties[telling] / replicas))
    steps = np.diff(replica) % replicas
    if np.max(np.bincount(steps, minlength=replicas)) >= 0.95 * len(steps):
        return RoutingSeen("round_robin", share, chance, n)
    reach = (share - chance) / max(1.0 - chance, 1e-9)
    if reach >= 0.9:
        return RoutingSeen("least_outstanding", share, chance, n)
    return RoutingSeen("random" if abs(reach) < 0.1 else "other", share, chance, n)
