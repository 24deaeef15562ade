"""The decision: one line a scope, worst first, then each scope's policy, its projection, and what to do instead."""

from __future__ import annotations

from typing import Any

from hedgectl.cli.blocks import Block, Table, Text, View
from hedgectl.cli.views.notes import notes
from hedgectl.cli.views.numbers import UNKNOWN, change, count, delta, money, ms, quantile, share
from hedgectl.policy.words import WAITS

DECISIONS = {"hedge": "HEDGE", "do_not_hedge": "DO NOT HEDGE", "not_enough_data": "NOT ENOUGH DATA"}


def view(doc: dict[str, Any]) -> View:
    policies = doc["policies"]
    blocks: list[Block] = []
    if len(policies) > 1:
        blocks.append(_summary(policies))
        for policy in policies:
            blocks.append(Text(f"── {scope(policy)} " + "─" * 20))
            blocks += _policy(policy, doc)
    else:
        blocks.append(_records_only(policies))
        for policy in policies:
            blocks += _policy(policy, doc)
    return [*blocks, *notes(doc)]


def scope(policy: dict[str, Any]) -> str:
    """``chat``, ``chat, route /v1, large``: the scope in words."""
    s = policy["scope"]
    parts = [str(s["model"] or "all models")]
    parts += [f"{k.replace('_', ' ')} {s[k]}" for k in ("route", "size_class") if s.get(k)]
    return ", ".join(parts)


def _record(policy: dict[str, Any]) -> dict[str, Any]:
    hedge = policy.get("hedge") or {}
    projection = policy.get("projection") or {}
    p99 = {arm: ((projection.get(arm) or {}).get("e2e_ms") or {}).get("p99") for arm in ("unhedged", "hedged")}
    return {
        **policy["scope"],
        "decision": policy["decision"],
        "confidence": policy["confidence"],
        "trigger": hedge.get("trigger"),
        "delay_ms": hedge.get("delay_ms"),
        "e2e_p99_unhedged_ms": p99["unhedged"],
        "e2e_p99_hedged_ms": p99["hedged"],
        "p99_ratio": (projection.get("p99_change") or {}).get("ratio"),
        "hedge_rate": (projection.get("hedged") or {}).get("hedge_rate"),
        "cost_delta_ratio": (projection.get("cost") or {}).get("delta_ratio"),
    }


def _records_only(policies: list[dict[str, Any]]) -> Block:
    from hedgectl.cli.blocks import Rows

    return Rows([_record(p) for p in policies])


def _summary(policies: list[dict[str, Any]]) -> Table:
    rows = []
    for policy in policies:
        r = _record(policy)
        rows.append(
            [
                scope(policy),
                DECISIONS[policy["decision"]].lower(),
                policy["confidence"],
                ms(r["delay_ms"]) if policy["decision"] == "hedge" else UNKNOWN,
                ms(r["e2e_p99_unhedged_ms"]),
                ms(r["e2e_p99_hedged_ms"]),
                share(r["hedge_rate"]),
                delta(r["cost_delta_ratio"]),
            ]
        )
    columns = ("scope", "decision", "confidence", "delay", "p99 now", "p99 hedged", "copies", "cost")
    return Table("one line a scope, worst first", columns, rows, [_record(p) for p in policies], main=True, left=3)


def _policy(policy: dict[str, Any], doc: dict[str, Any]) -> list[Block]:
    decision = policy["decision"]
    estimator = (doc.get("method") or {}).get("estimator")
    how = {
        "simulation": "decided by a replay of the log",
        "matched": "no load model: a screen that is blind to added load",
    }.get(str(estimator), "")
    style = "bold"
    blocks: list[Block] = [
        Text(f"{DECISIONS[decision]} ({policy['confidence']} confidence{'; ' + how if how else ''})", "decision", style)
    ]
    blocks += [Text(r["text"], "why" if i == 0 else " ") for i, r in enumerate(policy.get("reasons") or [])]
    cures = policy.get("instead") or []
    blocks += [Text(c["text"] + _expected(c), "instead" if i == 0 else " ") for i, c in enumerate(cures)]
    hedge = policy.get("hedge")
    if hedge:
        blocks += _hedge(policy, hedge)
    blocks += _projection(policy)
    return blocks


