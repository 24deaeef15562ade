"""What each rule of eligibility keeps, costs and saves: left out, or put in, and projected again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import cost
from hedgectl.model import Workload
from hedgectl.policy import Rule, Window
from hedgectl.recommend import delay, eligibility, windows
from hedgectl.recommend.arms import milliseconds
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Assumption, Candidate, Projection, Projector

Bools = NDArray[np.bool_]

_P = 0.99
_PROMPT_LIMIT = 0.95  # quantile of prompt length at which a size limit is tried
_MAX_SEGMENTS = 6
_OFFERED_REQUESTS = 400_000  # replays of a longer log are kept for the rules that stand


@dataclass(frozen=True, slots=True, eq=False)
class Priced:
    """The rules with their prices, and all knobs, those that are not turned included, for ``projection.knobs``."""

    rules: tuple[Rule, ...]
    knobs: tuple[dict[str, Any], ...]


def rules(workload: Workload, trigger: str, options: Options) -> tuple[Rule, ...]:
    """The default rules with what the user added: an allow-list of tools, segments, a limit on the prompt."""
    found = list(eligibility.default_rules(workload, trigger))
    if options.allow_tools:
        why = "these tools may run twice; any other could do harm"
        at = next(k for k, rule in enumerate(found) if rule.field == "tools_offered")
        found[at] = Rule("tool_names", "in", tuple(sorted(options.allow_tools)), why, source="config")
    if options.segments:
        why = "the segments that are worth a second request"
        found.append(Rule("segment", "in", tuple(sorted(options.segments)), why, source="config"))
    if options.max_prompt_tokens is not None:
        why = "a long prompt is computed twice"
        found.append(Rule("prompt_tokens", "<=", float(options.max_prompt_tokens), why, source="config"))
    return tuple(found)


def recurring(
    workload: Workload, found: delay.Clock, eligible: Bools, options: Options
) -> tuple[windows.Recurring, ...]:
    """Windows in which eligible requests outlast the plain rule's delay more often than at other hours."""
    rule = delay.rule_for(found, delay.RULE_QUANTILE, options.limits)
    seconds = {
        "first_token": workload.ttft_s,
        "response": workload.e2e_s,
        "response_headers": workload.headers_s,
    }[found.trigger]
    return windows.of(workload, eligible, seconds, delay.rule_delay_s(found, rule), options.tz)


