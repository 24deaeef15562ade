"""Candidates and the choice among them: triggers that the log and the target allow, a grid of delays, the worst case first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hedgectl.estimate import CopyLength
from hedgectl.model import OK, Workload
from hedgectl.policy import Rule, ScopePolicy, Suppress, Window
from hedgectl.recommend import delay, eligibility, knobs
from hedgectl.recommend.gates import Judged
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Assumption, CancelEffect, Candidate

# Quantiles of the healthy mode at which the delay is tried; the plain rule's p95 is among them.
QUANTILES = (0.80, 0.90, 0.925, 0.95, 0.97, 0.985)
_TIE = 0.01  # closer than this in the goal's percentile, fewer copies win

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """What one trigger has to work with: its clock, its rules and the requests they leave."""

    trigger: str
    clock: delay.Clock
    rules: tuple[Rule, ...]
    eligible: Bools
    windows: tuple[Window, ...] = ()


@dataclass(frozen=True, slots=True)
class Missing:
    """A trigger that cannot be tried: the log does not time it, or no request is eligible."""

    trigger: str
    log_field: str
    nobody: bool = False  # the clock is there, but the rules leave no request


LOG_FIELDS = {"first_token": "ttft_ms", "response": "e2e_ms", "response_headers": "headers_ms"}


def fields(workload: Workload, options: Options) -> tuple[list[Field], list[Missing]]:
    """The triggers that can be tried, and those that the target needs and the log has no clock for."""
    wanted = options.triggers()
    names = wanted if wanted is not None else _natural_triggers(workload)
    found: list[Field] = []
    missing: list[Missing] = []
    for name in names:
        one = _field(workload, name, options)
        if one is None and name == "response_headers":
            # The headers of a whole answer leave when it is ready, so its end stands in for them.
            one = _field(workload, "response", options) if _whole_answers(workload) else None
        if one is not None:
            found.append(one)
        else:
            missing.append(Missing(name, LOG_FIELDS[name], _nobody(workload, name)))
    return found, missing


def _nobody(workload: Workload, trigger: str) -> bool:
    """The log has this clock, so it is the rules that leave no request."""
    everyone = np.ones(len(workload), dtype=bool)
    return delay.clock(workload, trigger, everyone) is not None


def _natural_triggers(workload: Workload) -> tuple[str, ...]:
    streams = workload.streamed
    if bool(np.all(streams == 0)) and len(streams):
        return ("response",)
    if bool(np.all(streams == 1)) and len(streams):
        # whoever was cut off waited for a first token too: only answers say whether the log has one
        ttft = workload.ttft_s[workload.status == OK]
        return ("first_token",) if len(ttft) and float(np.isfinite(ttft).mean()) > 0.5 else ("response",)
    return ("first_token", "response")


def _whole_answers(workload: Workload) -> bool:
    return bool(len(workload)) and bool(np.mean(workload.streamed == 0) > 0.5)


def _field(workload: Workload, trigger: str, options: Options) -> Field | None:
    rules = knobs.rules(workload, trigger, options)
    eligible = eligibility.mask(workload, rules)
    found = delay.clock(workload, trigger, eligible)
    if found is None:
        return None
    hours: tuple[Window, ...] = ()
    if options.windows:
        # The delay follows all hours: that of the slow ones alone would come after the answers.
        hours = tuple(h.window for h in knobs.recurring(workload, found, eligible, options))
        eligible &= eligibility.in_windows(workload, hours)
    return Field(trigger, found, rules, eligible, hours)


def assumptions(options: Options, *, sees_load: bool) -> tuple[Assumption, ...]:
    """Every way the unknown may be; the worse must pass."""
    lengths: tuple[CopyLength, ...] = (
        ("same", "independent") if options.copy_length == "both" else (options.copy_length,)
    )
    if not sees_load:
        return tuple(Assumption(None, length) for length in lengths)
    cancels: tuple[CancelEffect, ...] = (
        ("frees_engine", "engine_runs_on") if options.cancel == "unknown" else (options.cancel,)
    )
    return tuple(Assumption(cancel, length) for cancel in cancels for length in lengths)


def candidates(
    one: Field,
    options: Options,
    suppress: tuple[Suppress, ...] = (),
    quantiles: Sequence[float] = QUANTILES,
    later: Sequence[float] = (),
) -> list[Candidate]:
    """The grid of delays of one trigger, without those that come out equal; `later` as in ``Candidate``, seconds."""
    tried: dict[float, Candidate] = {}
    grid = [*((quantile, 0.0) for quantile in quantiles), *((delay.RULE_QUANTILE, wait) for wait in later)]
    for quantile, wait in grid:
        rule = delay.rule_for(one.clock, quantile, options.limits, wait)
        seconds = delay.rule_delay_s(one.clock, rule)
        if seconds in tried:
            continue
        tried[seconds] = Candidate(
            trigger=one.trigger,  # type: ignore[arg-type]
            delay_s=seconds,
            quantile=quantile,
            budget=options.budget,
            eligible=one.eligible,
            suppress=suppress,
            rule=rule,
            later_s=wait,
        )
    return list(tried.values())


def from_policy(workload: Workload, policy: ScopePolicy) -> Candidate | None:
    """The candidate that a given policy describes; None if it has no hedge."""
    hedge = policy.hedge
    if hedge is None:
        return None
    return Candidate(
        trigger=hedge.trigger,  # type: ignore[arg-type]
        delay_s=hedge.delay_ms / 1e3,
        quantile=delay.RULE_QUANTILE,
        budget=hedge.budget,
        eligible=eligibility.mask(workload, policy.eligible, policy.windows_utc),
        target=hedge.target,
        suppress=policy.suppress_when,
        deadline=hedge.deadline,
        rule=hedge.delay_rule,
        max_attempts=hedge.max_attempts,
    )


def best(judged: Sequence[Judged], below_ms: float | None) -> Judged | None:
    """The choice: among those that pass, the lowest worst case (the cheapest that meets the goal, if one is set).

    If none passes, the least bad one, so that a reader sees what was refused. None for an empty sequence.
    """
    if not judged:
        return None
    passing = [j for j in judged if j.passed]
    if not passing:
        return min(judged, key=lambda j: (j.worst_ratio, j.candidate.delay_s))
    if below_ms is not None:
        meeting = [j for j in passing if j.worst_goal_ms is not None and j.worst_goal_ms < below_ms]
        if meeting:
            return min(meeting, key=lambda j: (_copies(j), j.worst_ratio))
    lowest = min(j.worst_ratio for j in passing)
    near = [j for j in passing if j.worst_ratio <= lowest * (1 + _TIE)]
    return min(near, key=lambda j: (_copies(j), j.worst_ratio))


def _copies(judged: Judged) -> float:
    return max(each.hedged.hedges for each in judged.projections)