def _expected(cure: dict[str, Any]) -> str:
    known = [
        (k, v) for k, v in (cure.get("expected") or {}).items() if isinstance(v, int | float) and k.endswith("_ms")
    ]
    if not known or any(ms(v) in cure["text"] for _, v in known):
        return ""
    return " (" + ", ".join(f"{k.removesuffix('_ms').replace('_', ' ')} {ms(v)}" for k, v in known) + ")"


def _hedge(policy: dict[str, Any], hedge: dict[str, Any]) -> list[Block]:
    label = "policy" if policy["decision"] == "hedge" else "refused"
    budget, deadline = hedge.get("budget") or {}, hedge.get("deadline") or {}
    target, cancel = hedge.get("target") or {}, hedge.get("cancel") or {}
    lines = [
        f"if {WAITS[hedge['trigger']]} after {ms(hedge['delay_ms'])}, send one copy to "
        f"{'another replica' if target.get('different_replica') else 'the same target'}"
        f" ({str(target.get('choose', 'as_routed')).replace('_', ' ')}); the first success wins, the other is cancelled",
        f"budget {share(budget.get('ratio'), 0) if budget.get('ratio') is not None else 'none'} of requests, burst {count(budget.get('burst'))}"
        + (f", at most {count(budget['max_concurrent'])} at once" if budget.get("max_concurrent") else ""),
    ]
    if deadline.get("total_ms") is not None:
        lines.append(
            f"one deadline of {ms(deadline['total_ms'])} for both copies; each attempt is given up after {ms(deadline.get('attempt_ms'))}"
        )
    if cancel.get("assumed"):
        lines.append(f"cancelling a loser: {str(cancel['assumed']).replace('_', ' ')}")
    blocks: list[Block] = [Text(line, label if i == 0 else " ") for i, line in enumerate(lines)]
    rules = policy.get("eligible") or []
    if rules:
        rows = [[_condition(rule), *_price(rule), rule.get("why") or ""] for rule in rules]
        blocks.append(Table("copied only if", ("rule", "keeps", "costs in p99", "saves", ""), rows))
    for w in policy.get("windows_utc") or []:
        days = ",".join(str(d) for d in w["days"])
        blocks.append(Text(f"{w['from']}-{w['to']} UTC on days {days} ({w.get('why') or 'given'})", "only"))
    for s in policy.get("suppress_when") or []:
        blocks.append(
            Text(f"{s['signal']} {s['op']} {s['value']:g} ({s.get('why') or s.get('source') or ''})", "off when")
        )
    return blocks


