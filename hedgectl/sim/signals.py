"""Live signals: is any of the policy's conditions for sending no copy met at this moment?"""

# The records have no static types: everything read from one is Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from typing import Any

from hedgectl.sim.engine import advance
from hedgectl.sim.jit import jit
from hedgectl.sim.tables import attempt, prompt, replica, slot, tokens
from hedgectl.sim.windows import share

SLOW_SHARE = 0.25  # a replica is slow if more than this share of its recent answers is beyond the healthy limit


@jit
def _slow_others(g: Any, primary: int, t: float) -> float:
    slow = 0
    for r in range(g.replicas):
        if r != primary and share(g, r, t) > SLOW_SHARE:
            slow += 1
    return slow / max(1, g.replicas - 1)


@jit
def _in_cache(g: Any, rep: Any) -> float:
    """Tokens in the cache of replica `rep`: prompts, and what was decoded so far."""
    used = prompt(g, rep.prefill) if rep.prefill >= 0 else 0.0
    for i in range(rep.slots, rep.slots + rep.running):
        here = slot(g, i)
        used += prompt(g, here.attempt) + tokens(g, here.attempt) - (here.finish - rep.virtual)
    return used


@jit
def _outside(value: float, below: float, above: float) -> bool:
    return value > above or value < below


@jit
def _fleet_outside(g: Any, t: float) -> bool:
    """Means over all replicas of batch, queue and cache, against their limits."""
    running = 0.0
    waiting = 0.0
    reserved = 0.0
    used = 0.0
    for r in range(g.replicas):
        rep = replica(g, r)
        advance(g, rep, t)
        running += rep.running + (1 if rep.prefill >= 0 else 0)
        waiting += rep.queued
        reserved += rep.reserved
        if g.watch_kv_usage:
            used += _in_cache(g, rep)
    n = g.replicas
    cache = n * g.kv_capacity
    return (
        _outside(running / n, g.below_running, g.above_running)
        or _outside(waiting / n, g.below_waiting, g.above_waiting)
        or _outside(reserved / cache, g.below_reserved, g.above_reserved)
        or _outside(used / cache, g.below_kv_usage, g.above_kv_usage)
    )


@jit
def suppressed(g: Any, primary: int, target: int, t: float) -> bool:
    """May no copy of an attempt on replica `primary` be sent to replica `target` now?"""
    head = replica(g, target).head
    age = 0.0
    if head >= 0:
        age = t - attempt(g, head).enqueued
    if _outside(age, g.below_queue_age, g.above_queue_age):
        return True
    if g.watch_fleet and _fleet_outside(g, t):
        return True
    if g.watch_slow and _outside(_slow_others(g, primary, t), g.below_slow, g.above_slow):
        return True
    if g.watch_errors and _outside(share(g, g.replicas, t), g.below_errors, g.above_errors):
        return True
    if g.watch_hedges:
        return _outside(share(g, g.replicas + 1, t), g.below_hedges, g.above_hedges)
    return False
