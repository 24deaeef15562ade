"""What one run of the simulator is given and what it gives back: jobs, law, rule; outcome.

All random numbers are drawn before the run and stand in `Jobs`, so the compiled kernel and the naive reference walk
the same path, and a run without hedging is byte for byte the run with an infinite delay.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import Floats, SlowSeries
from hedgectl.sim import layout
from hedgectl.sim.layout import State

Integers = NDArray[np.int32]
OFF = float("inf")


@dataclass(frozen=True, slots=True, eq=False)
class Jobs:
    """The work: n requests of up to K attempts. Column 0 is the primary, the others are the copies."""

    arrival: Floats  # (n,) ascending seconds
    work: Floats  # (n, K) prefill seconds at full speed
    tokens: Floats  # (n, K) to decode
    prompt: Floats  # (n, K)
    gateway: Floats  # (n, K) seconds before the engine's queue
    fails_after: Floats  # (n, K) seconds after the send, inf = never
    pick: Floats  # (n, K) uniform numbers that pick the replica
    logged: Integers  # (n,) replica in the log, -1 unknown
    clock: Integers  # (n,) FIRST_TOKEN or RESPONSE
    eligible: Integers  # (n,)
    predicted: Floats  # (n,) seconds a copy is expected to need
    choices: Floats  # (n, c) uniform numbers for `Rule.choices` = c

    @classmethod
    def of(cls, arrival: Any, tokens: Any, *, attempts: int = 2, seed: int = 0, **given: Any) -> Jobs:
        """Jobs from arrivals and tokens ((n,) = same for copies, or (n, K)); all else defaults to nothing special."""
        arrival = np.ascontiguousarray(arrival, dtype=np.float64)
        n = len(arrival)
        rng = np.random.default_rng([seed, 1])
        defaults: dict[str, Any] = {
            "work": 0.0,
            "prompt": 0.0,
            "gateway": 0.0,
            "fails_after": OFF,
            "pick": rng.random((n, attempts)),
        }
        fields: dict[str, Any] = {"arrival": arrival, "tokens": _wide(tokens, n, attempts)}
        for name, value in defaults.items():
            fields[name] = _wide(given.pop(name, value), n, attempts)
        for name, code in (("logged", -1), ("clock", layout.RESPONSE), ("eligible", 1)):
            fields[name] = _column(given.pop(name, code), n, np.int32)
        fields["predicted"] = _column(given.pop("predicted", 0.0), n, np.float64)
        fields["choices"] = np.ascontiguousarray(given.pop("choices", np.zeros((n, 0))), dtype=np.float64)
        if given:
            raise TypeError(f"unknown fields {sorted(given)}")
        return cls(**fields)

    @property
    def attempts(self) -> int:
        """Attempts a request may have, K."""
        return int(self.work.shape[1])


def _wide(value: Any, n: int, attempts: int) -> Floats:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    return np.ascontiguousarray(np.broadcast_to(array, (n, attempts)))


def _column(value: Any, n: int, kind: Any) -> Any:
    return np.ascontiguousarray(np.broadcast_to(np.asarray(value, dtype=kind), (n,)))


@dataclass(frozen=True, slots=True, eq=False)
class Law:
    """The engines: how fast, how many, how much at once."""

    replicas: int
    decode_base: float  # seconds a step
    decode_per_sequence: float
    prefill_per_token: float = 0.0  # only for chunked prefill: seconds of a prompt token beside decode
    chunk: int = 0
    cap: float = OFF  # sequences at once
    kv_capacity: float = OFF  # tokens reserved at once
    queue_limit: float = OFF  # waiting at once; beyond it the engine answers with an error
    slow: SlowSeries | None = None
    pool: Integers | None = None  # (replicas,)


@dataclass(frozen=True, slots=True)
class Rule:
    """Routing, hedging and what a cancel does. The default sends no copy."""

    routing: int = layout.RANDOM
    choices: int = 0
    delay: float = OFF
    deadline: float = OFF
    attempt_deadline: float = OFF
    ratio: float = OFF  # budget: tokens earned per logical request
    burst: float = OFF
    max_in_flight: float = OFF
    target: int = layout.RANDOM
    same_replica: bool = False
    other_pool: bool = False
    cancel: int = layout.FREES_ENGINE
    cancel_lag: float = 0.0
    healthy_limit: float = OFF
    suppress: dict[str, float] = field(default_factory=dict)  # "queue_age", "running", ...: suppressed above


SIGNALS = ("queue_age", "running", "waiting", "kv_usage", "reserved", "slow", "errors", "hedges")


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What happened, as the kernel's records: `attempt` (n, K), `request` (n,), `replica` (R,), `run` a scalar record."""

    attempt: Any
    request: Any
    replica: Any
    run: Any


def _finite(value: float) -> float:
    """The kernel compares with a large number instead of infinity, which keeps inf - inf out of it."""
    return float(min(value, 1e300))


