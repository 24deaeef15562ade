"""Losers that left before their first token: the prompt that was being computed then was computed to its end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hedgectl.fit.timeline import EPSILON_S, Attempts, Bools, earliest_starts
from hedgectl.model import Floats, Ints

ROUNDS = 5
SLOWEST = 33.0
NEXT = 2  # who came after: one of them may itself have been late


def finished(a: Attempts, work: Floats, batch: int | None, kv: int | None) -> Attempts:
    """The attempts with `first` and `end` of those that left set to when the engine was rid of them.

    A pass over a prompt is not interrupted: one that had begun ends `work` (n,) seconds times the slowness of that moment
    later, which whoever came next shows by its own first token. One that still waited in the queue was gone at once.
    """
    if not a.cut.any():
        return a
    after = _next_seen(a)
    gone = a.first.copy()
    found = a
    for _ in range(ROUNDS):
        order = np.argsort(gone, kind="stable")
        moved = replace(a, first=gone, end=np.where(a.cut, gone, a.end))
        found = moved.take(order)
        start = np.empty(len(a))
        start[order] = earliest_starts(found, batch, kv)
        begun = a.cut & (start < a.first - EPSILON_S)
        new = np.where(begun, np.maximum(a.first, start + _slowness(a, work, start, begun, after) * work), a.first)
        if np.allclose(new, gone, rtol=0.0, atol=EPSILON_S):
            break
        gone = new
    return found


def _next_seen(a: Attempts) -> list[Ints]:
    """For each attempt the next `NEXT` by arrival that showed a first token, each (n,); n = none."""
    n = len(a)
    seen = np.flatnonzero(~a.cut)
    seen = seen[np.argsort(a.arrival[seen], kind="stable")]
    at = np.searchsorted(a.arrival[seen], a.arrival, side="right")
    padded = np.append(seen, np.full(NEXT, n))
    return [padded[at + k] for k in range(NEXT)]


def _slowness(a: Attempts, work: Floats, start: Floats, begun: Bools, after: list[Ints]) -> Floats:
    """How many times longer than its law the prefill of each took, (n,); 1 where nobody came after on its replica.

    Whoever came after either waited (all prompts from here to it took first - start) or did not (its own took
    first - arrival); the one that did not happen is the larger number.
    """
    order = np.argsort(a.arrival, kind="stable")
    done = np.empty(len(a))
    done[order] = np.cumsum(np.where(begun, work, 0.0)[order])
    slowest = np.full(len(a), SLOWEST)
    for index in after:
        there = index < len(a)
        i = np.where(there, index, 0)
        there &= a.replica[i] == a.replica
        whole = done[i] - done + work + work[i]
        waited = (a.first[i] - start) / np.maximum(whole, 1e-9)
        own = (a.first[i] - a.arrival[i]) / np.maximum(work[i], 1e-9)
        slowest = np.minimum(slowest, np.where(there, np.minimum(waited, own), SLOWEST))
    nobody = slowest >= SLOWEST
    return np.where(nobody, 1.0, np.maximum(slowest, 1.0))
