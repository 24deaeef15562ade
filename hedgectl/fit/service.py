"""From a workload and a fleet to a `ServiceModel`: runs the parts of the fit in order and keeps their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgectl.fit.decode import DecodeLaw, fit_decode, static_factors
from hedgectl.fit.edges import Period
from hedgectl.fit.hiccups import Hiccups, hiccup_pool, late_attempts, line_of
from hedgectl.fit.prefill import PrefillLaw, fit_prefill
from hedgectl.fit.routing import RoutingSeen, routing_seen
from hedgectl.fit.slowness import slow_periods
from hedgectl.fit.timeline import Attempts, attempts_of, earliest_starts, timeline
from hedgectl.model import OK, Fleet, Floats, ServiceModel, SlowSeries, Workload

STALL_AT_MOST = 8.0  # a prefill is first taken to last at most this many times its law; the periods say more later


@dataclass(frozen=True, slots=True)
class Fit:
    """A service law with what it rests on."""

    service: ServiceModel
    routing: RoutingSeen
    assumed: bool = False  # no replica ids: one law for all, simulate only
    notes: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)


def fit_service(w: Workload, fleet: Fleet) -> Fit:
    """Fit the law of one engine and each replica's slow periods.

    `fleet.max_running_requests` and `kv_capacity_tokens` tell waiting for room from slow prefill. Rows without first
    token, end or replica teach nothing. Deterministic; about 5 s and 0.6 GB for a million requests.
    """
    rows = (w.status == OK) & (w.cache_hit != 1)
    replicas = max(len(w.replicas), 1)
    a = attempts_of(
        w.arrival_s[rows],
        w.ttft_s[rows],
        w.e2e_s[rows],
        w.uncached_tokens[rows].astype(np.float64),
        np.maximum(w.prompt_tokens[rows], 0).astype(np.float64),
        np.where(w.completion_tokens[rows] >= 0, w.completion_tokens[rows], np.nan).astype(np.float64),
        w.replica[rows].astype(np.int64),
        replicas,
    )
    return _fit_paused(w, a, fleet)


def _fit_paused(w: Workload, a: Attempts, fleet: Fleet) -> Fit:
    """The law in which one prefill at a time pauses decode."""
    earliest = earliest_starts(a, fleet.max_running_requests.value, fleet.kv_capacity_tokens.value)
    static = np.ones(a.replicas)
    prefill = fit_prefill(a, earliest, static)
    work = prefill.work(a.uncached)
    line = timeline(a, np.maximum(earliest, a.first - STALL_AT_MOST * work))
    decode = fit_decode(line, static)
    static = static_factors(line, decode)
    prefill = fit_prefill(a, earliest, static)
    work = prefill.work(a.uncached) * static[a.replica]
    late = late_attempts(a, earliest, work, decode, static)
    line = line_of(a, earliest, work, late)
    decode = fit_decode(line, static)
    pool = hiccup_pool(a, earliest, work, late)
    periods = slow_periods(line, decode, work, static, prefill.spread)
    service = _service(prefill, decode, pool, series(periods, a, static))
    return Fit(service, routing_seen(w))


def series(periods: list[Period], a: Attempts, static: Floats) -> SlowSeries:
    """Periods on the composite axis as the slow series per replica, factors 1 / speed."""
    by_replica: dict[int, list[tuple[float, float, float]]] = {}
    for p in periods:
        r = int(p.start // a.span)
        by_replica.setdefault(r, []).append((p.start - r * a.span, p.end - r * a.span, 1.0 / p.level))
    found = SlowSeries.of(by_replica, a.replicas)
    return SlowSeries(found.offsets, found.start_s, found.factor, static)


def _service(prefill: PrefillLaw, decode: DecodeLaw, pool: Hiccups, slow: SlowSeries) -> ServiceModel:
    intervals = {
        "prefill_base_s": prefill.base_interval,
        "prefill_per_token_s": prefill.per_token_interval,
        "decode_base_s": decode.base_interval,
        "decode_per_sequence_s": decode.per_sequence_interval,
        "hiccup_probability": pool.interval,
    }
    observations = {
        "prefill_base_s": prefill.rows,
        "prefill_per_token_s": prefill.rows,
        "decode_base_s": decode.rows,
        "decode_per_sequence_s": decode.rows,
        "hiccup_probability": len(pool.delay_s),
    }
    return ServiceModel(
        prefill.base_s,
        prefill.per_token_s,
        decode.base_s,
        decode.per_sequence_s,
        slow,
        hiccup_s=pool.delay_s,
        hiccup_probability=pool.probability,
        intervals=intervals,
        observations=observations,
    )
