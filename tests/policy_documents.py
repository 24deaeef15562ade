"""Policies for tests: one that uses every key, and small ones."""

from __future__ import annotations

import copy
from typing import Any

from hedgectl import policy as p

FULL: dict[str, Any] = {
    "schema": "hedgectl/policy.v1",
    "as_of": "2026-11-29T04:15:00Z",
    "ttl": "7d",
    "window": {"from": "2026-11-22T00:00:00Z", "to": "2026-11-29T00:00:00Z", "requests": 32001, "attempts": 32112},
    "coverage": {"e2e": 1.0},
    "goal": {"metric": "e2e_p99_ms", "below_ms": 7000.0, "max_cost_delta_ratio": 0.25, "min_gain_ratio": 0.05},
    "policies": [
        {
            "scope": {"model": "chat", "route": None, "size_class": None},
            "decision": "hedge",
            "confidence": "high",
            "instead": [
                {"code": "route_least_outstanding", "text": "Route to the replica with the least outstanding."}
            ],
            "reasons": [{"code": "tail_moves_alone", "text": "The tail of one replica moves alone.", "value": 0.9}],
            "hedge": {
                "trigger": "response",
                "delay_ms": 1840.0,
                "delays": {
                    "first_token": None,
                    "response": {"ms": 1840.0, "n": 31800, "quantile": 0.957, "at_budget_ms": 1990.4},
                    "response_headers": None,
                },
                "delay_rule": {
                    "of": "e2e_ms",
                    "quantile": 0.95,
                    "margin_ms": 200.0,
                    "floor_ms": 300.0,
                    "ceiling_ms": 3500.0,
                },
                "max_attempts": 2,
                "budget": {"ratio": 0.05, "burst": 100, "max_concurrent": 8},
                "deadline": {"total_ms": 20000.0, "attempt_ms": 12000.0},
                "target": {
                    "different_replica": True,
                    "different_pool": False,
                    "healthy_only": True,
                    "choose": "as_routed",
                },
                "cancel": {"loser": "engine_abort", "assumed": "frees_engine"},
                "commit": "response",
            },
            "eligible": [
                {
                    "field": "streamed",
                    "op": "=",
                    "value": False,
                    "why": "a stream may already be flowing",
                    "source": "default",
                    "keeps_ratio": 0.9,
                    "p99_cost_ms": 40.0,
                    "saves_cost_ratio": 0.01,
                },
                {"field": "tools_offered", "op": "=", "value": False, "why": "a tool could run twice"},
                {"field": "n_choices", "op": "=", "value": 1.0},
                {"field": "segment", "op": "in", "value": ["pro", "team"]},
            ],
            "windows_utc": [
                {
                    "days": [1, 2, 3, 4, 5],
                    "from": "22:00",
                    "to": "02:00",
                    "why": "71 % of slow requests, on 5 of 5 days",
                }
            ],
            "suppress_when": [
                {
                    "signal": "error_ratio",
                    "op": ">",
                    "value": 0.1,
                    "why": "copies of failures fail",
                    "source": "default",
                }
            ],
            "experiment": {"kind": "switchback", "block": "30m", "seed": 1},
            "projection": {
                "unhedged": {
                    "logical_requests": 60000,
                    "e2e_ms": {"n": 60000, "p50": 900.0, "p95": 1800.0, "p99": 9000.0},
                },
                "hedged": {"hedge_rate": 0.043, "e2e_ms": {"n": 60000, "p50": 900.0, "p95": 1700.0, "p99": 5300.0}},
                "p99_change": {"ratio": 0.59, "interval": [0.53, 0.67], "episodes": 96, "kind": "block_bootstrap"},
                "worst_of": {"cancel": "engine_runs_on", "copy_length": "same"},
                "cost": {
                    "currency": "USD",
                    "delta_ratio": 0.083,
                    "low_ratio": 0.031,
                    "high_ratio": 0.095,
                    "loser_billing": "full",
                },
                "holds_up_to": {"scale": 1.3, "rho": 0.55, "reason": "hedged p99 exceeds unhedged beyond it"},
            },
        },
        {
            "scope": {"model": "embed", "route": None, "size_class": None},
            "decision": "do_not_hedge",
            "confidence": "medium",
            "reasons": [{"code": "shared", "text": "The tail is shared by all replicas."}],
        },
    ],
    "method": {"hedgectl": "0.1.0", "seed": 1, "estimator": "simulation"},
    "notes": [],
}


def full() -> dict[str, Any]:
    """A fresh copy of the policy that uses every key."""
    return copy.deepcopy(FULL)


def entry(**changes: Any) -> dict[str, Any]:
    """The first entry of the full policy with top-level changes."""
    return {**full()["policies"][0], **changes}


def document(*policies: p.ScopePolicy, **more: Any) -> p.PolicyDocument:
    return p.PolicyDocument(as_of="2026-11-29T04:15:00Z", policies=policies, **more)


def hedging(trigger: str = "response_headers", **changes: Any) -> p.ScopePolicy:
    """One small scope that hedges, on the clock that all targets have."""
    hedge: dict[str, Any] = {
        "trigger": trigger,
        "delay_ms": 300.0,
        "budget": p.Budget(0.05, 100),
        "deadline": p.Deadline(20000.0, 12000.0),
        "commit": trigger,
    }
    scope = {"scope": p.Scope(), "decision": "hedge"}
    for key, value in changes.items():
        (scope if key in p.ScopePolicy.__dataclass_fields__ else hedge)[key] = value
    return p.ScopePolicy(**scope, hedge=p.Hedge(**hedge))
