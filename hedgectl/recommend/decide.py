"""From a scope's workload to its entry in the policy document: search or price, judge, explain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hedgectl import cost, quantiles
from hedgectl.model import Workload
from hedgectl.policy import (
    Cancel,
    Deadline,
    DelayRule,
    Hedge,
    Rule,
    Scope,
    ScopePolicy,
    Suppress,
)
from hedgectl.recommend import delay, eligibility, gates, instead, search
from hedgectl.recommend.arms import answered
from hedgectl.recommend.gates import Judged, judge, reason
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Candidate, Projection, Projector, ScreenProjector, as_dict

INCIDENT_SHARE = 0.10  # of requests without an answer

Note = dict[str, Any]


def decide(
    workload: Workload,
    scope: Scope,
    options: Options,
    diagnosis: dict[str, Any] | None = None,
    *,
    raced: int = 0,
) -> tuple[ScopePolicy, list[Note]]:
    """The decision for one scope, by the load-blind screen: low confidence."""
    refusal = too_little(workload, scope, options, raced)
    if refusal is not None:
        return refusal, []
    fields, missing = search.fields(workload, options)
    if not fields:
        return no_clock(scope, missing, options), []
    projector = ScreenProjector(workload)
    given = policy_for(options, scope)
    assumed = search.assumptions(options, sees_load=False)
    prices = cost.prices_for(workload, scope.model, options.prices)
    rules: dict[int, DelayRule] = {}
    if given is not None:
        candidate = search.from_policy(workload, given)
        tried = [] if candidate is None else [candidate]
    else:
        suppress = default_suppression(workload)
        pairs = [pair for one in fields for pair in search.candidates(one, options, suppress)]
        tried = [c for c, _ in pairs]
        rules = {id(c): rule for c, rule in pairs}
    judged: list[Judged] = []
    for k, candidate in enumerate(tried):
        options.say("screen", k / len(tried))
        projections = [projector.project(candidate, each) for each in assumed]
        judged.append(judge(candidate, projections, options.goal, bill(workload, prices, projections, options)))
    chosen = search.best(judged, options.goal.below_ms)
    policy = entry(
        workload,
        scope,
        options,
        projector,
        chosen,
        screen_rules(workload, options, chosen, diagnosis),
        rules=rules,
        fields=fields,
        given=given,
        diagnosis=diagnosis,
    )
    return policy, scope_notes(workload, policy, fields, options)


def too_little(workload: Workload, scope: Scope, options: Options, raced: int = 0) -> ScopePolicy | None:
    """Refusals that need no estimate: too few requests, an incident, no second target.

    `raced`: requests that already had a copy; a primary that lost is no failure.
    """
    metric, p = parts(options.goal)
    n = answered(workload)
    needed = options.needed()
    if n < needed:
        text = f"{n} answered requests, {needed} are needed before {metric} {quantiles.name(p)} means anything"
        why = reason("too_few_requests", text, float(n), float(needed))
        return ScopePolicy(scope, "not_enough_data", reasons=(why,))
    failed = 1.0 - n / max(len(workload) - raced, 1)
    if failed > INCIDENT_SHARE:
        text = (
            f"{failed:.0%} of the requests failed or timed out: that is an incident, not a tail that a copy could cut"
        )
        why = reason("incident", text, failed, INCIDENT_SHARE)
        return ScopePolicy(scope, "do_not_hedge", reasons=(why,))
    seen = np.unique(workload.replica[workload.replica >= 0])
    if len(seen) == 1:
        name = workload.replicas[int(seen[0])]
        text = (
            f"only one replica was seen ({name}): a copy needs a second target. If that is a virtual address, log the real "
            "one (pod name, upstream address)"
        )
        return ScopePolicy(scope, "do_not_hedge", reasons=(reason("one_replica", text, 1.0, 2.0),))
    return None


def no_clock(scope: Scope, missing: Sequence[search.Missing], options: Options) -> ScopePolicy:
    """The target waits for something that this log does not time."""
    names = ", ".join(m.log_field for m in missing) or "e2e_ms"
    whose = f"what {options.target} can see" if options.target else "a hedge timer"
    text = f"the log lacks the clock of {whose}: log {names}"
    return ScopePolicy(scope, "not_enough_data", reasons=(reason("missing_clock", text),))


def policy_for(options: Options, scope: Scope) -> ScopePolicy | None:
    """The given policy's entry for a scope: the same scope, else one that speaks for any."""
    if options.policy is None:
        return None
    for wanted in (scope, Scope(scope.model), Scope()):
        for policy in options.policy.policies:
            if policy.scope == wanted:
                return policy
    return None


