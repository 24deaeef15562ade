"""Istio: a VirtualService with named routes, an EnvoyFilter that hedges them, a DestinationRule with the budget."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from hedgectl.emitters import _yaml, envoy
from hedgectl.emitters._envoy_check import check_documents
from hedgectl.emitters._plan import common_losses
from hedgectl.emitters._routes import HEADERS, HeaderMatch, Route, losses, routes
from hedgectl.emitters._seam import Lint, Loss, Traits, Unreadable
from hedgectl.emitters._text import header
from hedgectl.policy import PolicyDocument

TITLE: Final = "Istio VirtualService, EnvoyFilter and DestinationRule (YAML)"
SUFFIX: Final = ".yaml"
OPTIONS: Final[Mapping[str, str]] = {
    **HEADERS,
    "name": "llm-hedge",
    "namespace": "default",
    "host": "llm.default.svc.cluster.local",
    "port": "80",
}
TRAITS: Final[Traits] = replace(
    envoy.TRAITS,
    rules=frozenset({"route", "streamed", "segment"}),
    clock_nearest="apply and delete the EnvoyFilter from outside",
)


def supports(policy: PolicyDocument) -> list[Loss]:
    """The losses of Envoy, and that EnvoyFilters are outside Istio's promise of stability."""
    found = common_losses(policy, TRAITS, "istio") + losses(policy, OPTIONS)
    for each in policy.policies:
        hedge = each.hedge
        if hedge is None or not each.is_on:
            continue
        name = each.scope.name
        if hedge.budget is not None:
            nearest = (
                "the same share of the requests in flight in each sidecar by itself, by DestinationRule retryBudget; "
                "an Istio without that key has no cap, and a subset's own trafficPolicy drops it"
            )
            found.append(Loss(name, "hedge.budget.ratio", f"{hedge.budget.ratio:.4g} of requests", nearest))
        found += [
            Loss(name, "hedge", "failures send no copies", "a failure (5xx, reset) is retried at once"),
            Loss(name, "hedge", "bodies of any size", "bodies above the sidecar's buffer (1 MiB) are not hedged"),
        ]
    return found


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """Three resources. Without its EnvoyFilter a route neither hedges nor retries."""
    made = routes(policy, TRAITS, options)
    # the EnvoyFilter is written for "off" too: under the same name it replaces the one that hedges
    documents = [_virtual_service(made, options), _envoy_filter(made, options)]
    if any(route.plan is not None for route in made):
        documents.append(_destination_rule(policy, options))
    return header(policy, "istio", "#") + "---\n".join(map(_yaml.dump, documents))


def check(text: str) -> list[Lint]:
    """Patches that Istio takes and Envoy does not obey, and retries that are mistaken for hedging."""
    documents = [each for each in _yaml.load(text) if isinstance(each, dict)]
    if not any("kind" in each for each in documents):
        raise Unreadable("no Kubernetes resource: there is no kind")
    lints: list[Lint] = []
    hedged = False
    for each in documents:
        spec = each.get("spec")
        if each.get("kind") == "EnvoyFilter" and isinstance(spec, dict):
            found, hedges = _check_filter(spec)
            lints += found
            hedged |= hedges
    if not hedged:
        for each in documents:
            spec = each.get("spec")
            if each.get("kind") == "VirtualService" and isinstance(spec, dict):
                lints += _check_service(spec)
        text = "no EnvoyFilter sets hedge_policy; VirtualService retries give up the first attempt before the second"
        lints.append(Lint("no_hedging", "warning", "EnvoyFilter", text))
    return lints


def _virtual_service(made: list[Route], options: Mapping[str, str]) -> dict[str, Any]:
    http = [_http_route(route, options) for route in made]
    if not any(route.path == "/" and not route.headers for route in made):
        http.append({"name": "rest", "route": _destination(options)})
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": {"name": options["name"], "namespace": options["namespace"]},
        "spec": {"hosts": [options["host"]], "http": http},
    }


def _http_route(route: Route, options: Mapping[str, str]) -> dict[str, Any]:
    match: dict[str, Any] = {}
    if route.path != "/":
        match["uri"] = (
            {"prefix": route.path} if route.path.endswith("/") else {"regex": re.escape(route.path) + "(/.*)?"}
        )
    positive = {each.name: _header(each) for each in route.headers if each.kind != "is_not"}
    negative = {each.name: _header(each) for each in route.headers if each.kind == "is_not"}
    if positive:
        match["headers"] = positive
    if negative:
        match["withoutHeaders"] = negative
    http: dict[str, Any] = {"name": route.name}
    if match:
        http["match"] = [match]
    http["route"] = _destination(options)
    http["timeout"] = "0s" if route.timeout_ms is None else f"{route.timeout_ms}ms"
    # Istio's default retries would be merged with ours; without the EnvoyFilter there must be no cancel-and-retry
    http["retries"] = {"attempts": 0}
    return http


