"""From a workload, a service law and a fleet to jobs for the kernel: lengths, draws, errors, hiccups, the rule.

Randomness is split by purpose (one stream each for routing, hiccups, errors, lengths), so turning hedging on or off
changes nothing else. Cached answers (no engine was called) are left out of a replay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import ERROR, OK, Fleet, Floats, Routing, ServiceModel, SlowSeries, Workload
from hedgectl.policy import Hedge, Suppress
from hedgectl.sim import layout, load
from hedgectl.sim.inputs import OFF, Jobs, Law, Rule
from hedgectl.sim.load import Load

Trigger = Literal["first_token", "response", "response_headers"]
CancelEffect = Literal["frees_engine", "engine_runs_on"]
CopyLength = Literal["same", "independent"]
Bools = NDArray[np.bool_]

# one stream of random numbers a purpose
ROUTING, HICCUPS, ERRORS, LENGTHS, COPIES = 11, 12, 13, 14, 15
_CODES = {"random": layout.RANDOM, "least_outstanding": layout.LEAST_OUTSTANDING, "as_logged": layout.AS_LOGGED}
_SIGNALS = {
    "target_queue_age_ms": ("queue_age", 1e-3),
    "running_requests_per_replica": ("running", 1.0),
    "waiting_requests_per_replica": ("waiting", 1.0),
    "kv_cache_usage_ratio": ("kv_usage", 1.0),
    "reserved_kv_ratio": ("reserved", 1.0),
    "slow_replicas_ratio": ("slow", 1.0),
    "error_ratio": ("errors", 1.0),
    "hedge_rate": ("hedges", 1.0),
}


@dataclass(frozen=True, slots=True)
class Assumed:
    """One way the unknown may be."""

    cancel: CancelEffect = "frees_engine"
    copy_length: CopyLength = "same"


@dataclass(frozen=True, slots=True, eq=False)
class Spec:
    """One hedging policy in the units of a replay. `eligible` is a mask over the workload; None = all.

    `ratio` None = no budget. Signals are (name, operator, limit) of policy.v1: no copy while that holds.
    """

    trigger: Trigger
    delay_s: float
    ratio: float | None = None
    burst: float = 100.0
    max_concurrent: float = OFF
    max_attempts: int = 2
    deadline_s: float = OFF
    attempt_s: float = OFF
    choose: str = "as_routed"
    different_replica: bool = True
    different_pool: bool = False
    suppress: tuple[tuple[str, str, float], ...] = ()
    eligible: Bools | None = None

    @classmethod
    def of_policy(cls, hedge: Hedge, suppress: Sequence[Suppress] = (), eligible: Bools | None = None) -> Spec:
        """From the parts of a policy; rules of eligibility and windows arrive as the mask `eligible`."""
        budget, deadline = hedge.budget, hedge.deadline
        return cls(
            trigger=hedge.trigger,  # type: ignore[arg-type]
            delay_s=hedge.delay_ms / 1e3,
            ratio=None if budget is None else budget.ratio,
            burst=100.0 if budget is None else float(budget.burst),
            max_concurrent=OFF if budget is None or budget.max_concurrent is None else budget.max_concurrent,
            max_attempts=hedge.max_attempts,
            deadline_s=OFF if deadline is None else deadline.total_ms / 1e3,
            attempt_s=OFF if deadline is None or deadline.attempt_ms is None else deadline.attempt_ms / 1e3,
            choose=hedge.target.choose,
            different_replica=hedge.target.different_replica,
            different_pool=hedge.target.different_pool,
            suppress=limits_of(suppress),
            eligible=eligible,
        )


def limits_of(suppress: Sequence[Suppress]) -> tuple[tuple[str, str, float], ...]:
    """A policy's conditions as `Spec.suppress`."""
    return tuple((s.signal, s.op, s.value) for s in suppress)


