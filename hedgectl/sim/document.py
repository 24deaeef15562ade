"""The `simulation.v1` document of a sweep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hedgectl.sim.arm import Arm
from hedgectl.sim.scenario import Assumed, Setting
from hedgectl.sim.sweep import Result, Sweep, worse


def document(
    found: Sweep,
    s: Setting,
    *,
    as_of: str,
    window: Mapping[str, Any],
    scope: Mapping[str, Any],
    policy: Mapping[str, Any] | None,
    cancel: str,
    copy_length: str,
    routing: str,
    goal: tuple[str, float] = ("e2e", 0.99),
    notes: Sequence[Mapping[str, Any]] = (),
) -> dict[str, Any]:
    """`policy` is one entry of policy.v1 "policies", or None without hedging; the other words are as in the flags."""
    shown = next((r for r in found.results if r.label == "today"), found.results[0] if found.results else None)
    return {
        "schema": "hedgectl/simulation.v1",
        "as_of": as_of,
        "window": dict(window),
        "scope": dict(scope),
        "engine": engine(s, cancel, routing),
        "policy": None if policy is None else dict(policy),
        "replay_check": found.check,
        "loads": [load_document(result) for result in found.results],
        "holds_up_to": found.holds_up_to,
        "burst": found.burst,
        "worst_of": assumed_document(shown.worst) if shown is not None and shown.worst is not None else None,
        "copy_length": _copy_lengths(shown, copy_length, goal),
        "sensitivity": found.sensitivity,
        "notes": [*found.notes, *map(dict, s.service.notes), *map(dict, s.fleet.notes), *map(dict, notes)],
    }


def engine(s: Setting, cancel: str, routing: str) -> dict[str, Any]:
    """The engine as replayed: facts, where each comes from, and the fitted law with its intervals (95 %)."""
    service, fleet = s.service, s.fleet
    facts = {
        "replicas": fleet.replicas,
        "max_running_requests": fleet.max_running_requests,
        "kv_capacity_tokens": fleet.kv_capacity_tokens,
        "chunk_tokens": fleet.chunk_tokens,
    }
    return {
        **{name: fact.value for name, fact in facts.items()},
        "replicas": s.replicas,
        "confirmed": fleet.confirmed,
        "routing": routing,
        "routing_seen": s.routing_seen,
        "source": {name: fact.source for name, fact in facts.items()},
        "cancel": cancel,
        "prefill_s": {"base": service.prefill_base_s, "per_token": service.prefill_per_token_s},
        "decode_step_s": {"base": service.decode_base_s, "per_sequence": service.decode_per_sequence_s},
        "intervals": {name: list(pair) for name, pair in service.intervals.items()},
        "slow_periods": int((service.slow.factor != 1.0).sum()),
        "hiccup_probability": service.hiccup_probability,
    }


def load_document(result: Result) -> dict[str, Any]:
    """One entry of `loads`."""
    hedged = result.hedged
    return {
        "label": result.label,
        "scale": round(result.load.scale, 4),
        "rho": round(result.rho, 4),
        "stable": result.stable,
        "unhedged": result.unhedged.document(),
        "better_routed": result.better_routed.document(),
        "hedged": None if hedged is None else hedged.document(refused=True),
        "worst_of": None if result.worst is None else assumed_document(result.worst),
    }


def assumed_document(way: Assumed) -> dict[str, Any]:
    """`worst_of` of the documents."""
    return {"cancel": way.cancel, "copy_length": way.copy_length}


def _copy_lengths(shown: Result | None, copy_length: str, goal: tuple[str, float]) -> dict[str, Any]:
    """The hedged arm for each length of a copy, under the worse cancel; null where not run."""
    found: dict[str, Any] = {"assumed": copy_length, "same": None, "independent": None}
    if shown is None or shown.worst is None:
        return found
    for length in ("same", "independent"):
        arms: dict[Assumed, Arm] = {way: arm for way, arm in shown.ways.items() if way.copy_length == length}
        if arms:
            found[length] = arms[worse(arms, goal)].document(refused=True)
    return found
