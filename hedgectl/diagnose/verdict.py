"""From evidence to a verdict with its confidence, the reasons (value against limit), and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hedgectl.diagnose.evidence import MODE_SHARE, Evidence

# Cut-offs of lift: from six simulated worlds of known truth; below 1.5 never shared, from 3 always.
MIXED_LIFT = 1.5
SHARED_LIFT = 3.0
COPY_SLOW = 0.5  # a copy that meets a slow replica every second time is no way out, whatever the base rate
LONG_WORK_GAIN = 0.03
LENGTH_SHARE = 0.6
MOST_LENGTH = 0.9
TOOLS_SHARE = 0.5
SHORT_TAIL = 2.0  # p99 within twice p50: nothing to cure
PLAIN_TAIL = 5.0  # p99 within five times p50 and explained by length: ordinary spread of work
OUTLIER_SHARE = 0.5
MIN_TAIL = 30
FEW_TAIL = 3  # with a lowered minimum
TIMEOUT_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class Verdict:
    """`reasons` and `advice` are the document's pieces, most important first."""

    verdict: str
    confidence: str
    reasons: list[dict[str, Any]]
    advice: list[dict[str, Any]]


def _reason(code: str, text: str, value: float | None, limit: float | None) -> dict[str, Any]:
    def tidy(v: float | None) -> float | None:
        return None if v is None else round(v, 6)

    return {"code": code, "text": text, "value": tidy(value), "limit": tidy(limit)}


def _advice(code: str, text: str, **more: Any) -> dict[str, Any]:
    return {"code": code, "text": text, **more}


def judge(e: Evidence, min_requests: int, default_min: int) -> Verdict:
    """The verdict. Never one from fewer than `min_requests` finished requests."""
    reasons: list[dict[str, Any]] = []
    advice: list[dict[str, Any]] = []
    stopped = e.censored / max(e.requests, 1)
    if stopped > TIMEOUT_SHARE:
        text = f"{stopped:.1%} of requests ended in a timeout or a hang-up: an incident rather than a tail"
        reasons.append(_reason("cut_short", text, stopped, TIMEOUT_SHARE))
        advice.append(_advice("look_at_timeouts", "find out why callers wait in vain before tuning copies"))
    if e.finished < min_requests:
        text = f"{e.finished} finished requests, a verdict needs {min_requests}"
        reasons.append(_reason("too_few_requests", text, e.finished, min_requests))
        advice.append(_advice("collect_more", "ingest more logs, or lower --min-requests and take the answer lightly"))
        return Verdict("cannot_tell", "low", reasons, advice)
    if e.p95_unknown:
        reasons.append(_reason("tail_not_seen", "p95 lies beyond the time at which callers gave up", None, None))
        return Verdict("cannot_tell", "low", reasons, advice)
    seen = e.replica_count if e.replica_share > 0 else 0
    tools = e.attribution is not None and (e.attribution["tool_wait"] or 0.0) >= TOOLS_SHARE
    if seen < 2 and not tools:
        _cannot_compare(e, seen, reasons, advice)
        return Verdict("cannot_tell", "low", reasons, advice)
    if e.tail == 0 or e.attribution is None or e.tail_ratio is None:
        reasons.append(_reason("no_excess", "no request is slower than the ordinary ones", 0, None))
        return Verdict("no_tail", _confidence(e, min_requests, default_min, True), reasons, advice)
    if min_requests >= default_min and e.tail < MIN_TAIL:
        reasons.append(_reason("too_few_slow", f"{e.tail} slow requests, {MIN_TAIL} are needed", e.tail, MIN_TAIL))
        return Verdict("cannot_tell", "low", reasons, advice)
    return _from_tail(e, min_requests, default_min, reasons, advice)


