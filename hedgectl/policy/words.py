"""Policies in plain words: one sentence a scope, and the whole argument (``explain.v1``)."""

from __future__ import annotations

from typing import Any, Final

from hedgectl.policy.document import Hedge, PolicyDocument, Rule, ScopePolicy, Window

WAITS: Final = {
    "first_token": "no first token has come",
    "response": "the answer has not come",
    "response_headers": "no response headers have come",
}
_DAYS: Final = ("Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays")


def sentence(policy: ScopePolicy) -> str:
    """What is done for one scope, in one sentence with its units."""
    name = policy.scope.name
    if policy.decision == "not_enough_data":
        return f"{name}: no decision, the log does not hold enough{_because(policy)}."
    if not policy.is_on or policy.hedge is None:
        return f"{name}: do not send copies{_because(policy)}."
    hedge = policy.hedge
    parts = [
        f"{name}: when {WAITS[hedge.trigger]} after {duration(hedge.delay_ms)}, send {_copies(hedge)}{_goes_to(hedge)}",
        _budget(hedge),
    ]
    if hedge.deadline is not None:
        limit = f"all within one deadline of {duration(hedge.deadline.total_ms)}"
        if hedge.deadline.attempt_ms is not None:
            limit += f", no attempt longer than {duration(hedge.deadline.attempt_ms)}"
        parts.append(limit)
    if policy.eligible:
        parts.append("only if " + " and ".join(map(rule_words, policy.eligible)))
    if policy.windows_utc:
        parts.append("only " + " and ".join(map(_window, policy.windows_utc)))
    if policy.suppress_when:
        signals = (f"{entry.signal} {entry.op} {entry.value:g}" for entry in policy.suppress_when)
        parts.append("never while " + " or ".join(signals))
    if policy.experiment is not None:
        parts.append(f"on and off in blocks of {policy.experiment.block} to measure its effect")
    return "; ".join(part for part in parts if part) + "."


def explain(document: PolicyDocument) -> dict[str, Any]:
    """The ``explain.v1`` document: per scope the sentence and the argument, topic by topic."""
    return {
        "schema": "hedgectl/explain.v1",
        "as_of": document.as_of,
        "policy_id": document.policy_id(),
        "goal": _goal(document),
        "scopes": [
            {
                "scope": {
                    "model": policy.scope.model,
                    "route": policy.scope.route,
                    "size_class": policy.scope.size_class,
                },
                "decision": policy.decision,
                "confidence": policy.confidence,
                "sentence": sentence(policy),
                "argument": [{"topic": topic, "text": text} for topic, text in _argument(policy)],
            }
            for policy in document.policies
        ],
        "notes": list(document.notes),
    }


def duration(ms: float) -> str:
    """Milliseconds as people say them: ``250 ms``, ``1.84 s``, ``2 min``."""
    if ms < 1000:
        return f"{ms:.4g} ms"
    return f"{ms / 1000:.4g} s" if ms < 120_000 else f"{ms / 60_000:.4g} min"


def percent(ratio: float) -> str:
    """A share of 1 as percent."""
    return f"{ratio * 100:.3g} %"


def rule_words(rule: Rule) -> str:
    """``tools_offered is false``, with a list where there is one."""
    words = {"=": "is", "!=": "is not", "in": "is one of", "not_in": "is none of"}.get(rule.op, rule.op)
    if isinstance(rule.value, bool):
        return f"{rule.field} {words} {'true' if rule.value else 'false'}"
    if isinstance(rule.value, tuple):
        return f"{rule.field} {words} {', '.join(rule.value)}"
    value = f"{rule.value:g}" if isinstance(rule.value, float) else rule.value
    return f"{rule.field} {words} {value}"


def _because(policy: ScopePolicy) -> str:
    texts = [str(reason["text"]) for reason in policy.reasons if reason.get("text")]
    return f": {texts[0].rstrip('.')}" if texts else ""


def _copies(hedge: Hedge) -> str:
    copies = hedge.max_attempts - 1
    return "one copy" if copies == 1 else f"a copy, and another each such time later, {copies} at most,"


def _goes_to(hedge: Hedge) -> str:
    goes = hedge.target
    place = "another pool" if goes.different_pool else "another replica" if goes.different_replica else "any replica"
    health = " that is healthy" if goes.healthy_only else ""
    choose = {"as_routed": "", "random": " chosen at random", "least_outstanding": " with the least outstanding"}
    return f" to {place}{health}{choose[goes.choose]}"


def _budget(hedge: Hedge) -> str:
    budget = hedge.budget
    if budget is None:
        return "without a cap on copies"
    flight = "" if budget.max_concurrent is None else f", {budget.max_concurrent} in flight"
    return f"for at most {percent(budget.ratio)} of requests (bursts of {budget.burst}{flight})"


