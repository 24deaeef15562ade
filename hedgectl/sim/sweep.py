"""Three arms (as is, better routed, hedged) at several loads, the load up to which hedging holds, and one burst.

Where it is unknown what a cancel does or how long a copy is, all ways are run and the worse by the goal's percentile
stands in the arm, named in `worst_of`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from hedgectl import quantiles
from hedgectl.model import Routing
from hedgectl.sim import burst, jit, load
from hedgectl.sim.arm import Arm
from hedgectl.sim.check import check
from hedgectl.sim.load import Load, Span
from hedgectl.sim.run import prepare, run
from hedgectl.sim.scenario import Assumed, Setting, Spec, discipline, jobs_of, law_of, rule_of

Progress = Callable[[str], None]
CopyLengths = Literal["same", "independent", "both"]

LOW, MEDIUM = 0.5, 0.75
NEAR_SATURATION = 0.9
STEP = 1.1
STEPS_BEYOND = 4
NOISE = 0.005  # a p99 up by less than this is not worse
DRAWS = 4  # of the copies' targets, where chance may decide
BRINK = 1.25  # draws further apart than this are two outcomes
BATCH_BAND = (0.75, 2.0)  # an assumed batch cap may be as far off as this


@dataclass(frozen=True, slots=True)
class Point:
    """One load of a sweep: how to call it, which piece of the log, how much denser."""

    label: str
    span: Span
    scale: float  # of the piece's own rate


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """All arms of one load."""

    label: str
    load: Load
    rho: float
    unhedged: Arm
    better_routed: Arm
    ways: dict[Assumed, Arm]  # hedged, one arm a way the unknown may be; empty without hedging
    worst: Assumed | None

    @property
    def hedged(self) -> Arm | None:
        """The worse of the ways."""
        return self.ways[self.worst] if self.worst is not None else None

    @property
    def stable(self) -> bool:
        """Does the hedged arm (else the unhedged one) work off what arrives?"""
        return (self.hedged or self.unhedged).stable


def play(s: Setting, at: Load, spec: Spec | None, assumed: Assumed, routing: Routing, *, exact: bool = False) -> Arm:
    """One arm: replay load `at` under `spec` (None = no copies). `exact` sends each request where the log did."""
    kind = discipline(s, routing, exact=exact)
    outcome = run(jobs_of(s, at, spec, assumed), law_of(s), rule_of(s, spec, assumed, kind))
    return Arm.of(outcome, at.row)


def against_log(s: Setting, routing: Routing, goal: tuple[str, float]) -> dict[str, Any]:
    """`replay_check`: the log as it is, without further copies, beside what was observed."""
    today = load.at(s.workload, 1.0, s.seed)
    return check(s.workload, play(s, today, None, Assumed(), routing, exact=True), goal)


def ways(cancel: str, copy_length: str) -> list[Assumed]:
    """All combinations that are left open by `cancel` (unknown) and `copy_length` (both)."""
    cancels: Any = ("frees_engine", "engine_runs_on") if cancel == "unknown" else (cancel,)
    lengths: Any = ("same", "independent") if copy_length == "both" else (copy_length,)
    return [Assumed(c, length) for c in cancels for length in lengths]


def worse(arms: dict[Assumed, Arm], goal: tuple[str, float]) -> Assumed:
    """The way with the longest goal percentile; one that is unknown (beyond the deadline) is the longest of all."""

    def seconds(way: Assumed) -> float:
        value = arms[way].quantile(*goal)
        return float("inf") if value is None else value

    return max(arms, key=seconds)


def points(s: Setting, scales: Sequence[float] | None) -> list[Point]:
    """Loads to run: those given, of the whole log; else low, medium, today, busiest hour, rho 0.9 (more follow)."""
    every = load.whole(s.workload)
    if scales is not None:
        return [Point(f"x{scale:g}" if scale != 1.0 else "today", every, scale) for scale in scales]
    busy = load.busiest_hour(s.workload, s.work)
    found = [Point("low", every, LOW), Point("medium", every, MEDIUM), Point("today", every, 1.0)]
    found.append(Point("busiest hour", busy, 1.0))
    now = offered(s, load.at(s.workload, 1.0, s.seed, busy), busy)
    if now > 0:
        found.append(Point(f"rho {NEAR_SATURATION}", busy, NEAR_SATURATION / now))
    return found


def offered(s: Setting, at: Load, span: Span) -> float:
    """rho of one load."""
    slow = s.service.slow.static_factor
    static = float(np.mean(slow)) if len(slow) else 1.0
    return load.rho(s.work[at.row], span.end_s - span.start_s, s.replicas) * static


def one_load(
    s: Setting, point: Point, spec: Spec | None, open_ways: Sequence[Assumed], routing: Routing, goal: tuple[str, float]
) -> Result:
    """All arms of one load, on the same arrivals."""
    at = load.at(s.workload, point.scale, s.seed, point.span)
    none = Assumed()
    arms = {way: play(s, at, spec, way, routing) for way in open_ways} if spec is not None else {}
    return Result(
        label=point.label,
        load=at,
        rho=offered(s, at, point.span),
        unhedged=play(s, at, None, none, routing),
        better_routed=play(s, at, None, none, "least_outstanding"),
        ways=arms,
        worst=worse(arms, goal) if arms else None,
    )


def holds(result: Result, goal: tuple[str, float]) -> bool:
    """Is the goal's percentile with copies not above the one without?"""
    if result.hedged is None:
        return True
    with_copies, without = result.hedged.quantile(*goal), result.unhedged.quantile(*goal)
    if with_copies is None or without is None:
        return with_copies is not None or without is None
    return with_copies <= without * (1 + NOISE) and (result.hedged.stable or not result.unhedged.stable)


