"""The plainest case on its own: one queue, c servers, first come first served, nobody slows anybody down.

Where sequences do not share an engine's speed the whole engine is a heap of c free times. The same times come out of
the event loop of `kernel`, which carries everything an engine does besides; this loop shows what the language costs.
"""

from __future__ import annotations

from typing import Any

from hedgectl.model import Floats
from hedgectl.sim.jit import entry


@entry
def serve(arrival: Floats, service: Floats, free: Floats, start: Floats, end: Floats) -> None:
    """Fill `start` and `end`, (n,), for `arrival` ascending and `service`; `free` (c,) are times of servers, zeros first."""
    c = len(free)
    for i in range(len(arrival)):
        begin = max(arrival[i], free[0])
        done = begin + service[i]
        start[i] = begin
        end[i] = done
        k = 0
        child = 1
        while child < c:
            if child + 1 < c and free[child + 1] < free[child]:
                child += 1
            if done <= free[child]:
                break
            free[k] = free[child]
            k = child
            child = 2 * k + 1
        free[k] = done


def times(arrival: Floats, service: Floats, servers: int) -> tuple[Any, Any]:
    """Start and end of service, (n,) each."""
    import numpy as np

    start, end = np.empty(len(arrival)), np.empty(len(arrival))
    serve(np.ascontiguousarray(arrival), np.ascontiguousarray(service), np.zeros(servers), start, end)
    return start, end