def _bounds(limits: Sequence[tuple[str, str, float]]) -> tuple[dict[str, float], dict[str, float]]:
    """(highest, lowest) value of each of the kernel's signals at which a copy may still be sent."""
    highest: dict[str, float] = {}
    lowest: dict[str, float] = {}
    for signal, op, value in limits:
        name, unit = _SIGNALS[signal]
        limit = value * unit
        if op == ">":
            highest[name] = min(highest.get(name, OFF), limit)
        elif op == ">=":
            highest[name] = min(highest.get(name, OFF), float(np.nextafter(limit, -np.inf)))
        elif op == "<":
            lowest[name] = max(lowest.get(name, 0.0), limit)
        else:
            lowest[name] = max(lowest.get(name, 0.0), float(np.nextafter(limit, np.inf)))
    return highest, lowest


@dataclass(frozen=True, slots=True, eq=False)
class Setting:
    """What stays the same between runs: the workload with every job known, the law, the fleet."""

    workload: Workload
    service: ServiceModel
    fleet: Fleet
    seed: int
    routing_seen: str  # discipline seen in the log: decides what "as_logged" means when load or copies differ from it
    tokens: Floats  # (n,) to decode, drawn where the log has none
    work: Floats  # (n,) replica seconds of a full batch
    fails_after: Floats  # (n,) of the primary, inf = answers
    error_pool: Floats  # seconds to an error, of copies
    error_probability: float
    left_out: int = 0  # cached answers
    notes: tuple[dict[str, Any], ...] = field(default_factory=tuple)

    @property
    def replicas(self) -> int:
        """Engines in the fleet."""
        return max(self.fleet.replicas.value or 0, len(self.workload.replicas), 1)

    @property
    def cap(self) -> float:
        """Sequences an engine runs at once."""
        value = self.fleet.max_running_requests.value
        return OFF if value is None else float(value)


def setting(
    w: Workload, service: ServiceModel, fleet: Fleet, *, seed: int = 0, routing_seen: str = "unknown"
) -> Setting:
    """Prepare a workload for replays: leave cached answers out, draw unknown lengths, say how primaries fail."""
    kept = w.cache_hit != 1
    left_out = int(np.sum(~kept))
    if left_out:
        w = w.take(kept)
    tokens = _lengths(w, service, seed)
    failed = w.status == ERROR
    after = np.where(failed, np.maximum(np.nan_to_num(w.e2e_s, nan=0.0), 0.0), OFF)
    notes = []
    if left_out:
        text = f"{left_out} answers came from a response cache: they reach no engine and are left out"
        notes.append({"code": "cache_hits_left_out", "level": "info", "share": left_out / len(kept), "text": text})
    given = service.error_probability > 0
    pool = service.error_after_s if given else after[failed]
    cap = fleet.max_running_requests.value
    return Setting(
        workload=w,
        service=service,
        fleet=fleet,
        seed=seed,
        routing_seen=routing_seen,
        tokens=tokens,
        work=load.seconds_of_work(w, service, tokens, OFF if cap is None else cap),
        fails_after=after,
        error_pool=pool if len(pool) else np.zeros(1),
        error_probability=service.error_probability if given else float(np.mean(failed)) if len(w) else 0.0,
        left_out=left_out,
        notes=tuple(notes),
    )


def _lengths(w: Workload, service: ServiceModel, seed: int) -> Floats:
    """Completion tokens as logged; drawn from the answered requests where unknown or cut off at nothing."""
    tokens = w.completion_tokens.astype(np.float64)
    unknown = (tokens < 0) | ((w.status != OK) & (tokens <= 0))
    if service.chunk_tokens:
        tokens = np.where(tokens > 0, tokens - 1.0, tokens)  # the step that ends a prompt gives the first token
    pool = tokens[(w.status == OK) & (tokens >= 0)]
    if not np.any(unknown):
        return tokens
    if not len(pool):
        pool = np.array([float(service.fixed_decode_tokens)])
    rng = np.random.default_rng([seed, LENGTHS])
    tokens[unknown] = pool[rng.integers(0, len(pool), int(unknown.sum()))]
    return tokens