def _from_tail(
    e: Evidence, min_requests: int, default_min: int, reasons: list[dict[str, Any]], advice: list[dict[str, Any]]
) -> Verdict:
    assert e.attribution is not None
    assert e.tail_ratio is not None
    share = {k: v or 0.0 for k, v in e.attribution.items()}
    length = share["decode_length"] + share["prefill"]
    move = e.e2e if e.metric == "e2e" else e.ttft
    gain = e.copy_gain

    def done(verdict: str, clear: bool) -> Verdict:
        _routing(e, verdict, advice)
        return Verdict(verdict, _confidence(e, min_requests, default_min, clear), reasons, advice)

    if e.tail_ratio <= SHORT_TAIL:
        text = f"p99 is {e.tail_ratio:.1f} times p50"
        reasons.append(_reason("tail_is_short", text, e.tail_ratio, SHORT_TAIL))
        return done("no_tail", e.tail_ratio < 0.9 * SHORT_TAIL)
    if share["tool_wait"] >= TOOLS_SHARE:
        text = f"{share['tool_wait']:.0%} of the excess of slow requests is waiting for tools"
        reasons.append(_reason("tools_dominate", text, share["tool_wait"], TOOLS_SHARE))
        advice.append(_advice("look_at_tools", "a second model call cannot shorten a tool: time the tools"))
        return done("tools", share["tool_wait"] > TOOLS_SHARE + 0.1)

    seen = [r for r in e.replicas if r.requests]
    if e.slow_mode_share >= MODE_SHARE:
        told = f"{e.slow_mode_share:.0%} of requests took three times the ordinary: p95 lies inside the slow mode"
        reasons.append(_reason("p95_in_slow_mode", told, e.slow_mode_share, MODE_SHARE))
    outliers = [r for r in seen if r.persistent]
    slow_total = max(sum(r.slow for r in seen), 1)
    carried = sum(r.slow for r in outliers) / slow_total
    fair = sum(r.requests for r in outliers) / max(sum(r.requests for r in seen), 1)
    for r in outliers:
        text = (
            f"{r.replica} takes {r.speed_ratio or 0:.2f} times as long as the others for the same lengths, all the time"
        )
        reasons.append(_reason("replica_stays_slow", text, r.speed_ratio, 1.2))
    if outliers and carried >= OUTLIER_SHARE and carried > 1.5 * fair:
        names = ", ".join(r.replica for r in outliers)
        reasons.append(
            _reason("outlier_carries_tail", f"{carried:.0%} of slow requests ran on {names}", carried, OUTLIER_SHARE)
        )
        advice.append(
            _advice("drain_replica", f"repair or drain {names} first", replicas=[r.replica for r in outliers])
        )
        return done("outlier_replica", carried > OUTLIER_SHARE + 0.1)

    if outliers:
        names = ", ".join(r.replica for r in outliers)
        advice.append(
            _advice("check_replica", f"look at {names}: slow all the time", replicas=[r.replica for r in outliers])
        )
    if move is not None:
        interval = f"[{move.low:.2g}, {move.high:.2g}]"
        text = (
            f"when one replica is slow, the others are slow {move.lift:.2g} times as often as usual {interval}; "
            f"{move.copy_slow:.0%} of copies would have met a slow one"
        )
    explained = length >= LENGTH_SHARE
    no_gain = gain is not None and gain < LONG_WORK_GAIN
    if gain is not None:
        gain_reason = _reason(
            "same_length_copy_gains",
            f"a copy of the same length would take {max(gain, 0):.1%} off p99 (load not counted)",
            gain,
            LONG_WORK_GAIN,
        )
    # A long answer is slow on any replica and thins the lift of e2e out; first tokens do not depend on it.
    first = e.ttft is not None and e.ttft.lift >= SHARED_LIFT
    if (
        explained
        and no_gain
        and (move is None or move.lift < MIXED_LIFT or length >= MOST_LENGTH or (not first and move.lift < SHARED_LIFT))
    ):
        reasons.append(
            _reason(
                "length_explains", f"{length:.0%} of the excess is longer prompts and answers", length, LENGTH_SHARE
            )
        )
        reasons.append(gain_reason)
        if move is not None:
            reasons.append(
                _reason(
                    "tail_moves_alone" if move.lift < MIXED_LIFT else "tail_moves_partly", text, move.lift, MIXED_LIFT
                )
            )
        if e.tail_ratio <= PLAIN_TAIL:
            reasons.append(_reason("tail_is_short", f"p99 is {e.tail_ratio:.1f} times p50", e.tail_ratio, PLAIN_TAIL))
            return done("no_tail", True)
        advice.append(_advice("limit_output", "cap output tokens, stream, or split long jobs from chat"))
        advice.append(_advice("do_not_hedge", "a copy is as long as the original: it costs and gains nothing"))
        return done("long_work", length > LENGTH_SHARE + 0.1)

    if e.tail < FEW_TAIL:
        text = f"{e.tail} slow requests say nothing about replicas, {FEW_TAIL} are the least"
        reasons.append(_reason("too_few_slow", text, e.tail, FEW_TAIL))
        return Verdict("cannot_tell", "low", reasons, advice)
    if move is None:
        text = "too few attempts on other replicas at the moments that matter"
        reasons.append(_reason("too_sparse", text, None, None))
        advice.append(_advice("log_all_traffic", "ingest the logs of all gateways, unsampled", fields=["arrival"]))
        return Verdict("cannot_tell", "low", reasons, advice)

    thinned = no_gain and first and move.lift >= MIXED_LIFT
    together = move.lift >= SHARED_LIFT or thinned or (move.copy_slow >= COPY_SLOW and move.overall >= 1.3)
    if (
        together
        and e.between_pools is not None
        and e.between_pools.lift < MIXED_LIFT
        and e.between_pools.copy_slow < COPY_SLOW
    ):
        reasons.append(_reason("tail_moves_together", text, move.lift, SHARED_LIFT))
        reasons.append(
            _reason(
                "pools_move_alone",
                f"between pools the lift is {e.between_pools.lift:.2g}",
                e.between_pools.lift,
                MIXED_LIFT,
            )
        )
        if gain is not None:
            reasons.append(gain_reason)
        advice.append(_advice("hedge_to_another_pool", "send copies to another pool only: a pool shares its fate"))
        return done("mixed", move.low >= MIXED_LIFT)
    if together:
        limit = SHARED_LIFT if move.lift >= SHARED_LIFT else MIXED_LIFT if thinned else COPY_SLOW
        value = move.copy_slow if limit == COPY_SLOW else move.lift
        reasons.append(_reason("tail_moves_together", text, value, limit))
        if limit == MIXED_LIFT and e.ttft is not None:
            told = f"first tokens are late together {e.ttft.lift:.2g} times as often as usual"
            reasons.append(_reason("first_tokens_move_together", told, e.ttft.lift, SHARED_LIFT))
        if gain is not None:
            reasons.append(gain_reason)
        advice.append(_advice("add_capacity", "add capacity, or limit admission when queues grow"))
        advice.append(_advice("do_not_hedge", "a copy waits in the same kind of queue and adds load"))
        return done("shared", move.low >= MIXED_LIFT if limit != COPY_SLOW else True)
    if move.lift >= MIXED_LIFT or move.overall >= SHARED_LIFT:
        if move.lift >= MIXED_LIFT:
            reasons.append(_reason("tail_moves_partly", text, move.lift, SHARED_LIFT))
        else:
            told = (
                f"slow requests crowd in the same hours ({move.overall:.2g} times chance), but not at the same moments"
            )
            reasons.append(_reason("tail_has_hours", told, move.overall, SHARED_LIFT))
        if gain is not None:
            reasons.append(gain_reason)
        advice.append(
            _advice("replay_before_hedging", "run hedgectl simulate: only a replay counts the copies' own load")
        )
        return done("mixed", move.low >= MIXED_LIFT and move.high <= SHARED_LIFT)
    reasons.append(_reason("tail_moves_alone", text, move.lift, MIXED_LIFT))
    if gain is not None:
        reasons.append(gain_reason)
    worst = max(seen, key=lambda r: r.slow)
    if len(seen) > 2 and worst.slow >= OUTLIER_SHARE * slow_total and not worst.persistent:
        told = f"{worst.slow / slow_total:.0%} of slow requests ran on {worst.replica}, which is slow part of the time"
        reasons.append(_reason("one_replica_carries_tail", told, worst.slow / slow_total, OUTLIER_SHARE))
        advice.append(_advice("drain_replica", f"repair or drain {worst.replica} first", replicas=[worst.replica]))
    advice.append(_advice("hedge_may_help", "a copy elsewhere usually meets a fast replica: run hedgectl recommend"))
    advice.append(_advice("find_slow_spells", "find out why single replicas slow down now and then"))
    return done("isolated", move.high < MIXED_LIFT and (gain is None or gain >= LONG_WORK_GAIN))


