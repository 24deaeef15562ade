"""The decision for one scope: refuse what needs no estimate, replay where the engines are known, else screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgectl import cost, quantiles
from hedgectl.fit import LogFacts
from hedgectl.model import OK, Workload
from hedgectl.policy import Scope, ScopePolicy, Suppress
from hedgectl.recommend import by_replay, delay, gates, instead, quota, search
from hedgectl.recommend.arms import answered
from hedgectl.recommend.entry import Findings, entry, notes
from hedgectl.recommend.gates import Judged, judge, reason
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Paired, ScreenProjector, measured_change

INCIDENT_SHARE = 0.10  # of requests without an answer

Note = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """What a decision was made on, for whoever asks more of it: the requests, and the fitted engines if it was replayed."""

    workload: Workload
    ground: by_replay.Ground | None


@dataclass(frozen=True, slots=True, eq=False)
class Decided:
    """One scope's entry, what a reader must know about it, and how it was found."""

    policy: ScopePolicy
    notes: tuple[Note, ...]
    estimator: str
    replay_check: dict[str, Any] | None = None
    basis: Basis | None = None  # None: refused before anything was estimated


def decide(
    workload: Workload,
    scope: Scope,
    options: Options,
    diagnosis: dict[str, Any] | None = None,
    *,
    raced: int = 0,
    attempts: Workload | None = None,
    facts: LogFacts | None = None,
) -> Decided:
    """`raced`: requests that already had a copy. `attempts`: every send, for the fit (default: the requests)."""
    refusal = too_little(workload, scope, options, raced)
    if refusal is not None:
        return Decided(refusal, (), "matched")
    room, limited = quota.tightest(workload, options), list[Note]()
    if room is not None:
        used_up = quota.full(room)
        if used_up is not None:
            return Decided(ScopePolicy(scope, "do_not_hedge", reasons=(used_up,)), (), "matched")
        options, limited = quota.lowered(options, room)
    fields, missing = search.fields(workload, options)
    given = policy_for(options, scope)
    if given is None and not fields:
        return Decided(no_trigger(scope, missing, options), (), "matched")
    if given is not None and given.hedge is not None and not _timed(workload, given):
        lacking = search.Missing(given.hedge.trigger, search.LOG_FIELDS[given.hedge.trigger])
        return Decided(no_trigger(scope, [lacking], options), (), "matched")
    prices = cost.prices_for(workload, scope.model, options.prices)
    found, said, checked = by_replay.ground(workload, attempts or workload, facts or LogFacts(), options)
    if found is not None:
        policy = _by_replay(found, scope, options, diagnosis, given, prices)
        told = (*limited, *said, *notes(found.setting.workload, policy, fields))
        return Decided(policy, told, "simulation", checked, Basis(found.setting.workload, found))
    policy = _by_screen(workload, scope, options, diagnosis, given, prices, fields)
    return Decided(
        policy, (*limited, *said, *notes(workload, policy, fields)), "matched", checked, Basis(workload, None)
    )


def _by_screen(
    workload: Workload,
    scope: Scope,
    options: Options,
    diagnosis: dict[str, Any] | None,
    given: ScopePolicy | None,
    prices: cost.Prices | None,
    fields: Sequence[search.Field],
) -> ScopePolicy:
    """By the load-blind screen: low confidence."""
    projector = ScreenProjector(workload)
    assumed = search.assumptions(options, sees_load=False)
    if given is not None:
        candidate = search.from_policy(workload, given)
        tried = [] if candidate is None else [candidate]
    else:
        suppress = default_suppression(workload)
        tried = [c for one in fields for c in search.candidates(one, options, suppress)]
    judged: list[Judged] = []
    for k, candidate in enumerate(tried):
        options.say("screen", k / len(tried))
        projections = [projector.project(candidate, each) for each in assumed]
        bill = cost.dearest(workload, prices, [p.copies for p in projections], options.loser_billing)
        judged.append(judge(candidate, projections, options.goal, bill))
    chosen = search.best(judged, options.goal.below_ms)
    metric, p = parts(options.goal)
    both = None if chosen is None else chosen.worst.paired[metric]
    ratio = None if chosen is None else gates.ratio_of(chosen.worst, metric, p)
    evidence = instead.Evidence(workload, options.goal, projector.unhedged(), diagnosis=diagnosis)
    return entry(
        Findings(
            workload,
            scope,
            options,
            projector,
            chosen,
            screen_rules(options, chosen, diagnosis),
            instead.cures(evidence),
            fields,
            given,
            change=None if both is None else measured_change(both, ratio, p, options.seed),
        )
    )


