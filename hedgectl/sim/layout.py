"""The kernel's records and codes: what an attempt, a request, a replica and the run as a whole remember.

One record a thing, so that what an event touches lies side by side in memory. Times are seconds; NaN = did not happen.
`RUN` holds the addresses of all tables and of the columns of `Jobs`, so one record is all that the kernel's functions
hand to each other; `tables` reads by those addresses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

# attempt.state
NONE, GATEWAY, QUEUED, PREFILL, DECODE, DONE, CANCELLED, FAILED = range(8)
# request.status
OPEN, ANSWERED, ERRORED, TIMED_OUT = range(4)
# the clock of a request: what the hedge timer waits for, and what commits the winner
FIRST_TOKEN, RESPONSE = 0, 1
# run.cancel
FREES_ENGINE, ENGINE_RUNS_ON, LEAVES_QUEUE = range(3)
# run.routing and run.target
AS_LOGGED, RANDOM, LEAST_OUTSTANDING = range(3)
# timers, in the order in which they are served at one instant
T_CANCEL, T_ENQUEUE, T_ERROR, T_ATTEMPT, T_DEADLINE, T_HEDGE = range(6)

SIGNALS = ("queue_age", "running", "waiting", "kv_usage", "reserved", "slow", "errors", "hedges")
WATCHED = (
    "kv_usage",
    "slow",
    "errors",
    "hedges",
)  # those that take work of their own, done only if a limit asks for them

ATTEMPT = np.dtype(
    [
        ("sent", "f8"),
        ("enqueued", "f8"),
        ("admitted", "f8"),
        ("first", "f8"),
        ("end", "f8"),
        ("left", "f8"),  # when the client stopped listening to an unfinished attempt
        ("gpu", "f8"),  # attributed seconds: prefill + integral of dt / running over decode
        ("decoded", "f8"),
        ("finish", "f8"),  # virtual time at which decode ends
        ("share0", "f8"),  # replica.share at the start of decode
        ("replica", "i4"),
        ("previous", "i4"),  # in the queue
        ("next", "i4"),
        ("place", "i4"),  # in the replica's heap
        ("state", "i1"),
        ("outcome", "i1"),  # state in which it ends if it is taken out
    ],
    align=True,
)

REQUEST = np.dtype(
    [
        ("ttft", "f8"),
        ("end", "f8"),
        ("winner", "i4"),  # which of its attempts committed, -1 none
        ("sent", "i1"),  # attempts sent
        ("alive", "i1"),  # attempts that may still answer
        ("status", "i1"),
    ],
    align=True,
)

REPLICA = np.dtype(
    [
        ("at", "f8"),  # state is valid at this time
        ("virtual", "f8"),  # tokens decoded by every sequence that runs since the batch was last empty
        ("share", "f8"),  # integral of dt / running
        ("prefilled", "f8"),  # integral of GPU time given to prefill
        ("prefilled0", "f8"),
        ("work_left", "f8"),  # of the prefill in progress
        ("under_way", "f8"),  # share of a decode step that was still to go when that prefill was admitted
        ("rate_virtual", "f8"),
        ("rate_work", "f8"),
        ("rate_share", "f8"),
        ("rate_prefill", "f8"),
        ("prefill_due", "f8"),
        ("finish_due", "f8"),
        ("due", "f8"),  # next event
        ("factor", "f8"),  # slowness now
        ("static", "f8"),
        ("change", "f8"),  # next change of the slow series
        ("reserved", "f8"),
        ("busy", "f8"),  # seconds with something to do
        ("slow_at", "i8"),  # next row of the slow series
        ("slow_end", "i8"),
        ("running", "i8"),  # sequences that decode
        ("prefill", "i8"),  # attempt in the prefill slot, -1 none
        ("head", "i8"),
        ("tail", "i8"),
        ("queued", "i8"),
        ("outstanding", "i8"),  # sent and not yet out of the engine: one that nobody waits for still loads it
        ("pool", "i8"),
        ("number", "i8"),  # its own
        ("slots", "i8"),  # its first row in the table of slots
    ],
    align=True,
)

WINDOW = np.dtype([("until", "f8"), ("n", "f8"), ("hits", "f8"), ("n_before", "f8"), ("hits_before", "f8")], align=True)
SLOT = np.dtype([("finish", "f8"), ("attempt", "i8")], align=True)
TIMER = np.dtype([("at", "f8"), ("what", "i8")], align=True)  # what: kind * 2**44 + attempt or request
NODE = np.dtype([("due", "f8"), ("replica", "i8")], align=True)
CHANGE = np.dtype([("start", "f8"), ("factor", "f8")], align=True)

# columns of `Jobs` that the kernel reads where they are: one value an attempt, or one a request
OF_ATTEMPT = ("work", "tokens", "prompt", "gateway", "fails_after", "pick")
OF_REQUEST = ("arrival", "predicted", "logged", "clock", "eligible")
TABLES = {
    "attempts": ATTEMPT,
    "requests": REQUEST,
    "replicas": REPLICA,
    "windows": WINDOW,
    "slots": SLOT,
    "timers": TIMER,
    "nodes": NODE,
    "changes": CHANGE,
}

RUN = np.dtype(
    [
        # where things are: of tables the address, of columns the address and the bytes to the next request and attempt
        *((f"{name}_at", "i8") for name in TABLES),
        *((f"{name}_{part}", "i8") for name in OF_ATTEMPT for part in ("at", "row", "column")),
        *((f"{name}_{part}", "i8") for name in (*OF_REQUEST, "choices") for part in ("at", "row")),
        # the law
        ("decode_base", "f8"),
        ("decode_per_sequence", "f8"),
        ("prefill_per_token", "f8"),
        ("chunk", "f8"),  # 0 = prefill pauses decode
        ("cap", "f8"),
        ("kv_capacity", "f8"),
        ("queue_limit", "f8"),
        # the rule
        ("delay", "f8"),
        ("deadline", "f8"),
        ("attempt_deadline", "f8"),
        ("ratio", "f8"),
        ("burst", "f8"),
        ("max_in_flight", "f8"),
        ("cancel_lag", "f8"),
        ("healthy_limit", "f8"),
        *((f"above_{name}", "f8") for name in SIGNALS),  # no copy while the signal is above; inf = off
        *((f"below_{name}", "f8") for name in SIGNALS),  # no copy while it is below; 0 = off
        ("watch_fleet", "i8"),  # whether any limit is set on what the replicas together hold
        *((f"watch_{name}", "i8") for name in WATCHED),  # whether any such limit is set
        ("cancel", "i8"),
        ("routing", "i8"),
        ("choices", "i8"),  # replicas looked at by least outstanding, 0 = all
        ("target", "i8"),
        ("same_replica", "i8"),  # a copy may go where an earlier attempt went
        ("other_pool", "i8"),
        # sizes
        ("requests", "i8"),
        ("attempts", "i8"),  # per request at most
        ("shift", "i8"),  # attempt k of request i is row (i << shift) + k
        ("replicas", "i8"),
        ("leaves", "i8"),  # of the tree over replicas
        # counters
        ("tokens", "f8"),  # in the budget's bucket
        ("in_flight", "i8"),  # copies
        ("timers", "i8"),  # in the heap
        ("hedges", "i8"),
        ("refused_budget", "i8"),
        ("refused_suppressed", "i8"),
        ("refused_ineligible", "i8"),
        ("refused_deadline", "i8"),
        ("backwards", "i8"),  # events earlier than the one before: must stay 0
    ],
    align=True,
)


class State(NamedTuple):
    """The kernel's tables, of the types above; `run` has their addresses, so they must outlive it."""

    attempts: Any  # (requests << shift,)
    requests: Any  # (requests,)
    replicas: Any  # (replicas + 1,): the last one is a dummy that is never due
    windows: Any  # (replicas + 2,): answers of each replica, errors, copies in the last 15 to 30 s
    slots: Any  # (replicas * places,): attempts that decode, a heap by `finish` for each replica
    timers: Any  # heap by time
    nodes: Any  # (2 * leaves,): winner tree of replicas by `due`
    changes: Any  # slow series of all replicas, one after the other
    run: Any  # (1,)


def plain(records: Any) -> list[Any]:
    """A list of plain objects with the fields of the record array, for running without a compiler."""
    names = records.dtype.names
    kind = type("Record", (), {"__slots__": names})
    rows = []
    for values in records.tolist():
        row = kind()
        for name, value in zip(names, values, strict=True):
            setattr(row, name, value)
        rows.append(row)
    return rows


def records(rows: list[Any], dtype: np.dtype[Any]) -> Any:
    """The inverse of `plain`."""
    names = dtype.names or ()
    return np.array([tuple(getattr(row, name) for name in names) for row in rows], dtype=dtype)
