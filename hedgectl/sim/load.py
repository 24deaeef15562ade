"""Other loads than today's: the same log, denser or thinner, with its time axis left as it is; and the load measure rho.

**What is scaled.** Slow periods, bursts, daily hours stay in the log's wall time and keep their length: a replica that is
slow for 20 s is slow for 20 s at twice the load. Squeezing the whole log (as load generators do) would shorten slow
periods or bursts together with the gaps, or let twice as many of them fall on an hour. So the axis is cut into blocks of
`block_s`; the arrivals of a block are those of a piece of log around its middle, `scale` times as long, squeezed into
the block. Within a block gaps keep their law (regular stays regular, Poisson stays Poisson); beyond it the rate is
`scale` times the log's at that moment. At scale 1 it is the log itself.
Above 1 pieces overlap, so a request can stand for several; which job (prompt, output, flags) comes at which moment is
then shuffled among neighbours, lest the same long answer comes several times in a row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hedgectl.model import Floats, Ints, ServiceModel, Workload

BLOCK_S = 10.0
GAPS_A_BLOCK = 20.0
NEIGHBOURS = 100
HOUR_S = 3600.0
SHORTEST_SLICE = 3000  # requests: below it the busiest hour is too small for a p99 and the slice is widened


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """Arrivals of one load: `arrival_s` ascending, `row` of the workload whose job comes then, both (m,)."""

    scale: float  # mean rate over today's mean rate
    arrival_s: Floats
    row: Ints


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the log, seconds [start, end), and how dense it is against the whole."""

    start_s: float
    end_s: float
    density: float


def whole(w: Workload) -> Span:
    """The log from its first arrival to its last."""
    if not len(w):
        return Span(0.0, 1.0, 1.0)
    return Span(float(w.arrival_s[0]), float(w.arrival_s[-1]) + 1e-9, 1.0)


def busiest_hour(w: Workload, work: Floats) -> Span:
    """The hour (by a window sliding in 5 min steps) with most `work` (n,); wider if it holds too few requests.

    A log of up to two hours is its own busiest hour.
    """
    every = whole(w)
    length = every.end_s - every.start_s
    if length <= 2 * HOUR_S or len(w) <= SHORTEST_SLICE:
        return every
    total = np.concatenate(([0.0], np.cumsum(work)))
    starts = np.arange(every.start_s, every.end_s - HOUR_S + 1.0, 300.0)
    low, high = np.searchsorted(w.arrival_s, starts), np.searchsorted(w.arrival_s, starts + HOUR_S)
    best = int(np.argmax(total[high] - total[low]))
    start, end = float(starts[best]), float(starts[best]) + HOUR_S
    density = (total[high[best]] - total[low[best]]) / HOUR_S / (total[-1] / length)
    while np.diff(np.searchsorted(w.arrival_s, [start, end]))[0] < SHORTEST_SLICE and end - start < length:
        start, end = max(every.start_s, start - HOUR_S / 2), min(every.end_s, end + HOUR_S / 2)
    return Span(start, end, float(density))


def at(w: Workload, scale: float, seed: int, span: Span | None = None) -> Load:
    """`scale` times the log's own rate within `span` (default: all of it). ValueError for a scale that is not above 0."""
    if not scale > 0:
        raise ValueError(f"a load must be above 0, not {scale}")
    piece = span or whole(w)
    low, high = np.searchsorted(w.arrival_s, [piece.start_s, piece.end_s])
    source = w.arrival_s[low:high]
    rows = np.arange(low, high, dtype=np.int64)
    total = scale * piece.density
    if scale == 1.0 or not len(source):
        return Load(total, source.copy(), rows)
    arrival, picked = _squeeze(source, piece, scale)
    if scale > 1.0:
        rng = np.random.default_rng([seed, 7])
        picked = picked[np.argsort(np.arange(len(picked)) + rng.uniform(-NEIGHBOURS, NEIGHBOURS, len(picked)))]
    return Load(total, arrival, rows[picked])


def _squeeze(source: Floats, span: Span, scale: float) -> tuple[Floats, Ints]:
    """Arrivals and source positions, block by block; a piece of log that sticks out at an end is shifted inside."""
    length = span.end_s - span.start_s
    block = min(length, max(BLOCK_S, GAPS_A_BLOCK * length / len(source)))
    count = max(1, round(length / block))
    block = length / count
    times: list[Floats] = []
    picked: list[Ints] = []
    need = scale * block
    for k in range(count):
        begin = span.start_s + k * block
        from_s = begin + block / 2 - need / 2
        if need <= length:
            from_s = min(max(from_s, span.start_s), span.end_s - need)
        found, where = _unrolled(source, span, from_s, from_s + need)
        times.append(begin + (found - from_s) / scale)
        picked.append(where)
    arrival = np.concatenate(times)
    order = np.argsort(arrival, kind="stable")
    return arrival[order], np.concatenate(picked)[order]


def _unrolled(source: Floats, span: Span, from_s: float, to_s: float) -> tuple[Floats, Ints]:
    """Arrivals in [from, to) of the log repeated end to end, with their positions; the log itself is the 0th turn."""
    length = span.end_s - span.start_s
    found: list[Floats] = []
    where: list[Ints] = []
    first, last = int((from_s - span.start_s) // length), int((to_s - span.start_s) // length)
    for turn in range(first, last + 1):
        low, high = np.searchsorted(source, [from_s - turn * length, to_s - turn * length])
        found.append(source[low:high] + turn * length)
        where.append(np.arange(low, high, dtype=np.int64))
    return np.concatenate(found), np.concatenate(where)


def seconds_of_work(w: Workload, service: ServiceModel, tokens: Floats, cap: float) -> Floats:
    """Replica seconds each request takes of a full batch, (n,): prefill + tokens * (step base / cap + step slope)."""
    per_token = service.decode_per_sequence_s
    if np.isfinite(cap):
        per_token += service.decode_base_s / max(cap, 1.0)
    return service.prefill_base_s + service.prefill_per_token_s * w.uncached_tokens + tokens * per_token


def rho(work: Floats, length_s: float, replicas: int) -> float:
    """Offered load per replica: seconds of full-batch work that arrive in a second. 1 = saturated."""
    return float(work.sum()) / max(length_s, 1e-9) / max(replicas, 1)