def holds_up_to(results: Sequence[Result], goal: tuple[str, float]) -> dict[str, Any]:
    """The highest load up to which, in order of load, hedging is not worse and the fleet works off what arrives.

    Scale None if that is not so at the lowest. An unstable load is held by nobody: its times are those of the log's end.
    """
    best: Result | None = None
    name = f"{goal[0]} {quantiles.name(goal[1])}"
    for result in sorted(results, key=lambda r: r.rho):
        if not holds(result, goal) or not result.stable:
            where = "at the lowest load" if best is None else "beyond it"
            if result.stable:
                reason = f"hedged {name} exceeds unhedged {where}"
            elif result.hedged is not None and result.unhedged.stable:
                reason = f"with copies the fleet no longer works off what arrives {where}"
            else:
                reason = f"the fleet no longer works off what arrives {where}, with or without copies"
            if best is None:
                return {"scale": None, "rho": None, "reason": reason}
            return {"scale": round(best.load.scale, 4), "rho": round(best.rho, 4), "reason": reason}
        best = result
    if best is None:
        return {"scale": None, "rho": None, "reason": "no load was replayed"}
    return {"scale": round(best.load.scale, 4), "rho": round(best.rho, 4), "reason": "highest load replayed"}


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Everything a simulation says, before it is a document."""

    results: list[Result]
    check: dict[str, Any]
    holds_up_to: dict[str, Any] | None
    burst: dict[str, Any] | None
    sensitivity: list[dict[str, Any]]
    notes: list[dict[str, Any]]


def sweep(
    s: Setting,
    spec: Spec | None,
    *,
    cancel: str = "unknown",
    copy_length: CopyLengths = "both",
    routing: Routing = "as_logged",
    loads: Sequence[float] | None = None,
    goal: tuple[str, float] = ("e2e", 0.99),
    progress: Progress | None = None,
    sent: Setting | None = None,
) -> Sweep:
    """Replay, check and compare. `sent`: what was really sent, where the log holds copies; the check is against that.

    `loads` None runs low, medium, today, busiest hour, rho 0.9, then upwards until hedging breaks or STEPS_BEYOND; only
    then `holds_up_to` and the burst test are made. `goal` = (e2e or ttft, percentile as a share).
    """
    say = progress or (lambda text: None)
    prepare(say)
    open_ways = ways(cancel, copy_length)
    say("replaying the log as it is")
    checked = against_log(sent or s, "as_logged", goal)
    wanted = points(s, loads)
    results: list[Result] = []
    for point in wanted:
        say(f"replaying load {point.label}")
        results.append(one_load(s, point, spec, open_ways, routing, goal))
    frontier: dict[str, Any] | None = None
    test: dict[str, Any] | None = None
    if loads is None:
        results += _beyond(s, wanted[-1], spec, open_ways, routing, goal, say)
        frontier = holds_up_to(results, goal)
        top = results[len(wanted) - 1]
        test = _burst(s, wanted[-1], top, spec, routing) if spec is not None else None
    chance = [note for r in results if r.label == "today" for note in near_collapse(s, r, spec, routing, goal)]
    band = sensitivity(s, spec, open_ways, routing, goal) if s.fleet.max_running_requests.source == "assumed" else []
    return Sweep(results, checked, frontier, test, band, [*chance, *s.notes, *jit.notes()])


def _beyond(
    s: Setting,
    last: Point,
    spec: Spec | None,
    open_ways: Sequence[Assumed],
    routing: Routing,
    goal: tuple[str, float],
    say: Progress,
) -> list[Result]:
    found: list[Result] = []
    point = last
    for _ in range(STEPS_BEYOND if spec is not None else 1):
        scale = point.scale * STEP
        point = Point(f"rho {NEAR_SATURATION * scale / last.scale:.2f}", last.span, scale)
        say(f"replaying load {point.label}")
        found.append(one_load(s, point, spec, open_ways, routing, goal))
        if not holds(found[-1], goal) or not found[-1].stable:
            break
    return found


def _burst(s: Setting, point: Point, top: Result, spec: Spec, routing: Routing) -> dict[str, Any]:
    """One burst on the load `top`, under the way that was worst there."""
    way = top.worst or Assumed()
    crowd, begin, end = burst.add(s.workload, top.load, point.span, s.seed)
    hit = {
        "unhedged": (play(s, crowd, None, way, routing), top.unhedged),
        "hedged": (play(s, crowd, spec, way, routing), top.ways[way]),
    }
    times = {name: burst.recovery_s(with_burst, without, end) for name, (with_burst, without) in hit.items()}
    found = burst.document(times["unhedged"], times["hedged"], end - begin)
    return {"load": top.label, "rho": round(top.rho, 4), **found}


def near_collapse(
    s: Setting, result: Result, spec: Spec | None, routing: Routing, goal: tuple[str, float]
) -> list[dict[str, Any]]:
    """A note where it is left to chance whether copies without a budget bring the fleet down, told by other draws.

    Copies that run on and have no budget feed on themselves. At the brink the same policy does good or ends in collapse,
    depending only on which replicas the copies happen to go to, and no one replay can tell which.
    """
    if spec is None or spec.ratio is not None or result.worst is None or result.worst.cancel != "engine_runs_on":
        return []
    arms = [result.ways[result.worst]]
    arms += [play(replace(s, seed=s.seed + k), result.load, spec, result.worst, routing) for k in range(1, DRAWS)]
    values = [v for v in (arm.quantile(*goal) for arm in arms) if v is not None]
    if not values or max(values) <= BRINK * min(values):
        return []
    text = (
        f"near collapse: {goal[0]} {quantiles.name(goal[1])} at {result.label} is {min(values):.3g} s or {max(values):.3g} s, "
        f"depending only on which replicas the copies happen to go to ({len(arms)} draws). Give the copies a budget"
    )
    return [{"code": "near_collapse", "level": "warning", "share": None, "text": text}]


def sensitivity(
    s: Setting, spec: Spec | None, open_ways: Sequence[Assumed], routing: Routing, goal: tuple[str, float]
) -> list[dict[str, Any]]:
    """Today's load with an assumed batch cap a quarter lower and twice as high."""
    cap = s.fleet.max_running_requests
    if cap.value is None:
        return []
    found = []
    for factor in BATCH_BAND:
        value = max(1, round(cap.value * factor))
        fleet = replace(s.fleet, max_running_requests=replace(cap, value=value))
        point = Point("today", load.whole(s.workload), 1.0)
        result = one_load(replace(s, fleet=fleet), point, spec, open_ways, routing, goal)
        found.append(
            {
                "fact": "max_running_requests",
                "value": value,
                "factor": factor,
                "unhedged": result.unhedged.document(),
                "hedged": result.hedged.document(refused=True) if result.hedged is not None else None,
            }
        )
    return found
