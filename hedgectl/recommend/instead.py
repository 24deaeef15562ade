"""Better or cheaper cures than a copy, best first, each with its effect where a replay could tell it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgectl.model import OK, Workload
from hedgectl.policy import Goal
from hedgectl.recommend.arms import Arm, milliseconds
from hedgectl.recommend.goal import parts
from hedgectl.recommend.replaying import ReplayProjector, with_replicas, with_shorter_answers, without_replica
from hedgectl.sim import layout

ROUTING_GAIN = 0.02  # of the goal's percentile: below this another routing changes nothing worth a line
OUTLIER_FACTOR = 1.3  # slower than the others all the time by this much
LONG_ANSWER_SHARE = 0.98  # answers longer than this share of them are cut when a limit is tried
_HANG_FACTOR = 10.0  # beyond this many times the p95 a request hangs rather than works


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What is known about a scope when cures are looked for."""

    workload: Workload
    goal: Goal
    unhedged: Arm
    better_routed: Arm | None = None
    replayed: ReplayProjector | None = None  # None: nothing can be tried out
    slowness: tuple[float, ...] = ()  # static factor of each replica, 1 = usual
    diagnosis: dict[str, Any] | None = None
    timeout_s: float | None = None


def cures(evidence: Evidence) -> list[dict[str, Any]]:
    """The ``instead`` list: first what costs nothing (by its effect, where a replay tried it), then what the verdict asks for."""
    free = [cure for cure in (_routing(evidence), _outlier(evidence)) if cure is not None]
    name = evidence.goal.metric
    free.sort(key=lambda cure: float(cure["expected"].get(name, 0.0)))
    rest = [cure for cure in (*_by_verdict(evidence), _timeout(evidence)) if cure is not None]
    return [*free, *rest]


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
    w = evidence.workload
    seen = [str(r["replica"]) for r in (evidence.diagnosis or {}).get("replicas") or [] if r.get("persistent")]
    seen += [name for name, factor in zip(w.replicas, evidence.slowness, strict=False) if factor > OUTLIER_FACTOR]
    names = sorted({name for name in seen if name in w.replicas})
    if not names:
        owner = _owner_of_the_slow(w)
        names = [] if owner is None else [owner]
    if not names or len(names) >= len(w.replicas):
        return None
    text = f"take {', '.join(names)} out of rotation or repair it: it is slower than the others"
    replayed = evidence.replayed
    if replayed is None or len(w.replicas) - len(names) < 1:
        return _cure("eject_outlier", text)
    setting = replayed.setting
    for name in names:
        setting = without_replica(setting, setting.workload.replicas.index(name))
    return _measured(evidence, "eject_outlier", text, replayed.changed(setting))


def _measured(evidence: Evidence, code: str, text: str, arm: Arm) -> dict[str, Any] | None:
    """A cure that was tried by replay; None if it does not help."""
    metric, p = parts(evidence.goal)
    before, after = evidence.unhedged.pool(metric).at(p), arm.pool(metric).at(p)
    if before is None or after is None or after > before * (1 - ROUTING_GAIN):
        return None
    name = evidence.goal.metric.removesuffix("_ms")
    found = f"{text} ({name} {before:.4g} s would become {after:.4g} s)"
    return _cure(code, found, {evidence.goal.metric: milliseconds(after)})


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


def _by_verdict(evidence: Evidence) -> list[dict[str, Any] | None]:
    verdict = (evidence.diagnosis or {}).get("verdict")
    if verdict in ("shared", "mixed"):
        return [_capacity(evidence)]
    if verdict == "long_work":
        return [_shorter(evidence)]
    if verdict == "isolated":
        text = "find out why a replica slows down for a while: that is what a copy works around"
        return [_cure("find_slow_cause", text)]
    if verdict == "tools":
        return [_cure("speed_up_tools", "make the tool calls faster, or run them side by side: the time goes there")]
    return []


def _capacity(evidence: Evidence) -> dict[str, Any] | None:
    text = "add capacity, or admit fewer requests at once: all replicas are slow in the same moments"
    replayed = evidence.replayed
    if replayed is None:
        return _cure("add_capacity", text)
    # Where requests went is of no use on a larger fleet: they are spread at random there, or to the least outstanding.
    routing = replayed.code if replayed.code != layout.AS_LOGGED else layout.RANDOM
    arm = replayed.changed(with_replicas(replayed.setting, 1), routing)
    tried = _measured(evidence, "add_capacity", f"{text}; one more replica was tried", arm)
    return tried or _cure("add_capacity", text)


def _shorter(evidence: Evidence) -> dict[str, Any] | None:
    text = "limit the length of answers, or give long ones a class of their own: they are the tail"
    replayed = evidence.replayed
    if replayed is None:
        return _cure("limit_output", text)
    setting, limit = with_shorter_answers(replayed.setting, LONG_ANSWER_SHARE)
    tried = _measured(evidence, "limit_output", f"{text}; {limit:.0f} tokens were tried", replayed.changed(setting))
    return tried or _cure("limit_output", text)


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
