"""The rules that a policy must pass, each with its value and its limit; the worse of what is unknown must pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hedgectl import quantiles
from hedgectl.policy import Goal
from hedgectl.recommend.goal import parts
from hedgectl.recommend.projecting import Candidate, Projection

MAX_RISE = 0.03  # of p50 and p95
LONG_WORK_GAIN = 0.03
SHARED_LIFT = 3.0
SHARED_GAIN = 0.10


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A candidate with what it does in the worst case, and which rules it breaks."""

    candidate: Candidate
    projections: tuple[Projection, ...]
    worst: Projection
    gain: float | None  # of the goal's percentile, worst case; None if the percentile is not known
    broken: tuple[dict[str, Any], ...]
    held: tuple[dict[str, Any], ...]  # rules that passed, for the reasons of a `hedge`
    cost: dict[str, Any] | None = None

    @property
    def passed(self) -> bool:
        return not self.broken

    @property
    def worst_ratio(self) -> float:
        """hedged / unhedged of the goal's percentile in the worst case; inf if unknown."""
        return float("inf") if self.gain is None else 1.0 - self.gain

    @property
    def worst_goal_ms(self) -> float | None:
        """The goal's percentile with copies, in the worst case."""
        limit = next((r for r in (*self.held, *self.broken) if r["code"] in ("goal_met", "goal_missed")), None)
        return None if limit is None else float(limit["value"])


def reason(code: str, text: str, value: float | None = None, limit: float | None = None) -> dict[str, Any]:
    """One entry of ``reasons``."""
    return {
        "code": code,
        "text": text,
        "value": None if value is None else round(value, 6),
        "limit": None if limit is None else round(limit, 6),
    }


def ratio_of(projection: Projection, metric: str, p: float) -> float | None:
    """hedged / unhedged of one percentile; None if either is unknown."""
    before = projection.unhedged.pool(metric).at(p)
    after = projection.hedged.pool(metric).at(p)
    if before is None or after is None or before <= 0:
        return None
    return after / before


def judge(
    candidate: Candidate,
    projections: Sequence[Projection],
    goal: Goal,
    cost: dict[str, Any] | None = None,
    *,
    max_rise: float = MAX_RISE,
) -> Judged:
    """Applies the rules to all assumptions at once: each rule is decided by the assumption that is worst for it."""
    metric, p = parts(goal)
    name = f"{metric} {quantiles.name(p)}"
    n = projections[0].unhedged.pool(metric).n
    shown = quantiles.printable(n, p)  # the rule of all documents: no figure for what no request reaches
    if not shown:
        name += f" (beyond what {n} requests can show)"
    elif n < quantiles.needed(p):
        name += f" (not reliable with {n} requests)"
    ratios = [(ratio_of(each, metric, p), each) for each in projections]
    known = [(r, each) for r, each in ratios if r is not None]
    broken: list[dict[str, Any]] = []
    held: list[dict[str, Any]] = []
    if not known:
        bound = projections[0].unhedged.pool(metric).document()["at_least"].get(quantiles.name(p))
        longer = "" if bound is None else f": it is only known to be at least {bound:.6g} ms"
        text = f"{name} cannot be told from this log{longer}"
        return Judged(candidate, tuple(projections), projections[0], None, (reason("goal_unknown", text),), (), cost)
    worst_ratio, worst = max(known, key=lambda pair: pair[0])
    gain = 1.0 - worst_ratio
    unknown = _of_what(worst) if len(projections) > 1 else ""
    before, after = worst.unhedged.pool(metric).at(p), worst.hedged.pool(metric).at(p)
    change = f"{name} {_ms(before)} would become {_ms(after)}{unknown}" if shown else f"{name} would change{unknown}"
    if gain < goal.min_gain_ratio:
        kind = "makes it worse" if gain < 0 else "gains too little"
        broken.append(
            reason(
                "gain_too_small",
                f"a copy {kind}: {change} ({-gain:+z.1%}; at least {-goal.min_gain_ratio:+.0%} is asked)",
                gain,
                goal.min_gain_ratio,
            )
        )
    else:
        held.append(reason("gain", f"{change} ({-gain:+z.1%})", gain, goal.min_gain_ratio))
    for kind, side in ((m, s) for m in dict.fromkeys((metric, "e2e")) for s in ("p50", "p95")):
        share = float(side.removeprefix("p")) / 100.0
        rises = [(r - 1.0, each) for each in projections if (r := ratio_of(each, kind, share)) is not None]
        if not rises:
            continue
        rise, at = max(rises, key=lambda pair: pair[0])
        found = reason(
            f"{side}_rises" if rise > max_rise else f"{side}_holds",
            f"{kind} {side} would change by {rise:+z.1%}{_of_what(at) if len(projections) > 1 else ''}; "
            f"at most {max_rise:+.0%} is allowed",
            rise,
            max_rise,
        )
        (broken if rise > max_rise else held).append(found)
    if goal.below_ms is not None and after is not None:
        would = f"{name} would be {_ms(after)}" if shown else name
        text = f"{would}, the goal is below {goal.below_ms:.6g} ms"
        met = after * 1e3 < goal.below_ms
        # Falling short of the goal is no reason to keep the slower service: it is said, and breaks nothing.
        held.append(reason("goal_met" if met else "goal_missed", text, round(after * 1e3, 3), goal.below_ms))
    if goal.max_cost_delta_ratio is not None:
        broken += _cost_rule(goal.max_cost_delta_ratio, cost)
    return Judged(candidate, tuple(projections), worst, gain, tuple(broken), tuple(held), cost)


def _cost_rule(limit: float, cost: dict[str, Any] | None) -> list[dict[str, Any]]:
    if cost is None:
        text = "a cost limit was asked for, but neither this log nor a price table says what requests cost"
        return [reason("cost_unknown", text, None, limit)]
    high = float(cost["high_ratio"])
    if high <= limit:
        return []
    return [reason("cost_above_limit", f"cost could grow by {high:.1%}, at most {limit:.1%} is allowed", high, limit)]


def _of_what(projection: Projection) -> str:
    words = []
    if projection.assumption.cancel is not None:
        frees = projection.assumption.cancel == "frees_engine"
        words.append("a cancelled loser frees its engine" if frees else "a cancelled loser runs on")
    same = projection.assumption.copy_length == "same"
    words.append("a copy's answer is as long" if same else "a copy's answer has a length of its own")
    return f" (if {' and '.join(words)})"


def _ms(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
