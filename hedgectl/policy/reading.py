"""JSON to policy: every key checked, every complaint names the path to the key and what would be right."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from hedgectl.errors import UsageError
from hedgectl.policy import document as doc

T = TypeVar("T")

_TIME: Final = re.compile(r"(?:[01]\d|2[0-3]):[0-5]\d")
_DURATION: Final = re.compile(r"[1-9]\d*(?:ms|[smhdw])")
_METRIC: Final = re.compile(r"(?:e2e|ttft)_(?:mean|p\d{1,2}(?:\.\d+)?)_ms")
_UNITS: Final[Mapping[str, timedelta]] = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_DAY_MS: Final = 86_400_000.0  # longer than anybody waits for an answer: a slip of the unit
_YEAR_S: Final = 366 * 86_400
_MAX_ATTEMPTS: Final = 5  # gRPC sends no more whatever it is told; nothing here gains from more


def parse(document: Any) -> doc.PolicyDocument:
    """A policy from the decoded JSON of a ``policy.v1`` document.

    Raises :class:`UsageError` that names the key at fault, by its path, and the nearest known name.
    """
    top = _Reader(document, "")
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
        as_of=_instant(top, "as_of"),
        ttl=_duration(top, "ttl", "7d"),
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
    return _scope_policy(_Reader(entry, where))


def seconds(duration: str) -> int:
    """A duration such as ``30m`` or ``7d`` in whole seconds."""
    number = duration.rstrip("mshdw")
    return int(_UNITS[duration[len(number) :]].total_seconds() * int(number))


class _Reader:
    """One JSON object on its way in: takes keys one by one and complains about what is left."""

    def __init__(self, value: Any, path: str) -> None:
        self.path = path
        self.taken: set[str] = set()
        if not isinstance(value, dict):
            raise UsageError(f"{_shown(value)} is not a JSON object", where=path or "policy", hint="expected {...}")
        self.value: dict[str, Any] = value

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def wrong(self, key: str, what: str, hint: str | None = None) -> UsageError:
        shown = f" {_shown(self.value[key])}" if key in self.value else ""
        return UsageError(f"policy key {key}{shown} {what}", where=self.at(key), hint=hint)

    def take(self, key: str) -> Any:
        self.taken.add(key)
        if key not in self.value:
            unknown = difflib.get_close_matches(key, self.value.keys() - self.taken, 1)
            hint = f"did you mean {key} where it says {unknown[0]}?" if unknown else None
            raise UsageError(f"policy key {key} is missing", where=self.at(key), hint=hint)
        return self.value[key]

    def has(self, key: str) -> bool:
        self.taken.add(key)
        return self.value.get(key) is not None

    def text(self, key: str, choices: Sequence[str] | None = None, default: Any = ...) -> Any:
        if default is not ... and not self.has(key):
            return default
        found = self.take(key)
        if not isinstance(found, str):
            raise self.wrong(key, "is not a text")
        if not found.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in found):
            raise self.wrong(key, "holds half a surrogate pair, which no file can carry")
        if choices is not None and found not in choices:
            near = difflib.get_close_matches(found, choices, 1)
            hint = (f"did you mean {near[0]}? " if near else "") + "one of " + ", ".join(choices)
            raise self.wrong(key, "is not known", hint)
        return found

    def flag(self, key: str, default: bool) -> bool:
        if key not in self.value:
            self.taken.add(key)
            return default
        found = self.take(key)
        if not isinstance(found, bool):
            raise self.wrong(key, "is not true or false")
        return found

    def number(self, key: str, low: float, high: float = math.inf, default: Any = ..., *, above: bool = False) -> Any:
        if default is not ... and not self.has(key):
            return default
        found = self.take(key)
        if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) < math.inf:
            raise self.wrong(key, "is not a number")
        if found < low or found > high or (above and found == low):
            least = f"more than {low:g}" if above else f"at least {low:g}"
            raise self.wrong(key, "is out of range", least + ("" if high == math.inf else f", at most {high:g}"))
        try:
            return float(found)
        except OverflowError:
            raise self.wrong(key, "is not a number") from None

    def whole(self, key: str, low: int, high: float = math.inf, default: Any = ...) -> Any:
        found = self.number(key, low, high, default)
        if isinstance(found, float):
            if found != int(found):
                raise self.wrong(key, "is not a whole number")
            return int(found)
        return found

    def part(self, key: str, read: Callable[[_Reader], T], default: T | Any = ...) -> Any:
        if default is not ... and not self.has(key):
            return default
        return read(_Reader(self.take(key), self.at(key)))

    def items(self, key: str, read: Callable[[_Reader], T], default: Any = ...) -> tuple[T, ...]:
        if default is not ... and not self.has(key):
            return ()
        found = self.take(key)
        if not isinstance(found, list):
            raise self.wrong(key, "is not a list")
        return tuple(read(_Reader(item, f"{self.at(key)}[{index}]")) for index, item in enumerate(found))

    def open(self, key: str) -> dict[str, Any]:
        if not self.has(key):
            return {}
        return _Reader(self.value[key], self.at(key)).value

    def opens(self, key: str) -> tuple[dict[str, Any], ...]:
        return self.items(key, lambda item: item.value, ())

    def done(self) -> None:
        for key in self.value:
            if key not in self.taken:
                near = difflib.get_close_matches(key, self.taken, 1)
                raise UsageError(
                    f"policy key {key} is not known",
                    where=self.at(key),
                    hint=f"did you mean {near[0]}?" if near else "one of " + ", ".join(sorted(self.taken)),
                )


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


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


def _instant(reader: _Reader, key: str) -> str:
    found: str = reader.text(key)
    hint = "RFC 3339 in UTC, for example 2026-11-29T04:15:00Z"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", found):
        raise reader.wrong(key, "is not a time in UTC", hint)
    try:
        datetime.fromisoformat(found) + timedelta(seconds=_YEAR_S)  # the latest end of its life
    except (ValueError, OverflowError):
        raise reader.wrong(key, "is not a time in UTC", hint) from None
    return found


def _duration(reader: _Reader, key: str, default: Any = ...) -> str:
    found: str = reader.text(key, default=default)
    if not _DURATION.fullmatch(found):
        raise reader.wrong(key, "is not a duration", "a whole number and a unit: 30m, 12h, 7d")
    if len(found) > 12 or seconds(found) > _YEAR_S:
        raise reader.wrong(key, "is too long", "at most 366d")
    return found


def _goal(reader: _Reader) -> doc.Goal:
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


def _scope(reader: _Reader) -> doc.Scope:
    scope = doc.Scope(
        model=reader.text("model", default=None),
        route=reader.text("route", default=None),
        size_class=reader.text("size_class", default=None),
    )
    reader.done()
    return scope


def _delay(reader: _Reader) -> doc.Delay | None:
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


def _delays(reader: _Reader) -> doc.Delays:
    delays = doc.Delays(**{trigger: reader.part(trigger, _delay, None) for trigger in doc.TRIGGERS})
    reader.done()
    return delays


def _delay_rule(reader: _Reader) -> doc.DelayRule:
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


def _budget(reader: _Reader) -> doc.Budget:
    budget = doc.Budget(
        ratio=reader.number("ratio", 0, 1, default=0.05, above=True),
        burst=reader.whole("burst", 1, default=100),
        max_concurrent=reader.whole("max_concurrent", 1, default=None),
    )
    reader.done()
    return budget


def _deadline(reader: _Reader) -> doc.Deadline:
    deadline = doc.Deadline(
        total_ms=reader.number("total_ms", 0, _DAY_MS, above=True),
        attempt_ms=reader.number("attempt_ms", 0, _DAY_MS, default=None, above=True),
    )
    if deadline.attempt_ms is not None and deadline.attempt_ms >= deadline.total_ms:
        raise reader.wrong("attempt_ms", f"is not below total_ms {deadline.total_ms:g}")
    reader.done()
    return deadline


def _target(reader: _Reader) -> doc.Target:
    target = doc.Target(
        different_replica=reader.flag("different_replica", True),
        different_pool=reader.flag("different_pool", False),
        healthy_only=reader.flag("healthy_only", True),
        choose=reader.text("choose", doc.CHOICES, "as_routed"),
    )
    reader.done()
    return target


def _cancel(reader: _Reader) -> doc.Cancel:
    cancel = doc.Cancel(
        loser=reader.text("loser", doc.LOSERS, "engine_abort"),
        assumed=reader.text("assumed", doc.CANCELS, "unknown"),
    )
    reader.done()
    return cancel


def _hedge(reader: _Reader) -> doc.Hedge:
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


def _rule(reader: _Reader) -> doc.Rule:
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


def _rule_value(reader: _Reader, name: str, op: str) -> bool | float | str | tuple[str, ...]:
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


def _window(reader: _Reader) -> doc.Window:
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


def _suppress(reader: _Reader) -> doc.Suppress:
    suppress = doc.Suppress(
        signal=reader.text("signal", doc.SIGNALS),
        op=reader.text("op", ("<", "<=", ">", ">=")),
        value=reader.number("value", 0),
        why=reader.text("why", default=""),
        source=reader.text("source", default="default"),
    )
    reader.done()
    return suppress


def _experiment(reader: _Reader) -> doc.Experiment:
    experiment = doc.Experiment(
        kind=reader.text("kind", (doc.SWITCHBACK,), doc.SWITCHBACK),
        block=_duration(reader, "block", "30m"),
        seed=reader.whole("seed", 0, 2**53, default=1),
    )
    if seconds(experiment.block) < 1:
        raise reader.wrong("block", "is shorter than a second")
    reader.done()
    return experiment


def _scope_policy(reader: _Reader) -> doc.ScopePolicy:
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
