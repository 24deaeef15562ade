"""Whether a prompt may be copied: the policy's rules on what a probe knows of its own requests."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

from hedgectl.policy import Rule, Window
from hedgectl.probe.prompts import tool_name
from hedgectl.probe.records import CallRecord
from hedgectl.probe.wire import Prompt

_OPS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": lambda found, allowed: found in allowed,
    "not_in": lambda found, allowed: found not in allowed,
}


def facts(prompt: Prompt, *, streamed: bool) -> dict[str, Any]:
    """The fields a rule may name and a probe knows; the rest (segment, route, cache state) it cannot know."""
    return {
        "streamed": streamed,
        "tools_offered": bool(prompt.tools),
        "tool_names": ",".join(sorted(tool_name(t) for t in prompt.tools)),
        "stored_state": False,
        "sticky_session": False,
        "batch": False,
        "n_choices": 1,
        "prompt_tokens": prompt.estimated_tokens,
    }


def eligible(prompt: Prompt, rules: Sequence[Rule], *, streamed: bool) -> bool:
    """Whether every rule that can be judged holds."""
    known = facts(prompt, streamed=streamed)
    return all(_OPS[r.op](known[r.field], r.value) for r in rules if r.field in known)


def in_hours(call: CallRecord, windows: Sequence[Window], epoch_ns: int) -> bool:
    """Whether a call was planned within one of the hours (UTC); ``epoch_ns`` is the UTC of the records' monotonic 0."""
    return any(window.holds((epoch_ns + call.planned_ns) / 1e9) for window in windows)


def unknown(rules: Sequence[Rule]) -> list[str]:
    """Fields of rules that a probe cannot judge."""
    known = facts(Prompt(()), streamed=True)
    return sorted({r.field for r in rules if r.field not in known})
