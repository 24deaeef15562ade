"""The decision by replay: fit, check against the log, search, hold at the top of the load, name better cures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl import cost
from hedgectl.fit import Fit, LogFacts, fit_service, fleet_of, refusals
from hedgectl.model import Fleet, Ints, Workload
from hedgectl.policy import Budget, Suppress
from hedgectl.recommend import delay, search, stability, tournament
from hedgectl.recommend.gates import Judged, judge, reason
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Assumption, Candidate, Projection, ScreenProjector
from hedgectl.recommend.ready import GRID
from hedgectl.recommend.replaying import ReplayProjector, spec_of
from hedgectl.recommend.stability import Stability
from hedgectl.sim import as_sent, scenario, sweep
from hedgectl.sim.run import prepare
from hedgectl.sim.scenario import Setting

# Finer than the screen's own grid: the replay can tell delays apart.
QUANTILES = (0.80, 0.90, 0.925, 0.94, 0.95, 0.96, 0.97, 0.98, 0.985)
SCREENED_REQUESTS = 150_000  # of a long log
EXAMINED = 3  # passing candidates that are tried at the top of the load

Note = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What a replay of one scope rests on."""

    setting: Setting
    fit: Fit
    fleet: Fleet
    checked: dict[str, Any]
    projector: ReplayProjector
    guessed: bool = False  # what the copies that are in the log already did to the engines

    @property
    def confidence(self) -> str:
        """High only if nobody had to guess the engine."""
        facts = (self.fleet.replicas, self.fleet.max_running_requests, self.fleet.kv_capacity_tokens)
        return "high" if not self.guessed and all(f.source != "assumed" for f in facts) else "medium"


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """The outcome of the search: the choice, why it may still fall, and what it does at the top."""

    chosen: Judged | None
    broken: tuple[dict[str, Any], ...]
    stability: Stability | None
    fields: tuple[search.Field, ...]


def ground(
    workload: Workload, attempts: Workload, facts: LogFacts, options: Options
) -> tuple[Ground | None, list[Note], dict[str, Any] | None]:
    """(what to replay on, notes, replay check). The first is None with the reasons as notes where there is no replay."""
    if options.config is None:
        return None, [], None
    fleet = fleet_of(options.config, attempts, cancel=options.cancel)
    gauge = options.config.get("engine.mean_running_requests")
    against = refusals(fleet, workload, replace(facts, mean_running_gauge=gauge))
    if not against and float(np.mean(workload.replica < 0)) > 0.5:
        text = "no replica ids in the log: what a replica does cannot be fitted, so the screen decides"
        return None, [{"code": "no_replica_ids_no_replay", "level": "warning", "share": None, "text": text}], None
    if against:
        # That nobody confirmed the engines says it all: what else is missing would only matter after that.
        told = [one for one in against if one.code == "engine_not_confirmed"] or against
        return None, [one.note() for one in told], None
    options.say("loading the replay", 0.0)
    prepare(lambda text: options.say(text, 0.0))
    fit = fit_service(workload, fleet, attempts, lambda share: options.say("fitting the engines", share))
    fleet = fit.fleet
    setting = scenario.setting(workload, fit.service, fleet, seed=options.seed, routing_seen=fit.routing.seen)
    metric, p = parts(options.goal)
    asked = {0.5, 0.95, 0.99, p, *(GRID if options.ready is not None else ())}
    projector = ReplayProjector.today(setting, tuple(sorted(asked)), fleet.routing)
    options.say("checking the replay against the log", 0.0)
    sent = as_sent.as_sent(setting, attempts) if facts.hedges else setting
    checked = sweep.against_log(sent, fleet.routing, (metric, p))
    guessed = as_sent.note(fleet, facts.hedges)
    notes = [dict(n) for n in (*fit.notes, *setting.notes, *guessed)]
    if not checked["passed"]:
        unseen = facts.hedges and fleet.cancel == "engine_runs_on"
        because = ": losers of the copies in it ran on, and no log shows how long" if unseen else ""
        text = f"the replay does not reproduce the log (see replay_check){because}; the screen decides, with low confidence"
        return None, [*notes, {"code": "replay_check_failed", "level": "warning", "share": None, "text": text}], checked
    return Ground(setting, fit, fleet, checked, projector, bool(guessed)), notes, checked


