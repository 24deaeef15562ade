"""The policy itself, as JSON: what a program of one's own reads."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from hedgectl.emitters._seam import CARRIES_ALL, Lint, Loss, Unreadable
from hedgectl.errors import UsageError
from hedgectl.policy import PolicyDocument, parse

TITLE: Final = "the policy document itself (policy.v1)"
SUFFIX: Final = ".json"
TRAITS: Final = CARRIES_ALL


def supports(policy: PolicyDocument) -> list[Loss]:
    """Nothing is lost."""
    return []


def render(policy: PolicyDocument, options: Mapping[str, str], form: str) -> str:
    """The ``policy.v1`` document, two spaces a level."""
    return json.dumps(policy.to_document(), ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def check(text: str) -> list[Lint]:
    """What ``policy.v1`` asks beyond its schema, and whether the file was edited since it was made."""
    try:
        decoded: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from None
    try:
        document = parse(decoded)
    except UsageError as error:
        return [Lint("invalid", "error", error.where or "policy", error.what)]
    if document.edited:
        return [Lint("edited", "warning", "policy_id", "the content is not the one this policy_id was made of")]
    return []
