"""The prefill law `base + per_token x uncached prompt tokens`, from requests that found no other prefill waiting."""

from __future__ import annotations

from dataclasses import dataclass

from hedgectl.fit.robust import Line, trimmed_line
from hedgectl.fit.timeline import EPSILON_S, Attempts
from hedgectl.model import Floats


@dataclass(frozen=True, slots=True, eq=False)
class PrefillLaw:
    """Seconds at full speed, 95 % intervals, and the rows behind them."""

    base_s: float
    per_token_s: float
    base_interval: tuple[float, float]
    per_token_interval: tuple[float, float]
    spread: float  # robust relative spread of the rows about the law
    rows: int

    def work(self, uncached: Floats) -> Floats:
        """Seconds of prefill at full speed, same shape as `uncached`."""
        return self.base_s + self.per_token_s * uncached


def fit_prefill(a: Attempts, earliest: Floats, static: Floats) -> PrefillLaw:
    """Robust line through (uncached tokens, TTFT) of the attempts that could begin at once.

    `earliest` (n,) from `earliest_starts`; `static` (R,) divides each replica's times. Where none could begin at
    once, the time since the earliest start is used for all: an upper bound that trimming pulls down.
    """
    idle = (earliest <= a.arrival + EPSILON_S) & ~a.cut
    if int(idle.sum()) < 20:
        idle = ~a.cut
    seconds = (a.first - earliest)[idle] / static[a.replica[idle]]
    line: Line = trimmed_line(a.uncached[idle], seconds)
    return PrefillLaw(line.base, line.slope, line.base_interval, line.slope_interval, line.spread, int(idle.sum()))
