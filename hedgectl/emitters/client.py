"""Remote configuration for edge workers and phone apps: flat camelCase JSON with a kill switch and an expiry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters import _flat
from hedgectl.emitters._plan import common_losses
from hedgectl.emitters._seam import Lint, Loss, Unreadable
from hedgectl.policy import PolicyDocument

TITLE: Final = "remote configuration for edge workers and phone apps (JSON)"
SUFFIX: Final = ".json"
TRAITS: Final = _flat.TRAITS


def supports(policy: PolicyDocument) -> list[Loss]:
    """What an application cannot see, and that each process counts alone."""
    return common_losses(policy, TRAITS, "client") + _flat.losses(policy)


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """Milliseconds and seconds from one integer; hedging off where the decision is not to hedge."""
    return json.dumps(_flat.settings(policy), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def check(text: str) -> list[Lint]:
    """The rules between keys that no JSON Schema can state."""
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    if not isinstance(found, dict):
        raise Unreadable("not a JSON object")
    lints = [
        Lint("missing", "warning", key, f"{key} is not set: {why}")
        for key, why in (("enabled", "there is no kill switch"), ("expiresAt", "an old copy would be used for ever"))
        if key not in found
    ]
    scopes = found.get("scopes", [found])
    for index, each in enumerate(scopes if isinstance(scopes, list) else []):
        if isinstance(each, dict):
            lints += _check_scope(each, f"scopes[{index}]." if each is not found else "")
    return lints


def _check_scope(flat: Mapping[str, Any], path: str) -> list[Lint]:
    lints: list[Lint] = []

    def warn(code: str, key: str, text: str, level: str = "error") -> None:
        lints.append(Lint(code, level, path + key, text))

    after, attempt, total = (
        _number(flat.get(f"{name}Ms")) for name in ("hedgeAfter", "perAttemptTimeout", "totalTimeout")
    )
    for name in ("hedgeAfter", "perAttemptTimeout", "totalTimeout"):
        ms, seconds = _number(flat.get(f"{name}Ms")), _number(flat.get(f"{name}Seconds"))
        if ms is not None and seconds is not None and abs(ms - seconds * 1000) > 0.5:
            warn("units_disagree", f"{name}Seconds", f"{seconds:g} s is not {ms:g} ms")
    if flat.get("enabled") is True and after is None:
        warn("no_delay", "hedgeAfterMs", "enabled without hedgeAfterMs")
    if after is not None and total is not None and after >= total:
        warn(
            "never_hedges", "hedgeAfterMs", f"{after:g} ms is not below totalTimeoutMs {total:g}: no copy is ever sent"
        )
    elif after is not None and attempt is not None and after >= attempt:
        warn("never_hedges", "hedgeAfterMs", f"{after:g} ms is not below perAttemptTimeoutMs {attempt:g}")
    if attempt is not None and total is not None and attempt >= total:
        warn("attempt_not_shorter", "perAttemptTimeoutMs", f"{attempt:g} ms is not below totalTimeoutMs {total:g}")
    attempts = _number(flat.get("maxAttempts"))
    if None not in (after, total, attempts) and after * (attempts - 1) >= total:  # type: ignore[operator]
        warn("no_time_left", "maxAttempts", "the last copy would start at or after the total timeout")
    if flat.get("allowedSegments") == []:
        warn("nobody", "allowedSegments", "an empty list allows nobody", "warning")
    if flat.get("enabled") is True and "budgetPercent" not in flat:
        warn("no_budget", "budgetPercent", "no budget: every slow request is sent twice under saturation", "warning")
    return lints


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