def bill(
    workload: Workload, prices: cost.Prices | None, projections: Sequence[Projection], options: Options
) -> dict[str, Any] | None:
    """Cost of the dearest assumption, with a range over all of them."""
    found = [
        each
        for p in projections
        if (each := cost.growth(workload, prices, p.copies, options.loser_billing)) is not None
    ]
    if not found:
        return None
    dearest = max(found, key=lambda each: float(each["delta_ratio"]))
    return dearest | {
        "low_ratio": min(float(each["low_ratio"]) for each in found),
        "high_ratio": max(float(each["high_ratio"]) for each in found),
    }


def screen_rules(
    workload: Workload, options: Options, chosen: Judged | None, diagnosis: dict[str, Any] | None
) -> list[dict[str, Any]]:
    """What makes the screen alone refuse: it cannot see added load, so shared trouble and long work count against it."""
    if chosen is None or chosen.gain is None:
        return []
    found = []
    movement = ((diagnosis or {}).get("co_movement") or {}).get("e2e") or {}
    interval = movement.get("interval") or [None]
    low = interval[0] if interval[0] is not None else None
    shared = (diagnosis or {}).get("verdict") == "shared"
    if shared and low is not None and low > gates.SHARED_LIFT and chosen.gain < gates.SHARED_GAIN:
        text = (
            f"slow requests come together on all replicas (at least {low:.2g} times as often as by chance), and a copy would "
            f"wait in the same queues: {chosen.gain:.1%} gain, before its own load is counted"
        )
        found.append(reason("shared", text, low, gates.SHARED_LIFT))
    same = [p for p in chosen.projections if p.assumption.copy_length == "same"]
    metric, p = parts(options.goal)
    if same:
        gain = 1.0 - (gates.ratio_of(same[0], metric, p) or 1.0)
        if gain < gates.LONG_WORK_GAIN:
            text = f"the slow requests are slow anywhere: with an answer as long, a copy on another replica gains {gain:.1%}"
            found.append(reason("long_work", text, gain, gates.LONG_WORK_GAIN))
    return found


def default_suppression(workload: Workload) -> tuple[Suppress, ...]:
    """Live conditions under which no copy is sent, before any replay has set their limits."""
    found = []
    if len(workload.replicas) > 1:
        found.append(
            Suppress("slow_replicas_ratio", ">", 0.5, "half of the others are slow too: a copy would wait as well")
        )
    found.append(Suppress("error_ratio", ">", 0.1, "a failing service needs no second request"))
    return tuple(found)


def entry(
    workload: Workload,
    scope: Scope,
    options: Options,
    projector: Projector,
    chosen: Judged | None,
    extra: Sequence[dict[str, Any]],
    *,
    rules: dict[int, DelayRule],
    fields: Sequence[search.Field],
    given: ScopePolicy | None,
    diagnosis: dict[str, Any] | None,
    confidence: str = "low",
) -> ScopePolicy:
    """Puts the choice, its argument and its cures into one entry."""
    unhedged = projector.unhedged()
    routed = projector.better_routed()
    metric, p = parts(options.goal)
    cures = instead.cures(
        instead.Evidence(
            workload,
            options.goal,
            unhedged,
            better_routed=routed,
            hedged_s=None if chosen is None else chosen.worst.hedged.pool(metric).at(p),
            diagnosis=diagnosis,
            timeout_s=None if options.fleet is None else options.fleet.timeout_s,
        )
    )
    if chosen is None:
        why = reason("no_policy", "the given policy has no hedge for this scope")
        return ScopePolicy(scope, "do_not_hedge", confidence, instead=tuple(cures), reasons=(why,))
    before = unhedged.pool(metric).at(p)
    broken = [*extra, *chosen.broken]
    if options.goal.below_ms is not None and before is not None and before * 1e3 < options.goal.below_ms:
        text = f"the goal is met without copies: {before * 1e3:.6g} ms, asked is below {options.goal.below_ms:.6g} ms"
        broken.insert(0, reason("goal_already_met", text, before * 1e3, options.goal.below_ms))
    hedge = given.hedge if given is not None else build_hedge(workload, options, chosen, rules, fields)
    policy = ScopePolicy(
        scope=scope,
        decision="do_not_hedge" if broken else "hedge",
        confidence=confidence,
        hedge=hedge,
        eligible=priced_rules(workload, given.eligible if given else rules_of(chosen, fields)),
        windows_utc=() if given is None else given.windows_utc,
        suppress_when=chosen.candidate.suppress,
        experiment=None if given is None else given.experiment,
        instead=tuple(cures),
        reasons=tuple(broken) if broken else chosen.held,
    )
    return replace(policy, projection=projection_document(workload, options, projector, chosen))


