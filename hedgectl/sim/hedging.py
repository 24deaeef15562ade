"""The client's side: routing, the hedge timer and its tests, the first success wins, cancelling, errors, deadlines.

At `arrival + delay` without an answer on the request's clock: eligible? enough time left? suppressed? a token left?
Only then a copy goes to another replica. An error never wins; it fails the request only if no attempt is left.
"""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from hedgectl.sim.engine import advance, enqueue, remove, settle
from hedgectl.sim.heaps import KIND_BITS, push_timer
from hedgectl.sim.jit import jit
from hedgectl.sim.layout import (
    ANSWERED,
    AS_LOGGED,
    DECODE,
    ENGINE_RUNS_ON,
    ERRORED,
    FAILED,
    FIRST_TOKEN,
    GATEWAY,
    LEAST_OUTSTANDING,
    LEAVES_QUEUE,
    OPEN,
    QUEUED,
    T_ATTEMPT,
    T_CANCEL,
    T_DEADLINE,
    T_ENQUEUE,
    T_ERROR,
    T_HEDGE,
    TIMED_OUT,
    State,
)

HALF_WINDOW_S = 15.0  # live signals look back 15 to 30 s
SLOW_SHARE = 0.25  # a replica is slow if more than this share of its recent answers is beyond the healthy limit
FOREVER = 1e300
WHOLE = 1e-9  # ten shares of 0.1 are one token, though not in binary


# --- live signals -----------------------------------------------------------------------------------------------------


@jit
def _turn(s: State, row: int, t: float) -> None:
    w = s.window[row]
    slot = t // HALF_WINDOW_S
    if slot == w.slot:
        return
    keep = slot == w.slot + 1.0
    w.n_before = w.n if keep else 0.0
    w.hits_before = w.hits if keep else 0.0
    w.n = 0.0
    w.hits = 0.0
    w.slot = slot


@jit
def _count(s: State, row: int, t: float, n: float, hits: float) -> None:
    _turn(s, row, t)
    w = s.window[row]
    w.n += n
    w.hits += hits


@jit
def _share(s: State, row: int, t: float) -> float:
    _turn(s, row, t)
    w = s.window[row]
    n = w.n + w.n_before
    if n > 0.0:
        return (w.hits + w.hits_before) / n
    return 0.0


@jit
def _slow_others(s: State, primary: int, t: float) -> float:
    n = s.run[0].replicas
    slow = 0
    for r in range(n):
        if r != primary and _share(s, r, t) > SLOW_SHARE:
            slow += 1
    return slow / max(1, n - 1)


@jit
def _fleet_above_limit(s: State, t: float) -> bool:
    """Means over all replicas of batch, queue and cache, against their limits."""
    g = s.run[0]
    running = 0.0
    waiting = 0.0
    reserved = 0.0
    used = 0.0
    for r in range(g.replicas):
        advance(s, r, t)
        rep = s.replica[r]
        running += rep.running + (1 if rep.prefill >= 0 else 0)
        waiting += rep.queued
        reserved += rep.reserved
        used += rep.prompts + rep.running * rep.virtual - rep.virtual0
    n = g.replicas
    cache = n * g.kv_capacity
    return (
        running / n > g.sup_running
        or waiting / n > g.sup_waiting
        or reserved / cache > g.sup_reserved
        or used / cache > g.sup_kv_usage
    )


@jit
def _suppressed(s: State, primary: int, target: int, t: float) -> bool:
    g = s.run[0]
    head = s.replica[target].head
    if head >= 0 and t - s.attempt[head].enqueued > g.sup_queue_age:
        return True
    fleet = min(min(g.sup_running, g.sup_waiting), min(g.sup_reserved, g.sup_kv_usage))
    if fleet < FOREVER and _fleet_above_limit(s, t):
        return True
    if g.sup_slow < FOREVER and _slow_others(s, primary, t) > g.sup_slow:
        return True
    if g.sup_errors < FOREVER and _share(s, g.replicas, t) > g.sup_errors:
        return True
    return g.sup_hedges < FOREVER and _share(s, g.replicas + 1, t) > g.sup_hedges


# --- where to ---------------------------------------------------------------------------------------------------------


@jit
def _allowed(s: State, i: int, r: int) -> bool:
    """May the next attempt of request `i` go to replica `r`?"""
    g = s.run[0]
    first = i * g.attempts
    for k in range(s.request[i].sent):
        used = s.attempt[first + k].replica
        if used == r and g.same_replica == 0:
            return False
        if g.other_pool == 1 and s.replica[used].pool == s.replica[r].pool:
            return False
    return True


@jit
def _pick_random(s: State, i: int, pick: float) -> int:
    n = 0
    for r in range(s.run[0].replicas):
        if _allowed(s, i, r):
            n += 1
    skip = min(int(pick * n), n - 1)
    for r in range(s.run[0].replicas):
        if _allowed(s, i, r):
            if skip == 0:
                return r
            skip -= 1
    return -1


