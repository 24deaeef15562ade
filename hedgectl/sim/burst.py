"""One burst: a minute at four times the load, after which a hedged fleet must recover as fast as an unhedged one.

Copies of requests that are slow because everybody is busy keep everybody busy; that loop shows only after a push.
Recovered = the median of 30 s bins is back within 1.5 times that of the same minutes without the burst, and stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgectl.model import Workload
from hedgectl.sim.arm import Arm
from hedgectl.sim.load import Load, Span

LENGTH_S = 60.0
TIMES = 4.0
BIN_S = 30.0
RECOVERED = 1.5
STAYS = 3  # bins
SLACK_S = 60.0
SLOWER = 1.5  # hedged may take this much longer, or SLACK_S more


def add(w: Workload, at: Load, span: Span, seed: int) -> tuple[Load, float, float]:
    """`at` with a burst a quarter into the span; (load, start, end) in seconds. Short spans get a shorter burst."""
    length = span.end_s - span.start_s
    lasting = min(LENGTH_S, length / 20)
    begin = span.start_s + length / 4
    end = begin + lasting
    rng = np.random.default_rng([seed, 21])
    rate = len(at.row) / length
    more = rng.poisson((TIMES - 1.0) * rate * lasting)
    when = rng.uniform(begin, end, more)
    who = at.row[rng.integers(0, len(at.row), more)] if len(at.row) else np.zeros(0, dtype=np.int64)
    arrival = np.concatenate((at.arrival_s, when))
    order = np.argsort(arrival, kind="stable")
    return Load(at.scale, arrival[order], np.concatenate((at.row, who))[order]), begin, end


def recovery_s(with_burst: Arm, without: Arm, end_s: float) -> float | None:
    """Seconds from the end of the burst until the medians are back; None if they are not before the log ends."""
    last = float(with_burst.arrival_s[-1]) if len(with_burst.row) else end_s
    usual = float(np.median(without.e2e_s)) if len(without.row) else 0.0
    calm = 0
    edges = np.arange(end_s, last, BIN_S)
    for edge in edges:
        now, then = (_median(arm, edge) for arm in (with_burst, without))
        if now is not None and now > RECOVERED * max(then or 0.0, usual):
            calm = 0
            continue
        calm += 1
        if calm == STAYS:
            return float(edge - end_s - (STAYS - 1) * BIN_S)
    return None if calm == 0 else float(len(edges) - calm) * BIN_S


def _median(arm: Arm, edge: float) -> float | None:
    low, high = np.searchsorted(arm.arrival_s, [edge, edge + BIN_S])
    return float(np.median(arm.e2e_s[low:high])) if high > low else None


def document(unhedged_s: float | None, hedged_s: float | None, lasting_s: float) -> dict[str, Any]:
    """What the burst did to both arms."""
    if hedged_s is None:
        passed = unhedged_s is None
    elif unhedged_s is None:
        passed = True
    else:
        passed = hedged_s <= max(SLOWER * unhedged_s, unhedged_s + SLACK_S)
    return {
        "length_s": round(lasting_s, 1),
        "times": TIMES,
        "unhedged_recovery_s": unhedged_s,
        "hedged_recovery_s": hedged_s,
        "recovers_as_fast": passed,
    }