def search_by_replay(
    found: Ground, options: Options, prices: cost.Prices | None, given: Candidate | None = None
) -> Found:
    """The best candidate that passes every rule and holds at the top; else the least bad one with what it breaks."""
    workload = found.setting.workload
    assumed = search.assumptions(options, sees_load=True)
    fields, _ = search.fields(workload, options)

    def bill(projections: Sequence[Projection]) -> dict[str, Any] | None:
        return cost.dearest(workload, prices, [p.copies for p in projections], options.loser_billing)

    if given is not None:
        judged = tournament.final(found.projector, [given], assumed, options.goal, bill, options.say)
    else:
        pool = _screened(workload, fields, options)
        pool = _spread(pool, fields, options)
        keep = tournament.finalists(len(workload), len(assumed))
        last = tournament.halve(found.projector, pool, assumed, options.goal, keep, options.say)
        judged = tournament.final(found.projector, last, assumed, options.goal, bill, options.say)
    return _at_the_top(found, options, judged, assumed, tuple(fields), bill)


def _screened(workload: Workload, fields: Sequence[search.Field], options: Options) -> list[Candidate]:
    """The best (trigger, delay, budget) by the load-blind screen, and each trigger's plain p95 rule."""
    rows = _part(workload)
    screen = ScreenProjector(workload.take(rows))
    assumed = search.assumptions(options, sees_load=False)
    scored: list[tuple[float, int, Candidate]] = []
    kept: list[Candidate] = []
    for one in fields:
        later = delay.later(one.clock, options.limits)
        grid = search.candidates(one, replace(options, budget=_budget(options)), base_suppression(), QUANTILES, later)
        tried = tournament.with_smaller_budget(grid)
        for k, candidate in enumerate(tried):
            options.say("screen", k / len(tried))
            partly = replace(candidate, eligible=candidate.eligible[rows])
            projections = [screen.project(partly, each) for each in assumed]
            score = judge(partly, projections, options.goal).worst_ratio
            plain = candidate.quantile == delay.RULE_QUANTILE and not candidate.later_s
            if plain and candidate.budget == _budget(options):
                kept.append(candidate)
            else:
                scored.append((score, len(scored), candidate))
    return [*kept, *(c for _, _, c in sorted(scored, key=lambda s: s[:2])[: tournament.SCREENED - len(kept)])]


