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
    """(n, attempts); one value for all stays one value in memory."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1:
        array = array[:, None]
    return np.broadcast_to(array, (n, attempts))


def _column(value: Any, n: int, kind: Any) -> Any:
    return np.broadcast_to(np.asarray(value, dtype=kind), (n,))


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
    suppress: dict[str, float] = field(default_factory=dict)  # "queue_age", "running", ...: no copy while above
    suppress_below: dict[str, float] = field(default_factory=dict)  # the same signals: no copy while below


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What happened, as the kernel's records: `attempt` (n, K), `request` (n,), `replica` (R,), `run` a scalar record."""

    jobs: Jobs
    attempt: Any
    request: Any
    replica: Any
    run: Any

    def kv_token_s(self) -> Floats:
        """Cache token-seconds of each attempt, (n, K): what it had reserved, from admission to end."""
        held = self.attempt["end"] - self.attempt["admitted"]
        reserved = np.minimum(self.jobs.prompt + self.jobs.tokens, self.run["kv_capacity"])
        return np.asarray(np.where(np.isnan(held), 0.0, held) * reserved)


def _finite(value: float) -> float:
    """The kernel compares with a large number instead of infinity, which keeps inf - inf out of it."""
    return float(min(value, 1e300))


def _attempts(rows: int) -> Any:
    blank = np.zeros((), dtype=layout.ATTEMPT)
    blank["outcome"] = layout.CANCELLED
    for name in ("sent", "enqueued", "admitted", "first", "end", "left"):
        blank[name] = np.nan
    for name in ("replica", "previous", "next", "place"):
        blank[name] = -1
    return _filled(rows, blank)


def _requests(rows: int) -> Any:
    blank = np.zeros((), dtype=layout.REQUEST)
    blank["ttft"] = np.nan
    blank["end"] = np.nan
    blank["winner"] = -1
    return _filled(rows, blank)


def _filled(rows: int, blank: Any) -> Any:
    """`rows` copies of one record, as words: numpy fills records field by field, three times slower."""
    words = blank.reshape(1).view(np.uint64)
    found = np.empty((rows, len(words)), dtype=np.uint64)
    found[:] = words
    return found.reshape(-1).view(blank.dtype)


def _replicas(law: Law, places: int) -> tuple[Any, Any]:
    r = np.zeros(law.replicas + 1, dtype=layout.REPLICA)
    r["number"] = np.arange(law.replicas + 1)
    r["slots"] = r["number"] * places
    for name in ("prefill", "head", "tail"):
        r[name] = -1
    for name in ("due", "prefill_due", "finish_due", "change"):
        r[name] = 1e300
    r["factor"] = 1.0
    r["static"] = 1.0
    if law.pool is not None:
        r["pool"][:-1] = law.pool
    if law.slow is None:
        return r, np.zeros(1, dtype=layout.CHANGE)
    begin, end = law.slow.offsets[:-1], law.slow.offsets[1:]
    r["slow_at"][:-1] = begin
    r["slow_end"][:-1] = end
    r["static"][:-1] = law.slow.static_factor
    has = begin < end
    r["change"][:-1][has] = law.slow.start_s[begin[has]]
    changes = np.zeros(len(law.slow.start_s) + 1, dtype=layout.CHANGE)  # one row more, so that it is never empty
    changes["start"][:-1] = law.slow.start_s
    changes["factor"][:-1] = law.slow.factor
    return r, changes


def _nodes(replicas: int) -> Any:
    """The winner tree before the first event: nobody is due, the dummy fills up the leaves."""
    leaves = 1
    while leaves < replicas:
        leaves *= 2
    nodes = np.zeros(2 * leaves, dtype=layout.NODE)
    nodes["due"] = 1e300
    winner = nodes["replica"]
    winner[leaves:] = np.minimum(np.arange(leaves), replicas)
    for i in range(leaves - 1, 0, -1):
        winner[i] = winner[2 * i]
    return nodes


def _timers(jobs: Jobs, rule: Rule) -> int:
    """Timers that can be in the heap at once, at most."""
    n, k = len(jobs.arrival), jobs.attempts
    per_attempt = (
        int(rule.attempt_deadline < 1e300)
        + int(k > 1 or rule.deadline < 1e300 or rule.attempt_deadline < 1e300)  # a cancel
        + int(bool(np.any(jobs.gateway > 0)))
        + int(bool(np.any(jobs.fails_after < 1e300)))
    )
    return int(n * k * per_attempt + n * int(k > 2) + 1)


def _run_record(jobs: Jobs, law: Law, rule: Rule) -> Any:
    n, k = len(jobs.arrival), jobs.attempts
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
    for name in layout.SIGNALS:
        g[f"above_{name}"] = _finite(rule.suppress.get(name, OFF))
        g[f"below_{name}"] = _finite(rule.suppress_below.get(name, 0.0))
    watched = {*rule.suppress, *rule.suppress_below}
    g["watch_fleet"] = bool(watched & {"running", "waiting", "kv_usage", "reserved"})
    for name in layout.WATCHED:
        g[f"watch_{name}"] = name in watched
    if rule.choices and jobs.choices.shape[1] != rule.choices:
        raise ValueError(f"Jobs.choices has {jobs.choices.shape[1]} columns, Rule.choices asks for {rule.choices}")
    if k < 2:
        g["delay"] = 1e300
    g["tokens"] = g["burst"]
    g["requests"], g["attempts"], g["replicas"] = n, k, law.replicas
    g["shift"] = (k - 1).bit_length()
    return g


def _point_at_columns(g: Any, jobs: Jobs) -> None:
    """Write where the columns of `jobs` are; the kernel reads them there, a column of one value from one place."""
    for name in layout.OF_ATTEMPT:
        column = getattr(jobs, name)
        g[f"{name}_at"] = column.ctypes.data
        g[f"{name}_row"], g[f"{name}_column"] = column.strides
    for name in layout.OF_REQUEST:
        column = getattr(jobs, name)
        g[f"{name}_at"] = column.ctypes.data
        g[f"{name}_row"] = column.strides[0]
    g["choices_at"] = jobs.choices.ctypes.data
    g["choices_row"] = jobs.choices.itemsize


def build(jobs: Jobs, law: Law, rule: Rule) -> State:
    """The kernel's state before the first event. `jobs` must outlive it."""
    g = _run_record(jobs, law, rule)
    _point_at_columns(g, jobs)
    rows = len(jobs.arrival) << int(g["shift"][0])
    places = int(min(law.cap, max(rows, 1)))
    replicas, changes = _replicas(law, places)
    nodes = _nodes(law.replicas)
    g["leaves"] = len(nodes) // 2
    state = State(
        attempts=_attempts(rows),
        requests=_requests(len(jobs.arrival)),
        replicas=replicas,
        windows=np.zeros(law.replicas + 2, dtype=layout.WINDOW),
        slots=np.empty(law.replicas * places, dtype=layout.SLOT),
        timers=np.empty(_timers(jobs, rule), dtype=layout.TIMER),
        nodes=nodes,
        changes=changes,
        run=g,
    )
    for name in layout.TABLES:
        g[f"{name}_at"] = getattr(state, name).ctypes.data
    return state


def outcome(s: State, jobs: Jobs) -> Outcome:
    """The state after the last event, in shape."""
    k = jobs.attempts
    attempt = s.attempts.reshape(len(s.requests), 1 << int(s.run["shift"][0]))[:, :k]
    return Outcome(jobs, attempt, s.requests, s.replicas[:-1], s.run[0])
