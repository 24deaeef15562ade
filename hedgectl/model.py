"""The three things a replay needs, as frozen arrays: what arrived, how fast the engines serve, what the fleet is.

Nothing here computes: `fit` fills a `ServiceModel` from a `Workload`, `sim` replays them on a `Fleet`.
Times are float64 seconds relative to `Workload.t0_ns`; NaN = not observed. Counts and codes are integers;
-1 = not observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Flags = NDArray[np.int8]

Source = Literal["config", "log", "assumed"]
CancelBehaviour = Literal["frees_engine", "engine_runs_on", "unknown"]
Routing = Literal["as_logged", "random", "least_outstanding"]

OK, ERROR, CENSORED = 0, 1, 2


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """The logical requests of one scope in order of arrival; every array has shape (n,).

    An already hedged or retried log is folded to logical requests first: `arrival_s` is when the caller asked (once),
    `replica` is where the primary attempt went, `e2e_s` is what the caller saw.
    """

    t0_ns: int  # UTC, nanoseconds since the epoch; arrival_s counts from here
    arrival_s: Floats  # ascending
    prompt_tokens: Ints  # cached ones included
    cached_tokens: Ints  # 0 or -1 where the log does not say
    completion_tokens: Ints
    ttft_s: Floats  # first output token minus arrival
    e2e_s: Floats  # for status 1: time to the error; for status 2: a lower bound
    headers_s: Floats  # time to response headers
    queue_s: Floats  # measured by the source, else NaN
    prefill_s: Floats
    decode_s: Floats
    status: Flags  # 0 ok, 1 error, 2 censored
    streamed: Flags  # 1, 0, -1 unknown
    replica: Codes  # index into `replicas`, -1 unknown
    replicas: tuple[str, ...]
    pool_of_replica: Codes  # (len(replicas),) index into `pools`, -1 unknown
    pools: tuple[str, ...]
    tools_offered: Flags
    cache_hit: Flags  # response cache: no engine was called
    stored_state: Flags
    sticky_session: Flags  # a router kept this request on its replica
    batch: Flags
    n_choices: Ints
    cost: Floats  # all attempts of the logical request, in `currency`
    currency: str | None
    weight: Floats  # rows this row stands for, in a sampled log
    segment: Codes
    segments: tuple[str, ...]
    route: Codes
    routes: tuple[str, ...]
    request_bytes: Ints
    response_bytes: Ints
    tool_set: Codes  # index into `tool_sets`, -1 none offered or not said
    tool_sets: tuple[str, ...]  # comma-separated names

    def __post_init__(self) -> None:
        n = len(self.arrival_s)
        for name in _PER_REQUEST:
            if len(getattr(self, name)) != n:
                raise ValueError(f"Workload.{name} has {len(getattr(self, name))} rows, arrival_s has {n}")
        if n and bool(np.any(np.diff(self.arrival_s) < 0)):
            raise ValueError("Workload.arrival_s is not in order of arrival")
        if len(self.pool_of_replica) != len(self.replicas):
            raise ValueError("Workload.pool_of_replica needs one entry per replica")

    def __len__(self) -> int:
        return len(self.arrival_s)

    @property
    def uncached_tokens(self) -> Ints:
        """Prompt tokens that the primary's engine had to compute, shape (n,); an unknown cache share counts as none."""
        known = np.where(self.prompt_tokens < 0, 0, self.prompt_tokens)
        uncached: Ints = np.maximum(known - np.maximum(self.cached_tokens, 0), 0)
        return uncached

    def take(self, rows: ArrayLike) -> Workload:
        """The same workload restricted to `rows` (boolean mask or ascending indices); t0_ns stays."""
        picked: dict[str, Any] = {name: getattr(self, name)[rows] for name in _PER_REQUEST}
        return replace(self, **picked)

    @classmethod
    def of(cls, arrival_s: ArrayLike, prompt_tokens: ArrayLike, completion_tokens: ArrayLike, **known: Any) -> Workload:
        """A workload from what is known; every other per-request field is filled with "not observed".

        `known` takes any field by name. `replicas` defaults to r0..r(k-1) for the largest code in `replica`.
        """
        arrival = np.asarray(arrival_s, dtype=np.float64)
        n = len(arrival)
        fields: dict[str, Any] = {
            "t0_ns": 0,
            "currency": None,
            "pools": (),
            "segments": (),
            "routes": (),
            "tool_sets": (),
        }
        fields |= {"arrival_s": arrival, "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
        fields |= known
        for name, (kind, missing) in _PER_REQUEST.items():
            if name in fields:
                fields[name] = np.ascontiguousarray(fields[name], dtype=kind)
            else:
                fields[name] = np.full(n, missing, dtype=kind)
        if "replicas" not in known:
            count = int(fields["replica"].max(initial=-1)) + 1
            fields["replicas"] = tuple(f"r{i}" for i in range(count))
        fields.setdefault("pool_of_replica", np.full(len(fields["replicas"]), -1, dtype=np.int32))
        return cls(**fields)


_PER_REQUEST: dict[str, tuple[type, float]] = {
    "arrival_s": (np.float64, np.nan),
    "prompt_tokens": (np.int64, -1),
    "cached_tokens": (np.int64, -1),
    "completion_tokens": (np.int64, -1),
    "ttft_s": (np.float64, np.nan),
    "e2e_s": (np.float64, np.nan),
    "headers_s": (np.float64, np.nan),
    "queue_s": (np.float64, np.nan),
    "prefill_s": (np.float64, np.nan),
    "decode_s": (np.float64, np.nan),
    "status": (np.int8, OK),
    "streamed": (np.int8, -1),
    "replica": (np.int32, -1),
    "tools_offered": (np.int8, -1),
    "cache_hit": (np.int8, -1),
    "stored_state": (np.int8, -1),
    "sticky_session": (np.int8, -1),
    "batch": (np.int8, -1),
    "n_choices": (np.int64, -1),
    "cost": (np.float64, np.nan),
    "weight": (np.float64, 1.0),
    "segment": (np.int32, -1),
    "route": (np.int32, -1),
    "request_bytes": (np.int64, -1),
    "response_bytes": (np.int64, -1),
    "tool_set": (np.int32, -1),
}


@dataclass(frozen=True, slots=True, eq=False)
class SlowSeries:
    """How much longer than at full speed work takes, per replica, piecewise constant in the log's wall time.

    Replica r owns the slice offsets[r]:offsets[r+1] of `start_s` (ascending) and `factor` (> 0, 1 = full speed);
    a factor holds from its start to the next one; before the first start it is 1. `static_factor` (R,) multiplies all.
    """

    offsets: Ints  # (R + 1,)
    start_s: Floats
    factor: Floats
    static_factor: Floats  # (R,)

    @classmethod
    def none(cls, replicas: int) -> SlowSeries:
        """Every replica at full speed all the time."""
        empty = np.zeros(0)
        return cls(np.zeros(replicas + 1, dtype=np.int64), empty, empty.copy(), np.ones(replicas))

    @classmethod
    def of(cls, periods: Mapping[int, list[tuple[float, float, float]]], replicas: int) -> SlowSeries:
        """From {replica: [(start_s, end_s, factor), ...]} with ascending, disjoint periods."""
        offsets = np.zeros(replicas + 1, dtype=np.int64)
        starts: list[float] = []
        factors: list[float] = []
        for r in range(replicas):
            for start, end, factor in periods.get(r, []):
                if starts and len(starts) > offsets[r] and starts[-1] == start:
                    factors[-1] = factor
                else:
                    starts.append(start)
                    factors.append(factor)
                starts.append(end)
                factors.append(1.0)
            offsets[r + 1] = len(starts)
        return cls(offsets, np.array(starts), np.array(factors), np.ones(replicas))


@dataclass(frozen=True, slots=True, eq=False)
class ServiceModel:
    """The law by which an engine serves, fitted from the log or stated.

    Prefill of one request at full speed takes `prefill_base_s + prefill_per_token_s * uncached prompt tokens`.
    A decode step (one token for each of n running sequences) takes `decode_base_s + decode_per_sequence_s * n`.
    `chunk_tokens` = 0: a prefill pauses decode. > 0 (chunked prefill): a step computes up to `chunk_tokens - n`
    prompt tokens beside the n decoded ones (equal pieces, at least one step) and takes the sum of both costs.
    """

    prefill_base_s: float
    prefill_per_token_s: float
    decode_base_s: float
    decode_per_sequence_s: float
    slow: SlowSeries
    chunk_tokens: int = 0
    gateway_s: float = 0.0  # constant delay before the engine's queue, each attempt
    hiccup_s: Floats = field(default_factory=lambda: np.zeros(0))  # pool of extra delays, drawn one per attempt ...
    hiccup_probability: float = 0.0  # ... with this probability
    error_probability: float = 0.0  # of a copy; primaries fail as logged
    error_after_s: Floats = field(default_factory=lambda: np.zeros(0))  # pool of times to an error; empty = at once
    fixed_decode_tokens: int = 1  # completion tokens assumed where the log has none
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)  # by field name, 95 %
    observations: Mapping[str, int] = field(default_factory=dict)  # rows behind each number
    notes: tuple[Mapping[str, Any], ...] = ()  # {"code", "level", "share", "text"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One engine fact and where it comes from. `value` is None when nobody said and the log cannot tell."""

    value: int | None
    source: Source = "assumed"


@dataclass(frozen=True, slots=True)
class Fleet:
    """What an operator knows about the engines; each fact says whether the operator, the log or nobody said it."""

    replicas: Fact
    max_running_requests: Fact
    kv_capacity_tokens: Fact  # prompt + output tokens reserved at once; None = no limit known
    chunk_tokens: Fact = Fact(0, "assumed")  # chunked prefill's token budget per step; 0 = prefill pauses decode
    confirmed: bool = False  # the replicas of the log are engines: `[engine] confirmed = true`
    cancel: CancelBehaviour = "unknown"
    cancel_lag_s: float = 0.0  # time until a freed loser really stops
    routing: Routing = "as_logged"  # discipline of the gateway in the as-is arm
    timeout_s: float | None = None  # the callers' own deadline today
    notes: tuple[Mapping[str, Any], ...] = ()
