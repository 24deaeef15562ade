"""Puts a choice, its argument and its cures into one entry of the policy document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl import cost
from hedgectl.model import OK, Workload
from hedgectl.policy import Cancel, Deadline, Hedge, Rule, Scope, ScopePolicy, Window
from hedgectl.recommend import delay, eligibility, gates, identified, knobs, search, worth
from hedgectl.recommend.gates import Judged, reason
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Candidate, Paired, Projector, as_dict
from hedgectl.recommend.replaying import ReplayProjector

Note = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Findings:
    """Everything that is known about a scope when its entry is written."""

    workload: Workload
    scope: Scope
    options: Options
    projector: Projector
    chosen: Judged | None
    broken: Sequence[dict[str, Any]]  # beyond what the choice itself breaks
    cures: Sequence[dict[str, Any]]
    fields: Sequence[search.Field]
    given: ScopePolicy | None
    confidence: str = "low"
    change: dict[str, Any] | None = None  # of the goal's percentile, with its interval
    paired: Paired | None = None  # both arms of the choice on e2e, where they were replayed already
    loads: Sequence[dict[str, Any]] = ()
    holds_up_to: dict[str, Any] | None = None
    replay_check: dict[str, Any] | None = None


def entry(found: Findings) -> ScopePolicy:
    """The decision for one scope."""
    chosen, given, options = found.chosen, found.given, found.options
    if chosen is None:
        why = reason("no_policy", "the given policy has no hedge for this scope")
        return ScopePolicy(found.scope, "do_not_hedge", found.confidence, instead=tuple(found.cures), reasons=(why,))
    broken = [*_already_met(found), *found.broken, *chosen.broken]
    rules, hours = (given.eligible, given.windows_utc) if given is not None else _rules_of(chosen, found.fields)
    decision = _decision(broken)
    projection = _projection(found, chosen)
    if decision == "hedge" or given is not None:
        priced = _priced(found, chosen, rules, hours)
        rules, projection["knobs"] = priced.rules, list(priced.knobs)
    else:
        rules = tuple(replace(rule, keeps_ratio=eligibility.keeps(found.workload, rule)) for rule in rules)
    return ScopePolicy(
        scope=found.scope,
        decision=decision,
        confidence=found.confidence,
        hedge=given.hedge if given is not None else hedge_of(found.workload, options, chosen.candidate),
        eligible=rules,
        windows_utc=hours,
        suppress_when=chosen.candidate.suppress,
        experiment=None if given is None else given.experiment,
        instead=tuple(found.cures),
        reasons=tuple(broken) if broken else chosen.held,
        projection=projection,
    )


def _decision(broken: Sequence[dict[str, Any]]) -> str:
    if any(one["code"] == "goal_unknown" for one in broken):
        return "not_enough_data"
    return "do_not_hedge" if broken else "hedge"


def _already_met(found: Findings) -> list[dict[str, Any]]:
    """A goal that is met without copies needs none. A given policy is priced all the same."""
    limit = found.options.goal.below_ms
    metric, p = parts(found.options.goal)
    before = found.projector.unhedged().pool(metric).at(p)
    if limit is None or before is None or before * 1e3 >= limit:
        return []
    text = f"the goal is met without copies: {before * 1e3:.6g} ms, asked is below {limit:.6g} ms"
    return [reason("goal_already_met", text, before * 1e3, limit)]


def _rules_of(chosen: Judged, fields: Sequence[search.Field]) -> tuple[tuple[Rule, ...], tuple[Window, ...]]:
    return next(((f.rules, f.windows) for f in fields if f.trigger == chosen.candidate.trigger), ((), ()))


def _priced(found: Findings, chosen: Judged, rules: Sequence[Rule], hours: Sequence[Window]) -> knobs.Priced:
    prices = cost.prices_for(found.workload, found.scope.model, found.options.prices)
    worst = chosen.worst
    pricing = knobs.Pricing(
        found.workload, found.options, found.projector, chosen.candidate, worst.assumption, worst, prices
    )
    return pricing.price(rules, hours)


def hedge_of(workload: Workload, options: Options, candidate: Candidate) -> Hedge:
    """The hedge part: the chosen delay on its clock, and the same rule on every other clock of the log."""
    ratio = None if candidate.budget is None else candidate.budget.ratio
    clocks: dict[str, delay.Clock | None] = {}
    chosen_s: dict[str, float] = {}
    for trigger in delay.CLOCKS:
        found = delay.clock(workload, trigger, candidate.eligible)
        clocks[trigger] = found
        if trigger == candidate.trigger:
            chosen_s[trigger] = candidate.delay_s
        elif found is not None:
            rule = delay.rule_for(found, candidate.quantile, options.limits, candidate.later_s)
            chosen_s[trigger] = delay.rule_delay_s(found, rule)
    return Hedge(
        trigger=candidate.trigger,
        delay_ms=round(candidate.delay_s * 1e3, 3),
        delays=delay.delays(clocks, chosen_s, ratio),
        delay_rule=candidate.rule,
        max_attempts=candidate.max_attempts,
        budget=candidate.budget,
        deadline=candidate.deadline or default_deadline(workload, candidate, options),
        target=candidate.target,
        cancel=Cancel("engine_abort", options.cancel),
        commit=candidate.trigger,
    )


def default_deadline(workload: Workload, candidate: Candidate, options: Options) -> Deadline:
    """The user's, else half as long again as the slowest answer: it ends what hangs and touches nothing that works."""
    if options.deadline_s is not None:
        total = max(options.deadline_s, candidate.delay_s * 1.001)
    else:
        slowest = float(np.nanmax(np.where(workload.status == OK, workload.e2e_s, np.nan)))
        total = float(np.ceil(max(1.5 * slowest, 2.0 * candidate.delay_s)))
    attempt = max(total - candidate.delay_s, 0.5 * total)
    return Deadline(round(total * 1e3, 3), round(attempt * 1e3, 3))


