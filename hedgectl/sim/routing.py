"""Which replica: of a primary as logged, at random or with the fewest outstanding; of a copy, among those it may go to."""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.jit import inlined, jit
from hedgectl.sim.layout import AS_LOGGED, LEAST_OUTSTANDING
from hedgectl.sim.tables import attempt, choice, logged, pick, replica, request


@jit
def _allowed(g: Any, first: int, sent: int, r: int) -> bool:
    """May the next attempt of the request whose attempts begin at `first` go to replica `r`?"""
    for k in range(sent):
        used = attempt(g, first + k).replica
        if used == r and g.same_replica == 0:
            return False
        if g.other_pool == 1 and replica(g, used).pool == replica(g, r).pool:
            return False
    return True


@jit
def _pick_random(g: Any, first: int, sent: int, u: float) -> int:
    n = 0
    for r in range(g.replicas):
        if _allowed(g, first, sent, r):
            n += 1
    skip = min(int(u * n), n - 1)
    for r in range(g.replicas):
        if _allowed(g, first, sent, r):
            if skip == 0:
                return r
            skip -= 1
    return -1


@jit
def _pick_least(g: Any, first: int, sent: int, u: float) -> int:
    """The allowed replica with the fewest outstanding attempts; `u` decides between equals."""
    fewest = 1 << 30
    ties = 0
    for r in range(g.replicas):
        n = replica(g, r).outstanding
        if n <= fewest and _allowed(g, first, sent, r):
            if n < fewest:
                fewest = n
                ties = 0
            ties += 1
    skip = min(int(u * ties), ties - 1)
    for r in range(g.replicas):
        if replica(g, r).outstanding == fewest and _allowed(g, first, sent, r):
            if skip == 0:
                return r
            skip -= 1
    return -1


@jit
def _pick_least_of_few(g: Any, i: int) -> int:
    """The one with the fewest outstanding attempts among `choices` replicas drawn with replacement."""
    best = -1
    for k in range(g.choices):
        r = min(int(choice(g, i * g.choices + k) * g.replicas), g.replicas - 1)
        if best < 0 or replica(g, r).outstanding < replica(g, best).outstanding:
            best = r
    return best


@inlined
def route(g: Any, i: int) -> int:
    """The replica of request `i`'s primary."""
    if g.replicas == 1:
        return 0
    if g.routing == AS_LOGGED:
        seen = logged(g, i)
        if seen >= 0:
            return seen
    first = i << g.shift
    if g.routing == LEAST_OUTSTANDING:
        if g.choices > 0:
            return _pick_least_of_few(g, i)
        return _pick_least(g, first, request(g, i).sent, pick(g, first))
    return min(int(pick(g, first) * g.replicas), g.replicas - 1)


@jit
def target(g: Any, i: int) -> int:
    """The replica of request `i`'s next copy; -1 if there is none it may go to."""
    first = i << g.shift
    sent = request(g, i).sent
    u = pick(g, first + sent)
    if g.target == LEAST_OUTSTANDING or (g.target == AS_LOGGED and g.routing == LEAST_OUTSTANDING):
        return _pick_least(g, first, sent, u)
    return _pick_random(g, first, sent, u)
