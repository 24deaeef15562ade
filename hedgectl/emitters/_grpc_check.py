"""What gRPC clients accept in a service config and then do otherwise, each found by running grpc-js and grpc-java."""

from __future__ import annotations

import re
from typing import Any, Final

from hedgectl.emitters._seam import Lint

_DURATION: Final = re.compile(r"(\d+)(?:\.(\d{1,9}))?s")
_CODES: Final = frozenset(
    {
        "OK",
        "CANCELLED",
        "UNKNOWN",
        "INVALID_ARGUMENT",
        "DEADLINE_EXCEEDED",
        "NOT_FOUND",
        "ALREADY_EXISTS",
        "PERMISSION_DENIED",
        "RESOURCE_EXHAUSTED",
        "FAILED_PRECONDITION",
        "ABORTED",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
        "INTERNAL",
        "UNAVAILABLE",
        "DATA_LOSS",
        "UNAUTHENTICATED",
    }
)
_HEDGING_KEYS: Final = frozenset({"maxAttempts", "hedgingDelay", "nonFatalStatusCodes"})
_MOST_ATTEMPTS: Final = 5


def check_config(config: dict[str, Any]) -> list[Lint]:
    """Lints of a decoded service config."""
    lints: list[Lint] = []
    entries = config.get("methodConfig")
    if not isinstance(entries, list):
        return [Lint("no_methods", "error", "methodConfig", "there is no methodConfig list: nothing is configured")]
    seen: dict[tuple[Any, Any], int] = {}
    for index, entry in enumerate(entries):
        where = f"methodConfig[{index}]"
        if not isinstance(entry, dict):
            lints.append(Lint("not_an_object", "error", where, "an entry is not an object"))
            continue
        lints += _names(entry, where, index, seen)
        lints += _entry(entry, where)
    lints += _throttling(config.get("retryThrottling"))
    if not any(isinstance(entry, dict) and "hedgingPolicy" in entry for entry in entries):
        lints.append(Lint("no_hedging", "warning", "methodConfig", "no entry has a hedgingPolicy: hedging is off"))
    return lints


def _names(entry: dict[str, Any], where: str, index: int, seen: dict[tuple[Any, Any], int]) -> list[Lint]:
    lints: list[Lint] = []
    for name in entry.get("name") or []:
        if not isinstance(name, dict):
            continue
        key = (name.get("service", ""), name.get("method", ""))
        if key[1] and not key[0]:
            lints.append(Lint("method_alone", "error", f"{where}.name", "a method without a service is refused"))
        if key in seen:
            lints.append(
                Lint(
                    "twice",
                    "error",
                    f"{where}.name",
                    f"{key[0]}/{key[1]} is also in methodConfig[{seen[key]}]: refused",
                )
            )
        seen.setdefault(key, index)
    return lints


def _entry(entry: dict[str, Any], where: str) -> list[Lint]:
    lints: list[Lint] = []
    total = _seconds(entry.get("timeout"))
    if "timeout" in entry:
        lints += _timeout(entry["timeout"], f"{where}.timeout")
    policy = entry.get("hedgingPolicy")
    if policy is None:
        return lints
    here = f"{where}.hedgingPolicy"
    if not isinstance(policy, dict):
        return [*lints, Lint("not_an_object", "error", here, "hedgingPolicy is not an object")]
    if "retryPolicy" in entry:
        lints.append(Lint("two_policies", "error", here, "hedgingPolicy and retryPolicy exclude each other: refused"))
    lints += [
        Lint("unknown_key", "warning", f"{here}.{key}", f"{key} is dropped in silence")
        for key in policy
        if key not in _HEDGING_KEYS
    ]
    lints += _attempts(policy.get("maxAttempts"), f"{here}.maxAttempts")
    delay = _seconds(policy.get("hedgingDelay"))
    if "hedgingDelay" not in policy:
        text = "hedgingDelay is missing: Node sends all attempts at once, Java refuses"
        lints.append(Lint("no_delay", "error", f"{here}.hedgingDelay", text))
    elif delay is None:
        text = f"{policy['hedgingDelay']!r} is refused: a text like 1.850s, at most nine decimals"
        lints.append(Lint("bad_duration", "error", f"{here}.hedgingDelay", text))
    elif delay == 0:
        lints.append(Lint("at_once", "warning", f"{here}.hedgingDelay", "0 s: all attempts start at once"))
    elif total is not None and delay >= total:
        text = f"{delay:g} s is not below the timeout of {total:g} s: no copy is ever sent"
        lints.append(Lint("never_hedges", "error", f"{here}.hedgingDelay", text))
    return lints + _codes(policy.get("nonFatalStatusCodes", []), f"{here}.nonFatalStatusCodes")


def _attempts(found: Any, where: str) -> list[Lint]:
    if not isinstance(found, int) or isinstance(found, bool) or found < 2:
        return [Lint("bad_attempts", "error", where, f"{found!r} is refused: a whole number of at least 2")]
    if found > _MOST_ATTEMPTS:
        return [Lint("clamped", "warning", where, f"{found} attempts: only {_MOST_ATTEMPTS} are sent")]
    return []


def _codes(found: Any, where: str) -> list[Lint]:
    if not isinstance(found, list):
        return [Lint("codes_ignored", "error", where, "not a list: Node accepts it and ignores it")]
    lints: list[Lint] = []
    for code in found:
        if isinstance(code, int) and 0 <= code <= 16:
            continue
        if isinstance(code, str) and code in _CODES:
            continue
        known = isinstance(code, str) and code.upper() in _CODES
        text = f"{code!r}: Java refuses lower case" if known else f"{code!r} is no status"
        lints.append(Lint("bad_code", "error", where, text))
    return lints


def _timeout(found: Any, where: str) -> list[Lint]:
    match = _DURATION.fullmatch(found) if isinstance(found, str) else None
    if match is None:
        return [Lint("bad_duration", "error", where, f"{found!r} is refused: a text like 20.000000000s")]
    decimals = match[2]
    if decimals is not None and len(decimals) < 9:
        text = f"{found}: Node reads the decimals as nanoseconds ({int(decimals)} ns); write nine of them"
        return [Lint("nine_decimals", "error", where, text)]
    return []


def _throttling(found: Any) -> list[Lint]:
    if not isinstance(found, dict):
        return []
    where = "retryThrottling"
    lints: list[Lint] = []
    tokens, ratio = found.get("maxTokens"), found.get("tokenRatio")
    if not isinstance(tokens, int | float) or not 0 < tokens <= 1000:
        lints.append(Lint("bad_tokens", "error", f"{where}.maxTokens", f"{tokens!r} is refused: above 0, at most 1000"))
    if not isinstance(ratio, int | float) or ratio <= 0:
        lints.append(Lint("bad_ratio", "error", f"{where}.tokenRatio", f"{ratio!r} is refused: above 0"))
    elif round(ratio, 3) != ratio:
        text = f"{ratio!r}: three decimals are kept, rounded by Node and cut by others"
        lints.append(Lint("three_decimals", "warning", f"{where}.tokenRatio", text))
    return lints


def _seconds(found: Any) -> float | None:
    match = _DURATION.fullmatch(found) if isinstance(found, str) else None
    return None if match is None else float(f"{match[1]}.{match[2] or 0}")
