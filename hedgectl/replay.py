"""The replay of one scope from the database to `simulation.v1`: refuse or fit, check against the log, sweep the loads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hedgectl import workload
from hedgectl.config import Config
from hedgectl.decompose import Prepared
from hedgectl.errors import UsageError
from hedgectl.fit import Fit, LogFacts, Refusal, fit_service, fleet_of, refusals
from hedgectl.model import Fleet, Workload
from hedgectl.policy import Budget, Cancel, Hedge, PolicyDocument, Scope, ScopePolicy, Target, scope_document
from hedgectl.recommend import eligibility
from hedgectl.recommend.goal import parse_goal, parts
from hedgectl.sim import as_sent, document, scenario, sweep
from hedgectl.sim.scenario import Setting, Spec

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, eq=False)
class Ground:
    """What a replay of one scope rests on, or why there is none (`refused` not empty, `setting` None)."""

    requests: Workload
    fleet: Fleet
    fit: Fit | None
    setting: Setting | None
    refused: tuple[Refusal, ...]
    sent: Setting | None = None  # what was really sent, if the log holds copies already
    notes: tuple[dict[str, Any], ...] = ()


def ground(
    con: Any, cfg: Config, model: str | None = None, route: str | None = None, progress: Progress | None = None
) -> Ground:
    """Load one scope, decide whether it can be replayed, and fit it. Deterministic for a seed in the configuration."""
    found = workload.load(con, model, route)
    facts = LogFacts(
        providers=found.providers,
        attempts=found.attempt_count,
        hedges=found.hedges,
        retries=found.retries,
        closed_loop=found.closed_loop,
        mean_running_gauge=cfg.get("engine.mean_running_requests"),
    )
    fleet = fleet_of(cfg, found.attempts)
    refused = tuple(refusals(fleet, found.requests, facts))
    if refused:
        return Ground(found.requests, fleet, None, None, refused)
    if progress is not None:
        progress("fitting the engines to the log")
    fit = fit_service(found.requests, fleet, found.attempts)
    setting = scenario.setting(
        found.requests, fit.service, fit.fleet, seed=int(cfg.get("seed", 0)), routing_seen=fit.routing.seen
    )
    sent = as_sent.as_sent(setting, found.attempts) if found.hedges else None
    return Ground(found.requests, fit.fleet, fit, setting, (), sent, tuple(as_sent.note(fit.fleet, found.hedges)))


def simulate_document(
    con: Any,
    prepared: Prepared,
    cfg: Config,
    *,
    policy: PolicyDocument | None = None,
    trigger: str | None = None,
    delay_s: float | None = None,
    budget: float | None = 0.05,
    burst: int = 100,
    target: str = "as_routed",
    loads: Sequence[float] | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """`simulation.v1` of one scope under a policy document, under flags, or (neither) without hedging.

    `budget` None = no cap. A policy given by flags has no eligibility, suppression, window, deadline or in-flight limit.
    `replay_check.passed` false means exit code 3: the numbers are there all the same, unless no replay was possible;
    then `engine` is null, `loads` is empty and `notes` says why. Raises UsageError where the log holds several models
    and neither selection nor policy names one.
    """
    stated = _stated(policy, prepared)
    scope = _scope(con, prepared, stated)
    base = ground(con, cfg, scope.model, scope.route, progress)
    cancel, lengths = base.fleet.cancel, cfg.get("recommend.copy_length", "both")
    goal = parts(parse_goal(cfg.get("recommend.goal")))
    entry: ScopePolicy | None = stated
    if entry is None and delay_s is not None and trigger is not None:
        entry = _of_flags(scope, trigger, delay_s, budget, burst, target, cancel)
    head: dict[str, Any] = {"as_of": prepared.as_of, "window": prepared.window, "scope": _scope_of(scope)}
    shown = None if entry is None else scope_document(entry)
    notes = [dict(n) for n in prepared.notes]
    if base.setting is None or base.fit is None:
        return _refused(head, shown, lengths, [*(r.note() for r in base.refused), *notes])
    swept = sweep.sweep(
        base.setting,
        _spec(entry, base.setting.workload),
        cancel=cancel,
        copy_length=lengths,
        routing=base.fleet.routing,
        loads=loads,
        goal=goal,
        progress=progress,
        sent=base.sent,
    )
    return document.document(
        swept,
        base.setting,
        policy=shown,
        cancel=cancel,
        copy_length=lengths,
        routing=base.fleet.routing,
        goal=goal,
        notes=[*base.fit.notes, *base.notes, *notes],
        **head,
    )


def _stated(policy: PolicyDocument | None, prepared: Prepared) -> ScopePolicy | None:
    """The entry of a policy document that speaks for the selection; a single entry speaks for itself."""
    if policy is None:
        return None
    chosen = prepared.selection
    fits = [
        p
        for p in policy.policies
        if (chosen.model is None or p.scope.model in (None, chosen.model))
        and (chosen.route is None or p.scope.route in (None, chosen.route))
    ]
    if len(fits) != 1:
        names = ", ".join(p.scope.name for p in policy.policies) or "none"
        raise UsageError(
            f"the policy has {len(fits)} entries for this selection",
            hint=f"choose one with --model (and --route); the policy speaks for: {names}",
        )
    return fits[0]


def _scope(con: Any, prepared: Prepared, stated: ScopePolicy | None) -> Scope:
    chosen = prepared.selection
    model = chosen.model or (stated.scope.model if stated is not None else None)
    route = chosen.route or (stated.scope.route if stated is not None else None)
    if model is None:
        models = workload.models(con)
        if len(models) > 1:
            raise UsageError(
                f"the log holds {len(models)} models, and engines serve one law each",
                hint=f"choose one with --model: {', '.join(models[:8])}",
            )
        model = models[0] if models else None
    return Scope(model=model, route=route)


def _scope_of(scope: Scope) -> dict[str, Any]:
    return {"model": scope.model, "route": scope.route}


def _of_flags(
    scope: Scope, trigger: str, delay_s: float, budget: float | None, burst: int, target: str, cancel: str
) -> ScopePolicy:
    hedge = Hedge(
        trigger=trigger,
        delay_ms=delay_s * 1e3,
        budget=None if budget is None else Budget(budget, burst),
        target=Target(choose=target),
        cancel=Cancel(assumed=cancel),
        commit=trigger,
    )
    return ScopePolicy(scope, "hedge", hedge=hedge)


def _spec(entry: ScopePolicy | None, w: Workload) -> Spec | None:
    """What the replay obeys; a policy that says "do not hedge" is replayed as what was refused."""
    if entry is None or entry.hedge is None:
        return None
    mask = None
    if entry.eligible or entry.windows_utc:
        mask = eligibility.mask(w, entry.eligible, entry.windows_utc)
    return Spec.of_policy(entry.hedge, entry.suppress_when, mask)


def _refused(
    head: dict[str, Any], policy: dict[str, Any] | None, lengths: str, notes: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "schema": "hedgectl/simulation.v1",
        **head,
        "engine": None,
        "policy": policy,
        "replay_check": {"passed": False, "e2e_ms": {}, "ttft_ms": {}},
        "loads": [],
        "holds_up_to": None,
        "burst": None,
        "worst_of": None,
        "copy_length": {"assumed": lengths, "same": None, "independent": None},
        "sensitivity": [],
        "notes": notes,
    }