def _window(window: Window) -> str:
    if len(window.days) == 7:
        days = "every day"
    else:
        days = "on " + ", ".join(_DAYS[day - 1] for day in window.days)
    return f"{days} {window.start} to {window.end} UTC"


def _goal(document: PolicyDocument) -> str:
    goal = document.goal
    metric = goal.metric.removesuffix("_ms").replace("_", " ")
    text = f"{metric} below {duration(goal.below_ms)}" if goal.below_ms is not None else f"{metric} as low as it gets"
    if goal.max_cost_delta_ratio is not None:
        text += f", for at most {percent(goal.max_cost_delta_ratio)} more cost"
    return f"{text}; a gain under {percent(goal.min_gain_ratio)} is no reason to hedge"


def _argument(policy: ScopePolicy) -> list[tuple[str, str]]:
    rows = [("why", str(reason["text"])) for reason in policy.reasons if reason.get("text")]
    rows += _effect(policy.projection or {})
    rows += [("left out", _price(rule)) for rule in policy.eligible if rule.why or rule.keeps_ratio is not None]
    rows += [("hours", f"{_window(window)}: {window.why}") for window in policy.windows_utc if window.why]
    rows += [
        ("no copies while", f"{entry.signal} {entry.op} {entry.value:g}" + (f": {entry.why}" if entry.why else ""))
        for entry in policy.suppress_when
    ]
    rows += [("instead", str(cure["text"])) for cure in policy.instead if cure.get("text")]
    return rows


def _price(rule: Rule) -> str:
    text = f"requests are eligible only if {rule_words(rule)}"
    if rule.why:
        text += f": {rule.why}"
    prices = []
    if rule.keeps_ratio is not None:
        prices.append(f"keeps {percent(rule.keeps_ratio)} of requests")
    if rule.p99_cost_ms is not None:
        prices.append(f"costs {rule.p99_cost_ms:.4g} ms of p99")
    if rule.saves_cost_ratio is not None:
        prices.append(f"saves {percent(rule.saves_cost_ratio)} of cost")
    return f"{text} ({', '.join(prices)})" if prices else text


def _effect(projection: dict[str, Any]) -> list[tuple[str, str]]:
    """What the projection says; its parts are read with care, since any may be absent."""
    rows: list[tuple[str, str]] = []
    arms = [_part(projection, arm) for arm in ("unhedged", "hedged")]
    for metric, label in (("ttft_ms", "time to first token"), ("e2e_ms", "whole answer")):
        pairs = []
        for quantile in ("p50", "p95", "p99"):
            before, after = (_part(arm, metric).get(quantile) for arm in arms)
            if isinstance(before, int | float) and isinstance(after, int | float):
                pairs.append(f"{quantile} {duration(before)} to {duration(after)}")
        if pairs:
            rows.append(("effect", f"{label}: {', '.join(pairs)}"))
    change = _part(projection, "p99_change")
    if isinstance(change.get("ratio"), int | float):
        text = f"p99 times {change['ratio']:.3g}"
        interval = change.get("interval")
        if isinstance(interval, list) and len(interval) == 2 and None not in interval:
            text += f" (between {interval[0]:.3g} and {interval[1]:.3g}, from {change.get('episodes')} tail episodes)"
        else:
            text += " in this log only: too few tail episodes for an interval"
        rows.append(("effect", text))
    rate = arms[1].get("hedge_rate")
    if isinstance(rate, int | float):
        rows.append(("price", f"{percent(rate)} copies per request"))
    cost = _part(projection, "cost")
    if isinstance(cost.get("delta_ratio"), int | float):
        text = f"{percent(cost['delta_ratio'])} more cost"
        if isinstance(cost.get("low_ratio"), int | float) and isinstance(cost.get("high_ratio"), int | float):
            text += f" (between {percent(cost['low_ratio'])} and {percent(cost['high_ratio'])})"
        billing = f", losers billed {cost['loser_billing']}" if cost.get("loser_billing") else ""
        rows.append(("price", text + billing))
    worst = _part(projection, "worst_of")
    assumed = [f"{key.replace('_', ' ')}: {value}" for key, value in worst.items() if value]
    if assumed:
        rows.append(("assumed", "the worse case counts: " + ", ".join(assumed)))
    holds = _part(projection, "holds_up_to")
    if isinstance(holds.get("scale"), int | float):
        reason = f": {holds['reason']}" if holds.get("reason") else ""
        rows.append(("holds up to", f"{holds['scale']:.3g} times today's load{reason}"))
    return rows


def _part(found: dict[str, Any], key: str) -> dict[str, Any]:
    part = found.get(key)
    return part if isinstance(part, dict) else {}