@dataclass(frozen=True, slots=True, eq=False)
class Pricing:
    """What one choice is compared with: the same candidate with other masks, in the case that is worst for it."""

    workload: Workload
    options: Options
    projector: Projector
    candidate: Candidate
    assumption: Assumption
    now: Projection
    prices: cost.Prices | None

    def price(self, stand: Sequence[Rule], on: Sequence[Window]) -> Priced:
        """Prices the rules and windows that stand, and offers those that do not."""
        priced = []
        knobs = []
        for rule in stand:
            keeps = eligibility.keeps(self.workload, rule)
            rest = [r for r in stand if r is not rule]
            # Without its rule on streams the trigger has no meaning; a field that was never logged has no price.
            effect: tuple[float | None, float | None] = (None, None)
            if rule.field != "streamed" and keeps is not None:
                effect = self._effect(self._mask(rest, on), applied=True)
            one = replace(rule, keeps_ratio=keeps, p99_cost_ms=effect[0], saves_cost_ratio=effect[1])
            priced.append(one)
            if keeps is not None:
                knobs.append(_knob(one.field, True, one, (), keeps, effect))
        if on:
            keeps = round(float(eligibility.in_windows(self.workload, on).mean()), 6)
            knobs.append(_knob("windows_utc", True, None, on, keeps, self._effect(self._mask(stand, ()), applied=True)))
        if self.projector.estimator == "matched" or len(self.workload) <= _OFFERED_REQUESTS:
            knobs += self._offered(stand, on)
        return Priced(tuple(priced), tuple(knobs))

    def _offered(self, stand: Sequence[Rule], on: Sequence[Window]) -> list[dict[str, Any]]:
        """Knobs that are not turned: hours, segments, prompts that live off a cache, long prompts."""
        w, found = self.workload, []
        offered: list[tuple[Rule | None, tuple[Window, ...]]] = []
        if not on:
            clock = delay.clock(w, self.candidate.trigger, self.candidate.eligible)
            if clock is not None:
                hours = recurring(w, clock, self.candidate.eligible, self.options)
                if hours:
                    offered.append((None, tuple(h.window for h in hours)))
        fields = {rule.field for rule in stand}
        if "cached_tokens" not in fields and bool(np.any(w.cached_tokens > 0)):
            offered.append((Rule("cached_tokens", "=", 0.0, "no copy of what a cache already shortens"), ()))
        if "segment" not in fields and 1 < len(w.segments) <= _MAX_SEGMENTS:
            offered += [(Rule("segment", "in", (name,), "this segment alone"), ()) for name in w.segments]
        if eligibility.STICKY.field not in fields:
            offered.append((eligibility.STICKY, ()))  # not in this log: shown without a price
        known = w.prompt_tokens[w.prompt_tokens >= 0]
        if "prompt_tokens" not in fields and len(known) and int(known.max()) > int(known.min()):
            limit = float(np.quantile(known, _PROMPT_LIMIT, method="higher"))
            offered.append((Rule("prompt_tokens", "<=", limit, "a long prompt is computed twice"), ()))
        for k, (rule, hours_on) in enumerate(offered):
            self.options.say("pricing the knobs", k / len(offered))
            more = [*stand, rule] if rule is not None else list(stand)
            keeps = (
                eligibility.keeps(w, rule)
                if rule is not None
                else round(float(eligibility.in_windows(w, hours_on).mean()), 6)
            )
            effect: tuple[float | None, float | None] = (None, None)
            if keeps is not None:
                effect = self._effect(self._mask(more, hours_on or on), applied=False)
            found.append(_knob("windows_utc" if rule is None else rule.field, False, rule, hours_on, keeps, effect))
        return found

    def _mask(self, stand: Sequence[Rule], on: Sequence[Window]) -> Bools:
        return eligibility.mask(self.workload, stand, on)

    def _effect(self, eligible: Bools, *, applied: bool) -> tuple[float | None, float | None]:
        """(ms by which p99 is higher with the knob, share of the bill that it saves); None where one is not known."""
        if bool(np.array_equal(eligible, self.candidate.eligible)):
            other = self.now
        else:
            other = self.projector.project(replace(self.candidate, eligible=eligible), self.assumption)
        with_it, without = (self.now, other) if applied else (other, self.now)
        metric, _ = parts(self.options.goal)
        high, low = with_it.hedged.pool(metric).at(_P), without.hedged.pool(metric).at(_P)
        p99 = None if high is None or low is None else milliseconds(high - low) + 0.0
        bills = [
            cost.growth(self.workload, self.prices, each.copies, self.options.loser_billing)
            for each in (without, with_it)
        ]
        saved = None
        if bills[0] is not None and bills[1] is not None:
            saved = round(float(bills[0]["delta_ratio"]) - float(bills[1]["delta_ratio"]), 6) + 0.0
        return p99, saved


def _knob(
    name: str,
    applied: bool,
    rule: Rule | None,
    hours: Sequence[Window],
    keeps: float | None,
    effect: tuple[float | None, float | None],
) -> dict[str, Any]:
    value: Any = None if rule is None else (list(rule.value) if isinstance(rule.value, tuple) else rule.value)
    return {
        "field": name,
        "applied": applied,
        "op": None if rule is None else rule.op,
        "value": value,
        "windows_utc": [{"days": list(h.days), "from": h.start, "to": h.end, "why": h.why} for h in hours],
        "keeps_ratio": keeps,
        "p99_cost_ms": effect[0],
        "saves_cost_ratio": effect[1],
    }
