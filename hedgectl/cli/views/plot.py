"""A survival curve in text: the share still waiting against time, both on log scales, a row a point in time."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hedgectl.cli.blocks import Block, Table
from hedgectl.cli.views.numbers import ms

ROWS = 16
WIDTH = 30
SPARKS = "▁▂▃▄▅▆▇█"


def survival(title: str, curve: Sequence[tuple[float, float]], n: int, cut: int = 0) -> list[Block]:
    """The curve [(ms, share still waiting)] as a table of bars; empty for fewer than two points.

    A bar is as long as the share on a log scale: full is 100 %, none is 1 in n.
    """
    if len(curve) < 2 or n < 2:
        return []
    low, high = curve[0][0], curve[-1][0]
    low = max(low, next((x for x, left in curve if left <= 0.99), low))
    if not low < high:
        return []
    rows = []
    for k in range(ROWS):
        at = low * (high / low) ** (k / (ROWS - 1)) if k < ROWS - 1 else high
        left = next((share for x, share in reversed(curve) if x <= at * (1 + 1e-12)), 1.0)
        rows.append([ms(at), _bar(left, n), _share(left)])
    bound = f"; {cut:,} that were cut short count as longer than they were seen" if cut else ""
    caption = f"n = {n:,}{bound}; time and bars on log scales: each tenth of the bar is the same factor"
    return [Table(title, ("after", "still waiting", ""), rows, left=2, caption=caption)]


def _bar(left: float, n: int) -> str:
    part = 1.0 + math.log(max(left, 1.0 / n)) / math.log(n)
    eighths = round(max(0.0, min(1.0, part)) * WIDTH * 8)
    return ("█" * (eighths // 8) + (" ▏▎▍▌▋▊▉"[eighths % 8] if eighths % 8 else "")).ljust(WIDTH)


def _share(left: float) -> str:
    return f"{100 * left:.0f} %" if left >= 0.1 else f"{100 * left:.2g} %"


def sparkline(values: Sequence[float | None], top: float) -> str:
    """One cell a value, full height at `top`; ``·`` where nothing was observed."""
    cells = []
    for value in values:
        if value is None:
            cells.append("·")
        else:
            part = 0.0 if top <= 0 else min(1.0, value / top)
            cells.append(SPARKS[min(len(SPARKS) - 1, math.ceil(part * (len(SPARKS) - 1)))])
    return "".join(cells)
