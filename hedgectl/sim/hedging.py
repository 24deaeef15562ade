"""The client's side: sending, the hedge timer and its tests, errors, deadlines.

At `arrival + delay` without an answer on the request's clock: eligible? enough time left? suppressed? a token left?
Only then a copy goes to another replica. An error never wins; it fails the request only if no attempt is left.
"""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.answers import FOREVER, abandon, close, forget, waits
from hedgectl.sim.engine import advance, enqueue, remove
from hedgectl.sim.heaps import KIND_BITS, push_timer
from hedgectl.sim.jit import inlined, jit
from hedgectl.sim.layout import ERRORED, FAILED, GATEWAY, OPEN, T_ATTEMPT, T_ENQUEUE, T_ERROR, T_HEDGE, TIMED_OUT
from hedgectl.sim.routing import route, target
from hedgectl.sim.signals import suppressed
from hedgectl.sim.tables import arrival, attempt, eligible, fails_after, gateway, predicted, replica, request
from hedgectl.sim.windows import count

WHOLE = 1e-9  # ten shares of 0.1 are one token, though not in binary


@jit
def _turned_away(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    """The queue of `rep` is full: an error."""
    if waits(x):
        fail(g, a, x, t)
    else:
        x.outcome = FAILED  # nobody listens any more
        remove(g, rep, a, x, t)


@inlined
def enter(g: Any, a: int, x: Any, t: float) -> None:
    """Attempt `a` (record `x`) reaches the queue of its engine, unless it was cancelled on the way."""
    if x.state == GATEWAY:
        _reach(g, replica(g, x.replica), a, x, t)


@inlined
def _reach(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    if not enqueue(g, rep, a, x, t):
        _turned_away(g, rep, a, x, t)


@inlined
def _send(g: Any, i: int, r: int, t: float) -> int:
    """Send the next attempt of request `i` to replica `r`. Returns it if it is there at once, else -1."""
    q = request(g, i)
    a = (i << g.shift) + q.sent
    x = attempt(g, a)
    x.replica = r
    x.state = GATEWAY
    x.sent = t
    q.sent += 1
    q.alive += 1
    replica(g, r).outstanding += 1
    error = fails_after(g, a)
    wait = gateway(g, a)
    if error < FOREVER:
        push_timer(g, t + error, (T_ERROR << KIND_BITS) + a)
    if g.attempt_deadline < FOREVER:
        push_timer(g, t + g.attempt_deadline, (T_ATTEMPT << KIND_BITS) + a)
    if wait <= 0.0:
        return a
    if wait <= error:  # else it fails on the way
        push_timer(g, t + wait, (T_ENQUEUE << KIND_BITS) + a)
    return -1


@inlined
def arrive(g: Any, i: int, t: float) -> None:
    """Request `i` arrives: its primary is sent, the budget earns its share of a token. `kernel` watches its timers."""
    g.tokens = min(g.burst, g.tokens + g.ratio)
    if g.watch_hedges:
        count(g, g.replicas + 1, t, 1.0, 0.0)
    r = route(g, i)
    a = _send(g, i, r, t)
    if a >= 0:
        _reach(g, replica(g, r), a, attempt(g, a), t)


@jit
def _may_hedge(g: Any, i: int, r: int, t: float) -> bool:
    """All tests in their order; the first that says no is counted."""
    if r < 0:
        g.refused_ineligible += 1
        return False
    if arrival(g, i) + g.deadline - t < predicted(g, i):
        g.refused_deadline += 1
        return False
    if suppressed(g, attempt(g, i << g.shift).replica, r, t):
        g.refused_suppressed += 1
        return False
    if g.tokens < 1.0 - WHOLE or g.in_flight >= g.max_in_flight:
        g.refused_budget += 1
        return False
    return True


@inlined
def waits_for_a_copy(g: Any, i: int) -> bool:
    """Would the hedge timer of request `i` still find it without an answer on its clock?"""
    q = request(g, i)
    return q.status == OPEN and q.winner < 0


@jit
def hedge_due(g: Any, i: int, t: float) -> None:
    """The hedge timer of request `i` rings."""
    if not waits_for_a_copy(g, i):
        return
    r = target(g, i) if eligible(g, i) != 0 else -1
    if not _may_hedge(g, i, r, t):
        return
    g.tokens -= 1.0
    g.in_flight += 1
    g.hedges += 1
    if g.watch_hedges:
        count(g, g.replicas + 1, t, 0.0, 1.0)
    a = _send(g, i, r, t)
    if a >= 0:
        enter(g, a, attempt(g, a), t)
    if request(g, i).sent < g.attempts:
        push_timer(g, t + g.delay, (T_HEDGE << KIND_BITS) + i)


@jit
def fail(g: Any, a: int, x: Any, t: float) -> None:
    """Attempt `a` (record `x`) ends in an error: its own, or the queue was full."""
    if not waits(x):
        if x.state == GATEWAY:  # it fails on the way, though nobody listens any more
            x.outcome = FAILED
            remove(g, replica(g, x.replica), a, x, t)
        return
    if g.watch_errors:
        count(g, g.replicas, t, 1.0, 1.0)
    forget(g, a)
    x.left = t
    x.outcome = FAILED
    rep = replica(g, x.replica)
    advance(g, rep, t)
    remove(g, rep, a, x, t)
    if _was_last(g, a):
        q = request(g, a >> g.shift)
        q.status = ERRORED
        close(g, a >> g.shift, q, t)


@jit
def attempt_deadline(g: Any, a: int, t: float) -> None:
    """Attempt `a` has had its time: the client gives it up, and the request with it if nothing else is under way."""
    if not waits(attempt(g, a)):
        return
    if g.watch_errors:
        count(g, g.replicas, t, 1.0, 1.0)
    abandon(g, a, t)
    if _was_last(g, a):
        q = request(g, a >> g.shift)
        q.status = TIMED_OUT
        close(g, a >> g.shift, q, t)


@inlined
def _was_last(g: Any, a: int) -> bool:
    """Now that attempt `a` will not answer, is its request over? So if nothing else is under way, or it was committed."""
    q = request(g, a >> g.shift)
    return q.status == OPEN and (q.alive == 0 or q.winner == a - (a >> g.shift << g.shift))


@jit
def deadline(g: Any, i: int, t: float) -> None:
    """Request `i` has had its time."""
    q = request(g, i)
    if q.status == OPEN:
        q.status = TIMED_OUT
        close(g, i, q, t)
