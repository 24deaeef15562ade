"""Does a policy hold at the top: at the busiest hour, at rho 0.9, after a burst? Where not, up to which load?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl.policy import Suppress
from hedgectl.recommend.gates import reason
from hedgectl.recommend.projecting import Assumption, Candidate
from hedgectl.recommend.replaying import ReplayProjector, spec_of
from hedgectl.sim import burst, load, sweep
from hedgectl.sim.load import Span
from hedgectl.sim.scenario import Assumed, Setting
from hedgectl.sim.sweep import Point, Result

TRIED_LIMITS = (1.0, 0.75, 0.5)  # of the mean running at the highest load that holds
TRIED_IN_FLIGHT = (1.0, 0.5)  # of the most copies at once in today's busiest hour
MOST_REQUESTS = 150_000  # of one load: enough for a p99, and a bound on time and memory


@dataclass(frozen=True, slots=True, eq=False)
class Stability:
    """What a policy does at the top of the load."""

    results: tuple[Result, ...]  # busiest hour, rho 0.9
    burst: dict[str, Any] | None
    goal: tuple[str, float]

    @property
    def broken(self) -> tuple[Result, ...]:
        """Loads at which copies make the goal's percentile worse."""
        return tuple(r for r in self.results if not sweep.holds(r, self.goal))

    @property
    def recovers(self) -> bool:
        return self.burst is None or bool(self.burst["recovers_as_fast"])

    @property
    def holds(self) -> bool:
        return not self.broken and self.recovers

    def reasons(self) -> list[dict[str, Any]]:
        """Why it does not hold; empty if it does."""
        metric, p = self.goal
        found = []
        for result in self.broken:
            before, after = result.unhedged.quantile(metric, p), result.hedged and result.hedged.quantile(metric, p)
            change = (
                "" if not before or not after else f": {metric} p{p * 100:g} {before:.3g} s would become {after:.3g} s"
            )
            text = f"at {result.label} (rho {result.rho:.2f}) copies make it worse{change}"
            found.append(reason("unstable_load", text, None if not before or not after else after / before, 1.0))
        if not self.recovers and self.burst is not None:
            slow, usual = self.burst["hedged_recovery_s"], self.burst["unhedged_recovery_s"]
            text = f"after a burst the fleet needs {_s(slow)} to recover with copies, {_s(usual)} without"
            found.append(reason("slow_recovery", text, slow, usual))
        return found


def _s(seconds: float | None) -> str:
    return "longer than the log" if seconds is None else f"{seconds:.0f} s"


def examine(
    setting: Setting,
    candidate: Candidate,
    assumptions: Sequence[Assumption],
    projector: ReplayProjector,
    goal: tuple[str, float],
) -> Stability:
    """Replays the busiest hour, rho 0.9 and one burst there, under every assumption that is open."""
    ways = [Assumed(a.cancel or "frees_engine", a.copy_length) for a in assumptions]
    spec = spec_of(candidate)
    results = [sweep.one_load(setting, point, spec, ways, projector.routing, goal) for point in tops(setting)]
    top = results[-1]
    way = top.worst or ways[0]
    point = tops(setting)[-1]
    crowd, _, end = burst.add(setting.workload, top.load, point.span, setting.seed)
    arms = {
        which: (sweep.play(setting, crowd, one, way, projector.routing), without)
        for which, one, without in (("unhedged", None, top.unhedged), ("hedged", spec, top.ways[way]))
    }
    times = {which: burst.recovery_s(hit, without, end) for which, (hit, without) in arms.items()}
    test = burst.document(
        times["unhedged"], times["hedged"], min(burst.LENGTH_S, (point.span.end_s - point.span.start_s) / 20)
    )
    return Stability(tuple(results), {"load": top.label, "rho": round(top.rho, 4), **test}, goal)