def discipline(s: Setting, routing: Routing, *, exact: bool) -> int:
    """The kernel's routing code. `exact`: today's load and no copies, where each request goes where the log says.

    A log routed to the least outstanding replica says nothing about other loads: there the discipline is replayed.
    """
    if routing == "as_logged" and not exact and s.routing_seen == "least_outstanding":
        return layout.LEAST_OUTSTANDING
    return _CODES[routing]


def law_of(s: Setting) -> Law:
    """The engines as the kernel wants them; a fleet larger than what was fitted has the rest at full speed."""
    service, fleet = s.service, s.fleet
    slow = service.slow
    fitted = len(slow.offsets) - 1
    if fitted < s.replicas:
        more = s.replicas - fitted
        offsets = np.concatenate((slow.offsets, np.full(more, slow.offsets[-1])))
        slow = SlowSeries(offsets, slow.start_s, slow.factor, np.concatenate((slow.static_factor, np.ones(more))))
    pools = np.arange(s.replicas, dtype=np.int32) * 0 - 1
    known = s.workload.pool_of_replica
    pools[: len(known)] = known
    chunk = service.chunk_tokens or fleet.chunk_tokens.value or 0
    kv = fleet.kv_capacity_tokens.value
    return Law(
        replicas=s.replicas,
        decode_base=service.decode_base_s,
        decode_per_sequence=service.decode_per_sequence_s,
        prefill_per_token=service.prefill_per_token_s,
        chunk=chunk,
        cap=s.cap,
        kv_capacity=OFF if kv is None else float(kv),
        slow=slow,
        pool=pools,
    )


def rule_of(s: Setting, spec: Spec | None, assumed: Assumed, routing: int) -> Rule:
    """Routing and hedging as the kernel wants them. The callers' own timeout holds with and without hedging."""
    timeout = OFF if s.fleet.timeout_s is None else s.fleet.timeout_s
    cancel = layout.FREES_ENGINE if assumed.cancel == "frees_engine" else layout.ENGINE_RUNS_ON
    base = {"routing": routing, "cancel": cancel, "cancel_lag": s.fleet.cancel_lag_s}
    if spec is None:
        return Rule(deadline=timeout, **base)  # type: ignore[arg-type]
    highest, lowest = _bounds(spec.suppress)
    return Rule(
        delay=spec.delay_s,
        deadline=min(timeout, spec.deadline_s),
        attempt_deadline=spec.attempt_s,
        ratio=OFF if spec.ratio is None else spec.ratio,
        burst=OFF if spec.ratio is None else spec.burst,
        max_in_flight=spec.max_concurrent,
        target=_CODES.get(spec.choose, layout.AS_LOGGED),
        same_replica=not spec.different_replica,
        other_pool=spec.different_pool,
        healthy_limit=spec.delay_s,
        suppress=highest,
        suppress_below=lowest,
        **base,  # type: ignore[arg-type]
    )


def jobs_of(s: Setting, at: Load, spec: Spec | None, assumed: Assumed) -> Jobs:
    """The jobs of one load, in columns primary, copy, further copies."""
    w, service, rows = s.workload, s.service, at.row
    n = len(rows)
    attempts = 1 if spec is None else max(2, spec.max_attempts)
    wide = max(2, attempts)  # drawn this wide always, so that no draw depends on hedging
    prompt = np.maximum(w.prompt_tokens[rows], 0).astype(np.float64)
    prefill = service.prefill_base_s + service.prefill_per_token_s * np.stack(
        [w.uncached_tokens[rows].astype(np.float64)] + [prompt] * (wide - 1), axis=1
    )  # a copy goes to another replica and loses the prefix cache
    errors = _errors(s, rows, wide)
    gateway = _gateway(s, n, wide)
    tokens = _copy_lengths(s, rows, wide, assumed)
    # what fails before it writes anything is taken to fail in front of the engine; a primary that fails while it writes
    # holds its place until then, so its length must not end it first
    failed = np.isfinite(errors)
    wrote = failed[:, 0] & (w.completion_tokens[rows] > 0)
    gateway[failed] = 1e30
    gateway[wrote, 0] = service.gateway_s
    tokens[wrote, 0] *= 4.0
    return Jobs.of(
        at.arrival_s,
        tokens[:, :attempts],
        attempts=attempts,
        seed=s.seed,
        work=prefill[:, :attempts],
        prompt=np.broadcast_to(prompt[:, None], (n, attempts)),
        gateway=gateway[:, :attempts],
        fails_after=errors[:, :attempts],
        pick=np.random.default_rng([s.seed, ROUTING]).random((n, wide))[:, :attempts],
        logged=w.replica[rows],
        clock=_clocks(s, rows, spec),
        eligible=_eligible(s, rows, spec),
        predicted=predicted(s)[rows],
    )