def _projection(policy: dict[str, Any]) -> list[Block]:
    projection = policy.get("projection") or {}
    arms = [
        (name, projection.get(key))
        for name, key in (("as is", "unhedged"), ("better routed", "better_routed"), ("hedged", "hedged"))
    ]
    rows = []
    for name, arm in arms:
        if not arm:
            continue
        rows.append(
            [
                name,
                *(quantile(arm.get("e2e_ms"), p) for p in ("p50", "p95", "p99")),
                *(quantile(arm.get("ttft_ms"), p) for p in ("p95", "p99")),
                count(arm.get("logical_requests")),
                count(arm.get("attempts")),
                share(arm.get("hedge_rate")),
                share(arm.get("win_rate"), 0),
            ]
        )
    blocks: list[Block] = []
    if rows:
        columns = (
            "projected",
            "e2e p50",
            "p95",
            "p99",
            "TTFT p95",
            "p99",
            "requests",
            "attempts",
            "copies",
            "copies that win",
        )
        blocks.append(Table("", columns, rows))
    p99 = projection.get("p99_change") or {}
    if p99.get("ratio") is not None:
        interval = p99.get("interval")
        sure = (
            f"{change(interval[0])} to {change(interval[1])}"
            if interval
            else "in this log only, no interval can be claimed"
        )
        episodes = f", {count(p99['episodes'])} slow episodes" if p99.get("episodes") is not None else ""
        blocks.append(Text(f"{change(p99['ratio'])} ({sure}{episodes})", "p99"))
    ready = projection.get("ready") or {}
    if ready.get("hedged_ratio") is not None:
        text = f"{share(ready.get('unhedged_ratio'))} now, {share(ready['hedged_ratio'])} hedged"
        text += f", within {ms(ready['time_ms'])} less {ms(ready['safety_ms'])} of safety"
        blocks.append(Text(text, "in time"))
    cost = projection.get("cost") or {}
    if cost.get("delta_ratio") is not None:
        band = ""
        if cost.get("low_ratio") is not None and cost.get("high_ratio") is not None:
            band = f" ({delta(cost['low_ratio'])} to {delta(cost['high_ratio'])})"
        text = f"{delta(cost['delta_ratio'])}{band}"
        if cost.get("before") is not None:
            text += (
                f": {money(cost['before'], cost.get('currency'))} to {money(cost.get('after'), cost.get('currency'))}"
            )
        text += f"; losers billed {str(cost.get('loser_billing', '')).replace('_', ' ')}, prices from {cost.get('price_source')}"
        blocks.append(Text(text, "cost"))
    elif projection:
        blocks.append(Text("unknown: the log has no usable cost and no price is known for the model", "cost"))
    blocks += _month(projection)
    worst = projection.get("worst_of")
    if worst:
        blocks.append(
            Text(
                f"the worse of what is unknown: {', '.join(str(v).replace('_', ' ') for v in worst.values() if v)}",
                "counted",
            )
        )
    offered = [knob for knob in projection.get("knobs") or [] if not knob["applied"]]
    if offered:
        rows = [
            [_knob(k), *_price(k), f"unknown: log {k['field']}" if k["keeps_ratio"] is None else ""] for k in offered
        ]
        blocks.append(Table("could be narrowed to", ("knob", "keeps", "costs in p99", "saves", ""), rows))
    holds = projection.get("holds_up_to") or {}
    if holds.get("scale") is not None:
        blocks.append(
            Text(f"holds up to {holds['scale']:.2f} times today's load ({holds.get('reason') or ''})", "load")
        )
    return blocks


def _knob(knob: dict[str, Any]) -> str:
    if knob["windows_utc"]:
        return "only " + ", ".join(f"{w['from']}-{w['to']} UTC" for w in knob["windows_utc"])
    return _condition(knob)


def _condition(rule: dict[str, Any]) -> str:
    value = rule["value"]
    if isinstance(value, bool):
        shown = "yes" if value else "no"
    elif isinstance(value, list):
        shown = ", ".join(value)
    else:
        shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f"{rule['field']} {rule['op']} {shown}"


def _price(rule: dict[str, Any]) -> list[str]:
    """What a rule keeps, costs in p99 and saves."""
    return [share(rule.get("keeps_ratio"), 0), ms(rule.get("p99_cost_ms")), share(rule.get("saves_cost_ratio"))]


def _month(projection: dict[str, Any]) -> list[Block]:
    """In a month: who gets faster, at what price, and what rate limits have to allow."""
    blocks: list[Block] = []
    month = projection.get("month") or {}
    requests, bill, quota = month.get("requests") or {}, month.get("cost") or {}, projection.get("quota") or {}
    if requests.get("faster_requests"):
        text = (
            f"{count(requests['faster_requests'])} requests end earlier, by {ms(requests['faster_mean_ms'])} on average"
        )
        if requests.get("slower_requests"):
            text += f"; {count(requests['slower_requests'])} later, by {ms(requests['slower_mean_ms'])}"
        if bill.get("cost_per_p99_second") is not None:
            text += f"; {money(bill['cost_per_p99_second'], bill['currency'])} for each second of p99"
        blocks.append(Text(text, "a month"))
    if "in_flight_peak" in quota:
        pairs = [
            (name, quota[f"{key}_unhedged"], quota[key])
            for name, key in (
                ("requests/min", "requests_per_minute_peak"),
                ("tokens/min", "tokens_per_minute_peak"),
                ("in flight", "in_flight_peak"),
            )
        ]
        text = ", ".join(
            f"{name} {count(before)} to {count(after)}" for name, before, after in pairs if after is not None
        )
        blocks.append(Text(text, "at peak"))
    return blocks
