"""From a workload and a fleet to a `ServiceModel`: runs the parts of the fit in order and keeps their evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hedgectl.fit.cut import finished
from hedgectl.fit.decode import DecodeLaw, fit_decode, static_factors
from hedgectl.fit.edges import Period
from hedgectl.fit.hiccups import Hiccups, hiccup_pool, late_attempts, line_of, residual_pool
from hedgectl.fit.prefill import PrefillLaw, fit_prefill
from hedgectl.fit.routing import RoutingSeen, routing_seen
from hedgectl.fit.slowness import slow_periods
from hedgectl.fit.steps import QUEUED_S, StepFit, fit_step_engine, fit_steps, fit_unnamed_engines
from hedgectl.fit.timeline import EPSILON_S, Attempts, attempts_of, earliest_starts, timeline
from hedgectl.model import CENSORED, OK, Fact, Fleet, Floats, ServiceModel, SlowSeries, Workload

STALL_AT_MOST = 8.0  # a prefill is first taken to last at most this many times its law; the periods say more later
CLEARLY_BETTER = 0.92  # spread of the step law over that of the pausing law below which chunked prefill is seen
STEP_BUDGET = 2048

Say = Callable[[float], None]  # the share of the fit that is done


@dataclass(frozen=True, slots=True)
class Fit:
    """A service law with what it rests on. `fleet` is the one given, with what the log adds to it."""

    service: ServiceModel
    routing: RoutingSeen
    fleet: Fleet
    assumed: bool = False  # no replica ids: one law for all, simulate only
    notes: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)


def _unheard(share: float) -> None:
    """Nobody listens."""


def fit_service(w: Workload, fleet: Fleet, attempts: Workload | None = None, say: Say = _unheard) -> Fit:
    """Fit the law of one engine and each replica's slow periods.

    `attempts` has a row a send (copies and retries included) where requests had more than one; default `w`.
    `fleet.max_running_requests` and `kv_capacity_tokens` tell waiting for room from slow prefill. Rows without first
    token, end or replica teach nothing. `say` is told the share that is done. Deterministic; about 10 s and
    0.6 GB for a million requests.
    """
    say(0.0)
    source = w if attempts is None else attempts
    if not np.any(source.replica >= 0) and fleet.replicas.value is not None:
        return _fit_unnamed(w, source, fleet, fleet.replicas.value)
    a = served(source, max(len(w.replicas), 1))
    stepwise = fleet.chunk_tokens.value or 0
    if fleet.chunk_tokens.source == "assumed" and not stepwise and _steps_fit_better(a, fleet):
        fleet = replace(fleet, chunk_tokens=Fact(STEP_BUDGET, "log"))
        stepwise = STEP_BUDGET
    say(0.2)
    service = _fit_stepwise(a, fleet, stepwise, say) if stepwise else _fit_paused(a, fleet, say)
    return Fit(service, routing_seen(w), fleet)


def served(w: Workload, replicas: int) -> Attempts:
    """The attempts of a workload that an engine served; cut ones take room but teach no law."""
    rows = w.cache_hit != 1
    tokens = np.where((w.status == OK) & (w.completion_tokens >= 0), w.completion_tokens, np.nan)
    return attempts_of(
        w.arrival_s[rows],
        w.ttft_s[rows],
        w.e2e_s[rows],
        w.uncached_tokens[rows].astype(np.float64),
        np.maximum(w.prompt_tokens[rows], 0).astype(np.float64),
        tokens[rows].astype(np.float64),
        w.replica[rows].astype(np.int64),
        replicas,
        w.queue_s[rows],
        w.prefill_s[rows],
        (w.status == CENSORED)[rows],
    )


def _first_laws(a: Attempts, earliest: Floats) -> tuple[PrefillLaw, DecodeLaw, Floats]:
    """Pausing laws before anything is known of slow periods or late arrivals, and the static factors."""
    one = np.ones(a.replicas)
    prefill = fit_prefill(a, earliest, one)
    line = timeline(a, np.maximum(earliest, a.first - STALL_AT_MOST * prefill.work(a.uncached)))
    decode = fit_decode(line, one)
    tokens = np.where(a.tokens >= 5, a.tokens, np.nan)
    static = static_factors(line.over_decode(decode.tokens_per_s(line)), tokens, a.replica, a.replicas, decode.spread)
    return prefill, decode, static


def _steps_fit_better(a: Attempts, fleet: Fleet) -> bool:
    """Does a law in which prompts share steps explain decode times clearly better than one in which they pause it?"""
    if len(a) < 200:
        return False
    some = a if len(a) <= 60_000 else _head(a, 60_000)
    earliest = earliest_starts(some, fleet.max_running_requests.value, fleet.kv_capacity_tokens.value)
    paused = _first_laws(some, earliest)[1]
    some = some.take(~some.cut)
    law = fit_steps(timeline(some, some.first.copy()), some.end - some.first)[0]
    return law.spread < CLEARLY_BETTER * paused.spread and law.per_token_s > 0


def _head(a: Attempts, rows: int) -> Attempts:
    """The first `rows` attempts by arrival within the log's span, all replicas alike."""
    within = a.arrival - a.replica * a.span
    keep = within <= np.partition(within, rows - 1)[rows - 1]
    return a.take(keep)


