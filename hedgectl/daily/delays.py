"""The delays of a new policy held against other evidence: what all hosts saw, and what single days would have given."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from hedgectl import analysis, quantiles, sql
from hedgectl.daily import digests
from hedgectl.daily.job import Job
from hedgectl.policy import PolicyDocument

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MIN_DIGEST_SHIFT = 0.01  # merged digests move a delay only beyond what a bucket can say
_PRIMARY = {"response": "primary_e2e", "first_token": "primary_ttft"}


def all_hosts(job: Job) -> digests.Merged | None:
    """The digests of all hosts over the window; None if there are none of another host."""
    if job.digests is None:
        return None
    last = _day(job.as_of_ns, job.tz)
    merged = digests.merge(job.digests, last=last, days=max(1, round(job.window_s / 86_400)))
    return merged if len(merged.hosts) > 1 else None


def with_merged(found: PolicyDocument, merged: digests.Merged) -> PolicyDocument:
    """The policy with each delay taken from what all hosts saw, by the policy's own rule."""
    policies, notes = [], list(found.notes)
    for policy in found.policies:
        hedge = policy.hedge
        metric = _PRIMARY.get(hedge.trigger) if hedge is not None else None
        rule = hedge.delay_rule if hedge is not None else None
        value = merged.quantile(policy.scope.model, metric, rule.quantile) if rule is not None and metric else None
        if hedge is None or rule is None or value is None:
            policies.append(policy)
            continue
        delay = min(max(value + rule.margin_ms, rule.floor_ms), rule.ceiling_ms)
        if abs(delay / hedge.delay_ms - 1) > MIN_DIGEST_SHIFT:
            text = (
                f"{policy.scope.name}: the delay rests on {len(merged.hosts)} hosts: {delay:.0f} ms, this host alone would give "
                f"{hedge.delay_ms:.0f} ms; the projection is this host's"
            )
            notes.append({"code": "delay_from_all_hosts", "level": "info", "share": None, "text": text})
            policy = replace(policy, hedge=replace(hedge, delay_ms=round(delay, 3)))
        policies.append(policy)
    return replace(found, policies=tuple(policies), notes=tuple(notes))


def of_days(con: DuckDBPyConnection, job: Job, found: PolicyDocument) -> dict[tuple[str, str], tuple[float, float]]:
    """Lowest and highest delay, ms, that single days of the window would have given, by (model, trigger)."""
    last = _day(job.as_of_ns, job.tz)
    first = last - timedelta(days=max(1, round(job.window_s / 86_400)))
    rows = con.execute(sql.text("history/day_delays"), {"first": first, "last": last}).fetchall()
    by_day: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for (model, metric, _), group in itertools.groupby(rows, key=itemgetter(0, 1, 2)):
        by_day.setdefault((model, metric), []).append(tuple(group))
    spread: dict[tuple[str, str], tuple[float, float]] = {}
    for policy in found.policies:
        hedge = policy.hedge
        metric = _PRIMARY.get(hedge.trigger) if hedge is not None else None
        if hedge is None or metric is None or hedge.delay_rule is None:
            continue
        rule = hedge.delay_rule
        days = [d for (m, k), v in by_day.items() if k == metric and policy.scope.model in (None, m) for d in v]
        delays = [v for v in (_delay_of(day, rule.quantile, rule.margin_ms) for day in days) if v]
        if len(delays) >= 3:
            spread[(policy.scope.model or "", hedge.trigger)] = (min(delays), max(delays))
    return spread


def _delay_of(day: Sequence[tuple[Any, ...]], p: float, margin_ms: float) -> float | None:
    found = quantiles.bucket_summary([r[3] for r in day], [r[4] for r in day], [r[5] for r in day], ps=(p,))
    value = found.get(quantiles.name(p))
    return None if value is None else value / 1e6 + margin_ms


def _day(ns: int, tz: str) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).astimezone(analysis.zone(tz)).date()
