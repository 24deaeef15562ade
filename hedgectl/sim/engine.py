"""One replica: queue in order of arrival, admission, prefill, decode in virtual time, slowness, leaving early.

Law (seconds at full speed, all multiplied by the replica's slowness): a decode step of n sequences takes
`decode_base + decode_per_sequence * n` and gives each one token; a prefill takes `work`. With `chunk` = 0 a prefill
pauses decode. Else a step also computes up to `chunk - n` prompt tokens and takes the sum of both costs, also where
nobody decodes: a prompt takes as many steps as it has such pieces, and at least one, after the step under way.
Between two events all rates are constant, so nothing is done per token: dV = dt / (slowness * step). A prefill without
work is over as it starts and is no event of its own.
A sequence holds the cache of its prompt and its whole answer from admission on; growth with preemption is not modelled.
"""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from typing import Any

from hedgectl.sim.answers import got_first_token, got_response
from hedgectl.sim.heaps import add_decoding, pop_decoding, remove_decoding, replica_changed
from hedgectl.sim.jit import inlined, jit
from hedgectl.sim.layout import DECODE, DONE, GATEWAY, PREFILL, QUEUED
from hedgectl.sim.tables import attempt, change, prompt, replica, slot, tokens, work

NEVER = 1e300
DOOMED = -2  # attempt.place: leaves when its prefill is over
AT_ONCE = 1e-18  # seconds of a step that takes no time


@inlined
def advance(g: Any, rep: Any, t: float) -> None:
    """Bring replica `rep` from the time of its last change to `t`."""
    dt = t - rep.at
    rep.at = t
    if dt <= 0.0:
        return
    if rep.prefill >= 0:
        rep.busy += dt
        rep.work_left -= dt * rep.rate_work
        rep.prefilled += dt * rep.rate_prefill
    elif rep.running > 0:
        rep.busy += dt
    if rep.running > 0:
        rep.virtual += dt * rep.rate_virtual
        rep.share += dt * rep.rate_share


@inlined
def _reserve(g: Any, a: int) -> float:
    """Key-value tokens attempt `a` holds from admission to end; one larger than the cache is served alone."""
    return min(prompt(g, a) + tokens(g, a), g.kv_capacity)


@inlined
def _fits(g: Any, rep: Any, a: int) -> bool:
    """A sequence is admitted if the batch has a place and the cache has room; alone it always is."""
    if rep.running >= g.cap:
        return False
    return rep.running == 0 or rep.reserved + _reserve(g, a) <= g.kv_capacity


@inlined
def _unlink(g: Any, rep: Any, x: Any) -> None:
    if x.previous >= 0:
        attempt(g, x.previous).next = x.next
    else:
        rep.head = x.next
    if x.next >= 0:
        attempt(g, x.next).previous = x.previous
    else:
        rep.tail = x.previous
    x.previous = -1
    x.next = -1
    rep.queued -= 1


@inlined
def enqueue(g: Any, rep: Any, a: int, x: Any, t: float) -> bool:
    """Attempt `a` enters replica `rep` at time `t`: it starts, or waits at the end of the queue. False: that is full.

    One that waits changes nothing for those inside, so the replica need not be brought to `t`.
    """
    if rep.queued == 0 and rep.prefill < 0 and _fits(g, rep, a):
        advance(g, rep, t)
        x.enqueued = t
        _start(g, rep, a, x, t)
        pace(g, rep, t)
        return True
    if rep.queued >= g.queue_limit:
        return False
    x.enqueued = t
    x.state = QUEUED
    x.previous = rep.tail
    if rep.tail >= 0:
        attempt(g, rep.tail).next = a
    else:
        rep.head = a
    rep.tail = a
    rep.queued += 1
    return True


