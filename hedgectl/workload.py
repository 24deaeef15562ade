"""One scope's requests (and attempts) out of the database as a `Workload` of numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgectl import sql
from hedgectl.model import Workload


@dataclass(frozen=True, slots=True, eq=False)
class Loaded:
    """What one scope's rows say.

    `requests` has a row a logical request; `attempts` a row a send, copies and retries included (the same object where
    no request had a second one): an engine's law is fitted to attempts, a replay is fed with requests.
    """

    requests: Workload
    attempts: Workload
    providers: tuple[str, ...]
    attempt_count: int
    hedges: int
    retries: int
    closed_loop: bool


def load(con: Any, model: str | None = None, route: str | None = None) -> Loaded:
    """Read the TEMP tables `request` and `selected_attempt` of a DuckDB connection for one scope (None = all).

    No matching row gives empty arrays. Names of replicas, segments and routes are in alphabetical order.
    """
    scope = {"model": model, "route": route}
    facts = _row(con, "decompose/workload_facts", scope)
    names: dict[str, list[tuple[str, str | None]]] = {}
    for kind, name, pool in con.execute(sql.text("decompose/workload_names"), scope).fetchall():
        names.setdefault(kind, []).append((name, pool))
    replicas = names.get("replica", [])
    pools = sorted({pool for _, pool in replicas if pool is not None})
    shared: dict[str, Any] = {
        "t0_ns": int(facts["t0_ns"] or 0),
        "currency": facts["currency"],
        "replicas": tuple(name for name, _ in replicas),
        "pools": tuple(pools),
        "pool_of_replica": np.array([-1 if p is None else pools.index(p) for _, p in replicas], dtype=np.int32),
        "segments": tuple(name for name, _ in names.get("segment", [])),
        "routes": tuple(name for name, _ in names.get("route", [])),
        "tool_sets": tuple(name for name, _ in names.get("tool_set", [])),
    }
    requests = _workload(con, "decompose/workload", scope, shared)
    attempts = requests
    if facts["attempts"] > facts["requests"]:
        attempts = _workload(con, "decompose/workload_attempts", scope, shared)
    return Loaded(
        requests,
        attempts,
        tuple(name for name, _ in names.get("provider", [])),
        int(facts["attempts"]),
        int(facts["hedges"]),
        int(facts["retries"]),
        bool(facts["closed_loop"]),
    )


def _workload(con: Any, name: str, scope: dict[str, Any], shared: dict[str, Any]) -> Workload:
    columns = con.execute(sql.text(name), scope).fetchnumpy()
    return Workload.of(**{k: np.asarray(v) for k, v in columns.items()}, **shared)


def _row(con: Any, name: str, scope: dict[str, Any]) -> dict[str, Any]:
    found = con.execute(sql.text(name), scope)
    return dict(zip([d[0] for d in found.description], found.fetchone(), strict=True))


def models(con: Any) -> list[str]:
    """Models of the selected requests, most requests first."""
    return [row[0] for row in con.execute(sql.text("decompose/workload_models")).fetchall()]
