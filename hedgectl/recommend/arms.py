"""Arms of a comparison: weighted latencies with censored ones among them, their percentiles, their part of the document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgectl import quantiles
from hedgectl.model import CENSORED, ERROR, OK, Floats, Workload

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Pool:
    """Latencies in seconds with weights, sorted once; `n` counts finished requests, not rows.

    Censored values are lower bounds (Kaplan-Meier, as in :mod:`hedgectl.quantiles`); a weight may be a fraction.
    """

    n: int
    _event_s: Floats  # ascending
    _edge: Floats  # mass up to each event, a leading 0 first: shape (events + 1,)
    _total: float
    _beyond: float  # mass known only to be longer than every event
    _bound_s: Floats  # all values, lower bounds taken as they are; ascending, empty without censoring

    @classmethod
    def of(cls, seconds: Floats, weight: Floats | None = None, censored: Bools | None = None) -> Pool:
        """From values, their weights (1 each if None) and which of them are lower bounds; NaN values are left out."""
        weight = np.ones(len(seconds)) if weight is None else weight
        good = np.isfinite(seconds) & (weight > 0)
        seen = np.ones(int(good.sum()), dtype=bool) if censored is None else ~censored[good]
        seconds, weight = seconds[good], weight[good]
        events, mass, beyond = quantiles.redistribute(seconds, weight, seen)
        return cls(
            n=round(float(weight[seen].sum())),
            _event_s=events,
            _edge=np.concatenate(([0.0], np.cumsum(mass))),
            _total=float(mass.sum()) + beyond,
            _beyond=beyond,
            _bound_s=np.zeros(0) if seen.all() else np.sort(seconds),
        )

    def at(self, p: float) -> float | None:
        """The p-quantile in seconds, linear between order statistics; None if only lower bounds are known there.

        It is the mean of the sorted values over the one request that begins at p (n - 1): for whole requests that is the
        linear interpolation, and a request of several equally likely outcomes weighs there as it does alone.
        """
        if not len(self._event_s):
            return None
        low = p * max(self._total - 1.0, 0.0)
        high = min(low + 1.0, self._total)
        if high > self._edge[-1] + 1e-9 * max(self._total, 1.0):
            return None if self._beyond > 1e-9 else float(self._event_s[-1])
        first = max(int(np.searchsorted(self._edge, low, side="right")) - 1, 0)
        last = min(max(int(np.searchsorted(self._edge, high, side="left")), first + 1), len(self._event_s))
        values = self._event_s[first:last]
        parts = np.minimum(self._edge[first + 1 : last + 1], high) - np.maximum(self._edge[first:last], low)
        return float(values[0] + np.sum((values - values[0]) * parts) / np.sum(parts))

    def document(self) -> dict[str, Any]:
        """The quantiles object of the documents, in milliseconds."""
        found: dict[str, Any] = {"n": self.n}
        bounds: dict[str, float] = {}
        for p in quantiles.STANDARD:
            value = self.at(p)
            if value is None and len(self._bound_s):
                bounds[quantiles.name(p)] = milliseconds(float(np.quantile(self._bound_s, p)))
            shown = value is not None and quantiles.printable(self.n, p)
            found[quantiles.name(p)] = milliseconds(value) if shown and value is not None else None
        found["at_least"] = bounds
        found["unreliable"] = [
            name
            for p in quantiles.STANDARD
            if found[name := quantiles.name(p)] is not None and self.n < quantiles.needed(p)
        ]
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A distribution of which only some percentiles were kept; seconds, None = not known."""

    n: int
    value_s: dict[float, float | None]
    shown: dict[str, Any]

    def at(self, p: float) -> float | None:
        """A kept percentile. Raises KeyError for another: it was never computed."""
        return self.value_s[p]

    def document(self) -> dict[str, Any]:
        """The quantiles object of the documents, in milliseconds."""
        return self.shown


class Distribution(Protocol):
    """What the rules need to know about latencies."""

    @property
    def n(self) -> int: ...

    def at(self, p: float) -> float | None: ...

    def document(self) -> dict[str, Any]: ...


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """What one arm did: latencies and counts. Engine figures are None where no replay made them."""

    logical_requests: int
    e2e: Distribution
    ttft: Distribution
    hedges: float = 0.0
    wins: float | None = None
    errors: float = 0.0
    stable: bool = True  # no backlog that grows to the end
    engine: dict[str, Any] | None = None

    def pool(self, metric: str) -> Distribution:
        """``e2e`` or ``ttft``."""
        return self.ttft if metric == "ttft" else self.e2e

    def document(self) -> dict[str, Any]:
        """An arm as in ``simulation.v1``."""
        n = max(self.logical_requests, 1)
        return {
            "logical_requests": self.logical_requests,
            "attempts": round(self.logical_requests + self.hedges),
            "hedge_rate": round(self.hedges / n, 6),
            "win_rate": None if not self.hedges or self.wins is None else round(self.wins / self.hedges, 6),
            "cancels_per_request": round(self.hedges / n, 6),  # one attempt of each hedged request loses
            "cancels_per_hedge": 1.0 if self.hedges else None,
            "error_ratio": round(self.errors / n, 6),
            "ttft_ms": self.ttft.document(),
            "e2e_ms": self.e2e.document(),
            "gpu_seconds": None,
            "kv_token_seconds": None,
            "tasks_per_gpu_hour": None,
        } | (self.engine or {})


def unhedged_arm(workload: Workload) -> Arm:
    """The log as it is: answers as latencies, cut-off ones as lower bounds, errors apart."""
    w = workload
    counted = w.status != ERROR
    cut = w.status == CENSORED
    return Arm(
        logical_requests=len(w),
        e2e=Pool.of(w.e2e_s[counted], w.weight[counted], cut[counted]),
        ttft=Pool.of(w.ttft_s[counted], w.weight[counted], (cut & ~np.isfinite(w.ttft_s))[counted]),
        errors=float(np.sum(w.status == ERROR)),
    )


def answered(workload: Workload) -> int:
    """Requests with a latency: answered, not failed and not cut off."""
    return int(np.sum((workload.status == OK) & np.isfinite(workload.e2e_s)))


def milliseconds(seconds: float) -> float:
    """Rounded to the microsecond: enough for any clock in a log, and the same text on every machine."""
    return round(float(seconds) * 1e3, 3)