def rules_of(chosen: Judged, fields: Sequence[search.Field]) -> tuple[Rule, ...]:
    return next((f.rules for f in fields if f.trigger == chosen.candidate.trigger), ())


def priced_rules(workload: Workload, rules: Sequence[Rule]) -> tuple[Rule, ...]:
    """The rules with the share of requests each keeps."""
    return tuple(replace(rule, keeps_ratio=eligibility.keeps(workload, rule)) for rule in rules)


def build_hedge(
    workload: Workload,
    options: Options,
    chosen: Judged,
    rules: dict[int, DelayRule],
    fields: Sequence[search.Field],
) -> Hedge:
    """The hedge part of the entry: the chosen delay on its clock, and the same rule on every other clock of the log."""
    candidate = chosen.candidate
    ratio = None if candidate.budget is None else candidate.budget.ratio
    clocks: dict[str, delay.Clock | None] = {}
    chosen_s: dict[str, float] = {}
    for trigger in delay.CLOCKS:
        found = delay.clock(workload, trigger, candidate.eligible)
        clocks[trigger] = found
        if trigger == candidate.trigger:
            chosen_s[trigger] = candidate.delay_s
        elif found is not None:
            chosen_s[trigger] = delay.rule_delay_s(found, delay.rule_for(found, candidate.quantile, options.limits))
    deadline = candidate.deadline or default_deadline(workload, candidate, options)
    return Hedge(
        trigger=candidate.trigger,
        delay_ms=round(candidate.delay_s * 1e3, 3),
        delays=delay.delays(clocks, chosen_s, ratio),
        delay_rule=rules.get(id(candidate)),
        budget=candidate.budget,
        deadline=deadline,
        target=candidate.target,
        cancel=Cancel("engine_abort", options.cancel),
        commit=candidate.trigger,
    )


def default_deadline(workload: Workload, candidate: Candidate, options: Options) -> Deadline:
    """The user's, else half as long again as the slowest answer: it ends what hangs and touches nothing that works."""
    if options.deadline_s is not None:
        total = max(options.deadline_s, candidate.delay_s * 1.001)
    else:
        slowest = float(np.nanmax(np.where(workload.status == 0, workload.e2e_s, np.nan)))
        total = float(np.ceil(max(1.5 * slowest, 2.0 * candidate.delay_s)))
    attempt = max(total - candidate.delay_s, 0.5 * total)
    return Deadline(round(total * 1e3, 3), round(attempt * 1e3, 3))


def projection_document(workload: Workload, options: Options, projector: Projector, chosen: Judged) -> dict[str, Any]:
    """The ``projection`` object: both arms in the worst case, the change, the bill, the limits of rate."""
    metric, p = parts(options.goal)
    worst = chosen.worst
    ratio = gates.ratio_of(worst, metric, p)
    routed = projector.better_routed()
    found: dict[str, Any] = {
        "unhedged": worst.unhedged.document(),
        "hedged": worst.hedged.document() | {"hedges_refused": worst.refused},
        "p99_change": {
            "ratio": None if ratio is None else round(ratio, 6),
            "interval": None,
            "episodes": None,
            "kind": "this_log_only",
        },
        "worst_of": as_dict(worst.assumption),
        "cost": chosen.cost,
        "quota": cost.quota_peak(workload, worst.copies.rows, chosen.candidate.delay_s),
        "loads": [],
        "holds_up_to": None,
    }
    if routed is not None:
        found["better_routed"] = routed.document()
    return found


def scope_notes(
    workload: Workload, policy: ScopePolicy, fields: Sequence[search.Field], options: Options
) -> list[Note]:
    """What a reader must know about this scope's numbers."""
    found = eligibility.notes(workload, policy.eligible)
    for one in fields:
        if policy.hedge is not None and one.trigger == policy.hedge.trigger:
            slow = delay.slow_mode_note(one.clock)
            if slow is not None:
                found.append(slow)
    if policy.projection is not None and not bool(np.any(workload.replica >= 0)):
        text = "no replica ids: copies were matched with any request of the same moment"
        found.append({"code": "no_replica_ids", "level": "warning", "share": None, "text": text})
    return found
