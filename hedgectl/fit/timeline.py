"""What every engine was doing at every moment of the log: one axis of events for all replicas.

All replicas share one time axis: composite time = seconds since `Workload.t0_ns` + replica x span. So one sort and
one running sum answer for all replicas at once, and a million requests take a second.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgectl.model import Floats, Ints

Bools = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

EPSILON_S = 2e-9  # two sums of the same logged times may differ by rounding


@dataclass(frozen=True, slots=True, eq=False)
class Attempts:
    """Attempts that were served by an engine: first token and end are known. Every array has shape (n,).

    Sorted by (replica, first token). Times are composite seconds. `tokens` is NaN where the answer was cut
    (a cancelled loser): such a row takes room but teaches no law. `cut`: its client left before its first token; `first`
    and `end` are then when it left, or (after `cut.finished`) when the engine was done with its prompt.
    """

    span: float
    replicas: int
    replica: Ints
    arrival: Floats
    first: Floats
    end: Floats
    uncached: Floats
    prompt: Floats
    tokens: Floats
    queue: Floats  # seconds measured by the source, NaN = not
    prefill: Floats
    cut: Bools

    def take(self, rows: Bools | Ints) -> Attempts:
        """Some of them, or all in another order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in _PER_ATTEMPT})

    def __len__(self) -> int:
        return len(self.arrival)


_PER_ATTEMPT = ("replica", "arrival", "first", "end", "uncached", "prompt", "tokens", "queue", "prefill", "cut")


def attempts_of(
    arrival_s: Floats,
    ttft_s: Floats,
    e2e_s: Floats,
    uncached: Floats,
    prompt: Floats,
    tokens: Floats,
    replica: Ints,
    replicas: int,
    queue_s: Floats | None = None,
    prefill_s: Floats | None = None,
    left: Bools | None = None,
    bin_s: float = 1.0,
) -> Attempts:
    """Put rows with known times on the composite axis; rows without first token, end or replica are left out.

    `left` (n,): rows whose client went away at `e2e_s`; without a first token those are `cut`.
    """
    cut = np.zeros(len(arrival_s), dtype=bool) if left is None else left & ~np.isfinite(ttft_s) & (e2e_s > 0)
    ttft_s = np.where(cut, e2e_s, ttft_s)
    known = np.isfinite(ttft_s) & np.isfinite(e2e_s) & (replica >= 0) & (ttft_s >= 0) & (e2e_s >= ttft_s)
    a, t, e, r = arrival_s[known], ttft_s[known], e2e_s[known], replica[known].astype(np.int64)
    latest = float(np.max(a + e, initial=0.0))
    span = bin_s * (np.ceil(latest / bin_s) + 10.0)  # a multiple of the bin, so that bins never straddle replicas
    base = a + r * span
    order = np.lexsort((base + t, r))
    unknown = np.full(len(a), np.nan)
    queue = unknown if queue_s is None else queue_s[known]
    prefill = unknown if prefill_s is None else prefill_s[known]
    return Attempts(
        float(span), replicas, r[order], base[order], (base + t)[order], (base + e)[order],
        uncached[known][order], prompt[known][order], tokens[known][order], queue[order], prefill[order],
        cut[known][order],
    )  # fmt: skip


