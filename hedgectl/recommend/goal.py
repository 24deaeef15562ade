"""The goal of a recommendation: `e2e_p99 < 7s` as a value, and a clear complaint about anything less exact."""

from __future__ import annotations

import re
from dataclasses import replace

from hedgectl import config
from hedgectl.errors import UsageError
from hedgectl.policy import Goal

_GOAL = re.compile(r"^\s*(e2e|ttft)_p(50|9\d(?:\.\d+)?)(?:_ms)?\s*(?:(<=?)\s*(\S.*?))?\s*$")
_BARE = re.compile(r"^\s*(p\d+(?:\.\d+)?)\b")


def parse_goal(
    text: str | None, *, max_cost_delta_ratio: float | None = None, min_gain_ratio: float | None = None
) -> Goal:
    """`e2e_p99`, `ttft_p95 < 800ms`; None = `e2e_p99` as low as the budget allows. Raises UsageError."""
    goal = Goal(max_cost_delta_ratio=max_cost_delta_ratio)
    if min_gain_ratio is not None:
        goal = replace(goal, min_gain_ratio=min_gain_ratio)
    if text is None:
        return goal
    match = _GOAL.match(text)
    if match is None:
        bare = _BARE.match(text)
        hint = (
            f"say of what: e2e_{bare[1]} or ttft_{bare[1]}, e.g. --goal 'e2e_{bare[1]} < 7s'"
            if bare
            else "e2e_p99 or ttft_p95, and if wanted a limit: --goal 'e2e_p99 < 7s'"
        )
        raise UsageError(f"--goal {text!r} is not a goal", hint=hint)
    below = None
    if match[4] is not None:
        try:
            below = config.seconds(match[4]) * 1e3
        except ValueError:
            raise UsageError(
                f"--goal {text!r}: {match[4]!r} is not a duration", hint="a duration names its unit: 7s, 850ms"
            ) from None
        if below <= 0:
            raise UsageError(f"--goal {text!r}: nothing is faster than 0", hint="e.g. --goal 'e2e_p99 < 7s'")
    return replace(goal, metric=f"{match[1]}_p{match[2]}_ms", below_ms=below)


def parts(goal: Goal) -> tuple[str, float]:
    """(`e2e` or `ttft`, p as a share): what the goal's metric is a percentile of."""
    kind, percentile, _ = goal.metric.split("_")
    return kind, float(percentile.removeprefix("p")) / 100.0
