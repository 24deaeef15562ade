"""The seam between the search and what answers "what would this policy do": a screen or a replay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from hedgectl import estimate
from hedgectl.cost import Copies
from hedgectl.estimate import CopyLength, Screen, Trigger
from hedgectl.model import CENSORED, ERROR, OK, Floats, Workload
from hedgectl.paired import paired_ratio
from hedgectl.policy import Budget, Deadline, DelayRule, Suppress, Target
from hedgectl.recommend.arms import Arm, Pool, unhedged_arm

Bools = NDArray[np.bool_]
CancelEffect = Literal["frees_engine", "engine_runs_on"]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """One policy to be tried. `eligible` is a mask over the workload (rules and windows already applied)."""

    trigger: Trigger
    delay_s: float
    quantile: float  # of the delay rule
    budget: Budget | None
    eligible: Bools
    target: Target = field(default_factory=Target)
    suppress: tuple[Suppress, ...] = ()
    deadline: Deadline | None = None
    max_attempts: int = 2
    rule: DelayRule | None = None  # by which the delay follows the log
    later_s: float = 0.0  # how much longer than the plain rule it waits (``delay.later``)


@dataclass(frozen=True, slots=True)
class Assumption:
    """One way the unknown may be: what cancelling does to the engine (None: the estimator cannot see it), a copy's length."""

    cancel: CancelEffect | None
    copy_length: CopyLength


@dataclass(frozen=True, slots=True, eq=False)
class Paired:
    """Per-request latencies of both arms on the same arrivals, for the interval of their ratio."""

    arrival_s: Floats
    unhedged_s: Floats
    hedged_s: Floats
    weight: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Projection:
    """What one candidate did under one assumption."""

    assumption: Assumption
    unhedged: Arm
    hedged: Arm
    copies: Copies
    refused: dict[str, int]  # budget, suppressed, ineligible, deadline
    paired: dict[str, Paired]  # "e2e", "ttft"


class Projector(Protocol):
    """Answers for one workload."""

    @property
    def estimator(self) -> str:
        """``matched`` or ``simulation``: what the document's ``method`` says."""
        ...

    def unhedged(self) -> Arm:
        """The log without copies, as this estimator sees it."""
        ...

    def better_routed(self) -> Arm | None:
        """Unhedged with requests sent to the least outstanding replica; None if it cannot be told."""
        ...

    def project(self, candidate: Candidate, assumption: Assumption) -> Projection:
        """What the candidate does if the unknown is as assumed."""
        ...


class ScreenProjector:
    """The load-blind screen behind the seam."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.screen = Screen(workload)
        self._unhedged = unhedged_arm(workload)

    @property
    def estimator(self) -> str:
        return "matched"

    def unhedged(self) -> Arm:
        return self._unhedged

    def better_routed(self) -> Arm | None:
        return None

    def project(self, candidate: Candidate, assumption: Assumption) -> Projection:
        budget = candidate.budget
        found = self.screen.project(
            candidate.trigger,
            candidate.delay_s,
            candidate.eligible,
            assumption.copy_length,
            None if budget is None else estimate.Budget(budget.ratio, float(budget.burst)),
        )
        w = self.workload
        rows = found.hedged
        answered = w.status[rows] == OK
        wins = float((found.weight * found.won).sum())
        # A request that failed and is now answered has no latency to compare with: it counts in the error ratio alone.
        rescued = float((found.weight * found.won)[w.status[rows] == ERROR].sum())
        untouched = w.status != ERROR
        untouched[rows] = False
        cut = w.status == CENSORED
        pools: dict[str, Pool] = {}
        paired: dict[str, Paired] = {}
        for metric, own, hedged in (("e2e", w.e2e_s, found.e2e_s), ("ttft", w.ttft_s, found.ttft_s)):
            kept = w.status[rows] != ERROR
            if not bool(np.isfinite(own).any()):
                hedged = np.full_like(hedged, np.nan)  # what no request shows cannot be told of those with a copy
            values = np.concatenate((own[untouched], hedged[kept].ravel()))
            weight = np.concatenate((w.weight[untouched], (found.weight[kept] * w.weight[rows][kept][:, None]).ravel()))
            still_cut = cut[rows][kept][:, None] & ~found.won[kept]
            pools[metric] = Pool.of(values, weight, np.concatenate((cut[untouched], still_cut.ravel())))
            expected = own.copy()
            usable = rows[answered]
            # One outcome a request keeps the pairing honest: a mean of 16 outcomes would smooth the tail away.
            pick = (np.arange(len(usable)) * 7) % np.maximum((found.weight[answered] > 0).sum(axis=1), 1)
            expected[usable] = hedged[answered][np.arange(len(usable)), pick]
            good = (w.status == OK) & np.isfinite(own) & np.isfinite(expected)
            paired[metric] = Paired(w.arrival_s[good], own[good], expected[good], w.weight[good])
        arm = Arm(
            logical_requests=len(w),
            e2e=pools["e2e"],
            ttft=pools["ttft"],
            hedges=float(len(rows)),
            wins=wins,
            errors=self._unhedged.errors - rescued,
        )
        return Projection(
            assumption=assumption,
            unhedged=self._unhedged,
            hedged=arm,
            copies=self._copies(candidate, found),
            refused={
                "budget": found.refused_budget,
                "suppressed": 0,
                "ineligible": found.ineligible,
                "deadline": 0,
            },
            paired=paired,
        )

    def _copies(self, candidate: Candidate, found: estimate.Screened) -> Copies:
        """How far the loser had come: in time, which is in tokens too at a steady pace."""
        rows = found.hedged
        own = self.workload.e2e_s[rows][:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            primary_written = (candidate.delay_s + found.copy_e2e_s) / own
            copy_written = (own - candidate.delay_s) / found.copy_e2e_s
        written = np.where(found.won, primary_written, copy_written)
        return Copies(rows, found.weight, found.won, found.copy_output, np.where(np.isfinite(written), written, np.nan))


def measured_change(both: Paired, ratio: float | None, p: float, seed: int) -> dict[str, Any]:
    """``p99_change`` of the documents; `ratio` is that of the two arms' percentiles."""
    found = paired_ratio(both.unhedged_s, both.hedged_s, both.arrival_s, p, seed=seed)
    interval = found["interval"]
    return {
        "ratio": None if ratio is None else round(ratio, 6),
        "interval": None if interval is None else [round(float(x), 4) for x in interval],
        "episodes": int(found["episodes"]),
        "kind": found["kind"],
    }


def as_dict(assumption: Assumption) -> dict[str, Any]:
    """``worst_of`` of the documents."""
    return {"cancel": assumption.cancel, "copy_length": assumption.copy_length}