def _destination(options: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"destination": {"host": options["host"], "port": {"number": int(options["port"])}}}]


def _header(each: HeaderMatch) -> dict[str, str]:
    if each.kind == "contains":
        return {"regex": f".*{re.escape(each.values[0])}.*"}
    if len(each.values) == 1:
        return {"exact": each.values[0]}
    return {"regex": "|".join(map(re.escape, each.values))}


def _envoy_filter(made: list[Route], options: Mapping[str, str]) -> dict[str, Any]:
    hedged = [route for route in made if route.plan is not None]
    patches = [
        {
            "applyTo": "HTTP_ROUTE",
            "match": {
                "context": "SIDECAR_OUTBOUND",
                "routeConfiguration": {
                    "vhost": {"name": f"{options['host']}:{options['port']}", "route": {"name": route.name}}
                },
            },
            "patch": {
                "operation": "MERGE",
                "value": {"route": dict(envoy.OFF) if route.plan is None else envoy.route_policies(route.plan)},
            },
        }
        for route in hedged or made
    ]
    return {
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": options["name"], "namespace": options["namespace"]},
        "spec": {"configPatches": patches},
    }


def _destination_rule(policy: PolicyDocument, options: Mapping[str, str]) -> dict[str, Any]:
    # An EnvoyFilter cannot carry the budget: MERGE appends a second threshold, and Envoy uses the first.
    cluster = envoy.cluster_settings(policy)
    budget = cluster["circuit_breakers"]["thresholds"][0]["retry_budget"]
    traffic: dict[str, Any] = {
        "retryBudget": {
            "percent": budget["budget_percent"]["value"],
            "minRetryConcurrency": budget["min_retry_concurrency"],
        }
    }
    if "outlier_detection" in cluster:
        found = cluster["outlier_detection"]
        traffic["outlierDetection"] = {
            "consecutive5xxErrors": found["consecutive_5xx"],
            "interval": found["interval"],
            "baseEjectionTime": found["base_ejection_time"],
            "maxEjectionPercent": found["max_ejection_percent"],
        }
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "DestinationRule",
        "metadata": {"name": options["name"], "namespace": options["namespace"]},
        "spec": {"host": options["host"], "trafficPolicy": traffic},
    }


def _check_filter(spec: dict[str, Any]) -> tuple[list[Lint], bool]:
    lints: list[Lint] = []
    hedges = False
    for index, each in enumerate(spec.get("configPatches") or []):
        if not isinstance(each, dict):
            continue
        where = f"configPatches[{index}].patch.value"
        patch = each.get("patch")
        value = patch.get("value") if isinstance(patch, dict) else None
        if not isinstance(value, dict):
            continue
        breakers = value.get("circuit_breakers")
        if each.get("applyTo") == "CLUSTER" and isinstance(breakers, dict) and "thresholds" in breakers:
            text = "MERGE appends to Istio's own thresholds and Envoy uses the first: use DestinationRule retryBudget"
            lints.append(Lint("second_threshold", "error", f"{where}.circuit_breakers", text))
        if isinstance(value.get("route"), dict) and "hedge_policy" in value["route"]:
            hedges |= value["route"]["hedge_policy"] != {"hedge_on_per_try_timeout": False}
            action = value["route"]
            # the route's timeout stands in the VirtualService, so only what the patch itself says is judged
            for lint in check_documents([{"route": {"timeout": "0s", **action}}]):
                here = f"{where}.{lint.where}"
                if lint.code == "no_retry_policy":
                    text = "the route's own retries must bring perTryTimeout (the delay) and 5xx, or nothing is hedged"
                    lints.append(Lint(lint.code, "warning", here, text))
                else:
                    lints.append(replace(lint, where=here))
    return lints, hedges


def _check_service(spec: dict[str, Any]) -> list[Lint]:
    lints: list[Lint] = []
    for index, each in enumerate(spec.get("http") or []):
        retries = each.get("retries") if isinstance(each, dict) else None
        if isinstance(retries, dict) and retries.get("attempts") and retries.get("perTryTimeout"):
            text = "retries with perTryTimeout give up the first attempt before the second is sent: that is no hedge"
            lints.append(Lint("cancel_and_retry", "warning", f"http[{each.get('name', index)}].retries", text))
    return lints
