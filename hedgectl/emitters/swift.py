"""Constants for a client in Swift: one value a scope, times in seconds as Foundation counts them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters import _flat
from hedgectl.emitters._plan import common_losses
from hedgectl.emitters._seam import Loss
from hedgectl.emitters._text import header
from hedgectl.policy import PolicyDocument

TITLE: Final = "Swift constants"
SUFFIX: Final = ".swift"
TRAITS: Final = _flat.TRAITS

# setting -> Swift type; every scope has every member, so that a new policy never changes the type
_MEMBERS: Final[Mapping[str, str]] = {
    "enabled": "Bool",
    "model": "String?",
    "route": "String?",
    "sizeClass": "String?",
    "hedgeSignal": "String?",
    "hedgeAfterSeconds": "Double?",
    "maxAttempts": "Int?",
    "perAttemptTimeoutSeconds": "Double?",
    "totalTimeoutSeconds": "Double?",
    "budgetPercent": "Double?",
    "budgetBurst": "Int?",
    "budgetMaxConcurrent": "Int?",
    "differentReplica": "Bool?",
    "differentPool": "Bool?",
    "excludeStreaming": "Bool?",
    "onlyStreaming": "Bool?",
    "excludeToolCalls": "Bool?",
    "allowedTools": "[String]?",
    "excludedTools": "[String]?",
    "excludeCacheHits": "Bool?",
    "excludeStoredState": "Bool?",
    "excludeStickySessions": "Bool?",
    "excludeBatch": "Bool?",
    "maxChoices": "Int?",
    "maxPromptTokens": "Int?",
    "maxCachedRatio": "Double?",
    "cachedRatioBelow": "Double?",
    "allowedSegments": "[String]?",
    "excludedSegments": "[String]?",
    "allowedPaths": "[String]?",
    "excludedPaths": "[String]?",
    "hedgeWindowsUtc": "[String]?",
    "suppressOnErrorPercent": "Double?",
    "suppressOnHedgePercent": "Double?",
    "experimentKind": "String?",
    "experimentBlockSeconds": "Int?",
    "experimentSeed": "Int?",
}
_TOP: Final = ("schemaVersion", "revision", "policyId", "issuedAt", "ttlSeconds", "expiresAt")


def supports(policy: PolicyDocument) -> list[Loss]:
    """The losses of ``client``, and rules for which the constants have no name."""
    lost = common_losses(policy, TRAITS, "swift") + _flat.losses(policy)
    for each in policy.policies:
        for rule in _flat.rules(each.eligible).get("otherRules", []) if each.is_on else []:
            lost.append(
                Loss(
                    each.scope.name,
                    f"eligible.{rule['field']}",
                    f"{rule['field']} {rule['op']} {rule['value']}",
                    "no constant: hedging is off for the scope",
                )
            )
    return lost


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """``HedgePolicy.scopes``, the most specific first."""
    settings = _flat.settings(policy)
    scopes = settings.get("scopes", [settings])
    text = header(policy, "swift", "//") + "public enum HedgePolicy {\n"
    for key in _TOP:
        text += f"    public static let {key} = {_literal(settings[key])}\n"
    text += "\n    public struct Scope: Sendable {\n"
    text += "".join(f"        public let {name}: {kind}\n" for name, kind in _MEMBERS.items())
    text += "    }\n\n    public static let scopes: [Scope] = [\n"
    return text + "".join(map(_scope, scopes)) + "    ]\n}\n"


def _scope(flat: Mapping[str, Any]) -> str:
    # a rule that has no name here would be dropped in silence: rather no hedge
    shown = {**flat, "enabled": flat["enabled"] and "otherRules" not in flat}
    rows = [f"            {name}: {_literal(shown.get(name), kind)}" for name, kind in _MEMBERS.items()]
    return "        Scope(\n" + ",\n".join(rows) + "\n        ),\n"


def _literal(value: Any, kind: str = "") -> str:
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(map(_literal, value)) + "]"
    if isinstance(value, str):
        return '"' + "".join(map(_letter, value)) + '"'
    return repr(float(value)) if kind.startswith("Double") else repr(value)


def _letter(letter: str) -> str:
    if letter in '"\\':
        return "\\" + letter  # a bare backslash would begin an interpolation
    return letter if letter.isprintable() else f"\\u{{{ord(letter):x}}}"
