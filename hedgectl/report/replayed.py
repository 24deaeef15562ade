"""The figures of what would happen: delay against gain and price, survival curves of each arm, load until it breaks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl import cost, quantiles, survival
from hedgectl.model import Workload
from hedgectl.policy import ScopePolicy
from hedgectl.recommend import by_replay, delay, search
from hedgectl.recommend.decide import Decided
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Assumption, Candidate, ScreenProjector
from hedgectl.recommend.replaying import spec_of
from hedgectl.report.figure import Figure, Table, count, lacking, ms, percent
from hedgectl.sim import sweep
from hedgectl.sim.scenario import Assumed

GRID = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.925, 0.95, 0.97, 0.98, 0.99, 0.995)
ARMS = ("as is", "better routed", "hedged")
_PERCENTILES = (0.5, 0.9, 0.95, 0.99, 0.999)

Say = Callable[[str], None]
Curve = list[tuple[float, float]]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """One scope with its policy and what can answer for it: a replay (`replay` not None) or the load-blind screen."""

    workload: Workload
    policy: ScopePolicy
    options: Options
    candidate: Candidate | None
    worst: Assumption
    replay: by_replay.Ground | None

    @property
    def how(self) -> str:
        if self.replay is not None:
            return "By replay of the log on engines fitted to it."
        return "By a screen that is blind to the load that copies add, so this is the best case."


def ground(decided: Decided | None, options: Options) -> Ground | None:
    """A decided scope, ready to be asked more, on the engines that were fitted for the decision; None if nothing was tried."""
    if decided is None or decided.basis is None:
        return None
    policy, workload, replay = decided.policy, decided.basis.workload, decided.basis.ground
    told = (policy.projection or {}).get("worst_of") or {}
    worst = Assumption(
        (told.get("cancel") or "engine_runs_on") if replay is not None else None, told.get("copy_length") or "same"
    )
    return Ground(workload, policy, options, search.from_policy(workload, policy), worst, replay)


def figures(found: Ground | None, why: str, say: Say) -> list[Figure]:
    """Frontier, survival curves and load sweep; sentences where there is nothing to draw (`why`: no policy was tried)."""
    titles = {
        "frontier": "What each delay would gain and cost",
        "survival_ttft": "How long requests wait for the first token",
        "survival_e2e": "How long requests take to the end",
        "loads": "Up to which load it holds",
    }
    if found is None:
        return [lacking("frontier", "What a policy would do", why)]
    out = []
    say("drawing what each delay would do")
    out.append(_frontier(found, titles["frontier"]))
    say("drawing survival curves")
    out += _survival(found, titles)
    say("replaying loads")
    out.append(_loads(found, titles["loads"], say))
    return out


def _frontier(found: Ground, title: str) -> Figure:
    candidate, options = found.candidate, found.options
    workload = found.workload
    clock = None if candidate is None else delay.clock(workload, candidate.trigger, candidate.eligible)
    if candidate is None or clock is None:
        return lacking("frontier", title, "No policy was tried for this scope.")
    metric, p = parts(options.goal)
    name = f"{'TTFT' if metric == 'ttft' else metric} {quantiles.name(p)}"
    grid = {round(clock.quantile(q), 3): q for q in GRID}
    grid = {seconds: q for seconds, q in grid.items() if seconds > 0}
    grid[candidate.delay_s] = clock.position(candidate.delay_s)
    projector = ScreenProjector(workload) if found.replay is None else found.replay.projector
    prices = cost.prices_for(workload, found.policy.scope.model, options.prices)
    rows: list[dict[str, Any]] = []
    for seconds in sorted(grid):
        tried = replace(candidate, delay_s=seconds, rule=None)
        projection = projector.project(tried, found.worst)
        before, after = (arm.pool(metric).at(p) for arm in (projection.unhedged, projection.hedged))
        bill = cost.dearest(workload, prices, [projection.copies], options.loser_billing)
        rate = projection.hedged.hedges / max(projection.hedged.logical_requests, 1)
        rows.append(
            {
                "delay_s": seconds,
                "back": grid[seconds],
                "goal_s": after,
                "as_is_s": before,
                "copies": rate,
                "cost": None if bill is None else bill["delta_ratio"],
                "chosen": seconds == candidate.delay_s,
            }
        )
    rows = [r for r in rows if r["goal_s"] is not None]
    chosen = next((r for r in rows if r["chosen"]), None)
    if not rows or chosen is None:
        return lacking(
            "frontier", title, f"{name} lies beyond what was logged (timeouts), so no delay can be compared."
        )
    best = min(rows, key=lambda r: r["goal_s"])
    routed = projector.better_routed()
    routed_s = None if routed is None else routed.pool(metric).at(p)
    price = "extra cost" if chosen["cost"] is not None else "copies per request"
    paid = percent(chosen["cost"] if chosen["cost"] is not None else chosen["copies"])
    taken = "chosen" if found.policy.is_on else "least bad, and refused"
    now = f"without copies {ms(1e3 * chosen['as_is_s'])}" if chosen["as_is_s"] is not None else "without copies unknown"
    says = (
        f"With the {taken} delay of {ms(1e3 * chosen['delay_s'])} {name} is {ms(1e3 * chosen['goal_s'])} ({now}) for "
        f"{paid} {price}; the lowest {name} on this line is {ms(1e3 * best['goal_s'])} at {ms(1e3 * best['delay_s'])}."
    )
    if routed_s is not None:
        says += f" Better routing alone gives {ms(1e3 * routed_s)}."
    says += f" {found.how}"
    table = Table(
        ("delay", "requests back by then", f"{name} hedged", f"{name} as is", "copies per request", "extra cost"),
        [
            (
                ms(1e3 * r["delay_s"]) + (" (this policy)" if r["chosen"] else ""),
                percent(r["back"]),
                ms(1e3 * r["goal_s"]),
                "-" if r["as_is_s"] is None else ms(1e3 * r["as_is_s"]),
                percent(r["copies"], 2),
                percent(r["cost"], 2),
            )
            for r in rows
        ],
    )
    facts = {"name": name, "price": price, "routed_s": routed_s, "taken": "chosen" if found.policy.is_on else "refused"}
    return Figure("frontier", title, says, len(workload), rows=rows, table=table, facts=facts)


def _survival(found: Ground, titles: Mapping[str, str]) -> list[Figure]:
    arms = _arms(found)
    out = []
    for metric in ("ttft", "e2e"):
        key = f"survival_{metric}"
        told = {name: arms[name][metric] for name in ARMS if name in arms and arms[name][metric][0]}
        if not told:
            text = "The log has no first token for these requests: log it, in ms from arrival, for every stream."
            out.append(lacking(key, titles[key], text if metric == "ttft" else "No answered request has a duration."))
            continue
        out.append(_curves(found, key, titles[key], metric, told))
    return out


def _curves(found: Ground, key: str, title: str, metric: str, told: Mapping[str, tuple[Curve, int, int]]) -> Figure:
    # the fastest hundredth would stretch the axis over decades in which nothing happens
    begin = min(at(points, 0.99) or 0.0 for points, _, _ in told.values())
    rows = [
        {"arm": name, "place": ARMS.index(name), "seconds": x, "left": left}
        for name, (points, _, _) in told.items()
        for x, left in points
        if x >= begin
    ]
    hedge = found.policy.hedge
    on_this = hedge is not None and (hedge.trigger == "first_token") == (metric == "ttft")
    delay_s = hedge.delay_ms / 1e3 if hedge is not None and on_this else None
    n = max(finished for _, finished, _ in told.values())
    texts = []
    for name, (points, finished, _) in told.items():
        value = at(points, 0.01) if quantiles.printable(finished, 0.99) else None
        if value is not None:
            texts.append(f"{ms(1e3 * value)} {name}")
    says = f"1 in 100 waits longer than {', '.join(texts)}." if texts else "Too few requests for a p99."
    if delay_s is not None:
        says += f" The copy is sent after {ms(1e3 * delay_s)} (the upright line)."
    cut = told[next(iter(told))][2]
    if cut:
        says += f" {count(cut)} requests that were cut short count as longer than they were seen."
    if "better routed" not in told:
        says += " Better routing is not drawn: it needs a replay, and so [engine] confirmed in the configuration."
    says += f" {found.how}" if "hedged" in told else ""
    table = Table(
        ("arm", "n", *(quantiles.name(p) for p in _PERCENTILES)),
        [
            (
                name,
                count(finished),
                *(_percentile(points, finished, p) for p in _PERCENTILES),
            )
            for name, (points, finished, _) in told.items()
        ],
    )
    return Figure(
        key, title, says, n, rows=rows, table=table, facts={"delay_s": delay_s, "arms": list(told)}, draw="survival"
    )


def _percentile(points: Curve, n: int, p: float) -> str:
    if not quantiles.printable(n, p):
        return "-"
    value = at(points, 1 - p)
    if value is None:
        return "-"
    return ms(1e3 * value) + ("" if quantiles.reliable(n, p) else " (unreliable)")


def at(points: Curve, left: float) -> float | None:
    """Seconds after which at most `left` of the requests wait, by log interpolation; None beyond the curve."""
    if not points or points[-1][1] > left:
        return None
    shares = np.log([s for _, s in reversed(points)])
    return float(np.exp(np.interp(np.log(left), shares, np.log([x for x, _ in reversed(points)]))))


def _arms(found: Ground) -> dict[str, dict[str, tuple[Curve, int, int]]]:
    """Per arm and metric (curve in seconds, finished, cut short)."""
    w, candidate = found.workload, found.candidate
    if found.replay is None:
        status = w.status.astype(np.float64)
        logged = {m: survival.arrays(status, w.e2e_s, w.ttft_s, w.weight, m) for m in ("e2e", "ttft")}
        out = {"as is": logged}
        if candidate is not None:
            both = ScreenProjector(w).project(candidate, found.worst).paired
            out["hedged"] = {
                m: (
                    survival.curve(both[m].hedged_s, np.ones(len(both[m].hedged_s), dtype=bool), both[m].weight),
                    len(both[m].hedged_s),
                    0,
                )
                for m in ("e2e", "ttft")
            }
        return out
    base = found.replay
    projector = base.projector
    routing = projector.routing
    assumed = Assumed(found.worst.cancel or "engine_runs_on", found.worst.copy_length)
    played = {
        "as is": sweep.play(base.setting, projector.at, None, Assumed(), routing),
        "better routed": sweep.play(base.setting, projector.at, None, Assumed(), "least_outstanding"),
    }
    if candidate is not None:
        played["hedged"] = sweep.play(base.setting, projector.at, spec_of(candidate), assumed, routing)
    out = {}
    for name, arm in played.items():
        status = np.where(arm.answered, 0.0, np.where(arm.timed_out, 2.0, 1.0))
        ones = np.ones(len(status))
        out[name] = {m: survival.arrays(status, arm.e2e_s, arm.ttft_s, ones, m) for m in ("e2e", "ttft")}
    return out


def _loads(found: Ground, title: str, say: Say) -> Figure:
    if found.replay is None:
        text = (
            "How load changes the answer can only be told by a replay of the engines. Say what they are: in hedgectl.toml "
            "[engine] confirmed = true, replicas, max_running_requests, kv_capacity_tokens (hedgectl config engine "
            "--from METRICS reads them from a vLLM metrics page)."
        )
        return lacking("loads", title, text)
    base = found.replay
    metric, p = goal = parts(found.options.goal)
    name = f"{'TTFT' if metric == 'ttft' else metric} {quantiles.name(p)}"
    spec = None if found.candidate is None else spec_of(found.candidate)
    swept = sweep.sweep(
        base.setting,
        spec,
        cancel=found.worst.cancel or "engine_runs_on",
        copy_length=found.worst.copy_length,
        routing=base.projector.routing,
        goal=goal,
        progress=say,
    )
    rows: list[dict[str, Any]] = []
    lines: list[Sequence[str]] = []
    for result in sorted(swept.results, key=lambda r: r.rho):
        values = {
            "as is": result.unhedged.quantile(*goal),
            "better routed": result.better_routed.quantile(*goal),
            "hedged": None if result.hedged is None else result.hedged.quantile(*goal),
        }
        rows += [
            {"rho": result.rho, "arm": arm, "place": ARMS.index(arm), "seconds": v, "label": result.label}
            for arm, v in values.items()
            if v is not None
        ]
        shown = [ms(None if v is None else 1e3 * v) for v in values.values()]
        rate = "-" if result.hedged is None else percent(result.hedged.hedges / max(len(result.hedged.row), 1))
        stable = "yes" if result.stable else "no"
        lines.append((result.label, f"{result.load.scale:.2f}", f"{result.rho:.2f}", *shown, rate, stable))
    holds = swept.holds_up_to or {}
    if spec is None:
        says = "No policy was tried, so only the fleet without copies is shown."
    elif holds.get("scale") is None:
        says = f"{str(holds.get('reason', 'copies do not help at any load')).capitalize()}."
    elif holds["reason"] == "highest load replayed":
        says = f"{name} with copies is not above the one without at any load replayed, up to rho {holds['rho']:.2f}."
    else:
        says = f"It holds up to rho {holds['rho']:.2f} (the upright line): {holds['reason']}."
    says += " rho is the work offered per engine, 1 is saturated. Copies are stopped by the budget and the live limits."
    table = Table(("load", "times its rate", "rho", *(f"{name} {a}" for a in ARMS), "copies", "drains"), lines)
    broken = holds.get("rho") if holds.get("reason") not in (None, "highest load replayed") else None
    facts = {"name": name, "holds_rho": broken, "arms": [a for a in ARMS if any(r["arm"] == a for r in rows)]}
    return Figure("loads", title, says, len(base.setting.workload), rows=rows, table=table, facts=facts)
