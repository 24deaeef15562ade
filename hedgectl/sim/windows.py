"""Shares of the last 15 to 30 seconds: slow answers of each replica, errors, copies. Two halves, the older one falls off."""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.jit import inlined, jit
from hedgectl.sim.tables import window

HALF_WINDOW_S = 15.0


@inlined
def _turn(w: Any, t: float) -> None:
    # by half after half: a division is moved by the compiler to where every request passes, watched or not
    while t >= w.until:
        w.n_before = w.n
        w.hits_before = w.hits
        w.n = 0.0
        w.hits = 0.0
        w.until += HALF_WINDOW_S


@jit
def count(g: Any, row: int, t: float, n: float, hits: float) -> None:
    """Add `n` events to window `row`, `hits` of them that count."""
    w = window(g, row)
    _turn(w, t)
    w.n += n
    w.hits += hits


@jit
def share(g: Any, row: int, t: float) -> float:
    """Hits per event in window `row`; 0 without events."""
    w = window(g, row)
    _turn(w, t)
    n = w.n + w.n_before
    if n > 0.0:
        return (w.hits + w.hits_before) / n
    return 0.0