def _attempts(jobs: Jobs, kv_capacity: float) -> Any:
    n, k = jobs.work.shape
    x = np.zeros((n, k), dtype=layout.ATTEMPT)
    for name in ("work", "tokens", "prompt", "gateway", "pick"):
        x[name] = getattr(jobs, name)
    x["fails_after"] = np.minimum(jobs.fails_after, 1e300)
    # a request larger than the cache would never be admitted: it is served alone
    x["reserve"] = np.minimum(jobs.prompt + jobs.tokens, kv_capacity)
    x["outcome"] = layout.CANCELLED
    for name in ("sent", "enqueued", "admitted", "first", "end", "left"):
        x[name] = np.nan
    for name in ("replica", "previous", "next", "place"):
        x[name] = -1
    return x.reshape(n * k)


def _requests(jobs: Jobs) -> Any:
    q = np.zeros(len(jobs.arrival), dtype=layout.REQUEST)
    for name in ("arrival", "predicted", "logged", "clock", "eligible"):
        q[name] = getattr(jobs, name)
    q["pick"] = jobs.pick[:, 0]
    q["ttft"] = np.nan
    q["end"] = np.nan
    q["winner"] = -1
    return q


def _replicas(law: Law) -> tuple[Any, Floats, Floats]:
    r = np.zeros(law.replicas + 1, dtype=layout.REPLICA)
    for name in ("prefill", "head", "tail"):
        r[name] = -1
    for name in ("due", "prefill_due", "finish_due", "change"):
        r[name] = 1e300
    r["factor"] = 1.0
    r["static"] = 1.0
    if law.pool is not None:
        r["pool"][:-1] = law.pool
    if law.slow is None:
        return r, np.zeros(1), np.ones(1)
    begin, end = law.slow.offsets[:-1], law.slow.offsets[1:]
    r["slow_at"][:-1] = begin
    r["slow_end"][:-1] = end
    r["static"][:-1] = law.slow.static_factor
    has = begin < end
    r["change"][:-1][has] = law.slow.start_s[begin[has]]
    # one row more, so that the arrays are never empty
    return r, np.append(law.slow.start_s, 1e300), np.append(law.slow.factor, 1.0)


def _timers(jobs: Jobs, rule: Rule) -> int:
    """Timers that can be pending at once, at most."""
    n, k = jobs.work.shape
    per_attempt = (
        int(rule.attempt_deadline < 1e300)
        + 1  # a cancel
        + int(bool(np.any(jobs.gateway > 0)))
        + int(bool(np.any(jobs.fails_after < 1e300)))
    )
    per_request = int(rule.delay < 1e300) + int(rule.deadline < 1e300)
    return int(n * per_request + n * k * per_attempt + 1)


def _run_record(jobs: Jobs, law: Law, rule: Rule) -> Any:
    n, k = jobs.work.shape
    g = np.zeros(1, dtype=layout.RUN)
    for name in (
        "decode_base",
        "decode_per_sequence",
        "prefill_per_token",
        "chunk",
        "cap",
        "kv_capacity",
        "queue_limit",
    ):
        g[name] = _finite(getattr(law, name))
    if law.prefill_per_token <= 0:
        g["chunk"] = 0  # nothing to share a step with
    for name in ("delay", "deadline", "attempt_deadline", "ratio", "burst", "cancel_lag", "healthy_limit"):
        g[name] = _finite(getattr(rule, name))
    g["max_in_flight"] = _finite(rule.max_in_flight)
    for name in ("routing", "choices", "target", "cancel", "same_replica", "other_pool"):
        g[name] = int(getattr(rule, name))
    for name in SIGNALS:
        g[f"sup_{name}"] = _finite(rule.suppress.get(name, OFF))
    if rule.choices and jobs.choices.shape[1] < rule.choices:
        raise ValueError(f"Jobs.choices has {jobs.choices.shape[1]} columns, Rule.choices asks for {rule.choices}")
    if k < 2:
        g["delay"] = 1e300
    g["tokens"] = g["burst"]
    g["requests"], g["attempts"], g["replicas"] = n, k, law.replicas
    g["slots"] = int(min(law.cap, max(n * k, 1)))
    return g


def build(jobs: Jobs, law: Law, rule: Rule) -> State:
    """The kernel's state before the first event."""
    replica, slow_start, slow_factor = _replicas(law)
    g = _run_record(jobs, law, rule)
    leaves = 1
    while leaves < law.replicas:
        leaves *= 2
    g["leaves"] = leaves
    tree = np.full(2 * leaves, law.replicas, dtype=np.int64)
    tree[leaves : leaves + law.replicas] = np.arange(law.replicas)
    for i in range(leaves - 1, 0, -1):
        tree[i] = tree[2 * i]
    window = np.zeros(law.replicas + 2, dtype=layout.WINDOW)
    timers = _timers(jobs, rule)
    choices = jobs.choices[:, : rule.choices].reshape(-1) if rule.choices else np.zeros(1)
    return State(
        attempt=_attempts(jobs, law.kv_capacity),
        request=_requests(jobs),
        replica=replica,
        window=window,
        run=g,
        heap=np.empty(law.replicas * int(g["slots"][0]), dtype=np.int64),
        timer_at=np.empty(timers),
        timer_what=np.empty(timers, dtype=np.int64),
        tree=tree,
        slow_start=slow_start,
        slow_factor=slow_factor,
        choices=np.ascontiguousarray(choices),
    )


def outcome(s: State) -> Outcome:
    """The state after the last event, in shape."""
    k = int(s.run["attempts"][0])
    return Outcome(s.attempt.reshape(-1, k), s.request, s.replica[:-1], s.run[0])
