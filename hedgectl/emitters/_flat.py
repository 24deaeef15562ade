"""The policy as flat camelCase settings, shared by the targets that run inside an application."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from hedgectl.emitters._plan import Plan, plan
from hedgectl.emitters._seam import Loss, Traits
from hedgectl.emitters._text import expires_at, number, window_texts
from hedgectl.policy import TRIGGERS, Hedge, PolicyDocument, Rule, seconds
from hedgectl.policy.document import CHOICES

# An application sees its own calls and their answers, not the fleet behind the gateway.
TRAITS: Final = Traits(
    sees=frozenset(TRIGGERS),
    budget_burst=True,
    budget_in_flight=True,
    other_replica=True,
    other_pool=True,
    healthy_only=False,
    chooses=frozenset(CHOICES) - {"least_outstanding"},
    rules=None,
    windows=True,
    experiment=True,
    expires=True,
    signals=frozenset({"error_ratio", "hedge_rate"}),
    recommend_for="client",
    scopes=frozenset({"model", "route", "size_class"}),
)
SMALL_BURST: Final = 2


def losses(document: PolicyDocument) -> list[Loss]:
    """What is special to many small processes: each has a budget of its own."""
    found: list[Loss] = []
    for policy in document.policies:
        hedge = policy.hedge
        if hedge is None or not policy.is_on:
            continue
        found += [
            Loss(
                policy.scope.name,
                f"suppress_when.{entry.signal}",
                f"no copies while {entry.signal} {entry.op} {entry.value:g}",
                "only upper limits have a setting: not watched",
                needed=entry.source == "replay",
            )
            for entry in policy.suppress_when
            if entry.signal in TRAITS.signals and entry.op not in (">", ">=")
        ]
        if hedge.budget is None:
            continue
        found.append(
            Loss(
                policy.scope.name,
                "hedge.budget",
                f"{hedge.budget.ratio:.4g} of all requests",
                "each isolate or phone counts its own requests: their budgets do not add up to one of the fleet; "
                f"bursts are cut to {min(hedge.budget.burst, SMALL_BURST)} so that many short-lived ones stay near it",
            )
        )
    return found


def settings(document: PolicyDocument) -> dict[str, Any]:
    """Flat settings of one scope, or, for several, hedging off at the top and one flat object a scope in ``scopes``."""
    plans = [plan(policy, TRAITS) for policy in document.policies]
    top: dict[str, Any] = {
        "schemaVersion": 1,
        "revision": document.revision,
        "policyId": document.policy_id(),
        "issuedAt": document.as_of,
        "ttlSeconds": seconds(document.ttl),
        "expiresAt": expires_at(document),
    }
    if len(plans) == 1:
        return {**top, **_scope(plans[0])}
    # a reader that only knows the flat form finds hedging off; the most specific scope comes first
    ordered = sorted(plans, key=_breadth)
    return {**top, "enabled": False, "scopes": [_scope(each) for each in ordered]}


def _breadth(each: Plan) -> int:
    scope = each.scope
    return sum(part is None for part in (scope.model, scope.route, scope.size_class))


def _scope(each: Plan) -> dict[str, Any]:
    scope = each.scope
    flat: dict[str, Any] = {"enabled": each.on}
    named = (("model", scope.model), ("route", scope.route), ("sizeClass", scope.size_class))
    flat |= {key: text for key, text in named if text is not None}
    hedge = each.policy.hedge
    if each.on and hedge is not None:
        flat |= _hedge(each, hedge)
    return flat


def _hedge(each: Plan, hedge: Hedge) -> dict[str, Any]:
    flat: dict[str, Any] = {
        "hedgeSignal": hedge.trigger,
        **_both("hedgeAfter", each.delay_ms),
        "maxAttempts": each.extra + 1,
    }
    if each.attempt_ms is not None:
        flat |= _both("perAttemptTimeout", each.attempt_ms)
    if each.total_ms is not None:
        flat |= _both("totalTimeout", each.total_ms)
    if hedge.budget is not None:
        flat["budgetPercent"] = number(hedge.budget.ratio * 100)
        flat["budgetBurst"] = min(hedge.budget.burst, SMALL_BURST)
        if hedge.budget.max_concurrent is not None:
            flat["budgetMaxConcurrent"] = hedge.budget.max_concurrent
    flat["differentReplica"] = hedge.target.different_replica
    flat["differentPool"] = hedge.target.different_pool
    flat |= rules(each.policy.eligible)
    policy = each.policy
    if policy.windows_utc:
        flat["hedgeWindowsUtc"] = window_texts(policy.windows_utc)
    for entry in policy.suppress_when:
        if entry.signal in TRAITS.signals and entry.op in (">", ">="):
            key = "suppressOnErrorPercent" if entry.signal == "error_ratio" else "suppressOnHedgePercent"
            flat[key] = min(number(entry.value * 100), flat.get(key, float("inf")))
    if policy.experiment is not None:
        flat["experimentKind"] = policy.experiment.kind
        flat["experimentBlockSeconds"] = seconds(policy.experiment.block)
        flat["experimentSeed"] = policy.experiment.seed
    return flat


def _both(name: str, ms: int) -> dict[str, Any]:
    # milliseconds for JavaScript, seconds for Swift, from one integer: they cannot disagree
    return {f"{name}Ms": ms, f"{name}Seconds": ms / 1000}


def _is(op: str, value: bool) -> Callable[[Rule], Any]:
    return lambda rule: True if rule.op == op and rule.value is value else None


def _at_most(rule: Rule) -> Any:
    if rule.op == "<=" and isinstance(rule.value, float):
        return number(rule.value)
    return None


def _below(rule: Rule) -> Any:
    return number(rule.value) if rule.op == "<" and isinstance(rule.value, float) else None


def _one_of(rule: Rule) -> Any:
    if rule.op == "in" and isinstance(rule.value, tuple):
        return list(rule.value)
    return [rule.value] if rule.op == "=" and isinstance(rule.value, str) else None


def _none_of(rule: Rule) -> Any:
    if rule.op == "not_in" and isinstance(rule.value, tuple):
        return list(rule.value)
    return [rule.value] if rule.op == "!=" and isinstance(rule.value, str) else None


def _choices(rule: Rule) -> Any:
    return 1 if rule.op == "=" and rule.value == 1.0 else _at_most(rule)


# field -> setting and how to say it; the first that can say the rule is used
_SAYS: Final[dict[str, tuple[tuple[str, Callable[[Rule], Any]], ...]]] = {
    "streamed": (("excludeStreaming", _is("=", False)), ("onlyStreaming", _is("=", True))),
    "tools_offered": (("excludeToolCalls", _is("=", False)),),
    "tool_names": (("allowedTools", _one_of), ("excludedTools", _none_of)),
    "cache_hit": (("excludeCacheHits", _is("=", False)),),
    "stored_state": (("excludeStoredState", _is("=", False)),),
    "sticky_session": (("excludeStickySessions", _is("=", False)),),
    "batch": (("excludeBatch", _is("=", False)),),
    "n_choices": (("maxChoices", _choices),),
    "prompt_tokens": (("maxPromptTokens", _at_most),),
    "cached_ratio": (("maxCachedRatio", _at_most), ("cachedRatioBelow", _below)),
    "segment": (("allowedSegments", _one_of), ("excludedSegments", _none_of)),
    "route": (("allowedPaths", _one_of), ("excludedPaths", _none_of)),
}


def rules(given: tuple[Rule, ...]) -> dict[str, Any]:
    """The rules of eligibility as settings; those without a setting of their own under ``otherRules``."""
    flat: dict[str, Any] = {}
    others: list[dict[str, Any]] = []
    for rule in given:
        for key, say in _SAYS.get(rule.field, ()):
            said = say(rule)
            if said is not None and key not in flat:
                flat[key] = said
                break
        else:
            value = list(rule.value) if isinstance(rule.value, tuple) else rule.value
            others.append({"field": rule.field, "op": rule.op, "value": value})
    if others:
        flat["otherRules"] = others
    return flat
