"""One replayed arm: per-request times, counts, work of primaries, copies and losers, and its part of the document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import quantiles
from hedgectl.model import Floats, Ints
from hedgectl.sim import layout
from hedgectl.sim.inputs import Outcome

REFUSALS = ("budget", "suppressed", "ineligible", "deadline")
DECILES = 10
GROWTH = 2.0  # decile means that rise to the end by more than this are a backlog that does not drain


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """What a replay of m requests gave; arrays are (m,) in order of arrival.

    Work is GPU seconds (prefill + integral of dt / running over decode) and cache token-seconds of the primaries, of
    the copies, and of whatever did not become an answer (`wasted`, part of the other two).
    """

    row: Ints  # of the workload
    arrival_s: Floats
    e2e_s: Floats  # to the answer, the error or the deadline
    ttft_s: Floats  # NaN: nothing was shown
    answered: NDArray[np.bool_]
    timed_out: NDArray[np.bool_]
    attempts: int
    hedges: int
    wins: int
    cancels: int
    refused: dict[str, int]
    gpu_s: dict[str, float]  # primary, hedge, wasted
    kv_token_s: dict[str, float]
    tokens: dict[str, float]  # decoded: primary, hedge, wasted
    busy_s: float
    copy_row: Ints  # of `row`: requests that got a copy
    copy_won: NDArray[np.bool_]  # (len(copy_row),)
    copy_tokens: Floats  # decoded by the loser of each
    loser_first: NDArray[np.bool_]  # the loser had begun to write
    copies_at_once: int = 0  # most copies in flight: sent, and neither answered nor given up

    @classmethod
    def of(cls, o: Outcome, row: Ints) -> Arm:
        """Read off the kernel's records."""
        q, x = o.request, o.attempt
        n, k = x.shape
        answered = q["status"] == layout.ANSWERED
        won = np.zeros((n, k), dtype=bool)
        good = np.flatnonzero(answered)
        won[good, q["winner"][good]] = True
        sent = x["state"] != layout.NONE
        lost = sent & ~won
        hedged = np.flatnonzero(q["sent"] > 1)
        if k > 1:
            copy_won: NDArray[np.bool_] = np.asarray(won[hedged, 1:].any(axis=1))
            loser = lost[hedged]
            copy_tokens = (x["decoded"][hedged] * loser).sum(axis=1)
            loser_first: NDArray[np.bool_] = np.asarray((loser & ~np.isnan(x["first"][hedged])).any(axis=1))
        else:
            copy_won, copy_tokens, loser_first = np.zeros(0, bool), np.zeros(0), np.zeros(0, bool)
        return cls(
            row=row,
            arrival_s=o.jobs.arrival,
            e2e_s=q["end"] - o.jobs.arrival,
            ttft_s=q["ttft"].copy(),
            answered=answered,
            timed_out=q["status"] == layout.TIMED_OUT,
            attempts=int(sent.sum()),
            hedges=int(o.run["hedges"]),
            wins=int(won[:, 1:].sum()),
            cancels=int(np.sum(~np.isnan(x["left"]) & (x["state"] != layout.FAILED) & answered[:, None])),
            refused={name: int(o.run[f"refused_{name}"]) for name in REFUSALS},
            gpu_s=_split(x["gpu"], lost),
            kv_token_s=_split(o.kv_token_s(), lost),
            tokens=_split(x["decoded"], lost),
            busy_s=float(o.replica["busy"].sum()),
            copy_row=hedged,
            copy_won=copy_won,
            copy_tokens=copy_tokens,
            loser_first=loser_first,
            copies_at_once=_at_once(x[:, 1:][sent[:, 1:]]),
        )

    def seconds(self, metric: str) -> Floats:
        """`e2e` or `ttft` of the answered requests."""
        return (self.ttft_s if metric == "ttft" else self.e2e_s)[self.answered]

    def quantile(self, metric: str, p: float) -> float | None:
        """Seconds; None where only lower bounds are known, or nothing was answered."""
        values, bounds = self._values(metric)
        if not len(bounds):
            return quantiles.quantile(values, p)
        everything = np.concatenate((values, bounds))
        seen = np.arange(len(everything)) < len(values)
        return quantiles.kaplan_meier(everything, seen, p)[0]

    def quantiles(self, metric: str, ps: Sequence[float]) -> dict[float, float | None]:
        """`quantile` at each of `ps`; a million values are sorted once."""
        values, bounds = self._values(metric)
        if len(bounds) or not len(values):
            return {p: self.quantile(metric, p) for p in ps}
        return dict(zip(ps, np.quantile(values, ps).tolist(), strict=True))

    def _values(self, metric: str) -> tuple[Floats, Floats]:
        """Finished values, and lower bounds: a request that ran into the deadline is known to be longer."""
        values = self.seconds(metric)
        values = values[~np.isnan(values)]
        late = self.timed_out & np.isnan(self.ttft_s) if metric == "ttft" else self.timed_out
        return values, self.e2e_s[late]

    def summary(self, metric: str) -> dict[str, Any]:
        """The quantiles piece of the documents, in milliseconds."""
        values, bounds = self._values(metric)
        return quantiles.summary(values * 1e3, censored=bounds * 1e3, digits=3)

    @property
    def stable(self) -> bool:
        """False if times grow to the end of the run: a backlog that does not drain."""
        return drains(self.e2e_s)

    def document(self, *, refused: bool = False) -> dict[str, Any]:
        """An arm of `simulation.v1`; the refusals only for a hedged one."""
        n = max(len(self.row), 1)
        answers = int(self.answered.sum())
        found: dict[str, Any] = {
            "logical_requests": len(self.row),
            "attempts": self.attempts,
            "hedge_rate": round(self.hedges / n, 6),
            "win_rate": round(self.wins / self.hedges, 6) if self.hedges else None,
            "cancels_per_request": round(self.cancels / n, 6),
            "cancels_per_hedge": round(self.cancels / self.hedges, 6) if self.hedges else None,
            "error_ratio": round(1.0 - answers / n, 6) if len(self.row) else 0.0,
            "ttft_ms": self.summary("ttft"),
            "e2e_ms": self.summary("e2e"),
            "gpu_seconds": {name: round(value, 3) for name, value in self.gpu_s.items()},
            "kv_token_seconds": {name: round(value, 1) for name, value in self.kv_token_s.items()},
            "tasks_per_gpu_hour": round(answers / self.busy_s * 3600.0, 3) if self.busy_s > 0 else None,
        }
        if refused:
            found["hedges_refused"] = dict(self.refused)
        return found


def drains(seconds: Floats) -> bool:
    """Are times, in order of arrival, free of a rise that goes on to the end? True for fewer than 200."""
    if len(seconds) < 20 * DECILES:
        return True
    means = np.array([part.mean() for part in np.array_split(seconds, DECILES)])
    last, first = means[-2:].min(), np.median(means[: DECILES // 2])
    rising = np.corrcoef(np.argsort(np.argsort(means)), np.arange(DECILES))[0, 1]
    return not (last > GROWTH * first and rising > 0.8)


def _at_once(copies: Any) -> int:
    """Most of these attempts under way at one moment; one that ends makes room for one that is sent just then."""
    until = np.fmin(copies["left"], copies["end"])
    at = np.concatenate((until[np.isfinite(until)], copies["sent"]))
    step = np.ones(len(at), dtype=np.int64)
    step[: len(at) - len(copies)] = -1
    return int(np.cumsum(step[np.argsort(at, kind="stable")]).max(initial=0))


def _split(values: Any, lost: NDArray[np.bool_]) -> dict[str, float]:
    return {
        "primary": float(values[:, 0].sum()),
        "hedge": float(values[:, 1:].sum()),
        "wasted": float(values[lost].sum()),
    }