def _projection(found: Findings, chosen: Judged) -> dict[str, Any]:
    """The ``projection`` object: both arms in the worst case, the change, the bill, the limits of rate, the loads."""
    metric, p = parts(found.options.goal)
    worst = chosen.worst
    ratio = gates.ratio_of(worst, metric, p)
    routed = found.projector.better_routed()
    document: dict[str, Any] = {
        "unhedged": worst.unhedged.document(),
        "hedged": worst.hedged.document() | {"hedges_refused": worst.refused},
        "p99_change": found.change
        or {
            "ratio": None if ratio is None else round(ratio, 6),
            "interval": None,
            "episodes": None,
            "kind": "block_bootstrap",
        },
        "worst_of": as_dict(worst.assumption),
        "cost": chosen.cost,
        "quota": worth.quota(found.workload, worst.copies.rows, chosen.candidate.delay_s),
        "month": {
            "requests": worth.faster(_paired(found, chosen), found.workload),
            "cost": worth.month(chosen.cost, worst.unhedged, worst.hedged, found.workload),
        },
        "gpu": worth.gpu(worst.unhedged, worst.hedged, found.options),
        "loads": list(found.loads),
        "holds_up_to": found.holds_up_to,
    }
    bounded = identified.bounds(found.workload, metric, p)
    if bounded is not None:
        document["identified"] = bounded
    if found.options.ready is not None:
        document["ready"] = found.options.ready.document(worst.unhedged, worst.hedged)
    if routed is not None:
        document["better_routed"] = routed.document()
    if found.replay_check is not None:
        document["replay_check"] = found.replay_check
    return document


def _paired(found: Findings, chosen: Judged) -> Paired | None:
    """Both arms request by request; a replay makes them anew."""
    worst = chosen.worst
    if found.paired is not None:
        return found.paired
    if "e2e" in worst.paired:
        return worst.paired["e2e"]
    if isinstance(found.projector, ReplayProjector):
        return found.projector.paired(chosen.candidate, worst.assumption, "e2e")
    return None


def notes(workload: Workload, policy: ScopePolicy, fields: Sequence[search.Field]) -> list[Note]:
    """What a reader must know about this scope's numbers."""
    found = eligibility.notes(workload, policy.eligible)
    for one in fields:
        if policy.hedge is not None and one.trigger == policy.hedge.trigger:
            slow = delay.slow_mode_note(one.clock)
            if slow is not None:
                found.append(slow)
    hedged = (policy.projection or {}).get("hedged") or {}
    budget = None if policy.hedge is None else policy.hedge.budget
    if budget is not None and hedged:
        refused = hedged["hedges_refused"]
        due = hedged["hedge_rate"] + (refused["budget"] + refused["suppressed"]) / max(hedged["logical_requests"], 1)
        if hedged["hedge_rate"] > 1.05 * budget.ratio:
            text = (
                f"{hedged['hedge_rate']:.1%} of requests had a copy, more than the budget of {budget.ratio:.1%}: this log is so "
                f"short that a burst of {budget.burst} carries it. In the long run there are fewer copies, and less is gained"
            )
            found.append({"code": "burst_carries_log", "level": "warning", "share": hedged["hedge_rate"], "text": text})
        if due > 1.2 * budget.ratio:
            text = (
                f"{due:.1%} of requests outlast the delay, which is above the budget of {budget.ratio:.1%} (and a burst of "
                f"{budget.burst}): in the long run the others wait"
            )
            found.append({"code": "demand_above_budget", "level": "info", "share": round(due, 6), "text": text})
    bounded = (policy.projection or {}).get("identified")
    if bounded is not None and (open_ := identified.note(bounded)) is not None:
        found.append(open_)
    if policy.projection is not None and (short := worth.note(workload)) is not None:
        found.append(short)
    if policy.projection is not None and not bool(np.any(workload.replica >= 0)):
        text = (
            "no replica ids: copies were matched with any request of the same moment. If all replicas are slow together a "
            "copy is slow too, and this log cannot show it: try the policy on a part first (hedgectl probe, then verify)"
        )
        found.append({"code": "no_replica_ids", "level": "warning", "share": None, "text": text})
    return found
