"""One replica: queue in order of arrival, admission, prefill, decode in virtual time, slowness, leaving early.

Law (seconds at full speed, all multiplied by the replica's slowness): a decode step of n sequences takes
`decode_base + decode_per_sequence * n` and gives each one token; a prefill takes `work`. With `chunk` = 0 a prefill
pauses decode. Else a step also computes up to `chunk - n` prompt tokens and takes the sum of both costs, also where
nobody decodes: a prompt takes as many steps as it has such pieces, and at least one, after the step under way.
Between two events all rates are constant, so nothing is done per token: dV = dt / (slowness * step).
"""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math

from hedgectl.sim.heaps import add_decoding, remove_decoding, replica_changed
from hedgectl.sim.jit import jit
from hedgectl.sim.layout import (
    DECODE,
    DONE,
    GATEWAY,
    GOT_FIRST_TOKEN,
    GOT_RESPONSE,
    NOTHING,
    PREFILL,
    QUEUED,
    State,
)

NEVER = 1e300
DOOMED = -2  # attempt.place: leaves when its prefill is over
AT_ONCE = 1e18  # tokens per second of a step that takes no time


@jit
def advance(s: State, r: int, t: float) -> None:
    """Bring replica `r` from the time of its last change to `t`."""
    rep = s.replica[r]
    dt = t - rep.at
    rep.at = t
    if dt <= 0.0:
        return
    if rep.running > 0 or rep.prefill >= 0:
        rep.busy += dt
        rep.virtual += dt * rep.rate_virtual
        rep.work_left -= dt * rep.rate_work
        rep.share += dt * rep.rate_share
        rep.prefilled += dt * rep.rate_prefill
        rep.decoded += dt * rep.rate_virtual * rep.running
    rep.area += dt * (rep.running + rep.queued + (1 if rep.prefill >= 0 else 0))
    if rep.queued > 0 and rep.prefill < 0 and _fits(s, r, rep.head):
        rep.idle_queued += dt


@jit
def _fits(s: State, r: int, a: int) -> bool:
    """A sequence is admitted if the batch has a place and the cache has room; alone it always is."""
    g = s.run[0]
    rep = s.replica[r]
    if rep.running >= g.cap:
        return False
    return rep.running == 0 or rep.reserved + s.attempt[a].reserve <= g.kv_capacity


@jit
def _unlink(s: State, r: int, a: int) -> None:
    rep = s.replica[r]
    x = s.attempt[a]
    if x.previous >= 0:
        s.attempt[x.previous].next = x.next
    else:
        rep.head = x.next
    if x.next >= 0:
        s.attempt[x.next].previous = x.previous
    else:
        rep.tail = x.previous
    x.previous = -1
    x.next = -1
    rep.queued -= 1


@jit
def enqueue(s: State, r: int, a: int, t: float) -> bool:
    """Put attempt `a` at the end of the queue of `r`, which stands at time `t`. False: the queue is full."""
    rep = s.replica[r]
    if rep.queued >= s.run[0].queue_limit and not (rep.queued == 0 and rep.prefill < 0 and _fits(s, r, a)):
        return False
    x = s.attempt[a]
    x.state = QUEUED
    x.enqueued = t
    x.previous = rep.tail
    x.next = -1
    if rep.tail >= 0:
        s.attempt[rep.tail].next = a
    else:
        rep.head = a
    rep.tail = a
    rep.queued += 1
    return True


@jit
def _admit(s: State, r: int, t: float) -> None:
    """Start the prefill of the queue's head if the slot is free and it fits; nobody overtakes it."""
    rep = s.replica[r]
    if rep.prefill >= 0 or rep.head < 0 or not _fits(s, r, rep.head):
        return
    a = rep.head
    _unlink(s, r, a)
    x = s.attempt[a]
    x.state = PREFILL
    x.admitted = t
    rep.prefill = a
    rep.work_left = x.work * rep.static
    # sequences join at whole steps, so virtual time tells where the step under way stands
    rep.under_way = math.ceil(rep.virtual - 1e-6) - rep.virtual if rep.running > 0 else 0.0
    rep.prefilled0 = rep.prefilled
    rep.reserved += x.reserve
    rep.prompts += x.prompt
    rep.reserved_max = max(rep.reserved_max, rep.reserved)
    rep.running_max = max(rep.running_max, rep.running + 1)


@jit
def _piece(s: State, r: int) -> float:
    """Prefill seconds in one step beside the running sequences: the prompt in equal pieces that fit the step's budget.

    The rest of the step under way counts as a step without prompt tokens, spread over all of them.
    """
    g = s.run[0]
    rep = s.replica[r]
    work = s.attempt[rep.prefill].work
    steps = math.ceil(work / (g.prefill_per_token * max(1.0, g.chunk - rep.running)) - 1e-9)
    return work / (max(1, steps) + max(0.0, rep.under_way))


