"""What of a policy a target will do: the delay after the budget's price, attempts, deadlines, and the common losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hedgectl.emitters._seam import Loss, Traits
from hedgectl.emitters._text import expires_at
from hedgectl.errors import NotEnoughData
from hedgectl.policy import Hedge, PolicyDocument, Rule, Scope, ScopePolicy


@dataclass(frozen=True, slots=True)
class Plan:
    """One scope, as a target will carry it out. Milliseconds are whole; ``on`` False = the kill switch."""

    policy: ScopePolicy
    on: bool
    delay_ms: int
    extra: int  # copies beyond the first attempt
    total_ms: int | None
    attempt_ms: int | None

    @property
    def scope(self) -> Scope:
        return self.policy.scope


def plan(policy: ScopePolicy, traits: Traits) -> Plan:
    """The numbers a target writes for one scope. A scope that is off has no delay and no copies."""
    hedge = policy.hedge
    if hedge is None or not policy.is_on:
        deadline = hedge.deadline if hedge is not None else None
        total = None if deadline is None else whole_ms(deadline.total_ms)
        return Plan(policy, on=False, delay_ms=0, extra=0, total_ms=total, attempt_ms=None)
    delay = bought_delay_ms(hedge, traits)
    deadline = hedge.deadline
    return Plan(
        policy,
        on=True,
        delay_ms=whole_ms(delay),
        extra=min(hedge.max_attempts, attempts_limit(hedge, traits)) - 1,
        total_ms=None if deadline is None else whole_ms(deadline.total_ms),
        attempt_ms=None if deadline is None or deadline.attempt_ms is None else whole_ms(deadline.attempt_ms),
    )


def whole_ms(value: float) -> int:
    """Whole milliseconds, never 0: to many targets a delay of 0 means something else altogether."""
    return max(1, round(value))


def bought_delay_ms(hedge: Hedge, traits: Traits) -> float:
    """The delay; where the target has no budget, never shorter than the delay that keeps the budget by itself."""
    known = hedge.delays.of(hedge.trigger)
    if traits.budget or hedge.budget is None or known is None or known.at_budget_ms is None:
        return hedge.delay_ms
    return max(hedge.delay_ms, math.ceil(known.at_budget_ms))


def attempts_limit(hedge: Hedge, traits: Traits) -> int:
    """Attempts a target may be told. Without a budget one copy: ``at_budget_ms`` prices one, not several."""
    if not traits.budget and hedge.budget is not None:
        return min(2, traits.max_attempts)
    return traits.max_attempts


def refuse_unseen_trigger(policy: ScopePolicy, traits: Traits, target: str) -> None:
    """Raises NotEnoughData (exit 3) where a hedge waits for something that the target cannot see."""
    hedge = policy.hedge
    if hedge is None or not policy.is_on or not traits.hedges or hedge.trigger in traits.sees:
        return
    if hedge.trigger == "response" and traits.whole_answers and policy.requires("streamed", False):
        return
    seen = " or ".join(sorted(traits.sees))
    raise NotEnoughData(
        f"{target} cannot see {hedge.trigger}: its clock stops at {seen}, so this hedge would fire at another moment "
        "or never",
        where=f"policies: {policy.scope.name}: hedge.trigger",
        hint=f"hedgectl recommend --for {traits.recommend_for} looks for a policy on a clock that {target} has",
    )


def refuse_late_copy(policy: ScopePolicy, traits: Traits, target: str) -> None:
    """Raises NotEnoughData (exit 3) where the delay leaves no attempt to race with: mostly one that buys the budget."""
    hedge = policy.hedge
    if hedge is None or hedge.deadline is None or not policy.is_on or not traits.hedges:
        return
    delay = bought_delay_ms(hedge, traits)
    limit, named = hedge.deadline.total_ms, "deadline"
    if traits.attempt_timeout and hedge.deadline.attempt_ms is not None:
        limit, named = hedge.deadline.attempt_ms, "attempt timeout"
    if whole_ms(delay) >= whole_ms(limit):
        bought = delay > hedge.delay_ms
        why = f"{target} has no budget, and the delay that keeps it there" if bought else "the delay"
        raise NotEnoughData(
            f"{why}, {delay:g} ms, is not below the {named} of {limit:g} ms: no copy would ever race the first attempt",
            where=f"policies: {policy.scope.name}: hedge.{'budget' if bought else 'delay_ms'}",
            hint="a larger budget, a longer deadline, or a target with a budget (hedgectl emit --list)",
        )


def common_losses(document: PolicyDocument, traits: Traits, target: str) -> list[Loss]:
    """Every loss that follows from the traits, scope by scope. Scopes that are off lose nothing."""
    losses: list[Loss] = []
    for policy in document.policies:
        losses += _scope_losses(policy, traits)
        if policy.hedge is not None and policy.is_on:
            losses += _hedge_losses(policy, policy.hedge, traits, target)
    if traits.hedges and not traits.expires and any(policy.is_on for policy in document.policies):
        nearest = f"in force until it is replaced: write it anew before {expires_at(document)}"
        losses.append(Loss("all", "ttl", f"not used after {document.ttl}", nearest))
    return losses


def _scope_losses(policy: ScopePolicy, traits: Traits) -> list[Loss]:
    parts = ("model", "route", "size_class")
    lost = [part for part in parts if getattr(policy.scope, part) is not None and part not in traits.scopes]
    name = policy.scope.name
    return [Loss(name, f"scope.{part}", str(getattr(policy.scope, part)), traits.scopes_nearest) for part in lost]


def _hedge_losses(policy: ScopePolicy, hedge: Hedge, traits: Traits, target: str) -> list[Loss]:
    losses: list[Loss] = []

    def lose(field: str, wanted: str, nearest: str, needed: bool = False) -> None:
        losses.append(Loss(policy.scope.name, field, wanted, nearest, needed))

    if hedge.trigger not in traits.sees and traits.hedges and hedge.trigger == "response":
        lose("hedge.trigger", "response", "response headers, which whole answers send with the answer")
    if traits.hedges:
        losses += _budget_losses(policy, hedge, traits)
        _target_losses(hedge, traits, lose)
    if hedge.deadline is not None and hedge.deadline.attempt_ms is not None and not traits.attempt_timeout:
        lose("hedge.deadline.attempt_ms", f"{hedge.deadline.attempt_ms:g} ms an attempt", "the total deadline only")
    for rule in policy.eligible:
        if traits.rules is not None and rule.field not in traits.rules:
            lose(f"eligible.{rule.field}", rule_text(rule), traits.rules_nearest)
    if policy.windows_utc and not traits.windows:
        lose("windows_utc", f"{len(policy.windows_utc)} windows", f"on at all hours; {traits.clock_nearest}")
    if policy.experiment is not None and not traits.experiment:
        lose("experiment", f"blocks of {policy.experiment.block}", f"always on; {traits.clock_nearest}")
    for entry in policy.suppress_when:
        if entry.signal not in traits.signals:
            lose(
                f"suppress_when.{entry.signal}",
                f"no copies while {entry.signal} {entry.op} {entry.value:g}",
                f"not watched by {target}; an alert and the kill switch",
                needed=entry.source == "replay" and traits.hedges,
            )
    return losses


def _budget_losses(policy: ScopePolicy, hedge: Hedge, traits: Traits) -> list[Loss]:
    losses: list[Loss] = []
    budget = hedge.budget
    limit = attempts_limit(hedge, traits)
    if hedge.max_attempts > limit:
        why = "only one copy is priced by the delay" if not traits.budget else "it sends no more"
        losses.append(
            Loss(policy.scope.name, "hedge.max_attempts", f"{hedge.max_attempts} attempts", f"{limit}: {why}")
        )
    if budget is None:
        return losses
    share = f"copies for at most {budget.ratio:.4g} of requests"
    if not traits.budget:
        known = hedge.delays.of(hedge.trigger)
        if known is None or known.at_budget_ms is None:
            nearest = "no cap at all: the policy does not say which delay would keep the budget"
        elif known.at_budget_ms > hedge.delay_ms:
            nearest = (
                f"delay raised from {hedge.delay_ms:g} to {math.ceil(known.at_budget_ms)} ms, where the budget's share "
                "of requests is slower; this cap disappears under saturation"
            )
        else:
            nearest = f"the delay of {hedge.delay_ms:g} ms keeps it by itself; this cap disappears under saturation"
        losses.append(Loss(policy.scope.name, "hedge.budget", share, nearest))
        return losses
    if not traits.budget_burst:
        losses.append(
            Loss(policy.scope.name, "hedge.budget.burst", f"bursts of {budget.burst} copies", "no bucket of copies")
        )
    if budget.max_concurrent is not None and not traits.budget_in_flight:
        losses.append(
            Loss(
                policy.scope.name,
                "hedge.budget.max_concurrent",
                f"{budget.max_concurrent} copies in flight",
                "no such limit",
            )
        )
    return losses


def _target_losses(hedge: Hedge, traits: Traits, lose: Callable[[str, str, str], None]) -> None:
    goes = hedge.target
    if goes.different_replica and not traits.other_replica:
        lose("hedge.target.different_replica", "the copy goes to another replica", "wherever its balancer sends it")
    if goes.different_pool and not traits.other_pool:
        lose("hedge.target.different_pool", "the copy goes to another pool", "another replica of the same pool")
    if goes.healthy_only and not traits.healthy_only:
        lose("hedge.target.healthy_only", "only healthy replicas", "wherever its balancer sends it")
    if goes.choose not in traits.chooses:
        lose("hedge.target.choose", goes.choose, "as its balancer chooses")


def rule_text(rule: Rule) -> str:
    """A rule in short: ``tools_offered = false``."""
    if isinstance(rule.value, bool):
        value = "true" if rule.value else "false"
    elif isinstance(rule.value, tuple):
        value = "(" + ", ".join(rule.value) + ")"
    elif isinstance(rule.value, float):
        value = f"{rule.value:g}"
    else:
        value = str(rule.value)
    return f"{rule.field} {rule.op.replace('_', ' ')} {value}"


def merged(plans: Sequence[Plan]) -> Plan:
    """One plan for scopes that a target cannot tell apart: off if any is off, else the longest delay, fewest copies."""
    first = plans[0]
    on = all(each.on for each in plans)
    totals = [each.total_ms for each in plans if each.total_ms is not None]
    attempts = [each.attempt_ms for each in plans if each.attempt_ms is not None]
    return replace(
        first,
        on=on,
        delay_ms=max(each.delay_ms for each in plans) if on else 0,
        extra=min(each.extra for each in plans) if on else 0,
        total_ms=max(totals) if totals else None,
        attempt_ms=max(attempts) if attempts else None,
    )
