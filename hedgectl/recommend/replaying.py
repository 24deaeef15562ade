"""The replay behind the seam: candidates run on the fitted engines, where copies take real capacity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl.cost import Copies
from hedgectl.model import Floats, Routing
from hedgectl.recommend.arms import Arm, Points
from hedgectl.recommend.projecting import Assumption, Candidate, Paired, Projection
from hedgectl.sim import arm as replayed
from hedgectl.sim import layout, load
from hedgectl.sim.inputs import OFF
from hedgectl.sim.load import Load, Span
from hedgectl.sim.run import run
from hedgectl.sim.scenario import Assumed, Setting, Spec, discipline, jobs_of, law_of, limits_of, rule_of


@dataclass(slots=True, eq=False)
class ReplayProjector:
    """Answers for one workload at one load. Arms without copies are replayed once and kept."""

    setting: Setting
    at: Load
    percentiles: tuple[float, ...]  # that the rules ask for
    routing: Routing = "as_logged"
    _kept: dict[int, Arm] | None = None

    @property
    def estimator(self) -> str:
        return "simulation"

    @classmethod
    def today(cls, setting: Setting, percentiles: tuple[float, ...], routing: Routing = "as_logged") -> ReplayProjector:
        """The whole log as it arrived."""
        return cls(setting, load.at(setting.workload, 1.0, setting.seed), percentiles, routing)

    def block(self, k: int, of: int, at_most: int) -> ReplayProjector:
        """The k-th of `of` contiguous blocks of requests, of a long block its first `at_most`."""
        edges = np.linspace(0, len(self.at.row), of + 1).astype(int)
        part = slice(edges[k], min(edges[k + 1], edges[k] + at_most))
        return replace(self, at=Load(1.0, self.at.arrival_s[part], self.at.row[part]), _kept=None)

    def scaled(self, scale: float, span: Span | None = None) -> ReplayProjector:
        """The same log at `scale` times its rate, within `span` if given."""
        return replace(self, at=load.at(self.setting.workload, scale, self.setting.seed, span), _kept=None)

    def elsewhere(self, at: Load) -> ReplayProjector:
        """The same engines with other arrivals."""
        return replace(self, at=at, _kept=None)

    @property
    def rho(self) -> float:
        """Offered load per engine at this load; 1 = saturated."""
        length = float(np.ptp(self.at.arrival_s)) if len(self.at.arrival_s) > 1 else 1.0
        return load.rho(self.setting.work[self.at.row], length, self.setting.replicas)

    @property
    def code(self) -> int:
        """The routing discipline of the as-is and the hedged arm: the same for both, so that only copies differ."""
        return discipline(self.setting, self.routing, exact=False)

    def unhedged(self) -> Arm:
        return self._without_copies(self.code)

    def better_routed(self) -> Arm | None:
        if self.code == layout.LEAST_OUTSTANDING or self.setting.replicas < 2:
            return None
        return self._without_copies(layout.LEAST_OUTSTANDING)

    def changed(self, setting: Setting, routing: int | None = None) -> Arm:
        """Unhedged on other engines or other work: what a cure would do."""
        return self._arm(self._run(setting, None, Assumed(), self.code if routing is None else routing))

    def project(self, candidate: Candidate, assumption: Assumption) -> Projection:
        found = self.run(candidate, assumption)
        return Projection(
            assumption=assumption,
            unhedged=self.unhedged(),
            hedged=self._arm(found),
            copies=_copies(self.setting, found),
            refused=dict(found.refused),
            paired={},
        )

    def run(self, candidate: Candidate | None, assumption: Assumption) -> replayed.Arm:
        """The whole replayed arm, request by request; None = without copies."""
        assumed = Assumed(assumption.cancel or "frees_engine", assumption.copy_length)
        spec = None if candidate is None else spec_of(candidate)
        return self._run(self.setting, spec, assumed, self.code)

    def paired(self, candidate: Candidate, assumption: Assumption, metric: str) -> Paired:
        """Both arms request by request, for the interval of their ratio."""
        before, after = self.run(None, assumption), self.run(candidate, assumption)
        both = before.answered & after.answered
        own, hedged = (one.ttft_s if metric == "ttft" else one.e2e_s for one in (before, after))
        both &= np.isfinite(own) & np.isfinite(hedged)
        return Paired(before.arrival_s[both], own[both], hedged[both], np.ones(int(both.sum())))

    def _without_copies(self, routing: int) -> Arm:
        if self._kept is None:
            self._kept = {}
        if routing not in self._kept:
            self._kept[routing] = self._arm(self._run(self.setting, None, Assumed(), routing))
        return self._kept[routing]

    def _run(self, setting: Setting, spec: Spec | None, assumed: Assumed, routing: int) -> replayed.Arm:
        outcome = run(
            jobs_of(setting, self.at, spec, assumed), law_of(setting), rule_of(setting, spec, assumed, routing)
        )
        return replayed.Arm.of(outcome, self.at.row)

    def _arm(self, found: replayed.Arm) -> Arm:
        """Only what the rules and the document ask for: a million times a dozen candidates do not fit in memory."""
        document = found.document(refused=found.hedges > 0)
        points = {
            metric: Points(
                int(document[f"{metric}_ms"]["n"]),
                found.quantiles(metric, (*self.percentiles, 1.0)),
                document[f"{metric}_ms"],
            )
            for metric in ("e2e", "ttft")
        }
        return Arm(
            logical_requests=len(found.row),
            e2e=points["e2e"],
            ttft=points["ttft"],
            hedges=float(found.hedges),
            wins=float(found.wins),
            errors=float(np.sum(~found.answered)),
            stable=found.stable,
            engine=document,
        )


def spec_of(candidate: Candidate) -> Spec:
    """A candidate in the units of a replay."""
    budget, deadline, target = candidate.budget, candidate.deadline, candidate.target
    return Spec(
        trigger=candidate.trigger,
        delay_s=candidate.delay_s,
        ratio=None if budget is None else budget.ratio,
        burst=100.0 if budget is None else float(budget.burst),
        max_concurrent=OFF if budget is None or budget.max_concurrent is None else float(budget.max_concurrent),
        max_attempts=candidate.max_attempts,
        deadline_s=OFF if deadline is None else deadline.total_ms / 1e3,
        attempt_s=OFF if deadline is None or deadline.attempt_ms is None else deadline.attempt_ms / 1e3,
        choose=target.choose,
        different_replica=target.different_replica,
        different_pool=target.different_pool,
        suppress=limits_of(candidate.suppress),
        eligible=candidate.eligible,
    )


def _copies(setting: Setting, found: replayed.Arm) -> Copies:
    rows = found.row[found.copy_row]
    tokens = np.maximum(setting.tokens[rows], 1.0)
    written: Floats = np.clip(found.copy_tokens / tokens, 0.0, 1.0)[:, None]
    return Copies(
        rows=rows,
        weight=np.ones((len(rows), 1)),
        won=found.copy_won[:, None],
        output=setting.tokens[rows][:, None].copy(),
        loser_written=written,
    )


def with_replicas(setting: Setting, more: int) -> Setting:
    """The same work on a fleet with `more` engines at full speed."""
    fact = replace(setting.fleet.replicas, value=setting.replicas + more)
    return replace(setting, fleet=replace(setting.fleet, replicas=fact))


def without_replica(setting: Setting, replica: int) -> Setting:
    """The same work on a fleet without one engine; its requests go to the others at random."""
    service, w = setting.service, setting.workload
    slow = service.slow
    kept = [r for r in range(len(slow.offsets) - 1) if r != replica]
    pieces = [slice(int(slow.offsets[r]), int(slow.offsets[r + 1])) for r in kept]
    offsets = np.concatenate(([0], np.cumsum([p.stop - p.start for p in pieces]))).astype(np.int64)
    none: Any = [np.zeros(0)]
    rest = replace(
        slow,
        offsets=offsets,
        start_s=np.concatenate([slow.start_s[p] for p in pieces] or none),
        factor=np.concatenate([slow.factor[p] for p in pieces] or none),
        static_factor=slow.static_factor[kept],
    )
    codes = np.where(w.replica > replica, w.replica - 1, w.replica)
    workload = replace(
        w,
        replica=np.where(w.replica == replica, -1, codes).astype(np.int32),
        replicas=tuple(name for r, name in enumerate(w.replicas) if r != replica),
        pool_of_replica=np.delete(w.pool_of_replica, replica),
    )
    fact = replace(setting.fleet.replicas, value=setting.replicas - 1)
    return replace(
        setting,
        workload=workload,
        service=replace(service, slow=rest),
        fleet=replace(setting.fleet, replicas=fact),
    )


def with_shorter_answers(setting: Setting, share: float) -> tuple[Setting, float]:
    """The same work with answers cut at the given quantile of their length; returns the limit in tokens too."""
    limit = float(np.ceil(np.quantile(setting.tokens, share))) if len(setting.tokens) else 0.0
    return replace(setting, tokens=np.minimum(setting.tokens, limit)), limit