def _errors(s: Setting, rows: Any, wide: int) -> Floats:
    after = np.full((len(rows), wide), OFF)
    after[:, 0] = s.fails_after[rows]
    if s.error_probability > 0:
        rng = np.random.default_rng([s.seed, ERRORS])
        fails = rng.random((len(rows), wide - 1)) < s.error_probability
        when = s.error_pool[rng.integers(0, len(s.error_pool), (len(rows), wide - 1))]
        after[:, 1:][fails] = when[fails]
    return after


def _gateway(s: Setting, n: int, wide: int) -> Floats:
    delay = np.full((n, wide), s.service.gateway_s)
    if s.service.hiccup_probability > 0 and len(s.service.hiccup_s):
        rng = np.random.default_rng([s.seed, HICCUPS])
        hit = rng.random((n, wide)) < s.service.hiccup_probability
        delay += np.where(hit, s.service.hiccup_s[rng.integers(0, len(s.service.hiccup_s), (n, wide))], 0.0)
    return delay


def _copy_lengths(s: Setting, rows: Any, wide: int, assumed: Assumed) -> Floats:
    tokens = np.repeat(s.tokens[rows][:, None], wide, axis=1)
    if assumed.copy_length == "independent" and len(rows):
        rng = np.random.default_rng([s.seed, COPIES])
        tokens[:, 1:] = s.tokens[rng.integers(0, len(s.tokens), (len(rows), wide - 1))]
    return tokens


def _clocks(s: Setting, rows: Any, spec: Spec | None) -> Any:
    """Headers come with the first token of a stream, and with the whole answer otherwise."""
    if spec is None or spec.trigger == "response":
        return layout.RESPONSE
    if spec.trigger == "first_token":
        return layout.FIRST_TOKEN
    return np.where(s.workload.streamed[rows] == 0, layout.RESPONSE, layout.FIRST_TOKEN)


def _eligible(s: Setting, rows: Any, spec: Spec | None) -> Any:
    if spec is None:
        return 0
    allowed = np.ones(len(s.workload), dtype=bool) if spec.eligible is None else spec.eligible
    if spec.trigger == "first_token":
        allowed = allowed & (s.workload.streamed != 0)  # a whole answer shows no first token
    return allowed[rows].astype(np.int32)


def predicted(s: Setting) -> Floats:
    """Seconds a copy may be expected to take, (n,): its prefill and the usual length at the usual batch."""
    service, w = s.service, s.workload
    usual = float(np.median(s.tokens)) if len(w) else 0.0
    span = load.whole(w)
    each = len(w) / max(span.end_s - span.start_s, 1e-9) / s.replicas * (float(np.mean(s.tokens)) if len(w) else 0.0)
    running = each * service.decode_base_s / max(1.0 - each * service.decode_per_sequence_s, 0.05)
    step = service.decode_base_s + service.decode_per_sequence_s * min(max(running, 1.0), s.cap)
    prompt = np.maximum(w.prompt_tokens, 0)
    return service.prefill_base_s + service.prefill_per_token_s * prompt + usual * step