@jit
def _pick_least(s: State, i: int, pick: float) -> int:
    """The allowed replica with the fewest outstanding attempts; `pick` decides between equals."""
    fewest = 1 << 30
    ties = 0
    for r in range(s.run[0].replicas):
        n = s.replica[r].outstanding
        if n <= fewest and _allowed(s, i, r):
            if n < fewest:
                fewest = n
                ties = 0
            ties += 1
    skip = min(int(pick * ties), ties - 1)
    for r in range(s.run[0].replicas):
        if s.replica[r].outstanding == fewest and _allowed(s, i, r):
            if skip == 0:
                return r
            skip -= 1
    return -1


@jit
def _pick_least_of_few(s: State, i: int) -> int:
    """The one with the fewest outstanding attempts among `choices` replicas drawn with replacement."""
    g = s.run[0]
    best = -1
    for k in range(g.choices):
        r = min(int(s.choices[i * g.choices + k] * g.replicas), g.replicas - 1)
        if best < 0 or s.replica[r].outstanding < s.replica[best].outstanding:
            best = r
    return best


@jit
def _route(s: State, i: int) -> int:
    g = s.run[0]
    q = s.request[i]
    if g.routing == AS_LOGGED and q.logged >= 0:
        return q.logged
    if g.routing == LEAST_OUTSTANDING:
        return _pick_least_of_few(s, i) if g.choices > 0 else _pick_least(s, i, q.pick)
    return min(int(q.pick * g.replicas), g.replicas - 1)


@jit
def _target(s: State, i: int) -> int:
    g = s.run[0]
    q = s.request[i]
    pick = s.attempt[i * g.attempts + q.sent].pick
    if g.target == LEAST_OUTSTANDING or (g.target == AS_LOGGED and g.routing == LEAST_OUTSTANDING):
        return _pick_least(s, i, pick)
    return _pick_random(s, i, pick)


# --- the life of attempts ---------------------------------------------------------------------------------------------


