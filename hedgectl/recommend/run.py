"""The whole recommendation: one decision a scope of the prepared log, worst first, as a policy document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hedgectl
from hedgectl.decompose import Prepared
from hedgectl.errors import InputError
from hedgectl.model import ERROR, Workload
from hedgectl.policy import PolicyDocument, ScopePolicy
from hedgectl.recommend import scopes
from hedgectl.recommend.decide import decide
from hedgectl.recommend.goal import parts
from hedgectl.recommend.options import Options

if TYPE_CHECKING:
    import duckdb

_EPOCH = "1970-01-01T00:00:00Z"


def recommend(con: duckdb.DuckDBPyConnection, prepared: Prepared, options: Options | None = None) -> dict[str, Any]:
    """The ``policy.v1`` document for a log after `decompose.prepare`; one entry a scope, the slowest first.

    The same log, options and seed give the same bytes. Raises InputError if the selection holds no request.
    """
    chosen = options or Options()
    found = scopes.load(con, by_route=chosen.by_route)
    if not found:
        raise InputError("no request is left in the selection", hint="widen --since, --until, --window or --where")
    entries: list[ScopePolicy] = []
    notes: list[dict[str, Any]] = list(prepared.notes)
    for one in found:
        chosen.say(f"scope {one.scope.name}", 0.0)
        policy, said = decide(one.workload, one.scope, chosen, raced=one.hedges)
        entries.append(policy)
        notes += [n for n in [*said, *_source_notes(one)] if n not in notes]
    document = PolicyDocument(
        as_of=prepared.as_of or _EPOCH,
        policies=tuple(sorted(entries, key=lambda e: (-_slowness(e, chosen), e.scope.name))),
        goal=chosen.goal,
        window=dict(prepared.window),
        coverage=coverage(found),
        method={"hedgectl": hedgectl.__version__, "seed": chosen.seed, "estimator": "matched", "replay_check": None},
        notes=tuple(notes),
    )
    return document.to_document()


def _slowness(entry: ScopePolicy, options: Options) -> float:
    """The goal's percentile without copies, ms; scopes without one come last."""
    metric, p = parts(options.goal)
    arm = (entry.projection or {}).get("unhedged") or {}
    value = (arm.get(f"{metric}_ms") or {}).get(f"p{p * 100:g}")
    return -1.0 if value is None else float(value)


def _source_notes(one: scopes.ScopeData) -> list[dict[str, Any]]:
    found = []
    if one.hedges:
        text = (
            f"{one.hedges} copies are already in this log: primaries that lost count as longer than seen, "
            "and 'unhedged' is what they would have been alone"
        )
        found.append({"code": "already_hedged", "level": "info", "share": None, "text": text})
    if one.outlived:
        text = (
            f"{one.outlived} timeouts count as errors: at least as many answers took longer than these were given, so they "
            "say nothing about how long an answer takes"
        )
        found.append({"code": "timeouts_outlived", "level": "info", "share": None, "text": text})
    if one.closed_loop:
        text = "the source waited for answers before it sent more, so a slow moment hides its own victims"
        found.append({"code": "closed_loop", "level": "warning", "share": None, "text": text})
    return found


def coverage(found: list[scopes.ScopeData]) -> dict[str, float]:
    """Share of requests that carry what the decision rests on, over all scopes."""
    total = sum(len(one.workload) for one in found)

    def share(count: float) -> float:
        return round(count / total, 6) if total else 0.0

    def seen(name: str) -> float:
        return share(float(sum(int(np.isfinite(getattr(one.workload, name)).sum()) for one in found)))

    def known(name: str) -> float:
        return share(float(sum(int((getattr(one.workload, name) >= 0).sum()) for one in found)))

    def timed(w: Workload) -> int:
        return int((np.isfinite(w.e2e_s) & (w.status != ERROR)).sum())

    return {
        "e2e": share(float(sum(timed(one.workload) for one in found))),
        "ttft": seen("ttft_s"),
        "headers": seen("headers_s"),
        "queue": seen("queue_s"),
        "prefill": seen("prefill_s"),
        "decode": seen("decode_s"),
        "replica": known("replica"),
        "prompt_tokens": known("prompt_tokens"),
        "completion_tokens": known("completion_tokens"),
        "cost": seen("cost"),
    }
