"""The budget of copies: a share of requests with a burst, and a number in flight."""

from __future__ import annotations

from typing import Literal

Refusal = Literal["budget", "in_flight"]


class HedgeBudget:
    """A bucket that earns ``ratio`` copies per logical request, holds at most ``burst``, and starts full.

    The same bucket as the replay uses. ``in_flight`` None = no limit. ``most`` is the hard cap of the whole run.
    """

    def __init__(self, ratio: float, burst: float, in_flight: int | None, most: int | None = None) -> None:
        self._ratio = ratio
        self._burst = float(burst)
        self._level = float(burst)
        self._in_flight = in_flight
        self._most = most
        self.flying = 0
        self.sent = 0

    def arrived(self) -> None:
        """A logical request that may be hedged has arrived."""
        self._level = min(self._burst, self._level + self._ratio)

    def take(self) -> Refusal | None:
        """Takes one copy, or says why there is none."""
        if self._most is not None and self.sent >= self._most:
            return "budget"
        if self._in_flight is not None and self.flying >= self._in_flight:
            return "in_flight"
        if self._level < 1.0 - 1e-9:
            return "budget"
        self._level -= 1.0
        self.flying += 1
        self.sent += 1
        return None

    def landed(self) -> None:
        """A copy has ended."""
        self.flying -= 1
