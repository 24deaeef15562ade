"""gRPC service config with ``hedgingPolicy``: obeyed by Java, Node and .NET; other clients ignore it in silence."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters._grpc_check import check_config
from hedgectl.emitters._plan import Plan, common_losses, merged, plan
from hedgectl.emitters._seam import Lint, Loss, Traits, Unreadable
from hedgectl.emitters._text import seconds_9, seconds_text
from hedgectl.policy import PolicyDocument, ScopePolicy

TITLE: Final = "gRPC service config for Java, Node and .NET (JSON)"
SUFFIX: Final = ".json"
OPTIONS: Final[Mapping[str, str]] = {"service": ""}
TRAITS: Final = Traits(
    sees=frozenset({"response_headers"}),
    whole_answers=True,
    budget=False,
    attempt_timeout=False,
    rules=frozenset({"route"}),
    rules_nearest="not tested: give such calls a method or a channel of their own",
    clock_nearest="two service configs, switched from outside",
    recommend_for="grpc",
    scopes=frozenset({"route"}),
)

# Failures after which the race goes on. Upper case: grpc-java refuses lower. None of them wins.
_NOT_FATAL: Final = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED", "INTERNAL")
_METHOD: Final = re.compile(r"/?([A-Za-z_][\w.]*)(?:/([A-Za-z_]\w*))?")
_MAX_TOKENS: Final = 100
_DEFAULT_ERROR_RATIO: Final = 0.1


def supports(policy: PolicyDocument) -> list[Loss]:
    """No budget (the delay buys it), one clock at headers, names of methods only, and who obeys at all."""
    losses = common_losses(policy, TRAITS, "grpc")
    for group in _groups(policy, OPTIONS).values():
        off = [each for each in group if not each.is_on]
        for each in group:
            losses += _scope_losses(each, off)
    return losses


def _scope_losses(each: ScopePolicy, off: list[ScopePolicy]) -> list[Loss]:
    losses: list[Loss] = []

    def lose(field: str, wanted: str, nearest: str) -> None:
        losses.append(Loss(each.scope.name, field, wanted, nearest))

    if each.scope.route is not None and _method(each.scope.route) is None:
        lose("scope.route", each.scope.route, "not a gRPC method: the default entry")
    if not each.is_on:
        return losses
    if off:
        lose("decision", "hedge", f"off: it shares its entry with {off[0].scope.name}, where hedging is off")
        return losses
    lose("hedge", "every client hedges", "Java, Node and .NET only; Go, Python, C++, Ruby and PHP ignore it")
    lose(
        "hedge.budget",
        "failures send no copies",
        "a failure sends the next attempt at once (Node) or after the delay (Java); retryThrottling stops that in "
        "Java and .NET, not in Node",
    )
    return losses


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """One ``methodConfig`` entry a method; scopes that gRPC cannot tell apart share one, as careful as the strictest."""
    groups = {
        name: merged([plan(each, TRAITS) for each in members]) for name, members in _groups(policy, options).items()
    }
    entries = [_entry(name, each) for name, each in groups.items()]
    entries += [{"name": [_name_json(method)]} for method in _excluded(policy) if method not in groups]
    config: dict[str, Any] = {"methodConfig": entries}
    if any(each.on for each in groups.values()):
        config["retryThrottling"] = {"maxTokens": _MAX_TOKENS, "tokenRatio": _token_ratio(policy)}
    return json.dumps(config, indent=2) + "\n"


def _groups(policy: PolicyDocument, options: Mapping[str, str]) -> dict[tuple[str, str], list[ScopePolicy]]:
    groups: dict[tuple[str, str], list[ScopePolicy]] = {}
    for each in policy.policies:
        groups.setdefault(_name(each, options), []).append(each)
    return groups


def check(text: str) -> list[Lint]:
    """What a client accepts and does not do, or does otherwise than written."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    if not isinstance(found, dict):
        raise Unreadable("not a JSON object")
    return check_config(found)


def _entry(name: tuple[str, str], each: Plan) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": [_name_json(name)]}
    if each.total_ms is not None:
        entry["timeout"] = seconds_9(each.total_ms)
    if each.on:
        entry["hedgingPolicy"] = {
            "maxAttempts": each.extra + 1,
            "hedgingDelay": seconds_text(each.delay_ms),
            "nonFatalStatusCodes": list(_NOT_FATAL),
        }
    return entry


def _name(each: ScopePolicy, options: Mapping[str, str]) -> tuple[str, str]:
    found = None if each.scope.route is None else _method(each.scope.route)
    return found or (options["service"], "")


def _method(route: str) -> tuple[str, str] | None:
    found = _METHOD.fullmatch(route)
    return None if found is None else (found[1], found[2] or "")


def _name_json(name: tuple[str, str]) -> dict[str, str]:
    return {key: text for key, text in (("service", name[0]), ("method", name[1])) if text}


def _excluded(policy: PolicyDocument) -> list[tuple[str, str]]:
    """Methods that the rules keep out: an entry without a policy of their own, which is more specific."""
    found: list[tuple[str, str]] = []
    for each in policy.policies:
        for rule in each.eligible:
            if rule.field == "route" and rule.op in ("!=", "not_in"):
                routes = rule.value if isinstance(rule.value, tuple) else (str(rule.value),)
                found += [method for route in routes if (method := _method(route)) is not None]
    return list(dict.fromkeys(found))


def _token_ratio(policy: PolicyDocument) -> float:
    # Tokens fall by 1 a failure and rise by tokenRatio a success, so they fall below half where the share of
    # failures exceeds r / (1 + r). It is the error limit, never the budget: a copy of a slow call costs no token.
    limits = [s.value for each in policy.policies for s in each.suppress_when if s.signal == "error_ratio"]
    limit = min([*limits, _DEFAULT_ERROR_RATIO]) if limits else _DEFAULT_ERROR_RATIO
    return max(0.001, round(limit / (1 - limit), 3))
