"""One scope decided by the screen, as it is printed."""

from __future__ import annotations

import json
from typing import Any

import jsonschema

from hedgectl import policy, schemas
from hedgectl.model import Workload
from hedgectl.policy import Budget, Hedge, PolicyDocument, Rule, Scope, ScopePolicy, Window
from hedgectl.recommend import Options
from hedgectl.recommend.decide import decide

CHAT = Scope("chat")


def only(workload: Workload, options: Options | None = None, **known: Any) -> dict[str, Any]:
    found = decide(workload, CHAT, options or Options(), **known)
    notes = list(found.notes)
    document = PolicyDocument("2026-11-29T00:00:00Z", (found.policy,), notes=tuple(notes)).to_document()
    printed = json.loads(json.dumps(document, allow_nan=False))
    policy.parse(printed)  # what is printed can be read back
    jsonschema.Draft202012Validator(schemas.load("policy")).validate(printed)
    return document["policies"][0] | {"notes": notes}


def codes(entry: dict[str, Any], key: str = "reasons") -> list[str]:
    return [one["code"] for one in entry[key]]


def given(delay_ms: float, *rules: Rule, budget: Budget | None = None, windows: tuple[Window, ...] = ()) -> Options:
    entry = ScopePolicy(
        Scope(), "hedge", hedge=Hedge("response", delay_ms, budget=budget), eligible=rules, windows_utc=windows
    )
    return Options(policy=PolicyDocument("2026-11-29T00:00:00Z", (entry,)))
