"""The event loop: arrivals, timers and replicas in order of time, until nothing is left to do.

At one instant cancels without lag come first, then replicas, other timers, arrivals.
"""

from __future__ import annotations

from hedgectl.sim.engine import NEVER, advance, drop, fire, settle
from hedgectl.sim.heaps import KIND_BITS, WHO, pop_timer
from hedgectl.sim.hedging import (
    arrive,
    attempt_deadline,
    deadline,
    enter,
    fail,
    got_first_token,
    got_response,
    hedge_due,
)
from hedgectl.sim.jit import entry, jit
from hedgectl.sim.layout import (
    GOT_FIRST_TOKEN,
    GOT_RESPONSE,
    T_ATTEMPT,
    T_CANCEL,
    T_DEADLINE,
    T_ENQUEUE,
    T_ERROR,
    State,
)


@jit
def _serve_timer(s: State, t: float) -> None:
    what = pop_timer(s)
    kind = what >> KIND_BITS
    who = what & WHO
    if kind == T_ENQUEUE:
        enter(s, who, t)
    elif kind == T_CANCEL:
        drop(s, who, t)
    elif kind == T_ERROR:
        fail(s, who, t)
    elif kind == T_ATTEMPT:
        attempt_deadline(s, who, t)
    elif kind == T_DEADLINE:
        deadline(s, who, t)
    else:
        hedge_due(s, who, t)


@jit
def _serve_replica(s: State, r: int, t: float) -> None:
    advance(s, r, t)
    got = fire(s, r, t)
    settle(s, r, t)
    what = got & 3
    if what & GOT_FIRST_TOKEN:
        got_first_token(s, got >> 2, t)
    if what & GOT_RESPONSE:
        got_response(s, got >> 2, t)


@entry
def drain(s: State) -> None:
    """Run the whole workload in `s` to its end, in place."""
    g = s.run[0]
    before = 0.0
    while True:
        r = s.tree[1]
        t = s.replica[r].due
        who = 0
        if g.timers > 0 and (
            s.timer_at[0] < t or (s.timer_at[0] == t and g.cancel_lag <= 0.0 and s.timer_what[0] <= WHO)
        ):
            t = s.timer_at[0]
            who = 1
        i = g.arrived
        if i < g.requests and s.request[i].arrival < t:
            t = s.request[i].arrival
            who = 2
        if t >= NEVER:
            break
        g.events += 1
        if t < before:
            g.backwards += 1
        before = t
        if who == 0:
            _serve_replica(s, r, t)
        elif who == 1:
            _serve_timer(s, t)
        else:
            g.arrived = i + 1
            arrive(s, i, t)
