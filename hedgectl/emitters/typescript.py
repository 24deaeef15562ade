"""Constants for a client in TypeScript or JavaScript: the settings of ``client`` as a typed literal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters import _flat
from hedgectl.emitters._plan import common_losses
from hedgectl.emitters._seam import Loss
from hedgectl.emitters._text import header, quoted
from hedgectl.policy import PolicyDocument

TITLE: Final = "TypeScript constants"
SUFFIX: Final = ".ts"
TRAITS: Final = _flat.TRAITS


def supports(policy: PolicyDocument) -> list[Loss]:
    """The losses of ``client``."""
    return common_losses(policy, TRAITS, "typescript") + _flat.losses(policy)


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """``export const hedgePolicy``, readonly to the last value."""
    literal = _literal(_flat.settings(policy), 0)
    return header(policy, "typescript", "//") + f"export const hedgePolicy = {literal} as const;\n"


def _literal(value: Any, indent: int) -> str:
    pad = "  " * (indent + 1)
    if isinstance(value, dict):
        rows = "".join(f"{pad}{key}: {_literal(item, indent + 1)},\n" for key, item in value.items())
        return "{\n" + rows + "  " * indent + "}"
    if isinstance(value, list):
        if any(isinstance(item, dict) for item in value):
            return "[\n" + "".join(f"{pad}{_literal(item, indent + 1)},\n" for item in value) + "  " * indent + "]"
        return "[" + ", ".join(_literal(item, indent) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return quoted(value)
    return repr(value)
