"""A policy as an ordered list of HTTP routes, hedged or left alone: what Envoy and Istio can match on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hedgectl.emitters._plan import Plan, merged, plan, rule_text
from hedgectl.emitters._seam import Loss, Traits
from hedgectl.emitters._text import slugs
from hedgectl.policy import PolicyDocument, Rule, ScopePolicy

# A proxy cannot read the body of a request, where model, tools and streaming stand; callers repeat them in headers.
HEADERS: Final[Mapping[str, str]] = {
    "model_header": "x-llm-model",
    "segment_header": "x-llm-segment",
    "route_header": "x-llm-route",
    "opt_out_header": "x-hedge",
}
OPT_OUT: Final = "off"
STREAM: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class HeaderMatch:
    """A header that ``is`` one of the values, ``contains`` the one value, or ``is_not`` any of them (but is there)."""

    name: str
    values: tuple[str, ...]
    kind: str = "is"  # is | contains | is_not


@dataclass(frozen=True, slots=True)
class Route:
    """One route: what it matches, and the plan it hedges by; ``plan`` None = left alone."""

    name: str
    path: str
    headers: tuple[HeaderMatch, ...]
    plan: Plan | None
    timeout_ms: int | None  # None = no limit of the proxy's own
    switch: str  # name of the scope, for a live switch


def routes(document: PolicyDocument, traits: Traits, options: Mapping[str, str]) -> list[Route]:
    """Routes in order of matching: the most specific scope first, within it what is left alone before what is hedged."""
    ordered = sorted(document.policies, key=lambda each: (_breadth(each), -len(each.scope.route or "")))
    groups: dict[tuple[str | None, str | None], list[ScopePolicy]] = {}
    for each in ordered:
        groups.setdefault((each.scope.model, each.scope.route), []).append(each)
    names = slugs([" ".join(part for part in key if part is not None) for key in groups], "_")
    by_model = len({model for model, _ in groups}) > 1
    result: list[Route] = []
    for name, members in zip(names, groups.values(), strict=True):
        result += _scope_routes(members, name, by_model, traits, options)
    return result


def losses(document: PolicyDocument, options: Mapping[str, str]) -> list[Loss]:
    """What becomes a header that callers must send, or a property of all requests of a route."""
    found: list[Loss] = []
    by_model = len({each.scope.model for each in document.policies}) > 1
    for each in document.policies:
        scope = each.scope
        if scope.model is not None:
            nearest = (
                f"callers send it as {options['model_header']}; without that header the scope is not matched"
                if by_model
                else "the body is not read: every request of the route counts as this model"
            )
            found.append(Loss(scope.name, "scope.model", scope.model, nearest))
        if scope.route is not None and not _is_path(scope.route):
            nearest = f"no path: callers send it as {options['route_header']}"
            found.append(Loss(scope.name, "scope.route", scope.route, nearest))
        if not each.is_on:
            continue
        for rule in each.eligible:
            if rule.field == "streamed" and not (rule.op == "=" and rule.value is False):
                nearest = "streams asked for in a body are not told apart: every request of the route is hedged"
                found.append(Loss(scope.name, "eligible.streamed", rule_text(rule), nearest))
            elif rule.field == "streamed":
                nearest = f"requests that accept {STREAM} are left alone; one that asks in its body alone is not seen"
                found.append(Loss(scope.name, "eligible.streamed", "streamed = false", nearest))
            elif rule.field == "segment":
                nearest = f"callers send {options['segment_header']}; what the rule cannot read is not hedged"
                found.append(Loss(scope.name, "eligible.segment", f"segment {rule.op}", nearest))
    return found


def _breadth(each: ScopePolicy) -> int:
    return (each.scope.model is None) + (each.scope.route is None)


def _is_path(route: str) -> bool:
    return route.startswith("/") and not any(letter in route for letter in "?#") and route.isprintable()


def _scope_routes(
    members: list[ScopePolicy], name: str, by_model: bool, traits: Traits, options: Mapping[str, str]
) -> list[Route]:
    # scopes that differ in size alone are one to a proxy: as careful as the most careful, with the rules of all
    each = members[0]
    made = merged([plan(member, traits) for member in members])
    rules = tuple(dict.fromkeys(rule for member in members for rule in member.eligible))
    path, headers = "/", []
    if each.scope.route is not None:
        if _is_path(each.scope.route):
            path = each.scope.route
        else:
            headers.append(HeaderMatch(options["route_header"], (each.scope.route,)))
    if by_model and each.scope.model is not None:
        headers.append(HeaderMatch(options["model_header"], (each.scope.model,)))
    base = tuple(headers)
    if not made.on:
        return [Route(f"{name}_off", path, base, None, made.total_ms, name)]

    result: list[Route] = []

    def alone(suffix: str, at: str, more: tuple[HeaderMatch, ...] = (), timeout: int | None = made.total_ms) -> None:
        result.append(Route(f"{name}_{suffix}", at, base + more, None, timeout, name))

    for index, excluded in enumerate(_excluded_paths(rules), 1):
        # an excluded path has a deadline of its own that the policy knows nothing of
        alone(f"excluded_{index}", excluded, timeout=None)
    alone("opted_out", path, (HeaderMatch(options["opt_out_header"], (OPT_OUT,)),))
    if any(member.requires("streamed", False) for member in members):
        # no deadline either: the proxy's would cut a stream that is still talking
        alone("streams", path, (HeaderMatch("accept", (STREAM,), "contains"),), timeout=None)
    segments = tuple(match for rule in rules if (match := _segment(rule, options)) is not None)
    for index, allowed in enumerate(_allowed_paths(rules) or [path]):
        hedged = f"{name}_hedged" if index == 0 else f"{name}_hedged_{index + 1}"
        result.append(Route(hedged, allowed, base + segments, made, made.total_ms, name))
    alone("rest", path)
    return result


def _segment(rule: Rule, options: Mapping[str, str]) -> HeaderMatch | None:
    if rule.field != "segment":
        return None
    values = rule.value if isinstance(rule.value, tuple) else (str(rule.value),)
    return HeaderMatch(options["segment_header"], values, "is" if rule.op in ("=", "in") else "is_not")


def _paths(rule: Rule) -> list[str]:
    values = rule.value if isinstance(rule.value, tuple) else (str(rule.value),)
    return [value for value in values if _is_path(value)]


def _excluded_paths(rules: tuple[Rule, ...]) -> list[str]:
    return [path for rule in rules if rule.field == "route" and rule.op in ("!=", "not_in") for path in _paths(rule)]


def _allowed_paths(rules: tuple[Rule, ...]) -> list[str]:
    return [path for rule in rules if rule.field == "route" and rule.op in ("=", "in") for path in _paths(rule)]
