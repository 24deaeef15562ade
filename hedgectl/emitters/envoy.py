"""Envoy: hedge and retry policy of routes, retry budget and outlier detection of the cluster; or a whole bootstrap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from hedgectl.emitters import _yaml
from hedgectl.emitters._envoy_check import check_documents
from hedgectl.emitters._plan import Plan, common_losses
from hedgectl.emitters._routes import HEADERS, HeaderMatch, Route, losses, routes
from hedgectl.emitters._seam import Lint, Loss, Traits
from hedgectl.emitters._text import header, number, seconds_text
from hedgectl.errors import UsageError
from hedgectl.policy import PolicyDocument, ScopePolicy

TITLE: Final = "Envoy routes and cluster (YAML snippet; --full: a whole bootstrap)"
SUFFIX: Final = ".yaml"
FORMS: Final = ("snippet", "full")
OPTIONS: Final[Mapping[str, str]] = {
    **HEADERS,
    "cluster": "llm_backends",
    "listen": "127.0.0.1:10000",
    "admin": "127.0.0.1:9901",
    "endpoints": "127.0.0.1:8001,127.0.0.1:8002",
    "body_limit_bytes": "4194304",
}
TRAITS: Final = Traits(
    sees=frozenset({"response_headers"}),
    whole_answers=True,
    attempt_timeout=False,  # per_try_timeout is the hedge delay
    other_replica=True,
    healthy_only=True,
    # streamed and segment by header (_routes.losses says so), request_bytes by the buffer
    rules=frozenset({"route", "streamed", "segment", "request_bytes"}),
    rules_nearest="the body is not read: callers mark such requests with x-hedge: off",
    clock_nearest="the runtime key of the scope switches it off and on while Envoy runs",
    recommend_for="envoy",
    scopes=frozenset({"model", "route"}),
)

# Without 5xx a late 503 of the slow first attempt would be returned although its copy is about to succeed.
RETRY_ON: Final = "5xx,reset,connect-failure,refused-stream"
_ATTEMPTS_TO_FIND_ANOTHER: Final = 3
_TYPES: Final = "type.googleapis.com/envoy.extensions"


def supports(policy: PolicyDocument) -> list[Loss]:
    """What Envoy does otherwise: budget of concurrent requests, headers for what stands in bodies, 5xx retried."""
    found = common_losses(policy, TRAITS, "envoy") + losses(policy, OPTIONS)
    for each in policy.policies:
        hedge = each.hedge
        if hedge is None or not each.is_on:
            continue
        name = each.scope.name
        if hedge.budget is not None:
            share = number(hedge.budget.ratio * 100)
            need = int(-(-1 // hedge.budget.ratio))
            found.append(
                Loss(
                    name,
                    "hedge.budget.ratio",
                    f"{share} % of requests",
                    f"{share} % of the requests in flight in each Envoy by itself, and one copy below {need} in flight"
                    f"{_crowd(policy, each, need)}; retries of failures share it",
                )
            )
        found.append(
            Loss(
                name, "hedge", "failures send no copies", "a failure (5xx, reset) is retried at once, within the budget"
            )
        )
        if hedge.max_attempts > 2 and hedge.target.different_replica:
            nearest = "hosts repeat where there are fewer hosts than attempts"
            found.append(Loss(name, "hedge.target.different_replica", "another replica each time", nearest))
        if _body_limit(policy) is None:
            limit = int(OPTIONS["body_limit_bytes"])
            found.append(
                Loss(
                    name,
                    "hedge",
                    "bodies of any size",
                    f"bodies above {limit} bytes are not hedged (--set body_limit_bytes)",
                )
            )
    ratios = {each.hedge.budget.ratio for each in policy.policies if each.is_on and each.hedge and each.hedge.budget}
    if len(ratios) > 1:
        found.append(
            Loss("all", "hedge.budget", "a budget for each scope", "one for the cluster, the smallest of them")
        )
    return found


def _crowd(document: PolicyDocument, policy: ScopePolicy, need: int) -> str:
    """Whether the budget is too small for the concurrency of the log (arrival rate x median time, Little's law)."""
    arm = (policy.projection or {}).get("unhedged")
    e2e = arm.get("e2e_ms") if isinstance(arm, dict) else None
    try:
        begin, end = (datetime.fromisoformat(document.window[key]) for key in ("from", "to"))
        in_flight = arm["logical_requests"] / (end - begin).total_seconds() * e2e["p50"] / 1000  # type: ignore[index]
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return ""
    if in_flight >= need:
        return ""
    return f" (the log has about {in_flight:.2g}, so this floor decides and not the share)"


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """``virtual_host`` and ``cluster`` to merge into one's own, or (``full``) a bootstrap that runs as it is."""
    top = header(policy, "envoy", "#")
    host = virtual_host(policy, options)
    cluster = cluster_settings(policy)
    if form == "full":
        return top + _yaml.dump(_bootstrap(host, cluster, options))
    return (
        top
        + "# Merge virtual_host into your virtual host, its routes before your own, and cluster into your cluster.\n"
        + "# The routes name a cluster: --set cluster=NAME writes the name of yours.\n"
        + "# Each hedged route has a switch: curl -X POST ADMIN/runtime_modify?KEY=0 (needs an admin layer).\n"
        + _yaml.dump({"virtual_host": host, "cluster": cluster})
    )


def check(text: str) -> list[Lint]:
    """What Envoy calls OK and then does not do; a whole bootstrap, a snippet, or any part of one."""
    return check_documents(_yaml.load(text))


def virtual_host(policy: PolicyDocument, options: Mapping[str, str]) -> dict[str, Any]:
    """The keys of a virtual host: how much body is kept for a copy, and the routes."""
    limit = options["body_limit_bytes"]
    if not limit.isdigit() or not 0 < int(limit) < 2**32:
        raise UsageError(f"{limit} is no number of bytes", where="--set body_limit_bytes=...")
    return {
        "request_body_buffer_limit": _body_limit(policy) or int(limit),
        "include_request_attempt_count": True,
        "routes": [_route(each, options) for each in routes(policy, TRAITS, options)],
    }


def _body_limit(policy: PolicyDocument) -> int | None:
    """The smallest ``request_bytes <=`` of the rules: a body above the buffer is not hedged."""
    limits = [
        int(rule.value)
        for each in policy.policies
        for rule in each.eligible
        if each.is_on and rule.field == "request_bytes" and rule.op == "<=" and isinstance(rule.value, float)
    ]
    return max(1, min(limits)) if limits else None


def cluster_settings(policy: PolicyDocument) -> dict[str, Any]:
    """The keys of a cluster: the budget (it overrides ``max_retries``) and ejection of failing hosts."""
    hedges = [each.hedge for each in policy.policies if each.is_on and each.hedge is not None]
    if not hedges:
        return {}
    budgets = [hedge.budget.ratio for hedge in hedges if hedge.budget is not None]
    percent = float(number(min(budgets) * 100)) if budgets else 100.0
    settings: dict[str, Any] = {
        "circuit_breakers": {
            "thresholds": [
                {
                    "priority": "DEFAULT",
                    "retry_budget": {"budget_percent": {"value": percent}, "min_retry_concurrency": 1},
                }
            ]
        }
    }
    if any(hedge.target.healthy_only for hedge in hedges):
        settings["outlier_detection"] = {
            "consecutive_5xx": 5,
            "interval": "10s",
            "base_ejection_time": "30s",
            "max_ejection_percent": 50,
        }
    return settings


def route_policies(plan: Plan) -> dict[str, Any]:
    """The retry and hedge policy of a hedged route: ``per_try_timeout`` is the delay, copies count as retries."""
    retry: dict[str, Any] = {
        "retry_on": RETRY_ON,
        "num_retries": plan.extra,
        "per_try_timeout": seconds_text(plan.delay_ms),
    }
    hedge = plan.policy.hedge
    if hedge is not None and hedge.target.different_replica:
        retry["retry_host_predicate"] = [
            {
                "name": "envoy.retry_host_predicates.previous_hosts",
                "typed_config": {"@type": f"{_TYPES}.retry.host.previous_hosts.v3.PreviousHostsPredicate"},
            }
        ]
        retry["host_selection_retry_max_attempts"] = _ATTEMPTS_TO_FIND_ANOTHER
    return {"retry_policy": retry, "hedge_policy": {"hedge_on_per_try_timeout": True}}


# a policy of the virtual host would be inherited, so "off" is said
OFF: Final[Mapping[str, Any]] = {"hedge_policy": {"hedge_on_per_try_timeout": False}}


def _route(route: Route, options: Mapping[str, str]) -> dict[str, Any]:
    match: dict[str, Any] = _path(route.path)
    if route.headers:
        match["headers"] = [_header(each) for each in route.headers]
    if route.plan is not None:
        match["runtime_fraction"] = {
            "default_value": {"numerator": 100, "denominator": "HUNDRED"},
            "runtime_key": f"hedgectl.{route.switch}",
        }
    action: dict[str, Any] = {
        "cluster": options["cluster"],
        # 0s = no limit; without it Envoy's own default of 15 s would end long answers
        "timeout": "0s" if route.timeout_ms is None else seconds_text(route.timeout_ms),
        **(OFF if route.plan is None else route_policies(route.plan)),
    }
    return {"name": route.name, "match": match, "route": action}


def _path(path: str) -> dict[str, Any]:
    # /v1/chat must not match /v1/chatter
    return {"prefix": path} if path.endswith("/") else {"path_separated_prefix": path}


def _header(each: HeaderMatch) -> dict[str, Any]:
    if each.kind == "contains":
        return {"name": each.name, "string_match": {"contains": each.values[0]}}
    if len(each.values) == 1:
        matcher: dict[str, Any] = {"exact": each.values[0]}
    else:
        matcher = {"safe_regex": {"regex": "|".join(re.escape(value) for value in each.values)}}
    found: dict[str, Any] = {"name": each.name, "string_match": matcher}
    if each.kind == "is_not":
        found["invert_match"] = True
    return found


def _bootstrap(host: dict[str, Any], cluster: dict[str, Any], options: Mapping[str, str]) -> dict[str, Any]:
    name = options["cluster"]
    host = {"name": "llm", "domains": ["*"], **host}
    if not any(route["match"] == {"prefix": "/"} for route in host["routes"]):
        host["routes"] = [
            *host["routes"],
            {"name": "rest", "match": {"prefix": "/"}, "route": {"cluster": name, **OFF}},
        ]
    manager = {
        "@type": f"{_TYPES}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "llm",
        "route_config": {"name": "llm_routes", "virtual_hosts": [host]},
        "http_filters": [
            {
                "name": "envoy.filters.http.router",
                "typed_config": {"@type": f"{_TYPES}.filters.http.router.v3.Router"},
            }
        ],
    }
    filters = [{"name": "envoy.filters.network.http_connection_manager", "typed_config": manager}]
    listener = {
        "name": "llm",
        "address": _address(options["listen"], "listen"),
        "filter_chains": [{"filters": filters}],
    }
    endpoints = [{"endpoint": {"address": _address(each, "endpoints")}} for each in options["endpoints"].split(",")]
    return {
        "static_resources": {
            "listeners": [listener],
            "clusters": [
                {
                    "name": name,
                    "type": "STATIC",
                    "connect_timeout": "1s",
                    **cluster,
                    "load_assignment": {"cluster_name": name, "endpoints": [{"lb_endpoints": endpoints}]},
                }
            ],
        },
        "layered_runtime": {"layers": [{"name": "admin", "admin_layer": {}}]},
        "admin": {"address": _address(options["admin"], "admin")},
    }


def _address(text: str, option: str) -> dict[str, Any]:
    host, _, port = text.strip().rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UsageError(f"{text} is not ADDRESS:PORT", where=f"--set {option}=...", hint="for example 127.0.0.1:10000")
    return {"socket_address": {"address": host.strip("[]"), "port_value": int(port)}}