def _by_replay(
    found: by_replay.Ground,
    scope: Scope,
    options: Options,
    diagnosis: dict[str, Any] | None,
    given: ScopePolicy | None,
    prices: cost.Prices | None,
) -> ScopePolicy:
    workload = found.setting.workload
    candidate = None if given is None else search.from_policy(workload, given)
    if given is not None and candidate is None:
        result = by_replay.Found(None, (), None, ())
    else:
        result = by_replay.search_by_replay(found, options, prices, candidate)
    chosen = result.chosen
    broken = [*result.broken]
    if chosen is not None and given is not None:
        broken += by_replay.given_breaks(chosen.candidate, options)
    metric, p = parts(options.goal)
    options.say("looking for better cures", 0.0)
    evidence = instead.Evidence(
        workload,
        options.goal,
        found.projector.unhedged(),
        better_routed=found.projector.better_routed(),
        replayed=found.projector,
        slowness=tuple(float(x) for x in found.setting.service.slow.static_factor),
        diagnosis=diagnosis,
        timeout_s=found.fleet.timeout_s,
    )
    cures = instead.cures(evidence)
    loads, holds = by_replay.loads_of(result)
    both: Paired | None = None
    change: dict[str, Any] | None = None
    if chosen is not None:
        options.say("measuring the change", 0.0)
        both = found.projector.paired(chosen.candidate, chosen.worst.assumption, metric)
        change = measured_change(both, gates.ratio_of(chosen.worst, metric, p), p, options.seed)
    options.say("pricing the policy", 0.0)
    return entry(
        Findings(
            workload,
            scope,
            options,
            found.projector,
            chosen,
            broken,
            cures,
            result.fields,
            given,
            confidence=found.confidence,
            change=change,
            paired=both if metric == "e2e" else None,
            loads=loads,
            holds_up_to=holds,
            replay_check=found.checked,
        )
    )


def too_little(workload: Workload, scope: Scope, options: Options, raced: int = 0) -> ScopePolicy | None:
    """Refusals that need no estimate: too few requests, an incident, no second target.

    `raced`: requests that already had a copy; a primary that lost is no failure.
    """
    metric, p = parts(options.goal)
    n = answered(workload)
    if n < options.needed():
        return too_few(n, scope, options)
    timed = float(np.isfinite(workload.ttft_s).mean()) if metric == "ttft" else 1.0
    if timed < 0.5:
        text = (
            f"{timed:.0%} of the requests have a first token, so {metric} {quantiles.name(p)} is not known: log ttft_ms"
        )
        return ScopePolicy(scope, "not_enough_data", reasons=(reason("missing_clock", text, timed, 0.5),))
    # an answer whose time was not logged is an answer all the same
    failed = 1.0 - int(np.sum(workload.status == OK)) / max(len(workload) - raced, 1)
    if failed > INCIDENT_SHARE:
        text = (
            f"{failed:.0%} of the requests failed or timed out: that is an incident, not a tail that a copy could cut"
        )
        why = reason("incident", text, failed, INCIDENT_SHARE)
        return ScopePolicy(scope, "do_not_hedge", reasons=(why,))
    seen = np.unique(workload.replica[workload.replica >= 0])
    # a copy that was sent already found a second one, even if every first attempt went to the same
    if len(seen) == 1 and len(workload.replicas) == 1:
        name = workload.replicas[int(seen[0])]
        text = (
            f"only one replica was seen ({name}): a copy needs a second target. If that is a virtual address, log the real "
            "one (pod name, upstream address)"
        )
        return ScopePolicy(scope, "do_not_hedge", reasons=(reason("one_replica", text, 1.0, 2.0),))
    return None


def too_few(n: int, scope: Scope, options: Options) -> ScopePolicy:
    """The refusal of a scope with `n` answered requests, fewer than are needed."""
    metric, p = parts(options.goal)
    needed = options.needed()
    text = f"{n} answered requests, {needed} are needed before {metric} {quantiles.name(p)} means anything"
    return ScopePolicy(scope, "not_enough_data", reasons=(reason("too_few_requests", text, float(n), float(needed)),))


def no_trigger(scope: Scope, missing: Sequence[search.Missing], options: Options) -> ScopePolicy:
    """No trigger can be tried: no request may have a copy, or what the target waits for is not in the log."""
    if any(m.nobody for m in missing):
        text = "no request may have a copy: the rules of eligibility leave none (tools, caches, state, streams)"
        return ScopePolicy(scope, "do_not_hedge", reasons=(reason("nothing_eligible", text, 0.0),))
    names = ", ".join(dict.fromkeys(m.log_field for m in missing)) or "e2e_ms"
    whose = f"what {options.target} can see" if options.target else "a hedge timer"
    text = f"the log lacks the clock of {whose}: log {names}"
    return ScopePolicy(scope, "not_enough_data", reasons=(reason("missing_clock", text),))


def _timed(workload: Workload, given: ScopePolicy) -> bool:
    """Whether the log has the clock that a given policy waits on."""
    everyone = np.ones(len(workload), dtype=bool)
    trigger = given.hedge.trigger if given.hedge is not None else "response"
    if trigger == "response_headers" and bool(np.mean(workload.streamed == 0) > 0.5):
        return True  # the headers of a whole answer leave when it is ready
    return delay.clock(workload, trigger, everyone) is not None


def policy_for(options: Options, scope: Scope) -> ScopePolicy | None:
    """The given policy's entry for a scope: the same scope, else one that speaks for any."""
    if options.policy is None:
        return None
    for wanted in (scope, Scope(scope.model), Scope()):
        for policy in options.policy.policies:
            if policy.scope == wanted:
                return policy
    return ScopePolicy(scope, "do_not_hedge")


def screen_rules(options: Options, chosen: Judged | None, diagnosis: dict[str, Any] | None) -> list[dict[str, Any]]:
    """What makes the screen alone refuse: it cannot see added load, so shared trouble and long work count against it."""
    if chosen is None or chosen.gain is None:
        return []
    found = []
    movement = ((diagnosis or {}).get("co_movement") or {}).get("e2e") or {}
    interval = movement.get("interval") or [None]
    low = interval[0]
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
    return (*found, *by_replay.base_suppression())
