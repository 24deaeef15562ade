"""Which requests may get a copy: the default rules, their masks over a workload, and what had to be assumed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import Workload
from hedgectl.policy import Rule, Window

Bools = NDArray[np.bool_]

_ALWAYS = (
    Rule("tools_offered", "=", False, "a tool with side effects could run twice"),
    Rule("cache_hit", "=", False, "an answer from the response cache is already fast"),
    Rule("stored_state", "=", False, "a copy would write to a stored conversation twice"),
    Rule("n_choices", "=", 1.0, "n answers cost n times as much, twice"),
    Rule("batch", "=", False, "nobody waits for a batch job"),
)
_WHOLE = Rule("streamed", "=", False, "a stream may already be flowing when this trigger fires")
_STREAM = Rule("streamed", "=", True, "a whole answer shows no first token")
STICKY = Rule(
    "sticky_session", "=", False, "its router sends a copy to the same replica, or it starts there without the cache"
)
# The share above which a prompt lives off one replica's cache: a copy elsewhere computes it all again.
_CACHED = Rule("cached_ratio", "<", 0.9, "a copy on another replica loses the prompt cache and computes it all again")

_OPERATE = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def default_rules(workload: Workload, trigger: str) -> tuple[Rule, ...]:
    """The rules that hold unless a policy says otherwise."""
    rules = list(_ALWAYS)
    if trigger != "first_token":
        rules.insert(0, _WHOLE)
    elif bool(np.any(workload.streamed == 0)):
        rules.insert(0, _STREAM)
    if bool(np.any(workload.cached_tokens > 0)):
        rules.append(_CACHED)
    if bool(np.any(workload.sticky_session >= 0)):
        rules.append(STICKY)
    return tuple(rules)


def mask(workload: Workload, rules: Sequence[Rule], windows: Sequence[Window] = ()) -> Bools:
    """Rows that satisfy every rule and arrive in a window, shape (n,).

    A field that the log never has excludes nothing; where other rows have it, a row without it is not eligible (a row that
    says nothing of cached tokens is one without any).
    """
    allowed = in_windows(workload, windows)
    for rule in rules:
        satisfied = _satisfied(workload, rule)
        if satisfied is not None:
            allowed &= satisfied
    return allowed


def keeps(workload: Workload, rule: Rule) -> float | None:
    """Share of requests that satisfy one rule; None if its field was never logged."""
    satisfied = _satisfied(workload, rule)
    return None if satisfied is None or not len(workload) else round(float(satisfied.mean()), 6)


def notes(workload: Workload, rules: Sequence[Rule]) -> list[dict[str, Any]]:
    """What was assumed about fields that the log lacks, in whole or in part."""
    never = [rule for rule in rules if _satisfied(workload, rule) is None]
    found: list[dict[str, Any]] = []
    if never:
        named = ", ".join(f"{rule.field} {rule.op} {_shown(rule.value)}" for rule in never)
        found.append(
            {
                "code": "eligibility_assumed",
                "level": "warning",
                "share": 1.0,
                "text": f"not in this log, so every request was taken to satisfy: {named}. The rules stay in the policy; "
                f"what they keep and cost is known once {', '.join(rule.field for rule in never)} are logged",
            }
        )
    for rule in rules:
        column = _column(workload, rule.field)
        if column is None:
            continue
        unknown = float(np.mean(_unknown(column)))
        if unknown > 0:
            found.append(
                {
                    "code": "eligibility_unknown",
                    "level": "info",
                    "share": round(unknown, 6),
                    "text": f"{unknown:.1%} of requests do not log {rule.field}: they are not eligible",
                }
            )
    return found


def in_windows(workload: Workload, windows: Sequence[Window]) -> Bools:
    """Rows that arrive within one of the UTC windows, shape (n,); all of them if there is none."""
    if not windows:
        return np.ones(len(workload), dtype=bool)
    seconds = workload.t0_ns / 1e9 + workload.arrival_s
    day = np.floor(seconds / 86_400.0)
    weekday = (day.astype(np.int64) + 3) % 7 + 1  # 1970-01-01 was a Thursday, ISO day 4
    minute = (seconds - day * 86_400.0) / 60.0
    inside = np.zeros(len(workload), dtype=bool)
    for window in windows:
        for part in window.within_days():
            start, end = _minutes(part.start), _minutes(part.end)
            inside |= np.isin(weekday, part.days) & (minute >= start) & (minute < end)
    return inside


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _satisfied(workload: Workload, rule: Rule) -> Bools | None:
    if rule.field == "tool_names":
        return _tools(workload, rule)
    column = _column(workload, rule.field)
    if column is None:
        return None
    known = ~_unknown(column)
    if rule.op in ("in", "not_in"):
        values = rule.value if isinstance(rule.value, tuple) else (str(rule.value),)
        hit = np.isin(column, np.array(values, dtype=object).astype(str))
        return known & (hit if rule.op == "in" else ~hit)
    value: Any = rule.value
    if column.dtype.kind == "f":
        value = float(value)
    result: Bools = known & np.asarray(_OPERATE[rule.op](column, value), dtype=bool)
    return result


def _tools(workload: Workload, rule: Rule) -> Bools | None:
    """Without tools, or with listed ones only (``in``), or with none of those listed (``not_in``). Names not said: no."""
    w = workload
    if not bool(np.any(w.tools_offered >= 0)) and not w.tool_sets:
        return None
    listed = set(rule.value) if isinstance(rule.value, tuple) else {str(rule.value)}
    allowed = rule.op in ("in", "=")
    good = [
        (set(names.split(",")) <= listed) if allowed else not set(names.split(",")) & listed for names in w.tool_sets
    ]
    named = np.array([*good, False], dtype=bool)[np.where(w.tool_set < 0, len(good), w.tool_set)]
    return np.where(w.tool_set >= 0, named, w.tools_offered == 0)


def _unknown(column: NDArray[Any]) -> Bools:
    return np.isnan(column) if column.dtype.kind == "f" else np.asarray(column == "", dtype=bool)


def _column(workload: Workload, name: str) -> NDArray[Any] | None:
    """The values of a policy field as float (flags 0 and 1, NaN unknown) or text ("" unknown); None if never logged."""
    w = workload
    if name in ("segment", "route"):
        codes, names = (w.segment, w.segments) if name == "segment" else (w.route, w.routes)
        texts = np.array([*names, ""], dtype=str)[np.where(codes < 0, len(names), codes)]
        return texts if bool(np.any(codes >= 0)) else None
    if name == "cached_ratio":
        # What is at stake is the copy's price, and a prompt of which no cached part is known is priced in full: no reason to
        # leave it out.
        good = (w.prompt_tokens > 0) & (w.cached_tokens >= 0)
        return np.where(good, w.cached_tokens / np.maximum(w.prompt_tokens, 1), 0.0) if bool(good.any()) else None
    if name in (
        "streamed",
        "tools_offered",
        "cache_hit",
        "stored_state",
        "sticky_session",
        "batch",
        "n_choices",
        "prompt_tokens",
        "cached_tokens",
        "request_bytes",
    ):
        raw = getattr(w, name)
        values = np.where(raw < 0, np.nan, raw).astype(np.float64)
        return values if bool(np.isfinite(values).any()) else None
    return None  # a provider is not part of a workload


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)
