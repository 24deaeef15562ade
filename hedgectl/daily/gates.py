"""Whether a new policy may replace the old one: each gate with its value, its limit and a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hedgectl.notes import doubts
from hedgectl.policy import PolicyDocument, ScopePolicy

COVERAGE_FALL = 0.10  # share of requests that a field may lose against the day the old policy was made
TRAFFIC_FALL = 0.50  # share of the old window's requests below which a log is taken to be incomplete
BAD_ROWS = 0.05  # share of rows that fail a data check
DELAY_CHANGE = 0.25  # beyond it a delay needs a cause
CAUSE_SHARE = 0.5  # the typical request must have moved at least this part of the way
COST_GROWTH = 0.10  # points of cost growth a policy may gain in one day without being asked


@dataclass(frozen=True, slots=True)
class Gate:
    """One answer. ``passed`` None = the question does not arise (no old policy, nothing to compare)."""

    gate: str
    passed: bool | None
    value: float | None
    limit: float | None
    text: str

    def to_document(self) -> dict[str, Any]:
        return {"gate": self.gate, "passed": self.passed, "value": self.value, "limit": self.limit, "text": self.text}


def judge(
    old: PolicyDocument | None,
    new: PolicyDocument,
    *,
    bad_rows: Mapping[str, float],
    spread: Mapping[tuple[str, str], tuple[float, float]],
    max_delay_change: float = DELAY_CHANGE,
) -> list[Gate]:
    """All gates of one recomputation.

    ``bad_rows``: share of rows by data check. ``spread``: for (model, trigger) the lowest and highest delay, ms, that
    single days of the window would have given: the delay's own interval.
    """
    gates = [_enough(new), _traffic(old, new), *_coverage(old, new), _rows(bad_rows), _replay(new)]
    before = {p.scope: p for p in old.policies} if old is not None else {}
    for policy in new.policies:
        previous = before.get(policy.scope)
        gates.append(_delay(previous, policy, spread, max_delay_change))
        gates.append(_cost(previous, policy, new.goal.max_cost_delta_ratio))
        gates.append(_stability(policy))
    return gates


def strict(notes: Sequence[Mapping[str, Any]]) -> Gate:
    """The gate of --strict: nothing that was read and nothing about the selected rows is in doubt."""
    found = doubts(notes)
    text = f"--strict: {'; '.join(found)}" if found else "no warning about the data"
    return Gate("strict", not found, float(len(found)), 0.0, text)


def failed(gates: Sequence[Gate]) -> list[Gate]:
    return [g for g in gates if g.passed is False]


def _enough(new: PolicyDocument) -> Gate:
    lacking = [p for p in new.policies if p.decision == "not_enough_data"]
    if not lacking:
        return Gate("enough_data", True, None, None, "every scope has enough requests to be decided on")
    text = "; ".join(f"{p.scope.name}: {p.reasons[0]['text'] if p.reasons else 'not enough data'}" for p in lacking)
    return Gate("enough_data", False, float(len(lacking)), 0.0, f"no decision for {text}")


def _traffic(old: PolicyDocument | None, new: PolicyDocument) -> Gate:
    was, now = (old.window.get("requests") if old is not None else None), new.window.get("requests")
    if not was or now is None:
        return Gate("traffic", None, None, 1 - TRAFFIC_FALL, "no old window to compare the traffic with")
    ratio = now / was
    text = f"{now:,} requests in the window, {was:,} when the old policy was made"
    return Gate("traffic", ratio >= 1 - TRAFFIC_FALL, round(ratio, 4), 1 - TRAFFIC_FALL, text)


def _coverage(old: PolicyDocument | None, new: PolicyDocument) -> list[Gate]:
    if old is None or not old.coverage:
        return [Gate("coverage", None, None, COVERAGE_FALL, "no old policy to compare the fields with")]
    gates = []
    for name, was in old.coverage.items():
        fall = was - new.coverage.get(name, 0.0)
        if fall > COVERAGE_FALL:
            text = f"{name} is now logged for {new.coverage.get(name, 0.0):.0%} of requests, was {was:.0%}"
            gates.append(Gate(f"coverage_{name}", False, round(fall, 4), COVERAGE_FALL, text))
    return gates or [Gate("coverage", True, None, COVERAGE_FALL, "no field is logged less often than before")]


def _rows(bad_rows: Mapping[str, float]) -> Gate:
    rule, value = max(bad_rows.items(), key=lambda item: item[1], default=("", 0.0))
    text = f"{value:.1%} of rows fail the check {rule}" if rule and value else "no data check fails"
    return Gate("data_checks", value <= BAD_ROWS, round(value, 6), BAD_ROWS, text)


def _replay(new: PolicyDocument) -> Gate:
    check = (new.method or {}).get("replay_check")
    if not check:
        return Gate("replay_check", None, None, None, "no replay: decided by the screen")
    passed = bool(check.get("passed"))
    text = (
        "the replay without hedging agrees with the log"
        if passed
        else "the replay without hedging does not agree with the log"
    )
    return Gate("replay_check", passed, None, None, text)


def _delay(
    old: ScopePolicy | None, new: ScopePolicy, spread: Mapping[tuple[str, str], tuple[float, float]], limit: float
) -> Gate:
    name = f"delay {new.scope.name}"
    if old is None or old.hedge is None or new.hedge is None or not (old.is_on and new.is_on):
        return Gate(name, None, None, limit, "no two hedging policies to compare")
    if old.hedge.trigger != new.hedge.trigger:
        return Gate(name, None, None, limit, f"the trigger changed from {old.hedge.trigger} to {new.hedge.trigger}")
    move = new.hedge.delay_ms / old.hedge.delay_ms - 1
    text = f"delay {old.hedge.delay_ms:.0f} ms to {new.hedge.delay_ms:.0f} ms ({move:+.0%})"
    if abs(move) <= limit:
        return Gate(name, True, round(move, 4), limit, text)
    own = spread.get((new.scope.model or "", new.hedge.trigger))
    if own is not None and own[0] <= new.hedge.delay_ms <= own[1] and own[0] <= old.hedge.delay_ms <= own[1]:
        return Gate(
            name, True, round(move, 4), limit, f"{text}: within what single days give, {own[0]:.0f} to {own[1]:.0f} ms"
        )
    typical = _typical_move(old, new)
    if typical is not None and typical * move > 0 and abs(typical) >= CAUSE_SHARE * abs(move):
        return Gate(name, True, round(move, 4), limit, f"{text}: the typical request moved too ({typical:+.0%})")
    return Gate(name, False, round(move, 4), limit, f"{text} without a cause: the typical request did not move with it")


def _typical_move(old: ScopePolicy, new: ScopePolicy) -> float | None:
    values = [(((p.projection or {}).get("unhedged") or {}).get("e2e_ms") or {}).get("p50") for p in (old, new)]
    return values[1] / values[0] - 1 if values[0] and values[1] else None


def _cost(old: ScopePolicy | None, new: ScopePolicy, max_cost: float | None) -> Gate:
    name = f"cost {new.scope.name}"
    now = _growth(new)
    if not new.is_on or now is None:
        return Gate(name, None, None, max_cost, "no cost is known, or nothing is hedged")
    if max_cost is not None and now > max_cost:
        return Gate(
            name, False, round(now, 4), max_cost, f"cost would grow by {now:.1%}, at most {max_cost:.1%} was asked for"
        )
    was = _growth(old) if old is not None and old.is_on else None
    if was is not None and now - was > COST_GROWTH:
        text = f"cost would grow by {now:.1%}, the old policy by {was:.1%}"
        return Gate(name, False, round(now - was, 4), COST_GROWTH, text)
    return Gate(name, True, round(now, 4), max_cost, f"cost would grow by {now:.1%}")


def _growth(policy: ScopePolicy) -> float | None:
    value = ((policy.projection or {}).get("cost") or {}).get("delta_ratio")
    return None if value is None else float(value)


def _stability(policy: ScopePolicy) -> Gate:
    name = f"stability {policy.scope.name}"
    scale = ((policy.projection or {}).get("holds_up_to") or {}).get("scale")
    if not policy.is_on or scale is None:
        return Gate(name, None, None, 1.0, "no load model, or nothing is hedged")
    return Gate(
        name, scale >= 1.0, round(float(scale), 4), 1.0, f"the policy holds up to {scale:.2f} times today's load"
    )
