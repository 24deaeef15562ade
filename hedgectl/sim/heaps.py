"""Three orders of time: timers in a binary heap, a replica's decode ends in a heap with places, replicas in a tree."""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.jit import inlined, jit
from hedgectl.sim.tables import attempt, node, slot, timer

KIND_BITS = 44
WHO = (1 << KIND_BITS) - 1


@jit
def push_timer(g: Any, at: float, what: int) -> None:
    """Remember that `what` = (kind << KIND_BITS) + attempt or request is due at time `at`.

    One number and not two: numba compiles a function anew for every constant it is called with.
    """
    i = g.timers
    g.timers = i + 1
    while i > 0:
        up = (i - 1) >> 1
        over = timer(g, up)
        if over.at < at or (over.at == at and over.what <= what):
            break
        here = timer(g, i)
        here.at = over.at
        here.what = over.what
        i = up
    place = timer(g, i)
    place.at = at
    place.what = what


@jit
def pop_timer(g: Any) -> int:
    """Remove the earliest timer; returns kind * 2**44 + who. At one instant lower kinds, then lower ids come first."""
    top = timer(g, 0).what
    n = g.timers - 1
    g.timers = n
    last = timer(g, n)
    at = last.at
    what = last.what
    i = 0
    child = 1
    while child < n:
        low = timer(g, child)
        if child + 1 < n:
            right = timer(g, child + 1)
            if right.at < low.at or (right.at == low.at and right.what < low.what):
                low = right
                child += 1
        if at < low.at or (at == low.at and what <= low.what):
            break
        here = timer(g, i)
        here.at = low.at
        here.what = low.what
        i = child
        child = 2 * i + 1
    place = timer(g, i)
    place.at = at
    place.what = what
    return top


@inlined
def _put(g: Any, base: int, i: int, finish: float, a: int) -> None:
    here = slot(g, base + i)
    here.finish = finish
    here.attempt = a
    attempt(g, a).place = i


@inlined
def _rise(g: Any, base: int, i: int, finish: float, a: int) -> None:
    while i > 0:
        up = (i - 1) >> 1
        over = slot(g, base + up)
        if over.finish < finish or (over.finish == finish and over.attempt < a):
            break
        _put(g, base, i, over.finish, over.attempt)
        i = up
    _put(g, base, i, finish, a)


@inlined
def _sink(g: Any, base: int, n: int, i: int, finish: float, a: int) -> None:
    child = 2 * i + 1
    while child < n:
        low = slot(g, base + child)
        if child + 1 < n:
            right = slot(g, base + child + 1)
            if right.finish < low.finish or (right.finish == low.finish and right.attempt < low.attempt):
                low = right
                child += 1
        if finish < low.finish or (finish == low.finish and a < low.attempt):
            break
        _put(g, base, i, low.finish, low.attempt)
        i = child
        child = 2 * i + 1
    _put(g, base, i, finish, a)


@inlined
def add_decoding(g: Any, rep: Any, a: int, finish: float) -> None:
    """Attempt `a` starts to decode on replica `rep`, until virtual time `finish`."""
    n = rep.running
    rep.running = n + 1
    _rise(g, rep.slots, n, finish, a)


@inlined
def pop_decoding(g: Any, rep: Any) -> int:
    """The attempt that is done first no longer decodes on replica `rep`."""
    base = rep.slots
    n = rep.running - 1
    rep.running = n
    done = slot(g, base).attempt
    last = slot(g, base + n)
    if n > 0:
        _sink(g, base, n, 0, last.finish, last.attempt)
    return done


@jit
def remove_decoding(g: Any, rep: Any, i: int) -> None:
    """What stands at place `i` of the heap no longer decodes on replica `rep`."""
    base = rep.slots
    n = rep.running - 1
    rep.running = n
    if i == n:
        return
    last = slot(g, base + n)
    finish = last.finish
    a = last.attempt
    if i > 0 and finish < slot(g, base + ((i - 1) >> 1)).finish:
        _rise(g, base, i, finish, a)
    else:
        _sink(g, base, n, i, finish, a)


@inlined
def replica_changed(g: Any, rep: Any) -> None:
    """Replica `rep` has a new `due`: play its matches again, up to the first that it neither won nor wins."""
    i = g.leaves + rep.number
    here = node(g, i)
    here.due = rep.due
    here.replica = rep.number
    while i > 1:
        left = node(g, i & ~1)
        right = node(g, i | 1)
        i >>= 1
        best = left if left.due <= right.due else right
        here = node(g, i)
        if here.replica != rep.number and best.replica != rep.number:
            return
        here.due = best.due
        here.replica = best.replica
