"""JSON to policy: every key checked, every complaint names the path to the key and what would be right."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from hedgectl.errors import UsageError
from hedgectl.policy import document as doc
from hedgectl.policy.reader import Reader, duration, instant, seconds

_TIME: Final = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
_METRIC: Final = re.compile(r"(?:e2e|ttft)_(?:mean|p\d{1,2}(?:\.\d+)?)_ms")
_DAY_MS: Final = 86_400_000.0  # longer than anybody waits for an answer: a slip of the unit
_MAX_ATTEMPTS: Final = 5  # gRPC sends no more whatever it is told; nothing here gains from more


def parse(document: Any) -> doc.PolicyDocument:
    """A policy from the decoded JSON of a ``policy.v1`` document.

    Raises :class:`UsageError` that names the key at fault, by its path, and the nearest known name.
    """
    top = Reader(document, "")
    if top.text("schema") != doc.SCHEMA:
        raise UsageError(
            f"this is a {document['schema']} document, not a policy",
            where="schema",
            hint=f"expected {doc.SCHEMA}, as printed by `hedgectl recommend -o json`",
        )
    stated = top.text("policy_id", default=None)
    policies = top.items("policies", _scope_policy)
    if not policies:
        raise top.wrong("policies", "is empty", "a policy speaks for at least one scope")
    _unique_scopes(policies)
    result = doc.PolicyDocument(
        as_of=instant(top, "as_of"),
        ttl=duration(top, "ttl", "7d"),
        goal=top.part("goal", _goal, doc.Goal()),
        policies=policies,
        window=top.open("window"),
        coverage=top.open("coverage"),
        method=top.open("method"),
        notes=top.opens("notes"),
        stated_id=stated,
    )
    top.done()
    return result


def parse_scope(entry: Any, where: str = "policies[0]") -> doc.ScopePolicy:
    """One entry of ``policies``, as other documents carry it."""
    return _scope_policy(Reader(entry, where))


def _unique_scopes(policies: Sequence[doc.ScopePolicy]) -> None:
    seen: dict[doc.Scope, int] = {}
    for index, policy in enumerate(policies):
        if policy.scope in seen:
            raise UsageError(
                f"scope {policy.scope.name} is decided twice",
                where=f"policies[{index}].scope",
                hint=f"the first is policies[{seen[policy.scope]}]",
            )
        seen[policy.scope] = index


def _goal(reader: Reader) -> doc.Goal:
    metric = reader.text("metric", default="e2e_p99_ms")
    if not _METRIC.fullmatch(metric):
        raise reader.wrong("metric", "is not known", "e2e or ttft, a percentile, _ms: e2e_p99_ms")
    goal = doc.Goal(
        metric=metric,
        below_ms=reader.number("below_ms", 0, default=None, above=True),
        max_cost_delta_ratio=reader.number("max_cost_delta_ratio", 0, default=None),
        min_gain_ratio=reader.number("min_gain_ratio", 0, 1, default=0.05),
    )
    reader.done()
    return goal


def _scope(reader: Reader) -> doc.Scope:
    scope = doc.Scope(
        model=reader.text("model", default=None),
        route=reader.text("route", default=None),
        size_class=reader.text("size_class", default=None),
    )
    reader.done()
    return scope


def _delay(reader: Reader) -> doc.Delay | None:
    if not reader.value:
        return None  # an empty object says as little as null
    delay = doc.Delay(
        ms=reader.number("ms", 0, above=True),
        n=reader.whole("n", 0, default=None),
        quantile=reader.number("quantile", 0, 1, default=None),
        at_budget_ms=reader.number("at_budget_ms", 0, default=None),
    )
    reader.done()
    return delay


def _delays(reader: Reader) -> doc.Delays:
    delays = doc.Delays(**{trigger: reader.part(trigger, _delay, None) for trigger in doc.TRIGGERS})
    reader.done()
    return delays


def _delay_rule(reader: Reader) -> doc.DelayRule:
    rule = doc.DelayRule(
        of=reader.text("of", ("ttft_ms", "e2e_ms", "headers_ms")),
        quantile=reader.number("quantile", 0, 1),
        margin_ms=reader.number("margin_ms", 0),
        floor_ms=reader.number("floor_ms", 0),
        ceiling_ms=reader.number("ceiling_ms", 0, above=True),
    )
    if rule.floor_ms > rule.ceiling_ms:
        raise reader.wrong("floor_ms", f"is above ceiling_ms {rule.ceiling_ms:g}")
    reader.done()
    return rule


def _budget(reader: Reader) -> doc.Budget:
    budget = doc.Budget(
        ratio=reader.number("ratio", 0, 1, default=0.05, above=True),
        burst=reader.whole("burst", 1, default=100),
        max_concurrent=reader.whole("max_concurrent", 1, default=None),
    )
    reader.done()
    return budget


def _deadline(reader: Reader) -> doc.Deadline:
    deadline = doc.Deadline(
        total_ms=reader.number("total_ms", 0, _DAY_MS, above=True),
        attempt_ms=reader.number("attempt_ms", 0, _DAY_MS, default=None, above=True),
    )
    if deadline.attempt_ms is not None and deadline.attempt_ms >= deadline.total_ms:
        raise reader.wrong("attempt_ms", f"is not below total_ms {deadline.total_ms:g}")
    reader.done()
    return deadline


def _target(reader: Reader) -> doc.Target:
    target = doc.Target(
        different_replica=reader.flag("different_replica", True),
        different_pool=reader.flag("different_pool", False),
        healthy_only=reader.flag("healthy_only", True),
        choose=reader.text("choose", doc.CHOICES, "as_routed"),
    )
    reader.done()
    return target


def _cancel(reader: Reader) -> doc.Cancel:
    cancel = doc.Cancel(
        loser=reader.text("loser", doc.LOSERS, "engine_abort"),
        assumed=reader.text("assumed", doc.CANCELS, "unknown"),
    )
    reader.done()
    return cancel


def _hedge(reader: Reader) -> doc.Hedge:
    trigger = reader.text("trigger", doc.TRIGGERS)
    delay_ms = reader.number("delay_ms", 0, _DAY_MS, above=True)
    hedge = doc.Hedge(
        trigger=trigger,
        delay_ms=delay_ms,
        delays=reader.part("delays", _delays, doc.Delays()),
        delay_rule=reader.part("delay_rule", _delay_rule, None),
        max_attempts=reader.whole("max_attempts", 2, _MAX_ATTEMPTS, default=2),
        # absent = the default cap; null = no cap, which has to be written on purpose
        budget=reader.part("budget", _budget, None if "budget" in reader.value else doc.Budget()),
        deadline=reader.part("deadline", _deadline, None),
        target=reader.part("target", _target, doc.Target()),
        cancel=reader.part("cancel", _cancel, doc.Cancel()),
        commit=reader.text("commit", doc.TRIGGERS, trigger),
    )
    reader.done()
    return hedge


def _rule(reader: Reader) -> doc.Rule:
    name = reader.text("field", tuple(doc.ELIGIBLE_FIELDS))
    op = reader.text("op", doc.OPS)
    rule = doc.Rule(
        field=name,
        op=op,
        value=_rule_value(reader, name, op),
        why=reader.text("why", default=""),
        source=reader.text("source", default="default"),
        keeps_ratio=reader.number("keeps_ratio", 0, 1, default=None),
        p99_cost_ms=reader.number("p99_cost_ms", -math.inf, default=None),
        saves_cost_ratio=reader.number("saves_cost_ratio", -math.inf, default=None),
    )
    reader.done()
    return rule


def _rule_value(reader: Reader, name: str, op: str) -> bool | float | str | tuple[str, ...]:
    found = reader.take("value")
    kind = doc.ELIGIBLE_FIELDS[name]
    if op in ("in", "not_in"):
        if kind != "text":
            raise reader.wrong("op", f"does not fit {name}, which is a {kind}")
        if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
            raise reader.wrong("value", "is not a list of texts")
        return tuple(found)
    if kind == "number":
        return float(reader.number("value", -math.inf))
    if op not in ("=", "!="):
        raise reader.wrong("op", f"does not fit {name}, which is a {kind}", "= or !=")
    if kind == "boolean":
        if not isinstance(found, bool):
            raise reader.wrong("value", "is not true or false")
        return found
    return str(reader.text("value"))


def _window(reader: Reader) -> doc.Window:
    days = reader.take("days")
    good = isinstance(days, list) and all(type(day) is int and 1 <= day <= 7 for day in days)
    if not good or not days or len(set(days)) != len(days):
        raise reader.wrong("days", "is not a list of different days", "1 (Monday) to 7 (Sunday)")
    for key in ("from", "to"):
        if not _TIME.fullmatch(reader.text(key)):
            raise reader.wrong(key, "is not a time of day", "HH:MM from 00:00 to 23:59; to 00:00 ends at midnight")
    window = doc.Window(tuple(sorted(days)), reader.text("from"), reader.text("to"), reader.text("why", default=""))
    if window.start == window.end:
        raise reader.wrong("to", "equals from", "leave windows_utc empty for all day")
    reader.done()
    return window


def _suppress(reader: Reader) -> doc.Suppress:
    suppress = doc.Suppress(
        signal=reader.text("signal", doc.SIGNALS),
        op=reader.text("op", ("<", "<=", ">", ">=")),
        value=reader.number("value", 0),
        why=reader.text("why", default=""),
        source=reader.text("source", default="default"),
    )
    reader.done()
    return suppress


def _experiment(reader: Reader) -> doc.Experiment:
    experiment = doc.Experiment(
        kind=reader.text("kind", (doc.SWITCHBACK,), doc.SWITCHBACK),
        block=duration(reader, "block", "30m"),
        seed=reader.whole("seed", 0, 2**53, default=1),
    )
    if seconds(experiment.block) < 1:
        raise reader.wrong("block", "is shorter than a second")
    reader.done()
    return experiment


def _scope_policy(reader: Reader) -> doc.ScopePolicy:
    decision = reader.text("decision", doc.DECISIONS)
    if decision == "hedge" and not reader.has("hedge"):
        raise UsageError("decision hedge without a hedge", where=reader.at("hedge"), hint="say trigger and delay_ms")
    hedge: doc.Hedge | None = reader.part("hedge", _hedge, None)
    if decision == "hedge" and hedge is not None and hedge.deadline is not None:
        for name in ("attempt_ms", "total_ms"):
            limit = getattr(hedge.deadline, name)
            if limit is not None and hedge.delay_ms >= limit:
                raise UsageError(
                    f"delay_ms {hedge.delay_ms:g} is not below deadline.{name} {limit:g}: no copy would ever race",
                    where=reader.at("hedge.delay_ms"),
                )
    policy = doc.ScopePolicy(
        scope=reader.part("scope", _scope, doc.Scope()),
        decision=decision,
        confidence=reader.text("confidence", doc.CONFIDENCES, "low"),
        hedge=hedge,
        eligible=reader.items("eligible", _rule, ()),
        windows_utc=reader.items("windows_utc", _window, ()),
        suppress_when=reader.items("suppress_when", _suppress, ()),
        experiment=reader.part("experiment", _experiment, None),
        instead=reader.opens("instead"),
        reasons=reader.opens("reasons"),
        projection=reader.open("projection") if reader.has("projection") else None,
    )
    reader.done()
    return policy