def _part(workload: Workload) -> Ints:
    """Rows of the part of a long log with the slowest mean: enough to rank what the replay is to try."""
    n = len(workload)
    if n <= SCREENED_REQUESTS:
        return np.arange(n)
    total = np.concatenate(([0.0], np.cumsum(np.nan_to_num(workload.e2e_s))))
    starts = np.arange(0, n - SCREENED_REQUESTS + 1, SCREENED_REQUESTS // 4)
    best = int(starts[int(np.argmax(total[starts + SCREENED_REQUESTS] - total[starts]))])
    return np.arange(best, best + SCREENED_REQUESTS)


def _budget(options: Options) -> Budget | None:
    """The budget of the search. A copy that runs on is never sent without one."""
    if options.budget is None and options.cancel != "frees_engine":
        return Budget()
    return options.budget


def _spread(pool: Sequence[Candidate], fields: Sequence[search.Field], options: Options) -> list[Candidate]:
    """Every target, with and without a limit on its queue where whoever hedges can see that queue."""
    found: list[Candidate] = []
    watches = options.can_watch("target_queue_age_ms")
    for candidate in pool:
        one = next(f for f in fields if f.trigger == candidate.trigger)
        found += tournament.spread([candidate], _queue_age_ms(one) if watches else None)
    return found


def _queue_age_ms(one: search.Field) -> float:
    """A queue older than half the wait that counts as slow makes a copy late as well; two digits are enough."""
    wait = 0.5 * float(np.quantile(one.clock.healthy_s, 0.95)) if one.trigger == "first_token" else 1.0
    return float(f"{max(wait * 1e3, 50.0):.2g}")


def base_suppression() -> tuple[Suppress, ...]:
    """Live conditions that are right whatever the replay says."""
    return (Suppress("error_ratio", ">", 0.1, "a failing service needs no second request"),)


def _at_the_top(
    found: Ground,
    options: Options,
    judged: list[Judged],
    assumed: Sequence[Assumption],
    fields: tuple[search.Field, ...],
    bill: tournament.Bill,
) -> Found:
    """Tries the passing ones in order of merit at the busiest hour, at rho 0.9 and after a burst."""
    goal = parts(options.goal)
    passing = [j for j in judged if j.passed]
    refused: tuple[Judged, tuple[dict[str, Any], ...], Stability] | None = None
    for k in range(EXAMINED):
        chosen = search.best(passing, options.goal.below_ms)
        if chosen is None or not chosen.passed:
            break
        options.say("trying the busiest hour and rho 0.9", k / EXAMINED)
        seen = stability.examine(found.setting, chosen.candidate, assumed, found.projector, goal)
        broken = [*seen.reasons(), *_band(found, options, chosen, assumed, bill)]
        if not broken:
            return Found(_explained(found, chosen, seen), (), seen, fields)
        if not seen.holds:
            safer = _safer(found, options, chosen, seen, assumed, bill)
            if safer is not None:
                return Found(_explained(found, *safer), (), safer[1], fields)
        refused = refused or (chosen, tuple(broken), seen)
        passing = [j for j in passing if j is not chosen]
    if refused is not None:
        return Found(refused[0], refused[1], refused[2], fields)
    least_bad = search.best(judged, options.goal.below_ms)
    if least_bad is not None and len(least_bad.projections) < len(assumed):
        # It failed under the first way already; what a reader sees is the worst of all ways.
        least_bad = tournament.complete(found.projector, least_bad, assumed, options.goal, bill)
    return Found(least_bad, (), None, fields)


def _safer(
    found: Ground,
    options: Options,
    chosen: Judged,
    seen: Stability,
    assumed: Sequence[Assumption],
    bill: tournament.Bill,
) -> tuple[Judged, Stability] | None:
    """The same policy made to hold: with fewer copies in flight, or off where engines are busy; the better of the two."""
    goal = parts(options.goal)
    ways = [stability.fewer_at_once(chosen.candidate, seen)]
    if options.can_watch("running_requests_per_replica"):
        ways.append(stability.off_above(found.setting, chosen.candidate, assumed, found.projector, goal))
    holding: list[tuple[Judged, Stability]] = []
    for way in ways:
        for candidate in way:
            again = tournament.final(
                found.projector,
                [candidate],
                assumed,
                options.goal,
                bill,
                lambda _, share: options.say("trying it with a limit", share),
            )[0]
            if not again.passed:
                break  # a tighter limit gains even less
            after = stability.examine(found.setting, candidate, assumed, found.projector, goal)
            if after.holds and not _band(found, options, again, assumed, bill):
                holding.append((again, after))
                break
    best = search.best([judged for judged, _ in holding], options.goal.below_ms)
    return next((one for one in holding if one[0] is best), None)


def _band(
    found: Ground, options: Options, chosen: Judged, assumed: Sequence[Assumption], bill: tournament.Bill
) -> list[dict[str, Any]]:
    """With an assumed batch cap the choice must also pass with a cap a quarter lower and twice as high."""
    cap = found.fleet.max_running_requests
    if cap.source != "assumed" or cap.value is None:
        return []
    broken = []
    for factor in sweep.BATCH_BAND:
        value = max(1, round(cap.value * factor))
        fleet = replace(found.fleet, max_running_requests=replace(cap, value=value))
        other = replace(found.projector, setting=replace(found.setting, fleet=fleet), _kept=None)
        again = tournament.final(
            other,
            [chosen.candidate],
            assumed,
            options.goal,
            bill,
            lambda _, share: options.say("trying other batch caps", share),
        )[0]
        if not again.passed:
            text = (
                f"max_running_requests is not known; were it {value}, {again.broken[0]['text']}. "
                "Set it in [engine] to settle this"
            )
            broken.append(reason("batch_cap_assumed", text, float(value), float(cap.value)))
    return broken


def _explained(found: Ground, chosen: Judged, seen: Stability) -> Judged:
    """The choice with a reason beside each limit that came from the replay."""
    top = seen.results[-1]
    metric, p = seen.goal
    with_limit = None if top.hedged is None else top.hedged.quantile(metric, p)
    explained = []
    for limit in chosen.candidate.suppress:
        if limit.source != "replay" or limit.why or with_limit is None or top.worst is None:
            explained.append(limit)
            continue
        without = replace(chosen.candidate, suppress=tuple(s for s in chosen.candidate.suppress if s is not limit))
        arm = sweep.play(found.setting, top.load, spec_of(without), top.worst, found.projector.routing).quantile(
            metric, p
        )
        effect = (
            ""
            if arm is None
            else f": {metric} p{p * 100:g} at {top.label} {with_limit:.3g} s with it, {arm:.3g} s without"
        )
        explained.append(replace(limit, why=f"a copy would wait in that queue as well{effect}"))
    candidate = replace(chosen.candidate, suppress=tuple(explained))
    flight = _in_flight(found, chosen, seen)
    return replace(chosen, candidate=candidate, held=(*chosen.held, *([] if flight is None else [flight])))


def _in_flight(found: Ground, chosen: Judged, seen: Stability) -> dict[str, Any] | None:
    """What the limit on copies in flight is for, or why there is none."""
    top, budget = seen.results[-1], chosen.candidate.budget
    metric, p = seen.goal
    if budget is None or top.hedged is None or top.worst is None:
        return None
    most = max(r.hedged.copies_at_once for r in seen.results if r.hedged is not None)
    if budget.max_concurrent is None:
        text = f"no limit on copies in flight is needed: up to {top.label} at most {most} are, and the fleet works that off"
        return reason("no_limit_in_flight", text, float(most))
    without = replace(chosen.candidate, budget=replace(budget, max_concurrent=None))
    arm = sweep.play(found.setting, top.load, spec_of(without), top.worst, found.projector.routing)
    sides = [one.quantile(metric, p) for one in (top.hedged, arm)]
    effect = (
        ""
        if None in sides
        else f": {metric} p{p * 100:g} at {top.label} {sides[0]:.3g} s with it, {sides[1]:.3g} s without"
    )
    text = f"at most {budget.max_concurrent} copies in flight at once{effect}"
    return reason("limit_in_flight", text, float(most), float(budget.max_concurrent))


def loads_of(found: Found) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """``loads`` and ``holds_up_to`` of the projection."""
    seen = found.stability
    if seen is None:
        return [], None
    loads = []
    for result in seen.results:
        hedged = result.hedged
        loads.append(
            {
                "label": result.label,
                "scale": round(result.load.scale, 4),
                "rho": round(result.rho, 4),
                "stable": result.stable,
                "unhedged": result.unhedged.document(),
                "better_routed": result.better_routed.document(),
                "hedged": None if hedged is None else hedged.document(refused=True),
            }
        )
    return loads, sweep.holds_up_to(seen.results, seen.goal)


def given_breaks(candidate: Candidate, options: Options) -> list[dict[str, Any]]:
    """Rules that only a given policy can break."""
    if candidate.budget is None and options.cancel != "frees_engine":
        text = "no budget, and a cancelled loser may run on: in trouble every request would be sent twice"
        return [reason("run_on_without_budget", text)]
    return []