@inlined
def _start(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    """Admit attempt `a` to the free prefill slot."""
    x.state = PREFILL
    x.admitted = t
    rep.reserved += _reserve(g, a)
    rep.prefill = a
    rep.prefilled0 = rep.prefilled
    seconds = work(g, a)
    if seconds > 0.0:
        rep.work_left = seconds * rep.static
        # sequences join at whole steps, so virtual time tells where the step under way stands
        rep.under_way = math.ceil(rep.virtual - 1e-6) - rep.virtual if rep.running > 0 else 0.0
    else:
        _skip_prefill(g, rep, a, x, t)


@inlined
def _admit(g: Any, rep: Any, t: float) -> None:
    """Start the prefill of the queue's head if the slot is free and it fits; nobody overtakes it."""
    while rep.head >= 0 and rep.prefill < 0 and _fits(g, rep, rep.head):
        a = rep.head
        x = attempt(g, a)
        _unlink(g, rep, x)
        _start(g, rep, a, x, t)


@jit
def _piece(g: Any, rep: Any, seconds: float) -> float:
    """Prefill seconds in one step beside the running sequences: the prompt in equal pieces that fit the step's budget.

    The rest of the step under way counts as a step without prompt tokens, spread over all of them.
    """
    steps = math.ceil(seconds / (g.prefill_per_token * max(1.0, g.chunk - rep.running)) - 1e-9)
    return seconds / (max(1, steps) + max(0.0, rep.under_way))


@inlined
def _set_rates(g: Any, rep: Any, t: float) -> None:
    """Rates from `t` on, and when a prefill or a decode will end at them."""
    n = rep.running
    slow = rep.factor
    step = (g.decode_base + g.decode_per_sequence * n) * rep.static
    rep.prefill_due = NEVER
    rep.finish_due = NEVER
    rep.rate_virtual = 0.0
    rep.rate_share = 0.0
    if rep.prefill >= 0:
        if g.chunk <= 0.0:
            rep.rate_work = 1.0 / slow
            rep.rate_prefill = 1.0
            rep.prefill_due = t + max(rep.work_left, 0.0) * slow
            return
        piece = _piece(g, rep, work(g, rep.prefill)) * rep.static
        both = step + piece
        rep.rate_work = piece / (slow * both)
        rep.rate_prefill = piece / both if n > 0 else 1.0
        rep.prefill_due = t + max(rep.work_left, 0.0) / rep.rate_work
        if n == 0:
            return
        rep.rate_share = step / (both * n)
        step = both
    elif n > 0:
        rep.rate_share = 1.0 / n
    else:
        return
    period = max(slow * step, AT_ONCE)
    rep.rate_virtual = 1.0 / period
    rep.finish_due = t + max(slot(g, rep.slots).finish - rep.virtual, 0.0) * period


@jit
def _follow_slowness(g: Any, rep: Any, t: float) -> None:
    while rep.change <= t:
        rep.factor = change(g, rep.slow_at).factor
        rep.slow_at += 1
        rep.change = change(g, rep.slow_at).start if rep.slow_at < rep.slow_end else NEVER


@inlined
def settle(g: Any, rep: Any, t: float) -> None:
    """After somebody left at `t`: admit, set the rates, find the next event."""
    if rep.head >= 0:
        _admit(g, rep, t)
    pace(g, rep, t)


@inlined
def pace(g: Any, rep: Any, t: float) -> None:
    """After any change at `t`: set the rates, find the next event."""
    if rep.change <= t:
        _follow_slowness(g, rep, t)
    _set_rates(g, rep, t)
    due = min(rep.prefill_due, rep.finish_due)
    if due < NEVER:
        due = min(due, rep.change)
    if due != rep.due:
        rep.due = due
        replica_changed(g, rep)


@inlined
def _leave(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    """Attempt `a` ends as its `outcome` and gives back its place and its cache."""
    x.state = x.outcome
    x.end = t
    rep.outstanding -= 1
    rep.reserved -= _reserve(g, a)


@inlined
def _leave_decode(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    """Attempt `a`, no longer in the heap, ends after the tokens it has."""
    length = tokens(g, a)
    start = x.finish - length
    x.place = -1
    x.gpu += rep.share - x.share0
    x.decoded = min(max(rep.virtual - start, 0.0), length)
    if rep.running == 0:
        rep.virtual = 0.0
    _leave(g, rep, a, x, t)


@jit
def _leave_prefill(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    x.place = -1
    x.gpu += rep.prefilled - rep.prefilled0
    rep.prefill = -1
    _leave(g, rep, a, x, t)


@jit
def _write_nothing(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    """The prefill of `a` ends, and with it all its work."""
    if x.place == DOOMED:
        _leave_prefill(g, rep, a, x, t)
        return
    x.first = t
    x.outcome = DONE
    _leave_prefill(g, rep, a, x, t)
    got_first_token(g, a, x, t)
    got_response(g, a, x, t)


@inlined
def _end_prefill(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    length = tokens(g, a)
    if x.place == DOOMED or length <= 0.0:
        _write_nothing(g, rep, a, x, t)
    else:
        x.first = t
        x.gpu += rep.prefilled - rep.prefilled0
        x.state = DECODE
        x.finish = rep.virtual + length
        x.share0 = rep.share
        rep.prefill = -1
        add_decoding(g, rep, a, x.finish)
        got_first_token(g, a, x, t)


@inlined
def _skip_prefill(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    _end_prefill(g, rep, a, x, t)


@inlined
def fire(g: Any, rep: Any, t: float) -> None:
    """Serve the event due at replica `rep` (advanced to `t`); nothing is one, too: a change of speed. Then settle."""
    if rep.prefill_due <= t:
        a = rep.prefill
        _end_prefill(g, rep, a, attempt(g, a), t)
    elif rep.finish_due <= t:
        a = pop_decoding(g, rep)
        x = attempt(g, a)
        rep.virtual = x.finish
        x.outcome = DONE
        _leave_decode(g, rep, a, x, t)
        got_response(g, a, x, t)
    settle(g, rep, t)


@jit
def remove(g: Any, rep: Any, a: int, x: Any, t: float) -> None:
    """Take attempt `a` out of replica `rep` (advanced to `t`) wherever it stands; it ends as its `outcome`. Then settle.

    A prefill that pauses decode is one step of the engine: it is finished first. In chunks it ends at once.
    """
    if x.state == GATEWAY:
        x.state = x.outcome
        x.end = t
        rep.outstanding -= 1
        return
    if x.state == PREFILL and g.chunk <= 0.0:
        x.place = DOOMED
        return
    if x.state == QUEUED:
        _unlink(g, rep, x)
        rep.outstanding -= 1
        x.state = x.outcome
        x.end = t
    elif x.state == PREFILL:
        _leave_prefill(g, rep, a, x, t)
    else:
        remove_decoding(g, rep, x.place)
        _leave_decode(g, rep, a, x, t)
    settle(g, rep, t)


@jit
def drop(g: Any, a: int, t: float) -> None:
    """The engine stops working on attempt `a`, if it still does."""
    x = attempt(g, a)
    if x.state >= GATEWAY and x.state <= DECODE:
        rep = replica(g, x.replica)
        advance(g, rep, t)
        remove(g, rep, a, x, t)
