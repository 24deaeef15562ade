"""The event loop: arrivals, timers and replicas in order of time, until nothing is left to do.

At one instant cancels without lag come first, then replicas, other timers, arrivals. The deadlines and first hedge
timers of requests ring in the order of arrival, so they are two positions in the list of requests; only timers that
come in another order are in the heap.
"""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.engine import NEVER, advance, drop, fire
from hedgectl.sim.heaps import KIND_BITS, WHO, pop_timer
from hedgectl.sim.hedging import arrive, attempt_deadline, deadline, enter, fail, hedge_due, waits_for_a_copy
from hedgectl.sim.jit import entry, inlined, jit
from hedgectl.sim.layout import OPEN, T_ATTEMPT, T_CANCEL, T_DEADLINE, T_ENQUEUE, T_ERROR, T_HEDGE
from hedgectl.sim.tables import arrival, attempt, node, replica, request, timer

REPLICA, HEAP, DEADLINE, HEDGE, ARRIVAL = range(5)


@jit
def _serve_timer(g: Any, t: float) -> None:
    what = pop_timer(g)
    kind = what >> KIND_BITS
    who = what & WHO
    if kind == T_ENQUEUE:
        enter(g, who, attempt(g, who), t)
    elif kind == T_CANCEL:
        drop(g, who, t)
    elif kind == T_ERROR:
        fail(g, who, attempt(g, who), t)
    elif kind == T_ATTEMPT:
        attempt_deadline(g, who, t)
    else:
        hedge_due(g, who, t)


@inlined
def _sooner(at: float, what: int, than: float, other: int) -> bool:
    """Does timer `what` come before timer `other`? At one instant lower kinds, then lower ids come first."""
    return at < than or (at == than and what < other)


@entry
def drain(run: Any) -> None:
    """Run the whole workload of the run's record (the one row of `run`) to its end, in place."""
    g = run[0]
    hedges = g.delay < NEVER
    limited = g.deadline < NEVER
    asking = 0  # the first request whose hedge timer may still matter
    ending = 0  # the same for its deadline
    arrived = 0
    before = 0.0
    while True:
        top = node(g, 1)
        t = top.due
        event = REPLICA
        at = NEVER
        what = 0
        ring = HEAP
        if g.timers > 0:
            first = timer(g, 0)
            at = first.at
            what = first.what
        if limited:
            while ending < arrived and request(g, ending).status != OPEN:
                ending += 1
            if ending < arrived:
                late = arrival(g, ending) + g.deadline
                mine = (T_DEADLINE << KIND_BITS) + ending
                if _sooner(late, mine, at, what):
                    at = late
                    what = mine
                    ring = DEADLINE
        if hedges:
            while asking < arrived and not waits_for_a_copy(g, asking):
                asking += 1
            if asking < arrived:
                late = arrival(g, asking) + g.delay
                mine = (T_HEDGE << KIND_BITS) + asking
                if _sooner(late, mine, at, what):
                    at = late
                    what = mine
                    ring = HEDGE
        if at < t or (at == t and what <= WHO and g.cancel_lag <= 0.0 and at < NEVER):
            t = at
            event = ring
        if arrived < g.requests:
            at = arrival(g, arrived)
            if at < t:
                t = at
                event = ARRIVAL
        if t >= NEVER:
            return
        if t < before:
            g.backwards += 1
        before = t
        if event == REPLICA:
            rep = replica(g, top.replica)
            advance(g, rep, t)
            fire(g, rep, t)
        elif event == ARRIVAL:
            arrived += 1
            arrive(g, arrived - 1, t)
        elif event == HEAP:
            _serve_timer(g, t)
        elif event == HEDGE:
            asking += 1
            hedge_due(g, asking - 1, t)
        else:
            ending += 1
            deadline(g, ending - 1, t)
