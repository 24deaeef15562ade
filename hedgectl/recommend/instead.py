"""Better or cheaper cures than a copy, best first, each with its effect where a replay could tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgectl.model import OK, Workload
from hedgectl.policy import Goal
from hedgectl.recommend.arms import Arm, milliseconds
from hedgectl.recommend.goal import parts

ROUTING_GAIN = 0.02  # of the goal's percentile: below this another routing changes nothing worth a line
_HANG_FACTOR = 10.0  # beyond this many times the p95 a request hangs rather than works


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known about a scope when cures are looked for."""

    workload: Workload
    goal: Goal
    unhedged: Arm
    better_routed: Arm | None = None
    hedged_s: float | None = None  # the goal's percentile of the best copy policy, worst case
    diagnosis: dict[str, Any] | None = None
    timeout_s: float | None = None


def cures(evidence: Evidence) -> list[dict[str, Any]]:
    """The ``instead`` list. Measured cures that do at least as well as the copy stand first, the others follow the verdict."""
    found: list[dict[str, Any]] = []
    for cure in (_outlier(evidence), _routing(evidence), *_by_verdict(evidence), _timeout(evidence)):
        if cure is not None:
            found.append(cure)
    return found


def _cure(code: str, text: str, expected: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"code": code, "text": text, "expected": expected or {}}


def _routing(evidence: Evidence) -> dict[str, Any] | None:
    """Least-outstanding routing: by replay if there was one, else by what the routing looks like."""
    metric, p = parts(evidence.goal)
    if evidence.better_routed is not None:
        before, after = evidence.unhedged.pool(metric).at(p), evidence.better_routed.pool(metric).at(p)
        if before is None or after is None or after > before * (1 - ROUTING_GAIN):
            return None
        text = (
            f"send each request to the replica with the fewest outstanding ones: {evidence.goal.metric.removesuffix('_ms')} "
            f"{before:.4g} s would become {after:.4g} s without any copy"
        )
        return _cure("route_least_outstanding", text, {evidence.goal.metric: milliseconds(after)})
    seen = ((evidence.diagnosis or {}).get("routing") or {}).get("seen")
    if seen == "random" and len(evidence.workload.replicas) > 1:
        text = "send each request to the replica with the fewest outstanding ones: requests are spread at random now"
        return _cure("route_least_outstanding", text)
    return None


def _outlier(evidence: Evidence) -> dict[str, Any] | None:
    """A replica that is slow all the time, or that owns nearly all slow requests: take it out before copying around it."""
    slow = [r for r in (evidence.diagnosis or {}).get("replicas") or [] if r.get("persistent")]
    names = [str(r["replica"]) for r in slow]
    if not names:
        name = _owner_of_the_slow(evidence.workload)
        names = [] if name is None else [name]
    if not names:
        return None
    which = ", ".join(names)
    return _cure("eject_outlier", f"take {which} out of rotation or repair it: it is slower than the others")


def _owner_of_the_slow(workload: Workload) -> str | None:
    """The one replica behind at least 80 % of the slow requests, if it has at most half of all and others have few."""
    from hedgectl.recommend.delay import healthy_limit

    w = workload
    rows = (w.status == OK) & (w.replica >= 0)
    values = np.where(np.isfinite(w.ttft_s), w.ttft_s, w.e2e_s)
    if len(w.replicas) < 2 or not rows.any():
        return None
    limit = healthy_limit(values[rows])
    if limit is None:
        return None
    slow = rows & (values > limit)
    count = np.bincount(w.replica[slow], minlength=len(w.replicas))
    total = np.bincount(w.replica[rows], minlength=len(w.replicas))
    worst = int(np.argmax(count))
    owns = count[worst] / max(int(count.sum()), 1)
    return str(w.replicas[worst]) if owns >= 0.8 and total[worst] <= total.sum() / 2 and count.sum() >= 3 else None


def _by_verdict(evidence: Evidence) -> list[dict[str, Any]]:
    verdict = (evidence.diagnosis or {}).get("verdict")
    if verdict in ("shared", "mixed"):
        return [
            _cure(
                "add_capacity",
                "add capacity, or admit fewer requests at once: all replicas are slow in the same moments",
            )
        ]
    if verdict == "long_work":
        return [
            _cure(
                "limit_output", "limit the length of answers, or give long ones a class of their own: they are the tail"
            )
        ]
    if verdict == "isolated":
        return [
            _cure("find_slow_cause", "find out why a replica slows down for a while: that is what a copy works around")
        ]
    if verdict == "tools":
        return [_cure("speed_up_tools", "make the tool calls faster, or run them side by side: the time goes there")]
    return []


def _timeout(evidence: Evidence) -> dict[str, Any] | None:
    """A few requests that hang: a deadline ends them, whatever the copies do."""
    if evidence.timeout_s is not None:
        return None
    pool = evidence.unhedged.e2e
    p95, slowest = pool.at(0.95), pool.at(1.0)
    if p95 is None or slowest is None or slowest < _HANG_FACTOR * p95 or pool.n < 100:
        return None
    text = f"set a timeout: the slowest request took {slowest:.4g} s, {slowest / p95:.0f} times the p95"
    return _cure("set_timeout", text)
