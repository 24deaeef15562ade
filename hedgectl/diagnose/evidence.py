"""Gathers what a verdict rests on: the tail, its parts, co-movement, routing, replicas, and what a same-length copy gains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgectl import decompose, quantiles, workload
from hedgectl.diagnose import attribution as parts_of
from hedgectl.diagnose import comovement
from hedgectl.diagnose.ordinary import Ordinary, late, ordinary
from hedgectl.diagnose.replicas import MIN_ROWS, ReplicaSeen, replicas_seen
from hedgectl.estimate import Screen
from hedgectl.fit.routing import RoutingSeen, routing_seen
from hedgectl.model import Workload

if TYPE_CHECKING:
    import duckdb

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Metric = Literal["e2e", "ttft"]

MODE_RATIO = 3.0  # three times the ordinary for its length, and ...
MODE_SHARE = 0.08  # ... so many of them that p95 lies inside: slowness is then told by the mode, not by p95
SLOW_MODE_RATIO = 1.5  # a small log has no p95: slow is what took 1.5 times the ordinary
SMALL = 299  # below it p99 is unreliable and the slow mode, if there is one, says more than a percentile
FEWEST = 10  # finished requests without which there are no ordinary ones to compare with
SCREEN_QUANTILES = (0.90, 0.95, 0.98)
SCREEN_ROWS = 400_000  # beyond this one delay is screened, not three


@dataclass(frozen=True, slots=True)
class Evidence:
    """All numbers behind a verdict. Times in ms, shares as ratios; None = could not be computed from this log."""

    metric: Metric
    requests: int  # served by an engine
    finished: int
    errors: int
    censored: int
    p50_ms: float | None
    p99_ms: float | None
    threshold_ms: float | None
    tail: int
    episodes: int
    tail_ratio: float | None  # p99 (else the mean of the slow) over p50
    attribution: dict[str, Any] | None
    attribution_fitted: bool
    e2e: comovement.CoMovement | None
    ttft: comovement.CoMovement | None
    between_pools: comovement.CoMovement | None
    pools: int
    routing: RoutingSeen
    replicas: list[ReplicaSeen]
    replica_count: int
    strata: str
    replica_share: float  # of attempts whose replica is known
    copy_gain: float | None  # of p99, by a copy of the same length, load-blind
    slow_mode_share: float  # requests that took three times the ordinary for their length
    p95_unknown: bool  # so many were cut short that p95 is only known to be longer


def gather(con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared, metric: Metric, seed: int) -> Evidence:
    """Reads the prepared tables; raises nothing for thin or empty logs."""
    rows = decompose.floats(decompose.columns(con, "decompose/diagnosis_row"))
    status, time = rows["status"], rows[f"{metric}_ns"]
    fine = (status == 0) & np.isfinite(time)
    bounds = (status == 2) & np.isfinite(rows["e2e_ns"]) & ((metric == "e2e") | ~np.isfinite(rows["ttft_ns"]))
    cut_ms, cut_weight = rows["e2e_ns"][bounds] / 1e6, rows["weight"][bounds]
    del time
    served = {
        name: rows.pop(name)[fine] for name in list(rows)
    }  # both together would be the most memory of a recommendation
    x, w = served[f"{metric}_ns"], served["weight"]
    n = len(x)
    told = quantiles.summary(x / 1e6, weights=w, censored=cut_ms, censored_weights=cut_weight)
    usual = ordinary(served, x)
    ratio = x / np.maximum(usual.seconds(served) * 1e9, 1.0)
    limit, slow = slow_rows(x, w, ratio, told)
    middle = quantiles.quantile(x, 0.5) if n else None
    p99 = told["p99"] if told["p99"] is not None else told["at_least"].get("p99")
    tail_ratio = None
    if middle and slow.any():
        bounded = "p99" in told["at_least"]
        top = p99 * 1e6 if p99 is not None and (n >= SMALL or bounded) else float(x[slow].mean())
        tail_ratio = top / (middle if n >= SMALL else float(np.quantile(x, 0.25)))
    names = {"queue": "queue_ns", "prefill": "prefill_ns", "unsplit": "unsplit_ns", "decode": "decode_ns"}
    names |= {"tool_wait": "tool_wait_ns", "other": "other_ns", "output_tokens": "output_tokens"}
    pieces = {k: served[v] for k, v in names.items()}
    if metric == "ttft":
        nothing = np.zeros(n)
        front = sum((_zero(pieces[k]) for k in ("queue", "prefill", "unsplit")), nothing)
        pieces |= {"decode": nothing, "tool_wait": nothing, "output_tokens": nothing, "other": x - front}
    whole = metric == "e2e" and not np.isfinite(served["decode_ns"]).any()
    per_output = usual.shared.per_output_s * 1e9 if whole else 0.0
    shares = parts_of.attribution(pieces, x, slow, w, per_output_ns=per_output) if n >= FEWEST else None
    timed = np.isfinite(served["arrival_ns"])
    origin = float(served["arrival_ns"][timed].min()) if timed.any() else 0.0
    count = comovement.episodes((served["arrival_ns"][timed] - origin) / 1e9, slow[timed]) if timed.any() else 0
    del served, pieces  # of a million requests a third of a gigabyte; what follows reads its own columns
    seen = _attempts(con, metric, limit, usual, prepared, seed)
    load = workload.load(con).requests
    return Evidence(
        metric=metric,
        requests=len(status),
        finished=n,
        errors=int((status == 1).sum()),
        censored=int((status == 2).sum()),
        p50_ms=told["p50"],
        p99_ms=told["p99"],
        threshold_ms=None if limit is None else limit / 1e6,
        tail=int(slow.sum()),
        episodes=count,
        tail_ratio=tail_ratio,
        attribution=shares,
        attribution_fitted=per_output > 0,
        routing=routing_seen(load),
        copy_gain=same_length_gain(load, metric, limit),
        slow_mode_share=float(in_mode(ratio).mean()) if n else 0.0,
        p95_unknown="p95" in told["at_least"],
        **seen,
    )


def _zero(x: Floats) -> Floats:
    return np.nan_to_num(x)


def slow_rows(x: Floats, weight: Floats, ratio: Floats, told: dict[str, Any]) -> tuple[float | None, Bools]:
    """(threshold in ns, slow rows): beyond p95; in a small log, or one whose p95 lies inside a flat slow mode, the slow mode.

    A slow mode is there if 5 to 60 % of requests took 1.5 times what the ordinary ones (lower quartile) took for their length.
    """
    n = len(x)
    if not n:
        return None, np.zeros(0, dtype=bool)
    uniform = bool(np.all(weight == 1.0))
    limit = quantiles.quantile(x, 0.95, None if uniform else weight)
    assert limit is not None
    if told["at_least"].get("p95") is not None or told["at_least"].get("p99") is not None:
        # With many cut short the finished ones alone would show too short a tail.
        limit = min(limit, told["p95"] * 1e6) if told["p95"] is not None else limit
    slow = x > limit
    if n < SMALL or slow.sum() < 0.02 * n:
        beyond = ratio > SLOW_MODE_RATIO * float(np.quantile(ratio, 0.25))
        if 0.05 <= beyond.mean() <= 0.6:
            ordinary = x[~beyond]
            limit = float(min(x[beyond].min() - 1, max(ordinary.max(), 0.0)) if len(ordinary) else x[beyond].min() - 1)
            return limit, beyond
    return limit, slow


def in_mode(ratio: Floats) -> Bools:
    """Rows that took three times what the ordinary ones (lower quartile) took for their length."""
    known = ratio[np.isfinite(ratio)]
    if not len(known):
        return np.zeros(len(ratio), dtype=bool)
    return np.nan_to_num(ratio) > MODE_RATIO * float(np.quantile(known, 0.25))


def _attempts(
    con: duckdb.DuckDBPyConnection,
    metric: Metric,
    limit_ns: float | None,
    usual: Ordinary,
    prepared: decompose.Prepared,
    seed: int,
) -> dict[str, Any]:
    """What is seen between replicas: co-movement of both clocks, between pools, and each replica's own speed."""
    found = decompose.columns(con, "decompose/diagnosis_attempt")
    names = [r["replica"] for r in decompose.rows(con, "decompose/replica_name")]
    arrival_ns = np.asarray(found["arrival_ns"], dtype=np.int64)
    out: dict[str, Any] = {"e2e": None, "ttft": None, "between_pools": None, "pools": 0, "replicas": []}
    out |= {"replica_count": len(names), "strata": "none: no replica is known"}
    out["replica_share"] = len(arrival_ns) / max(prepared.attempts, 1)
    if not len(arrival_ns) or limit_ns is None:
        return out
    t0 = int(arrival_ns[0])
    arrival = (arrival_ns - t0) / 1e9
    rows = decompose.floats(found)
    replica = rows["replica"].astype(np.int64)
    pool = np.where(np.isfinite(rows["pool"]), rows["pool"], -1).astype(np.int64)
    out["pools"] = len(np.unique(pool[pool >= 0]))
    stratum, out["strata"] = comovement.strata(arrival, t0)
    need = 30 if prepared.selection.min_requests >= decompose.MIN_REQUESTS else 4
    for clock in ("e2e", "ttft"):
        time = rows[f"{clock}_ns"]
        known = np.isfinite(time)
        if not known.any():
            continue
        limit = limit_ns if clock == metric else float(np.quantile(time[known], 0.95))
        slow = late(rows, time, limit)
        delay = limit
        expected = usual.seconds(rows) * 1e9
        mode = known & in_mode(np.where(known, time / np.maximum(expected, 1.0), np.nan))
        if clock == metric and mode.mean() >= MODE_SHARE and (known & ~mode).any():
            # A copy is sent once the ordinary are through: at a delay inside the slow mode the spell may be over.
            slow, delay = mode, float(np.quantile(time[known & ~mode], 0.95))
        move = comovement.co_movement(
            arrival[known], slow[known], replica[known], stratum[known], delay / 1e9, seed=seed, min_pairs=need
        )
        out[clock] = move
        if clock == metric:
            if out["pools"] > 1:
                out["between_pools"] = comovement.co_movement(
                    arrival[known], slow[known], pool[known], stratum[known], delay / 1e9, seed=seed, min_pairs=need
                )
            done = known & (rows["status"] == 0)
            speed = np.where(done, time / np.maximum(expected, 1.0), np.nan)
            out["replicas"] = replicas_seen(names, replica, slow, speed, MIN_ROWS if need == 30 else 8, arrival)
    return out


