"""Three orders of time: timers in a binary heap, a replica's decode ends in a heap with places, replicas in a tree."""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from hedgectl.sim.jit import jit
from hedgectl.sim.layout import State

KIND_BITS = 44
WHO = (1 << KIND_BITS) - 1


@jit
def push_timer(s: State, at: float, what: int) -> None:
    """Remember that `what` = (kind << KIND_BITS) + attempt or request is due at time `at`.

    One number and not two: numba compiles a function anew for every constant it is called with.
    """
    g = s.run[0]
    i = g.timers
    g.timers = i + 1
    while i > 0:
        up = (i - 1) >> 1
        if s.timer_at[up] < at or (s.timer_at[up] == at and s.timer_what[up] <= what):
            break
        s.timer_at[i] = s.timer_at[up]
        s.timer_what[i] = s.timer_what[up]
        i = up
    s.timer_at[i] = at
    s.timer_what[i] = what


@jit
def pop_timer(s: State) -> int:
    """Remove the earliest timer; returns kind * 2**44 + who. At one instant lower kinds, then lower ids come first."""
    g = s.run[0]
    top = s.timer_what[0]
    n = g.timers - 1
    g.timers = n
    at = s.timer_at[n]
    what = s.timer_what[n]
    i = 0
    child = 1
    while child < n:
        if child + 1 < n and (
            s.timer_at[child + 1] < s.timer_at[child]
            or (s.timer_at[child + 1] == s.timer_at[child] and s.timer_what[child + 1] < s.timer_what[child])
        ):
            child += 1
        if at < s.timer_at[child] or (at == s.timer_at[child] and what <= s.timer_what[child]):
            break
        s.timer_at[i] = s.timer_at[child]
        s.timer_what[i] = s.timer_what[child]
        i = child
        child = 2 * i + 1
    s.timer_at[i] = at
    s.timer_what[i] = what
    return top


@jit
def _earlier(s: State, a: int, b: int) -> bool:
    x = s.attempt[a].finish
    y = s.attempt[b].finish
    return x < y or (x == y and a < b)


@jit
def _rise(s: State, base: int, i: int, a: int) -> None:
    while i > 0:
        up = (i - 1) >> 1
        b = s.heap[base + up]
        if not _earlier(s, a, b):
            break
        s.heap[base + i] = b
        s.attempt[b].place = i
        i = up
    s.heap[base + i] = a
    s.attempt[a].place = i


@jit
def _sink(s: State, base: int, n: int, i: int, a: int) -> None:
    child = 2 * i + 1
    while child < n:
        if child + 1 < n and _earlier(s, s.heap[base + child + 1], s.heap[base + child]):
            child += 1
        b = s.heap[base + child]
        if _earlier(s, a, b):
            break
        s.heap[base + i] = b
        s.attempt[b].place = i
        i = child
        child = 2 * i + 1
    s.heap[base + i] = a
    s.attempt[a].place = i


@jit
def add_decoding(s: State, r: int, a: int) -> None:
    """Attempt `a` starts to decode on replica `r`; its `finish` is set."""
    rep = s.replica[r]
    base = r * s.run[0].slots
    rep.running += 1
    _rise(s, base, rep.running - 1, a)


@jit
def remove_decoding(s: State, r: int, a: int) -> None:
    """Attempt `a` no longer decodes on replica `r`."""
    rep = s.replica[r]
    base = r * s.run[0].slots
    n = rep.running - 1
    rep.running = n
    i = s.attempt[a].place
    s.attempt[a].place = -1
    if i == n:
        return
    last = s.heap[base + n]
    if i > 0 and _earlier(s, last, s.heap[base + ((i - 1) >> 1)]):
        _rise(s, base, i, last)
    else:
        _sink(s, base, n, i, last)


@jit
def replica_changed(s: State, r: int) -> None:
    """Replica `r` has a new `due`: play its matches again, up to the root."""
    i = (s.run[0].leaves + r) >> 1
    while i >= 1:
        left = s.tree[2 * i]
        right = s.tree[2 * i + 1]
        if s.replica[left].due <= s.replica[right].due:
            s.tree[i] = left
        else:
            s.tree[i] = right
        i >>= 1