@jit
def _set_rates(s: State, r: int) -> None:
    g = s.run[0]
    rep = s.replica[r]
    slow = rep.factor
    n = rep.running
    step = (g.decode_base + g.decode_per_sequence * n) * rep.static
    rep.rate_virtual = 0.0
    rep.rate_share = 0.0
    rep.rate_work = 0.0
    rep.rate_prefill = 0.0
    if rep.prefill >= 0 and (g.chunk <= 0.0 or s.attempt[rep.prefill].work <= 0.0):
        rep.rate_work = 1.0 / slow
        rep.rate_prefill = 1.0
    elif rep.prefill >= 0:
        piece = _piece(s, r) * rep.static
        both = step + piece
        rep.rate_work = piece / (slow * both)
        rep.rate_prefill = piece / both if n > 0 else 1.0
        if n > 0:
            rep.rate_virtual = 1.0 / (slow * both)
            rep.rate_share = step / (both * n)
    elif n > 0:
        rep.rate_virtual = 1.0 / (slow * step) if step > 0.0 else AT_ONCE
        rep.rate_share = 1.0 / n


@jit
def _follow_slowness(s: State, r: int, t: float) -> None:
    rep = s.replica[r]
    while rep.change <= t:
        rep.factor = s.slow_factor[rep.slow_at]
        rep.slow_at += 1
        rep.change = s.slow_start[rep.slow_at] if rep.slow_at < rep.slow_end else NEVER


@jit
def settle(s: State, r: int, t: float) -> None:
    """After any change at `t`: admit, set the rates, find the next event."""
    rep = s.replica[r]
    _follow_slowness(s, r, t)
    _admit(s, r, t)
    _set_rates(s, r)
    rep.prefill_due = NEVER
    rep.finish_due = NEVER
    due = NEVER
    if rep.rate_work > 0.0:
        rep.prefill_due = t + max(rep.work_left, 0.0) / rep.rate_work
        due = rep.prefill_due
    if rep.rate_virtual > 0.0:
        ahead = s.attempt[s.heap[r * s.run[0].slots]].finish - rep.virtual
        rep.finish_due = t + max(ahead, 0.0) / rep.rate_virtual
        due = min(due, rep.finish_due)
    if due < NEVER:
        due = min(due, rep.change)
    if due != rep.due:
        rep.due = due
        replica_changed(s, r)


@jit
def _leave_batch(s: State, r: int, a: int, t: float) -> None:
    """Attempt `a` gives back its place and its cache, from prefill or decode."""
    rep = s.replica[r]
    rep.outstanding -= 1
    x = s.attempt[a]
    if x.state == DECODE:
        remove_decoding(s, r, a)
        x.gpu += rep.share - x.share0
        x.decoded = min(max(rep.virtual - (x.finish - x.tokens), 0.0), x.tokens)
        rep.virtual0 -= x.finish - x.tokens
        if rep.running == 0:
            rep.virtual = 0.0
            rep.virtual0 = 0.0
    else:
        x.gpu += rep.prefilled - rep.prefilled0
        rep.prefill = -1
    rep.reserved -= x.reserve
    rep.prompts -= x.prompt
    x.kv = x.reserve * (t - x.admitted)


@jit
def _end_prefill(s: State, r: int, t: float) -> int:
    rep = s.replica[r]
    a = rep.prefill
    x = s.attempt[a]
    if x.place == DOOMED:
        _leave_batch(s, r, a, t)
        x.state = x.outcome
        x.place = -1
        x.end = t
        return NOTHING
    x.first = t
    if x.tokens <= 0.0:
        _leave_batch(s, r, a, t)
        x.state = DONE
        x.end = t
        return a * 4 + GOT_FIRST_TOKEN + GOT_RESPONSE
    x.gpu += rep.prefilled - rep.prefilled0
    rep.prefill = -1
    x.state = DECODE
    x.finish = rep.virtual + x.tokens
    x.share0 = rep.share
    rep.virtual0 += rep.virtual
    add_decoding(s, r, a)
    return a * 4 + GOT_FIRST_TOKEN


@jit
def fire(s: State, r: int, t: float) -> int:
    """Serve the event due at replica `r` (advanced to `t`). Returns attempt * 4 + what it got (0: a change of speed)."""
    rep = s.replica[r]
    if rep.prefill_due <= t:
        return _end_prefill(s, r, t)
    if rep.finish_due <= t:
        a = s.heap[r * s.run[0].slots]
        x = s.attempt[a]
        rep.virtual = x.finish
        _leave_batch(s, r, a, t)
        x.state = DONE
        x.decoded = x.tokens
        x.end = t
        return a * 4 + GOT_RESPONSE
    return NOTHING


@jit
def remove(s: State, r: int, a: int, t: float) -> None:
    """Take attempt `a` out of replica `r` (advanced to `t`) wherever it stands; it ends as its `outcome`. Then settle.

    A prefill that pauses decode is one step of the engine: it is finished first. In chunks it ends at once.
    """
    x = s.attempt[a]
    if x.state == GATEWAY:
        x.state = x.outcome
        x.end = t
        s.replica[r].outstanding -= 1
        return
    if x.state == PREFILL and s.run[0].chunk <= 0.0:
        x.place = DOOMED
        return
    if x.state == QUEUED:
        _unlink(s, r, a)
        s.replica[r].outstanding -= 1
    else:
        _leave_batch(s, r, a, t)
    x.state = x.outcome
    x.end = t
    settle(s, r, t)


@jit
def drop(s: State, a: int, t: float) -> None:
    """The engine stops working on attempt `a`, if it still does."""
    x = s.attempt[a]
    if x.state >= GATEWAY and x.state <= DECODE:
        r = x.replica
        advance(s, r, t)
        remove(s, r, a, t)