def _behind_cut(a: Attempts, lo: Floats) -> Floats:
    """Earliest starts where some left before their first token: whoever came later waited until they were gone.

    One that left while another ahead of it was still waited for had not begun (start = when it left). One that was
    overtaken was not in the queue: it was late before the engine, and blocked nobody.
    """
    seen = np.flatnonzero(~a.cut)
    seen = seen[np.argsort(a.arrival[seen], kind="stable")]
    came, first = a.arrival[seen], a.first[seen]
    cuts = np.flatnonzero(a.cut)
    cuts = cuts[np.argsort(a.arrival[cuts], kind="stable")]
    ahead = np.concatenate([[-np.inf], np.maximum.accumulate(first)])
    behind = np.concatenate([np.minimum.accumulate(first[::-1])[::-1], [np.inf]])
    queued = behind[np.searchsorted(came, a.arrival[cuts], side="right")] >= a.first[cuts]
    gone = np.concatenate([[-np.inf], np.maximum.accumulate(a.first[cuts[queued]])])
    until = gone[np.searchsorted(a.arrival[cuts[queued]], a.arrival, side="left")]
    out = np.maximum(lo, until)
    own = np.maximum(np.maximum(a.arrival[cuts], until[cuts]), ahead[np.searchsorted(came, a.arrival[cuts])])
    out[cuts] = np.where(queued, np.minimum(own, a.first[cuts]), a.first[cuts])
    return np.where(out <= a.first, out, lo)


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """Events in order of composite time with the state after each; shape (3n,) for times, (n,) for positions."""

    attempts: Attempts
    start: Floats  # (n,) composite time at which each prefill began
    times: Floats
    length: Floats  # seconds from each event to the next
    running: Floats  # sequences decoding after each event
    prefilling: Floats  # prefills under way after each event
    at_start: Ints
    at_first: Ints
    at_end: Ints

    def cumulative(self, per_second: Floats) -> Floats:
        """Integral of a rate that is constant between events, from the first event to each event, shape (3n,)."""
        out = np.empty(len(self.times))
        if len(out):
            out[0] = 0.0
            np.cumsum((per_second * self.length)[:-1], out=out[1:])
        return out

    def over_decode(self, per_second: Floats) -> Floats:
        """The same integral over each attempt's decode, first token to end, shape (n,)."""
        total = self.cumulative(per_second)
        return total[self.at_end] - total[self.at_first]


def earliest_starts(a: Attempts, batch: int | None, kv: int | None) -> Floats:
    """Earliest composite time each prefill can have begun, shape (n,).

    One prefill at a time: not before the previous first token of the replica. First come, first served: not before
    its own arrival. And not before the running batch has a free slot and the key-value cache room for
    prompt + output tokens (both reserved at admission): after `lo` only ends change either, so both are a search.
    """
    if not len(a):
        return np.zeros(0)
    previous = np.empty(len(a))
    previous[0] = -np.inf  # else of another replica: smaller than any arrival of this one
    previous[1:] = np.maximum.accumulate(np.where(a.cut, -np.inf, a.first))[:-1]
    lo = np.maximum(a.arrival, previous)
    if a.cut.any():
        lo = _behind_cut(a, lo)
    firsts = a.first  # sorted by construction
    order = np.argsort(a.end, kind="stable")
    ends = a.end[order]
    joined = np.searchsorted(firsts, lo, side="right")
    left = np.searchsorted(ends, lo, side="right")
    begin = lo.copy()
    if batch is not None:
        surplus = joined - left - batch + 1
        index = np.minimum(left + surplus - 1, len(ends) - 1)
        begin = np.where(surplus > 0, np.maximum(begin, ends[index]), begin)
    if kv is not None:
        need = a.prompt + np.where(np.isfinite(a.tokens), a.tokens, 0.0)
        reserved_in = np.concatenate([[0.0], np.cumsum(need)])[joined]
        freed = np.cumsum(need[order])
        index = np.searchsorted(freed, reserved_in - (kv - need) - 0.5, side="left")
        blocked = index >= left
        begin = np.where(blocked, np.maximum(begin, ends[np.minimum(index, len(ends) - 1)]), begin)
    return np.where(begin <= a.first, begin, lo)


def timeline(a: Attempts, start: Floats) -> Timeline:
    """The event axis for given prefill starts."""
    n = len(a)
    times = np.concatenate([start, a.first, a.end])
    order = np.argsort(times, kind="stable")
    position = np.empty(3 * n, dtype=np.int64)
    position[order] = np.arange(3 * n)
    one, zero = np.ones(n), np.zeros(n)
    running = np.cumsum(np.concatenate([zero, one, -one])[order])
    prefilling = np.cumsum(np.concatenate([one, -one, zero])[order])
    sorted_times = times[order]
    length = np.diff(sorted_times, append=sorted_times[-1:])
    at = (position[:n], position[n : 2 * n], position[2 * n :])
    return Timeline(a, start, sorted_times, length, running, prefilling, *at)
