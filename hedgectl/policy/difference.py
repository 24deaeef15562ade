"""What changed between two policies, and whether it matters (``diff.v1``)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from hedgectl.policy.document import PolicyDocument, Scope, ScopePolicy, scope_document
from hedgectl.policy.words import percent

# A delay that follows the log moves a little every day; below this share nobody would see the difference.
_DELAY_MOVES: Final = 0.10
_SMALL: Final = 0.05
_EVIDENCE: Final = frozenset({"why", "source", "keeps_ratio", "p99_cost_ms", "saves_cost_ratio", "n", "quantile"})


def diff(old: PolicyDocument, new: PolicyDocument) -> dict[str, Any]:
    """The ``diff.v1`` document: rows ``{field, old, new, matters, why}``, those that matter first."""
    rows = [
        _row("goal." + key, a, b, True, "it is judged by another goal")
        for key, a, b in _changed(_goal(old), _goal(new))
    ]
    before = {policy.scope: policy for policy in old.policies}
    after = {policy.scope: policy for policy in new.policies}
    for scope in dict.fromkeys([*before, *after]):
        rows += _scope_rows(scope, before.get(scope), after.get(scope))
    rows.sort(key=lambda row: not row["matters"])
    return {
        "schema": "hedgectl/diff.v1",
        "as_of": new.as_of,
        "old": {"policy_id": old.policy_id(), "as_of": old.as_of},
        "new": {"policy_id": new.policy_id(), "as_of": new.as_of},
        "matters": any(row["matters"] for row in rows),
        "rows": rows,
        "notes": [],
    }


def _row(field: str, old: Any, new: Any, matters: bool, why: str) -> dict[str, Any]:
    return {"field": field, "old": old, "new": new, "matters": matters, "why": why}


def _goal(document: PolicyDocument) -> dict[str, Any]:
    goal: dict[str, Any] = document.to_document()["goal"]
    return goal


def _changed(old: dict[str, Any], new: dict[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    for key in dict.fromkeys([*old, *new]):
        if old.get(key) != new.get(key):
            yield key, old.get(key), new.get(key)


def _scope_rows(scope: Scope, old: ScopePolicy | None, new: ScopePolicy | None) -> list[dict[str, Any]]:
    name = scope.name
    if old is None or new is None:
        known = new or old
        assert known is not None
        why = "a new scope is decided" if old is None else "the scope is no longer decided"
        return [_row(f"{name}: decision", old and old.decision, new and new.decision, known.is_on, why)]
    rows: list[dict[str, Any]] = []
    if old.decision != new.decision:
        on_or_off = old.is_on or new.is_on
        rows.append(
            _row(
                f"{name}: decision",
                old.decision,
                new.decision,
                on_or_off,
                "copies begin or end" if on_or_off else "no copies either way",
            )
        )
    both_on = old.is_on and new.is_on
    before, after = _flat(old), _flat(new)
    for key, a, b in _changed(before, after):
        matters, why = _judge(key, a, b)
        if matters and not both_on:
            matters, why = False, "hedging is off in one of them"
        rows.append(_row(f"{name}: {key}", a, b, matters, why))
    if old.confidence != new.confidence:
        rows.append(_row(f"{name}: confidence", old.confidence, new.confidence, False, "the argument, not the policy"))
    return rows + _projection_rows(name, old, new)


def _flat(policy: ScopePolicy) -> dict[str, Any]:
    """What a system would obey, one value a dotted key; evidence of rules apart under its own keys."""
    document = scope_document(policy)
    flat: dict[str, Any] = {}
    if document["hedge"] is not None:
        _flatten("hedge", document["hedge"], flat)
    for index, rule in enumerate(document["eligible"]):
        key = f"eligible.{rule['field']} {rule['op']}"
        flat[key if key not in flat else f"{key} ({index})"] = rule["value"]
        for part in ("keeps_ratio", "p99_cost_ms", "saves_cost_ratio"):
            flat[f"{key} {part}"] = rule[part]
    for window in document["windows_utc"]:
        flat[f"windows_utc.{window['from']}-{window['to']}"] = window["days"]
    for entry in document["suppress_when"]:
        flat[f"suppress_when.{entry['signal']} {entry['op']}"] = entry["value"]
    if document["experiment"] is not None:
        _flatten("experiment", document["experiment"], flat)
    return flat


def _flatten(path: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, dict):
        for key, item in value.items():
            _flatten(f"{path}.{key}", item, into)
    else:
        into[path] = value


def _judge(key: str, old: Any, new: Any) -> tuple[bool, str]:
    if key.rsplit(".", 1)[-1] in _EVIDENCE or key.rsplit(" ", 1)[-1] in _EVIDENCE:
        return False, "what was measured, not what is done"
    if key.startswith(("hedge.delays.", "hedge.delay_rule.")):
        return False, "how the delay was found; the delay itself is delay_ms"
    if key == "hedge.delay_ms":
        moved = abs(new - old) / old if old else 1.0
        if moved < _DELAY_MOVES:
            return False, f"moved by {percent(moved)}: within what a day does"
        return True, f"moved by {percent(moved)}"
    if key.startswith("hedge.deadline."):
        if old and new and abs(new - old) / old < _SMALL:
            return False, "moved by less than 5 %"
        return True, "requests are given up at another time"
    if key.startswith("hedge.cancel.assumed"):
        return False, "what was assumed, not what is done"
    if key.startswith("experiment"):
        return False, "when it is measured, not what is done"
    if key.startswith("hedge.budget."):
        return True, "another cap on copies"
    if key.startswith("eligible."):
        return True, "other requests are copied"
    if key.startswith("windows_utc."):
        return True, "copies at other hours"
    if key.startswith("suppress_when."):
        return True, "copies stop under other conditions"
    return True, "copies are sent otherwise"


def _projection_rows(name: str, old: ScopePolicy, new: ScopePolicy) -> list[dict[str, Any]]:
    rows = []
    before, after = _change(old), _change(new)
    if before is not None and after is not None and before["ratio"] != after["ratio"]:
        apart = _apart(before.get("interval"), after.get("interval"))
        why = "their intervals do not meet" if apart else "within their intervals, or without one"
        rows.append(_row(f"{name}: projection.p99_change.ratio", before["ratio"], after["ratio"], apart, why))
    costs = [((policy.projection or {}).get("cost") or {}).get("delta_ratio") for policy in (old, new)]
    if isinstance(costs[0], int | float) and isinstance(costs[1], int | float) and costs[0] != costs[1]:
        moved = abs(costs[1] - costs[0])
        matters = moved >= _SMALL / 5
        rows.append(
            _row(f"{name}: projection.cost.delta_ratio", costs[0], costs[1], matters, f"cost moves by {percent(moved)}")
        )
    return rows


def _change(policy: ScopePolicy) -> dict[str, Any] | None:
    found = (policy.projection or {}).get("p99_change")
    return found if isinstance(found, dict) and isinstance(found.get("ratio"), int | float) else None


def _apart(old: Any, new: Any) -> bool:
    for interval in (old, new):
        if not isinstance(interval, list) or len(interval) != 2 or None in interval:
            return False
    return bool(old[1] < new[0] or new[1] < old[0])
