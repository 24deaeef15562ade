"""The policy as TOML, for services that keep their settings in it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters._seam import CARRIES_ALL, Lint, Loss, Unreadable
from hedgectl.emitters._text import expires_at, header, quoted
from hedgectl.policy import PolicyDocument, ScopePolicy, scope_document

TITLE: Final = "TOML"
SUFFIX: Final = ".toml"
TRAITS: Final = CARRIES_ALL

_EVIDENCE: Final = frozenset({"instead", "reasons", "projection"})
_UNCAPPED: Final = {"ratio": 1.0, "burst": 1_000_000}


def supports(policy: PolicyDocument) -> list[Loss]:
    """TOML has no null, so "no budget" becomes a budget that caps nothing."""
    return [
        Loss(each.scope.name, "hedge.budget", "no cap", "a budget of 100 %, burst 1000000")
        for each in policy.policies
        if each.hedge is not None and each.is_on and each.hedge.budget is None
    ]


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """``policy.v1`` without its evidence; ``enabled`` is the kill switch of each scope."""
    document: dict[str, Any] = {
        "schema": "hedgectl/policy.v1",
        "policy_id": policy.policy_id(),
        "as_of": policy.as_of,
        "ttl": policy.ttl,
        "goal": policy.to_document()["goal"],
        "policies": [_scope(each) for each in policy.policies],
    }
    return header(policy, "toml", "#") + f"# do not use after {expires_at(policy)}\n" + _table(document, ())


def check(text: str) -> list[Lint]:
    """A scope without ``enabled``: its reader would have to guess."""
    try:
        found = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    policies = found.get("policies")
    if not isinstance(policies, list):
        return [Lint("no_policies", "warning", "policies", "there is no [[policies]]: nothing is decided")]
    return [
        Lint("no_kill_switch", "warning", f"policies[{index}].enabled", "enabled is not set")
        for index, each in enumerate(policies)
        if not isinstance(each, dict) or not isinstance(each.get("enabled"), bool)
    ]


def _scope(each: ScopePolicy) -> dict[str, Any]:
    entry = {key: value for key, value in scope_document(each).items() if key not in _EVIDENCE}
    if not each.is_on:
        entry["hedge"] = None  # what was refused is evidence, and must not be taken for a setting
    elif entry["hedge"]["budget"] is None:
        entry["hedge"]["budget"] = dict(_UNCAPPED)
    return {"enabled": each.is_on, **entry}


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> str:
    """Plain values first, then sub-tables, then arrays of tables: the order that TOML needs."""
    kept = {key: value for key, value in table.items() if value is not None}
    text = "".join(f"{key} = {_value(value)}\n" for key, value in kept.items() if not _is_table(value))
    for key, value in kept.items():
        here = (*path, key)
        name = ".".join(here)
        if isinstance(value, dict) and any(item is not None for item in value.values()):
            text += f"\n[{name}]\n" + _table(value, here)
        elif _is_table(value) and isinstance(value, list):
            for item in value:
                text += f"\n[[{name}]]\n" + _table(item, here)
    return text


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and bool(value) and isinstance(value[0], dict))


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, str):
        return quoted(value)
    return repr(value)