@jit
def _forget(s: State, a: int) -> None:
    """The client no longer waits for attempt `a`: it is no copy in flight any more."""
    g = s.run[0]
    s.request[a // g.attempts].alive -= 1
    if a % g.attempts > 0:
        g.in_flight -= 1


@jit
def _waits(s: State, a: int) -> bool:
    """Does the client still wait for attempt `a`?"""
    x = s.attempt[a]
    return x.state >= GATEWAY and x.state <= DECODE and x.left != x.left


@jit
def abandon(s: State, a: int, t: float) -> None:
    """The client stops listening to attempt `a`; what the engine does then is the cancel behaviour."""
    g = s.run[0]
    x = s.attempt[a]
    x.left = t
    _forget(s, a)
    if g.cancel == ENGINE_RUNS_ON:
        return
    if g.cancel == LEAVES_QUEUE and x.state != QUEUED and x.state != GATEWAY:
        return
    # a timer even without lag: a direct call would compile the whole engine into every caller of this function
    push_timer(s, t + g.cancel_lag, (T_CANCEL << KIND_BITS) + a)


@jit
def _abandon_others(s: State, i: int, winner: int, t: float) -> None:
    first = i * s.run[0].attempts
    for a in range(first, first + s.request[i].sent):
        if a != winner and _waits(s, a):
            abandon(s, a, t)


@jit
def _close(s: State, i: int, t: float) -> None:
    """Request `i` is over; the caller has set how."""
    s.request[i].end = t
    _abandon_others(s, i, -1, t)


@jit
def enter(s: State, a: int, t: float) -> None:
    """Attempt `a` reaches the queue of its engine (unless it was cancelled on the way)."""
    x = s.attempt[a]
    if x.state != GATEWAY:
        return
    r = x.replica
    advance(s, r, t)
    if enqueue(s, r, a, t):
        settle(s, r, t)
    elif _waits(s, a):
        fail(s, a, t)
    else:
        x.outcome = FAILED  # nobody listens any more
        remove(s, r, a, t)


@jit
def _send(s: State, i: int, r: int, t: float) -> None:
    g = s.run[0]
    q = s.request[i]
    a = i * g.attempts + q.sent
    x = s.attempt[a]
    x.replica = r
    x.state = GATEWAY
    x.sent = t
    q.sent += 1
    q.alive += 1
    s.replica[r].outstanding += 1
    if x.fails_after < FOREVER:
        push_timer(s, t + x.fails_after, (T_ERROR << KIND_BITS) + a)
    if g.attempt_deadline < FOREVER:
        push_timer(s, t + g.attempt_deadline, (T_ATTEMPT << KIND_BITS) + a)
    if x.gateway > 0.0:
        push_timer(s, t + x.gateway, (T_ENQUEUE << KIND_BITS) + a)
    else:
        enter(s, a, t)


@jit
def arrive(s: State, i: int, t: float) -> None:
    """Request `i` arrives: its primary is sent, its timers are set, the budget earns its share of a token."""
    g = s.run[0]
    g.tokens = min(g.burst, g.tokens + g.ratio)
    if g.sup_hedges < FOREVER:
        _count(s, g.replicas + 1, t, 1.0, 0.0)
    if g.deadline < FOREVER:
        push_timer(s, t + g.deadline, (T_DEADLINE << KIND_BITS) + i)
    if g.delay < FOREVER:
        push_timer(s, t + g.delay, (T_HEDGE << KIND_BITS) + i)
    _send(s, i, _route(s, i), t)


# --- the hedge --------------------------------------------------------------------------------------------------------


@jit
def _may_hedge(s: State, i: int, target: int, t: float) -> bool:
    """All tests in their order; the first that says no is counted."""
    g = s.run[0]
    q = s.request[i]
    if q.eligible == 0 or target < 0:
        g.refused_ineligible += 1
        return False
    if q.arrival + g.deadline - t < q.predicted:
        g.refused_deadline += 1
        return False
    if _suppressed(s, s.attempt[i * g.attempts].replica, target, t):
        g.refused_suppressed += 1
        return False
    if g.tokens < 1.0 - WHOLE or g.in_flight >= g.max_in_flight:
        g.refused_budget += 1
        return False
    return True


@jit
def hedge_due(s: State, i: int, t: float) -> None:
    """The hedge timer of request `i` rings."""
    g = s.run[0]
    q = s.request[i]
    if q.status != OPEN or q.winner >= 0:
        return
    target = _target(s, i) if q.eligible != 0 else -1
    if not _may_hedge(s, i, target, t):
        return
    g.tokens -= 1.0
    g.in_flight += 1
    g.hedges += 1
    if g.sup_hedges < FOREVER:
        _count(s, g.replicas + 1, t, 0.0, 1.0)
    _send(s, i, target, t)
    if q.sent < g.attempts:
        push_timer(s, t + g.delay, (T_HEDGE << KIND_BITS) + i)


# --- answers ----------------------------------------------------------------------------------------------------------


@jit
def got_first_token(s: State, a: int, t: float) -> None:
    """Attempt `a` has its first token: on that clock the request is now committed to it."""
    g = s.run[0]
    i = a // g.attempts
    q = s.request[i]
    x = s.attempt[a]
    if g.sup_slow < FOREVER and q.clock == FIRST_TOKEN:
        _count(s, x.replica, t, 1.0, 1.0 if t - x.sent > g.healthy_limit else 0.0)
    if q.status != OPEN or x.left == x.left:
        return
    if q.ttft != q.ttft:
        q.ttft = t - q.arrival  # whoever shows something first; the answer may still come from the other one
    if q.clock == FIRST_TOKEN and q.winner < 0:
        q.winner = a
        _abandon_others(s, i, a, t)


@jit
def got_response(s: State, a: int, t: float) -> None:
    """Attempt `a` is done. If the client still waits for it, it is the winner."""
    g = s.run[0]
    i = a // g.attempts
    q = s.request[i]
    x = s.attempt[a]
    if g.sup_slow < FOREVER and q.clock != FIRST_TOKEN:
        _count(s, x.replica, t, 1.0, 1.0 if t - x.sent > g.healthy_limit else 0.0)
    if x.left == x.left:
        return
    if g.sup_errors < FOREVER:
        _count(s, g.replicas, t, 1.0, 0.0)
    _forget(s, a)
    q.winner = a
    s.request[i].status = ANSWERED
    _close(s, i, t)


@jit
def fail(s: State, a: int, t: float) -> None:
    """Attempt `a` ends in an error (its own, or the queue was full)."""
    g = s.run[0]
    if not _waits(s, a):
        return
    if g.sup_errors < FOREVER:
        _count(s, g.replicas, t, 1.0, 1.0)
    _forget(s, a)
    x = s.attempt[a]
    x.left = t
    r = x.replica
    advance(s, r, t)
    x.outcome = FAILED
    remove(s, r, a, t)
    i = a // g.attempts
    if s.request[i].status == OPEN and (s.request[i].alive == 0 or s.request[i].winner == a):
        s.request[i].status = ERRORED
        _close(s, i, t)


@jit
def attempt_deadline(s: State, a: int, t: float) -> None:
    """Attempt `a` has had its time: the client gives it up, and the request with it if nothing else is under way."""
    g = s.run[0]
    if not _waits(s, a):
        return
    if g.sup_errors < FOREVER:
        _count(s, g.replicas, t, 1.0, 1.0)
    abandon(s, a, t)
    i = a // g.attempts
    if s.request[i].alive == 0 or s.request[i].winner == a:
        s.request[i].status = TIMED_OUT
        _close(s, i, t)


@jit
def deadline(s: State, i: int, t: float) -> None:
    """Request `i` has had its time."""
    if s.request[i].status == OPEN:
        s.request[i].status = TIMED_OUT
        _close(s, i, t)
