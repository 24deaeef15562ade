"""The outcome of a run as ``probe.v1``: arms, their paired difference, cancel evidence, spend, and why it may be void."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from hedgectl.probe import compare, eligibility
from hedgectl.probe.caps import Prices
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.records import AttemptRecord, CallRecord
from hedgectl.probe.schedule import HEDGED, UNHEDGED
from hedgectl.probe.settings import ProbeSettings, shown_url
from hedgectl.quantiles import summary

SCHEMA = "hedgectl/probe.v1"
LAG_LIMIT = 0.10  # of the TTFT p50: a client that is later than this measures itself
REFUSALS = ("budget", "suppressed", "deadline", "ineligible")
SHORTER = 0.8  # winning copies this much shorter than other answers are worth a warning
LEAST_WINS = 5


def document(outcome: Outcome) -> dict[str, Any]:
    """The whole document; percentiles of finished requests from the planned start, timeouts as lower bounds."""
    s = outcome.settings
    measured = [c for c in outcome.calls if not c.warm_up and c.status is not None and c.error_kind != "client_gone"]
    notes: list[dict[str, Any]] = []
    lag = [c.lag_ns / 1e6 for c in outcome.calls if c.lag_ns is not None]
    doc: dict[str, Any] = {
        "schema": SCHEMA,
        "as_of": _utc(outcome.epoch_ns + (outcome.calls[0].planned_ns if outcome.calls else 0)),
        "target": shown_url(s.provider.resolve(s.url)),
        "provider": s.provider.name,
        "model": outcome.model or None,
        "policy_id": s.policy_id,
        "planned": len(outcome.plan),
        "sent": len(outcome.calls),
        "schedule": "open_loop",
        "rates_per_s": list(s.rates),
        "comparison": "blocks" if outcome.blocks else "interleaved",
        "plan": plan(s, outcome.blocks),
        **_compared(measured, s),
    }
    if len(s.rates) > 1:
        doc["by_rate"] = [
            {"rate_per_s": rate, **_compared([c for c in measured if c.rate_per_s == rate], s)} for rate in s.rates
        ]
    doc["cancel"] = outcome.cancel or {"engine_stopped": "unknown", "evidence": "nothing was sent"}
    doc["signals"] = {
        "enforced": outcome.enforced,
        "not_enforced": outcome.not_enforced,
        "suppressed_by": outcome.suppressed_by,
        "engine": outcome.engine,
    }
    doc["answers"] = _answers(measured, notes)
    doc["void"] = _void(outcome, measured, lag)
    doc["client_lag_ms"] = summary(lag)
    doc["spend"] = _spend(outcome)
    doc["accounting"] = _accounting(outcome)
    doc["stopped_early"] = outcome.interrupted or outcome.stopped
    doc["notes"] = [*_notes(outcome, measured), *notes]
    return doc


def plan(s: ProbeSettings, blocks: bool) -> dict[str, Any]:
    """What would be sent at most; shown before anything is."""
    requests = min(s.requests, s.caps.requests)
    copies = min(s.caps.hedges, requests)
    checks = s.check_cancel
    attempts = requests + copies
    typical = sum(p.estimated_tokens for p in s.prompts) / len(s.prompts)
    most = max(p.most_tokens for p in s.prompts)
    tokens = round(attempts * (typical + s.answer_tokens))
    most_tokens = attempts * (most + s.answer_tokens)
    money = None if s.prices is None else attempts * s.prices.of(round(typical), s.answer_tokens)
    length = sum(requests / len(s.rates) / rate for rate in s.rates)
    return {
        "requests": requests,
        "copies_at_most": copies,
        "cancel_checks": checks,
        "tokens_expected_at_most": tokens,
        "tokens_cap": s.caps.tokens,
        "tokens_worst_case": most_tokens if s.caps.tokens is None else min(most_tokens, s.caps.tokens),
        "cost_at_most": None if money is None else round(money, 6),
        "currency": None if s.prices is None else s.prices.currency,
        "spend_cap": s.caps.spend,
        "duration_s": round(min(length, s.duration_s or length), 1),
        "time_cap_s": s.caps.time_s,
        "arms": "blocks" if blocks else "interleaved",
        "trigger": s.rules.trigger,
        "delay_ms": round(s.rules.delay_s * 1e3, 3),
        "deadline_ms": round(s.rules.total_s * 1e3, 3),
        "attempt_ms": round(s.rules.attempt_s * 1e3, 3),
        "budget": {"ratio": s.budget_ratio, "burst": s.budget_burst, "max_concurrent": s.hedges_in_flight},
    }


def dry(s: ProbeSettings) -> dict[str, Any]:
    """The document of a dry run: the plan, and nothing sent."""
    blocks = s.arms == "blocks"
    return {
        "schema": SCHEMA,
        "as_of": None,
        "target": shown_url(s.provider.resolve(s.url)),
        "provider": s.provider.name,
        "model": s.model,
        "policy_id": s.policy_id,
        "planned": min(s.requests, s.caps.requests),
        "sent": 0,
        "schedule": "open_loop",
        "rates_per_s": list(s.rates),
        "comparison": "blocks" if blocks else "interleaved",
        "plan": plan(s, blocks),
        **_compared([], s),
        "cancel": {"engine_stopped": "unknown", "evidence": "nothing was sent"},
        "signals": {"enforced": [], "not_enforced": [], "suppressed_by": {}, "engine": None},
        "answers": _answers([], []),
        "void": None,
        "client_lag_ms": summary([]),
        "spend": {
            "currency": s.prices.currency if s.prices else None,
            "estimated": 0.0 if s.prices else None,
            "low": 0.0 if s.prices else None,
            "high": 0.0 if s.prices else None,
            "cap": s.caps.spend,
        },
        "accounting": {"requests": 0, "attempts": 0, "ok": 0, "error": 0, "censored": 0, "open": 0},
        "stopped_early": "dry_run",
        "notes": [],
    }


# --- arms -------------------------------------------------------------------------------------------------------------


def _compared(calls: Sequence[CallRecord], s: ProbeSettings) -> dict[str, Any]:
    plain = [c for c in calls if c.arm == UNHEDGED]
    hedged = [c for c in calls if c.arm == HEDGED]
    return {
        "arms": {"unhedged": _arm(plain, s), "hedged": {**_arm(hedged, s), **_copies(hedged)}},
        "change": compare.changes(plain, hedged, s.seed),
    }


def _arm(calls: Sequence[CallRecord], s: ProbeSettings) -> dict[str, Any]:
    return {
        "requests": len(calls),
        "attempts": sum(len(c.attempts) for c in calls),
        "e2e_ms": _quantiles(calls, compare.e2e_ms),
        "ttft_ms": _quantiles(calls, compare.ttft_ms),
        "ttfc_streamed_ms": _quantiles(calls if s.stream else [], compare.ttfc_ms),
        "ttfc_whole_ms": _quantiles([] if s.stream else calls, compare.e2e_ms),
        "errors": dict(sorted(Counter(c.error_kind or "unknown" for c in calls if c.status == "error").items())),
        "timeouts": sum(c.status == "censored" for c in calls),
    }


def _quantiles(calls: Sequence[CallRecord], value: Callable[[CallRecord], tuple[float, bool] | None]) -> dict[str, Any]:
    found = [v for c in calls if (v := value(c)) is not None]
    return summary([v for v, seen in found if seen], censored=[v for v, seen in found if not seen])


def _copies(calls: Sequence[CallRecord]) -> dict[str, Any]:
    attempts = [a for c in calls for a in c.attempts]
    hedges = sum(c.hedges for c in calls)
    wins = sum(c.hedge_won for c in calls)
    cancels = sum(a.error_kind == "loser" for a in attempts)
    refused = Counter(c.refused for c in calls if c.refused is not None)
    return {
        "hedges": hedges,
        "retries": sum(a.cause == "retry" for a in attempts),
        "hedge_rate": hedges / len(calls) if calls else None,
        "wins": wins,
        "win_rate": wins / hedges if hedges else None,
        "cancels": cancels,
        "cancels_per_request": cancels / len(calls) if calls else None,
        "cancels_per_hedge": cancels / hedges if hedges else None,
        "hedges_refused": {kind: refused.get(kind, 0) for kind in REFUSALS},
    }


def _answers(calls: Sequence[CallRecord], notes: list[dict[str, Any]]) -> dict[str, Any]:
    """Do shorter answers win? Mean completion tokens of winning copies against all other answers."""
    copies = [n for c in calls if c.hedge_won and (n := _tokens(c.winning)) is not None]
    others = [n for c in calls if c.status == "ok" and not c.hedge_won and (n := _tokens(c.winning)) is not None]
    won = sum(copies) / len(copies) if copies else None
    rest = sum(others) / len(others) if others else None
    if won is not None and rest and len(copies) >= LEAST_WINS and won < SHORTER * rest:
        text = f"answers of winning copies have {won:.0f} tokens on average, all others {rest:.0f}: shorter answers win"
        notes.append({"code": "shorter_answers_win", "level": "warning", "share": None, "text": text})
    return {
        "winning_copies": {"n": len(copies), "mean_tokens": None if won is None else round(won, 1)},
        "others": {"n": len(others), "mean_tokens": None if rest is None else round(rest, 1)},
    }


def _tokens(record: AttemptRecord | None) -> int | None:
    return None if record is None else record.completion_tokens


# --- whether it counts, what it cost ------------------------------------------------------------------------------------


def _void(outcome: Outcome, measured: Sequence[CallRecord], lag: Sequence[float]) -> str | None:
    s = outcome.settings
    if not measured:
        return "no request was answered" if not outcome.interrupted else "interrupted before any answer"
    if not any(c.status == "ok" for c in measured):
        return "every request failed"
    # whole answers have no first token: there the answer itself is the measure
    first = compare.ttft_ms if s.stream else compare.e2e_ms
    name = "TTFT" if s.stream else "e2e"
    typical = summary([v[0] for c in measured if (v := first(c)) is not None and v[1]], ps=(0.5,))["p50"]
    ordered = sorted(lag)
    p99 = ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))] if ordered else 0.0
    if typical is not None and p99 > LAG_LIMIT * typical:
        return (
            f"this client sent too late: lag p99 {p99:.1f} ms is more than 10 % of the {name} p50 of {typical:.1f} ms; "
            "lower --rates or use an idle machine"
        )
    return None


def bill(record: AttemptRecord, prices: Prices, prompt_guess: int, answer_guess: int) -> tuple[float, float]:
    """(low, high) cost of one attempt.

    Reported usage is exact. A loser is billed between its prompt alone and a full answer; an attempt that failed before
    an answer began, between nothing and its prompt.
    """
    usage = record.usage
    if record.status == "ok" and usage.prompt is not None and usage.completion is not None:
        exact = prices.of(usage.prompt, usage.completion, usage.cached or 0)
        return exact, exact
    prompt = usage.prompt if usage.prompt is not None else prompt_guess
    if record.status == "error" and record.first_token_ns is None:
        return 0.0, prices.of(prompt, 0)
    made = record.completion_tokens or 0
    if record.status == "ok":
        return prices.of(prompt, made), prices.of(prompt, made)
    return prices.of(prompt, 0), prices.of(prompt, max(answer_guess, made))


def _spend(outcome: Outcome) -> dict[str, Any]:
    s = outcome.settings
    if s.prices is None:
        return {"currency": None, "estimated": None, "low": None, "high": None, "cap": s.caps.spend}
    bills = [b for c in outcome.everything for b in bills_of(c, s)]
    low, high = sum(b[0] for b in bills), sum(b[1] for b in bills)
    return {
        "currency": s.prices.currency,
        "estimated": round(high, 9),  # losers billed in full: the price until somebody shows otherwise
        "low": round(low, 9),
        "high": round(high, 9),
        "cap": s.caps.spend,
        "price_source": s.prices.source,
    }


def bills_of(call: CallRecord, s: ProbeSettings) -> list[tuple[float, float]]:
    """(low, high) of each attempt of a call, in their order; empty without prices."""
    if s.prices is None:
        return []
    prompt = s.prompts[call.index % len(s.prompts)].estimated_tokens
    known = _tokens(call.winning)
    return [bill(a, s.prices, prompt, s.answer_tokens if known is None else known) for a in call.attempts]


def _accounting(outcome: Outcome) -> dict[str, int]:
    attempts = [a for c in outcome.everything for a in c.attempts]
    count = Counter(a.status for a in attempts)
    return {
        "requests": len(outcome.everything),
        "attempts": len(attempts),
        "ok": count["ok"],
        "error": count["error"],
        "censored": count["censored"],
        "open": count[None],
    }


def _notes(outcome: Outcome, measured: Sequence[CallRecord]) -> list[dict[str, Any]]:
    s = outcome.settings
    found: list[tuple[str, str, float | None, str]] = []
    attempts = [a for c in measured for a in c.attempts]
    for signal in outcome.not_enforced:
        stands = "; waiting requests stand in for it" if outcome.stand_in else ""
        found.append(("not_enforced", "warning", None, f"{signal} cannot be seen here and is not enforced{stands}"))
    for name in eligibility.unknown(s.eligible):
        found.append(("rule_not_judged", "info", None, f"a probe cannot judge the rule on {name}: taken as met"))
    if s.windows:
        outside = sum(not eligibility.in_hours(c, s.windows, outcome.epoch_ns) for c in measured)
        if outside:
            share = outside / len(measured)
            text = f"{outside} of {len(measured)} requests fell outside the policy's hours: they got no copy"
            found.append(("outside_hours", "warning" if share > 0.5 else "info", share, text))
    if s.experiment:
        text = "the policy's switchback blocks are not applied: a probe has arms of its own"
        found.append(("experiment_not_applied", "info", None, text))
    hedged = [c for c in measured if c.arm == HEDGED]
    copies = sum(c.hedges for c in hedged)
    if copies > s.budget_ratio * len(hedged):
        text = (
            f"{copies} copies for {len(hedged)} requests are more than the budget of {100 * s.budget_ratio:.3g} %: a burst of "
            f"{s.budget_burst:g} goes before it holds any copy back. Under steady traffic the budget is what counts"
        )
        found.append(("burst", "info", None, text))
    if s.different_replica and s.hedge_url is None:
        text = "the copy goes to the same address: whether another replica serves it is up to what stands behind it"
        found.append(("same_address", "info", None, text))
    same = [c for c in measured if c.hedges and len({a.replica for a in c.attempts if a.replica}) == 1]
    if same and s.different_replica:
        text = f"{len(same)} copies were served by their primary's own replica"
        found.append(("same_replica", "warning", len(same) / len(measured), text))
    if s.rules.commit == "first_token" and any(c.hedges for c in measured):
        text = "a winner is never switched after its first token, however slow it becomes"
        found.append(("committed", "info", None, text))
    cold = sum(a.connected for a in attempts)
    if cold:
        text = f"{cold} of {len(attempts)} attempts opened a connection first; that time is in their latency"
        found.append(("cold_connections", "info", cold / len(attempts), text))
    if outcome.abort_missing:
        text = "the engine's abort call does not answer here: losers are cancelled by closing their stream"
        found.append(("no_abort", "info", None, text))
    if not outcome.metrics_seen:
        text = "no engine metrics are visible: no suppression by load, and our share of the load is unknown"
        found.append(("no_metrics", "info", None, text))
    if outcome.stopped and outcome.stopped not in ("SIGINT", "SIGTERM"):
        found.append(("stopped_early", "warning", None, f"stopped early: {outcome.stopped.replace('_', ' ')}"))
    return [{"code": code, "level": level, "share": share, "text": text} for code, level, share, text in found]


def _utc(epoch_ns: int) -> str:
    return datetime.fromtimestamp(epoch_ns / 1e9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
