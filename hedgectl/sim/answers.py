"""What the client hears from an attempt, and what follows: the first success wins, the others are given up."""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.heaps import KIND_BITS, push_timer
from hedgectl.sim.jit import inlined, jit
from hedgectl.sim.layout import (
    ANSWERED,
    DECODE,
    ENGINE_RUNS_ON,
    FIRST_TOKEN,
    GATEWAY,
    LEAVES_QUEUE,
    OPEN,
    QUEUED,
    T_CANCEL,
)
from hedgectl.sim.tables import arrival, attempt, clock, replica, request
from hedgectl.sim.windows import count

FOREVER = 1e300


@inlined
def forget(g: Any, a: int) -> None:
    """The client no longer waits for attempt `a`: it is no copy in flight any more."""
    i = a >> g.shift
    request(g, i).alive -= 1
    if a != i << g.shift:
        g.in_flight -= 1


@inlined
def waits(x: Any) -> bool:
    """Does the client still wait for attempt record `x`?"""
    return x.state >= GATEWAY and x.state <= DECODE and x.left != x.left


@jit
def abandon(g: Any, a: int, t: float) -> None:
    """The client stops listening to attempt `a`; what the engine does then is the cancel behaviour."""
    x = attempt(g, a)
    x.left = t
    forget(g, a)
    if g.cancel == ENGINE_RUNS_ON:
        return
    if g.cancel == LEAVES_QUEUE and x.state != QUEUED and x.state != GATEWAY:
        return
    # a timer even without lag: engines are below this, and at one instant cancels come first anyway
    push_timer(g, t + g.cancel_lag, (T_CANCEL << KIND_BITS) + a)


@jit
def abandon_others(g: Any, i: int, t: float) -> None:
    """Nobody waits any more for the attempts of request `i`, except for the committed one of a request still open."""
    q = request(g, i)
    first = i << g.shift
    for k in range(q.sent):
        if waits(attempt(g, first + k)) and not (k == q.winner and q.status == OPEN):
            abandon(g, first + k, t)


@inlined
def close(g: Any, i: int, q: Any, t: float) -> None:
    """Request `i` (record `q`) is over; the caller has set its status."""
    q.end = t
    if q.alive > 0:
        abandon_others(g, i, t)


@inlined
def _judge_speed(g: Any, x: Any, t: float) -> None:
    count(g, replica(g, x.replica).number, t, 1.0, 1.0 if t - x.sent > g.healthy_limit else 0.0)


@inlined
def got_first_token(g: Any, a: int, x: Any, t: float) -> None:
    """Attempt `a` (record `x`) has its first token: on that clock the request is now committed to it."""
    i = a >> g.shift
    q = request(g, i)
    if g.watch_slow and clock(g, i) == FIRST_TOKEN:
        _judge_speed(g, x, t)
    if q.status == OPEN and x.left != x.left:
        if q.ttft != q.ttft:
            q.ttft = t - arrival(g, i)  # whoever shows something first; the answer may still come from the other one
        if q.winner < 0 and clock(g, i) == FIRST_TOKEN:
            q.winner = a - (i << g.shift)
            if q.alive > 1:
                abandon_others(g, i, t)


@inlined
def got_response(g: Any, a: int, x: Any, t: float) -> None:
    """Attempt `a` (record `x`) is done. If the client still waits for it, it is the winner."""
    i = a >> g.shift
    if g.watch_slow and clock(g, i) != FIRST_TOKEN:
        _judge_speed(g, x, t)
    if x.left != x.left:
        if g.watch_errors:
            count(g, g.replicas, t, 1.0, 0.0)
        forget(g, a)
        q = request(g, i)
        q.winner = a - (i << g.shift)
        q.status = ANSWERED
        close(g, i, q, t)