def _cannot_compare(e: Evidence, replicas: int, reasons: list[dict[str, Any]], advice: list[dict[str, Any]]) -> None:
    if replicas == 1:
        text = "only one replica is in the log: isolated and shared trouble look alike"
        reasons.append(_reason("one_replica", text, 1, 2))
        hint = "if `replica` holds a load balancer's address, log the engine behind it (upstream address, pod name)"
        advice.append(_advice("log_real_replica", hint, fields=["replica"]))
    else:
        text = "the log does not say which replica answered: isolated and shared trouble look alike"
        reasons.append(_reason("no_replica_ids", text, e.replica_share, 0.5))
        hint = "log which engine or deployment answered as `replica` (pod name, upstream address, deployment id)"
        advice.append(_advice("log_replica", hint, fields=["replica"]))
    if e.copy_gain is not None:
        told = f"a copy of the same length would take {max(e.copy_gain, 0):.1%} off p99 (load and place not counted)"
        reasons.append(_reason("same_length_copy_gains", told, e.copy_gain, LONG_WORK_GAIN))


def _routing(e: Evidence, verdict: str, advice: list[dict[str, Any]]) -> None:
    """The cheaper cure: routing by load helps whatever the verdict, so it stands before any copy."""
    if e.routing.seen in ("random", "round_robin", "other") and verdict != "tools":
        text = f"routing looks {e.routing.seen.replace('_', ' ')}: send each request to the least outstanding replica first"
        advice.insert(0, _advice("route_least_outstanding", text))


def _confidence(e: Evidence, min_requests: int, default_min: int, clear: bool) -> str:
    """high: clear cut, many independent episodes, full ids; low: a lowered minimum, few episodes, or many requests cut short."""
    if min_requests < default_min or e.finished < default_min:
        return "low"
    if e.episodes < 10 or e.censored > 0.05 * max(e.requests, 1) or (e.replicas and e.replica_share < 0.8):
        return "low"
    return "high" if clear and e.episodes >= 30 and e.finished >= 5 * default_min else "medium"