def _fit_paused(a: Attempts, fleet: Fleet, say: Say) -> ServiceModel:
    """The law in which one prefill at a time pauses decode."""
    batch, kv = fleet.max_running_requests.value, fleet.kv_capacity_tokens.value
    earliest = earliest_starts(a, batch, kv)
    first, decode, static = _first_laws(a, earliest)
    if a.cut.any():
        a = finished(a, first.work(a.uncached) * static[a.replica], batch, kv)
        earliest = earliest_starts(a, batch, kv)
        _, decode, static = _first_laws(a, earliest)
    prefill = fit_prefill(a, earliest, static)
    work = prefill.work(a.uncached) * static[a.replica]
    for k in range(2):  # the second time with a law that late attempts no longer blur
        say(0.4 + 0.1 * k)
        late = late_attempts(a, earliest, work, decode, static)
        line = line_of(a, earliest, work, late)
        decode = fit_decode(line, static)
        if not np.any(late):
            break
    pool = hiccup_pool(a, earliest, work, late)
    say(0.6)
    periods = slow_periods(line, decode, work, static, prefill.spread)
    return ServiceModel(
        prefill.base_s,
        prefill.per_token_s,
        decode.base_s,
        decode.per_sequence_s,
        series(periods, a, static),
        hiccup_s=pool.delay_s,
        hiccup_probability=pool.probability,
        intervals={
            "prefill_base_s": prefill.base_interval,
            "prefill_per_token_s": prefill.per_token_interval,
            "decode_base_s": decode.base_interval,
            "decode_per_sequence_s": decode.per_sequence_interval,
            "hiccup_probability": pool.interval,
        },
        observations=_observations(prefill.rows, decode.rows, pool),
    )


def _fit_stepwise(a: Attempts, fleet: Fleet, budget: int, say: Say) -> ServiceModel:
    """The law in which prompts share steps with decode, up to the step's token budget."""
    a = a.take(~a.cut)  # what they had of their prompts slowed the others by little, and nobody knows how much it was
    earliest = earliest_starts(a, fleet.max_running_requests.value, fleet.kv_capacity_tokens.value)
    line = timeline(a, a.first.copy())
    law, parts = fit_steps(line, a.end - a.first)
    say(0.5)
    static = static_factors(a.end - a.first, parts.seconds(law), a.replica, a.replicas, law.spread)
    start = np.where(np.isfinite(a.prefill), np.maximum(a.first - a.prefill, a.arrival), np.minimum(earliest, a.first))
    queued = np.where(np.isfinite(a.queue), a.queue > QUEUED_S, earliest > a.arrival + EPSILON_S)
    found: StepFit = fit_step_engine(line, start, queued, static)
    pool = residual_pool(found.residual_s, float(np.median(a.first - a.arrival)) if len(a) else 0.0)
    return _step_service(found, series(found.periods, a, static), budget, pool)


def _fit_unnamed(w: Workload, source: Workload, fleet: Fleet, replicas: int) -> Fit:
    """One law for a fleet whose replicas the log does not name."""
    a = served(replace(source, replica=np.zeros(len(source), dtype=np.int32)), 1)
    a = a.take(~a.cut)
    found = fit_unnamed_engines(timeline(a, a.first.copy()), replicas)
    pool = residual_pool(found.residual_s, float(np.median(a.first - a.arrival)) if len(a) else 0.0)
    budget = fleet.chunk_tokens.value or STEP_BUDGET
    if fleet.chunk_tokens.source == "assumed":
        fleet = replace(fleet, chunk_tokens=Fact(budget, "assumed"))
    service = _step_service(found, SlowSeries.none(replicas), budget, pool)
    text = f"the log names no replica: one law for {replicas} replicas, without their slow periods"
    note = {"code": "replicas_unnamed", "level": "warning", "share": None, "text": text}
    return Fit(service, routing_seen(w), fleet, assumed=True, notes=(note,))


def _step_service(found: StepFit, slow: SlowSeries, budget: int, pool: Hiccups) -> ServiceModel:
    return ServiceModel(
        0.0,  # the step itself is the base
        found.law.per_token_s,
        found.law.base_s,
        found.law.per_sequence_s,
        slow,
        chunk_tokens=budget,
        gateway_s=found.gateway_s,
        hiccup_s=pool.delay_s,
        hiccup_probability=pool.probability,
        intervals={
            "prefill_per_token_s": found.law.interval(2),
            "decode_base_s": found.law.interval(0),
            "decode_per_sequence_s": found.law.interval(1),
            "hiccup_probability": pool.interval,
        },
        observations=_observations(found.law.rows, found.law.rows, pool),
    )


def _observations(prefill: int, decode: int, pool: Hiccups) -> dict[str, int]:
    return {
        "prefill_base_s": prefill,
        "prefill_per_token_s": prefill,
        "decode_base_s": decode,
        "decode_per_sequence_s": decode,
        "hiccup_probability": len(pool.delay_s),
    }


def series(periods: list[Period], a: Attempts, static: Floats) -> SlowSeries:
    """Periods on the composite axis as the slow series per replica, factors 1 / speed."""
    by_replica: dict[int, list[tuple[float, float, float]]] = {}
    for p in periods:
        r = int(p.start // a.span)
        by_replica.setdefault(r, []).append((p.start - r * a.span, p.end - r * a.span, 1.0 / p.level))
    found = SlowSeries.of(by_replica, a.replicas)
    return SlowSeries(found.offsets, found.start_s, found.factor, static)