def tops(setting: Setting) -> list[Point]:
    """The busiest hour as it was, and the same at rho 0.9 (left out if the log is beyond that already)."""
    span = shortened(setting, load.busiest_hour(setting.workload, setting.work))
    now = sweep.offered(setting, load.at(setting.workload, 1.0, setting.seed, span), span)
    found = [Point("busiest hour", span, 1.0)]
    if 0 < now < sweep.NEAR_SATURATION:
        found.append(Point(f"rho {sweep.NEAR_SATURATION}", span, sweep.NEAR_SATURATION / now))
    return found


def shortened(setting: Setting, span: Span) -> Span:
    """At most `MOST_REQUESTS` of a span: the part with most work."""
    w = setting.workload
    low, high = np.searchsorted(w.arrival_s, [span.start_s, span.end_s])
    if high - low <= MOST_REQUESTS:
        return span
    total = np.concatenate(([0.0], np.cumsum(setting.work)))
    starts = np.arange(low, high - MOST_REQUESTS + 1, max(1, MOST_REQUESTS // 20))
    length = w.arrival_s[starts + MOST_REQUESTS - 1] - w.arrival_s[starts]
    best = int(starts[int(np.argmax((total[starts + MOST_REQUESTS] - total[starts]) / np.maximum(length, 1e-9)))])
    return Span(float(w.arrival_s[best]), float(w.arrival_s[best + MOST_REQUESTS - 1]) + 1e-9, span.density)


def off_above(
    setting: Setting,
    candidate: Candidate,
    assumptions: Sequence[Assumption],
    projector: ReplayProjector,
    goal: tuple[str, float],
    steps: int = 5,
) -> list[Candidate]:
    """The candidate switched off above the load up to which it holds, told by running requests per replica.

    Loosest limit first: what runs on average at the highest load that holds, then less, since live numbers swing.
    Empty if it holds nowhere from today's busiest hour on.
    """
    first, *rest = tops(setting)
    if not rest:
        return []
    ways = [Assumed(a.cancel or "frees_engine", a.copy_length) for a in assumptions]
    spec = spec_of(candidate)
    highest: Result | None = None
    for scale in np.geomspace(1.0, rest[0].scale, steps)[:-1]:
        result = sweep.one_load(setting, Point("", first.span, float(scale)), spec, ways, projector.routing, goal)
        if not sweep.holds(result, goal):
            break
        highest = result
    if highest is None:
        return []
    running = _running(setting, highest)
    why = f"beyond {highest.rho:.2f} of capacity copies make the tail worse"
    limits = dict.fromkeys(float(f"{max(running * share, 1.0):.2g}") for share in TRIED_LIMITS)
    return [
        replace(
            candidate,
            suppress=(
                *candidate.suppress,
                Suppress("running_requests_per_replica", ">", limit, why=why, source="replay"),
            ),
        )
        for limit in limits
    ]


def fewer_at_once(candidate: Candidate, seen: Stability) -> list[Candidate]:
    """The candidate with a limit on copies in flight, loosest first: today's peak touches nothing that happens today.

    Where everybody is slow copies last long, so a limit on those in flight is a limit on the load they add.
    """
    budget, today, top = candidate.budget, seen.results[0].hedged, seen.results[-1].hedged
    if budget is None or today is None or top is None or budget.max_concurrent is not None:
        return []
    limits = dict.fromkeys(max(1, round(today.copies_at_once * share)) for share in TRIED_IN_FLIGHT)
    return [
        replace(candidate, budget=replace(budget, max_concurrent=limit))
        for limit in limits
        if limit < top.copies_at_once
    ]


def _running(setting: Setting, result: Result) -> float:
    """Mean requests in the system per replica, by Little's law."""
    arm = result.unhedged
    length = float(np.ptp(arm.arrival_s)) if len(arm.arrival_s) > 1 else 1.0
    return max(float(arm.e2e_s.sum()) / max(length, 1e-9) / setting.replicas, 1.0)
