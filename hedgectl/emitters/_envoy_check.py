"""What Envoy accepts in silence and then does not do, each found by running Envoy 1.40."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from hedgectl.emitters._seam import Lint, Unreadable

_DEFAULT_TIMEOUT_S: Final = 15.0
_DEFAULT_FLOOR: Final = 3
_DEFAULT_PERCENT: Final = 20.0
_KNOWN: Final = frozenset(
    {
        "5xx",
        "gateway-error",
        "reset",
        "reset-before-request",
        "connect-failure",
        "envoy-ratelimited",
        "retriable-4xx",
        "refused-stream",
        "retriable-status-codes",
        "retriable-headers",
        "http3-post-connect-failure",
        "cancelled",
        "deadline-exceeded",
        "internal",
        "resource-exhausted",
        "unavailable",
    }
)
_SERVER_ERRORS: Final = frozenset({"5xx", "gateway-error"})


def check_documents(documents: list[Any]) -> list[Lint]:
    """Lints of a bootstrap, a snippet, a virtual host, a route, a cluster or a list of any of them."""
    if not any(isinstance(each, dict | list) for each in documents):
        raise Unreadable("no YAML mapping or list")
    lints: list[Lint] = []
    nodes = [node for each in documents for node in _walk(_snake(each), "")]
    hedged = False
    buffered = any("per_connection_buffer_limit_bytes" in node for _, node in nodes)
    for path, node in nodes:
        if "routes" in node and isinstance(node["routes"], list):
            found, hedges = _virtual_host(node, path, buffered)
            lints += found
            hedged |= hedges
        if "thresholds" in node and isinstance(node["thresholds"], list):
            lints += _thresholds(node["thresholds"], f"{path}.thresholds")
        if node.get("use_remote_address") is True and "internal_address_config" in node:
            text = "internal callers can switch hedging on by x-envoy-hedge-on-per-try-timeout and its kin"
            lints.append(Lint("internal_headers", "warning", path, text))
    for path, node in _loose_actions(nodes):
        lints += _action(node, path, {})
        hedged |= _hedges(node.get("hedge_policy"))
    clusters = [(path, node) for path, node in nodes if "load_assignment" in node or path.endswith("cluster")]
    if hedged:
        lints += [
            Lint(
                "no_budget",
                "warning",
                f"{path}.circuit_breakers",
                "no retry_budget: at most max_retries (3) copies at once",
            )
            for path, node in clusters
            if "circuit_breakers" not in node
        ]
    elif not any("routes" in node or "hedge_policy" in node for _, node in nodes):
        lints.append(Lint("no_hedging", "warning", "hedge_policy", "there is no hedge_policy: nothing is hedged"))
    return [replace(lint, where=_short(lint.where)) for lint in lints]


def _short(path: str) -> str:
    """A path without the filter chains that every bootstrap has above its virtual hosts."""
    return re.sub(r"^.*\.(?=virtual_hosts\[|clusters\[)", "", path)


def _snake(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), str(key)): _snake(value)
            for key, value in node.items()
        }
    return [_snake(item) for item in node] if isinstance(node, list) else node


def _walk(node: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        yield path, node
        for key, value in node.items():
            yield from _walk(value, f"{path}.{key}" if path else key)
    elif isinstance(node, list):
        for index, value in enumerate(node):
            name = value.get("name") if isinstance(value, dict) else None
            yield from _walk(value, f"{path}[{name if isinstance(name, str) else index}]")


def _loose_actions(nodes: list[tuple[str, dict[str, Any]]]) -> list[tuple[str, dict[str, Any]]]:
    """Route actions that do not stand in a virtual host: a snippet of a route, or a patch."""
    hosts = [path for path, node in nodes if isinstance(node.get("routes"), list)]
    return [
        (path, node)
        for path, node in nodes
        if ("hedge_policy" in node or "retry_policy" in node)
        and not isinstance(node.get("routes"), list)
        and not any(path.startswith(f"{host}.routes" if host else "routes") for host in hosts)
    ]


def _virtual_host(host: dict[str, Any], path: str, buffered: bool) -> tuple[list[Lint], bool]:
    lints: list[Lint] = []
    hedges = False
    for index, route in enumerate(host["routes"]):
        if not isinstance(route, dict) or not isinstance(route.get("route"), dict):
            continue
        where = f"{path + '.' if path else ''}routes[{route.get('name', index)}].route"
        lints += _action(route["route"], where, host)
        hedges |= _hedges(route["route"].get("hedge_policy", host.get("hedge_policy")))
    if hedges and not buffered and "request_body_buffer_limit" not in host:
        text = "no request_body_buffer_limit: bodies above 1 MiB are not hedged"
        lints.append(Lint("body_buffer", "warning", path or "virtual host", text))
    return lints, hedges


def _hedges(policy: Any) -> bool:
    # "yes" in quotes is taken as true by Envoy
    return isinstance(policy, dict) and policy.get("hedge_on_per_try_timeout") not in (None, False, "false", "no", "")


def _action(action: dict[str, Any], path: str, host: Mapping[str, Any]) -> list[Lint]:
    hedge = action.get("hedge_policy", host.get("hedge_policy"))
    if not isinstance(hedge, dict):
        return []
    here = f"{path}.hedge_policy"
    lints = [
        Lint("not_implemented", "error", f"{here}.{key}", f"{key} is accepted and does nothing")
        for key in ("initial_requests", "additional_request_chance")
        if key in hedge and hedge[key] != 1
    ]
    if isinstance(hedge.get("hedge_on_per_try_timeout"), str):
        text = "a text, not true or false: other readers refuse it"
        lints.append(Lint("quoted_bool", "warning", f"{here}.hedge_on_per_try_timeout", text))
    if not _hedges(hedge):
        return lints
    retry = action.get("retry_policy", host.get("retry_policy"))
    if not isinstance(retry, dict):
        text = "hedge_policy without retry_policy: nothing is hedged"
        return [*lints, Lint("no_retry_policy", "error", f"{path}.retry_policy", text)]
    return lints + _retry(retry, f"{path}.retry_policy", _timeout_s(action))


def _retry(retry: dict[str, Any], path: str, timeout_s: float) -> list[Lint]:
    lints: list[Lint] = []

    def lint(code: str, key: str, text: str, level: str = "error") -> None:
        lints.append(Lint(code, level, f"{path}.{key}", text))

    words = {word.strip() for word in str(retry.get("retry_on", "")).split(",")} - {""}
    if not words & _KNOWN:
        lint("no_retry_on", "retry_on", "no condition that Envoy knows: nothing is hedged")
    elif not words & _SERVER_ERRORS:
        lint("no_5xx", "retry_on", "without 5xx a late error of the first attempt beats a copy that would succeed")
    if words - _KNOWN and words & _KNOWN:
        lint("unknown_word", "retry_on", f"{', '.join(sorted(words - _KNOWN))}: not known, ignored", "warning")
    if retry.get("num_retries") == 0:
        lint("no_copies", "num_retries", "0 retries: nothing is hedged")
    per_try = _seconds(retry.get("per_try_timeout"))
    if per_try is None or per_try == 0:
        lint("no_delay", "per_try_timeout", "no per_try_timeout, which is the hedge delay: nothing is hedged")
    elif per_try >= timeout_s:
        lint("never_hedges", "per_try_timeout", f"{per_try:g} s is not below the timeout of {timeout_s:g} s")
    if "retry_host_predicate" not in retry:
        lint("same_host", "retry_host_predicate", "no previous_hosts: the copy may go to the same host", "warning")
    return lints


def _timeout_s(action: Mapping[str, Any]) -> float:
    found = _seconds(action.get("timeout"))
    if found is None:
        return _DEFAULT_TIMEOUT_S
    return math.inf if found == 0 else found


def _seconds(found: Any) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d{1,9})?)s", found) if isinstance(found, str) else None
    return None if match is None else float(match[1])


def _thresholds(thresholds: list[Any], path: str) -> list[Lint]:
    lints: list[Lint] = []
    seen: set[Any] = set()
    for index, each in enumerate(thresholds):
        if not isinstance(each, dict):
            continue
        where = f"{path}[{index}]"
        priority = each.get("priority", "DEFAULT")
        if priority in seen:
            text = f"a second entry of priority {priority}: only the first is used"
            lints.append(Lint("second_threshold", "error", where, text))
        seen.add(priority)
        budget = each.get("retry_budget")
        if isinstance(budget, dict):
            lints += _budget(budget, f"{where}.retry_budget")
            if "max_retries" in each:
                text = "max_retries is overridden by retry_budget"
                lints.append(Lint("overridden", "warning", f"{where}.max_retries", text))
    return lints


def _budget(budget: dict[str, Any], path: str) -> list[Lint]:
    percent = budget.get("budget_percent", {"value": _DEFAULT_PERCENT})
    value = percent.get("value", 0.0) if isinstance(percent, dict) else None
    if not isinstance(value, int | float) or not 0 <= value <= 100:
        text = f"{percent!r} is refused: {{value: x}} with x from 0 to 100"
        return [Lint("bad_percent", "error", f"{path}.budget_percent", text)]
    floor = budget.get("min_retry_concurrency", _DEFAULT_FLOOR)
    if not isinstance(floor, int):
        return []
    where = f"{path}.min_retry_concurrency"
    if floor == 0:
        need = "no number of" if value == 0 else f"fewer than {math.ceil(100 / value)}"
        text = f"0: with {need} requests in flight no copy is sent at all" if value else "0 with 0 %: nothing is hedged"
        return [Lint("budget_too_small", "error" if not value else "warning", where, text)]
    if floor > 1 and value:
        until = math.ceil(floor * 100 / value)
        text = f"{floor} copies at once are always allowed: above {value:g} % below {until} requests in flight"
        return [Lint("floor_decides", "warning", where, text)]
    return []
