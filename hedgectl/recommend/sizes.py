"""One scope in classes of prompt size: unlike work gets a threshold of its own, where the log has enough of it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import OK, Workload

EDGES = (1_000, 4_000, 16_000, 64_000)  # prompt tokens at which a class begins

Bools = NDArray[np.bool_]


def classes(workload: Workload, needed: int) -> Iterator[tuple[str | None, Bools]]:
    """(name, rows) from small to large. A class with fewer than `needed` answers joins the next larger one, the last the
    one before; requests without a prompt length form no class. One pair (None, all rows) if there is only one class.
    """
    w = workload
    answered = (w.status == OK) & np.isfinite(w.e2e_s)
    bounds: list[list[int]] = []
    low = 0
    for high in (*EDGES, -1):
        rows = _between(w, low, high) & answered
        if int(rows.sum()) >= needed:
            bounds.append([low, high])
            low = high
    if len(bounds) < 2:
        yield None, np.ones(len(w), dtype=bool)
        return
    bounds[-1][1] = -1
    for low, high in bounds:
        yield _name(low, high), _between(w, low, high)


def _between(w: Workload, low: int, high: int) -> Bools:
    return (w.prompt_tokens >= low) & ((w.prompt_tokens < high) if high >= 0 else True)


def _name(low: int, high: int) -> str:
    if low == 0:
        return f"prompt_below_{high}"
    return f"prompt_{low}_and_more" if high < 0 else f"prompt_{low}_to_{high - 1}"