def same_length_gain(load: Workload, metric: Metric, limit_ns: float | None) -> float | None:
    """Share of p99 that a copy of the same length would take off, at the best of a few delays; load-blind, so optimistic.

    None if there is nothing to screen.
    """
    if limit_ns is None or len(load) < 10:
        return None
    screen = Screen(load)
    trigger: Literal["response", "first_token"] = (
        "response" if metric == "e2e" or not screen.has_ttft else "first_token"
    )
    clock = screen.clock(trigger)
    served = (load.cache_hit != 1) & np.isfinite(clock) & (load.status == 0)
    if served.sum() < 10:
        return None
    before = _p99(clock[served], np.ones(int(served.sum())))
    delays = {limit_ns / 1e9}
    if len(load) >= SMALL:
        some = SCREEN_QUANTILES if len(load) <= SCREEN_ROWS else (0.95,)
        delays = {float(np.quantile(clock[served], q)) for q in some}
    gains = []
    for delay in sorted(delays):
        shot = screen.project(trigger, delay, served, "same")
        after = shot.ttft_s if trigger == "first_token" else shot.e2e_s
        rest = served.copy()
        rest[shot.hedged] = False
        values = np.concatenate((clock[rest], after.ravel()))
        weight = np.concatenate((np.ones(int(rest.sum())), shot.weight.ravel()))
        gains.append(1 - _p99(values, weight) / before)
    return max(gains)


def _p99(values: Floats, weight: Floats) -> float:
    """p99 by cumulative weight (fractions of a request allowed)."""
    keep = weight > 0
    values, weight = values[keep], weight[keep]
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    at = min(int(np.searchsorted(reached, 0.99 * reached[-1])), len(order) - 1)
    return max(float(values[order][at]), 1e-9)
