"""Which policy stands after a run: the gates' answer, and hysteresis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hedgectl.daily import gates
from hedgectl.daily.job import Job
from hedgectl.policy import PolicyDocument, ScopePolicy


def choose(
    job: Job, old: PolicyDocument | None, new: PolicyDocument, answers: Sequence[gates.Gate]
) -> tuple[str, PolicyDocument | None, list[str]]:
    """(action, policy that stands afterwards, reasons)."""
    failed = gates.failed(answers)
    if failed:
        return "kept", old, [g.text for g in failed]
    if old is None:
        return "written", new, []
    before = {p.scope: p for p in old.policies}
    settled, reasons = [], []
    for policy in new.policies:
        kept, why = _settle(job, before.get(policy.scope), policy, new.goal.min_gain_ratio)
        settled.append(kept)
        reasons += why
    chosen = replace(new, policies=tuple(settled))
    return ("renewed" if chosen.policy_id() == old.policy_id() else "written"), chosen, reasons


def _settle(job: Job, old: ScopePolicy | None, new: ScopePolicy, min_gain: float) -> tuple[ScopePolicy, list[str]]:
    """Hysteresis: a delay that hardly moved stays, and a hedge is switched on only for a gain clearly worth it.

    Switching off is never delayed.
    """
    if old is None:
        return new, []
    if new.is_on and old.is_on and old.hedge is not None and new.hedge is not None:
        same = replace(new.hedge, delay_ms=old.hedge.delay_ms, delays=old.hedge.delays, delay_rule=old.hedge.delay_rule)
        same = replace(same, deadline=old.hedge.deadline)
        moved = abs(new.hedge.delay_ms / old.hedge.delay_ms - 1)
        if 0 < moved <= job.hysteresis and replace(old.hedge) == same:
            return replace(new, hedge=old.hedge), [
                f"{new.scope.name}: the delay moved by {moved:.1%}, at most {job.hysteresis:.0%} is not worth a change"
            ]
    if new.is_on and not old.is_on and old.decision == "do_not_hedge":
        ratio = ((new.projection or {}).get("p99_change") or {}).get("ratio")
        needed = 1 - min_gain - job.hysteresis
        if ratio is not None and ratio > needed:
            text = f"{new.scope.name}: a gain of {1 - ratio:.1%} is not clearly above {min_gain:.0%}: hedging stays off"
            return replace(old, projection=new.projection), [text]
    return new, []
