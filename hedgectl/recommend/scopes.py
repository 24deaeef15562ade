"""Splits the prepared log into the scopes that are decided one by one: a model, or a model on a route."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from hedgectl import decompose, workload
from hedgectl.model import Workload
from hedgectl.policy import Scope

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True, eq=False)
class ScopeData:
    """One scope with its requests. `hedges`: copies that were already being sent when the log was written."""

    scope: Scope
    workload: Workload
    hedges: int
    closed_loop: bool  # the source waited for answers before it sent more


def load(con: duckdb.DuckDBPyConnection, *, by_route: bool = False) -> list[ScopeData]:
    """The scopes of the TEMP table `request`, largest first. Where copies were sent, times are the primary's own."""
    found = decompose.columns(con, "recommend/scope")
    names: dict[str, list[str]] = {"model": [], "route": []}
    for one in decompose.rows(con, "recommend/scope_name"):
        names[one["kind"]].append(one["name"])
    model = np.asarray(found["model"], dtype=np.int64)
    route = np.asarray(found["route"], dtype=np.int64) if by_route else np.full(len(model), -1, dtype=np.int64)
    hedges = np.asarray(found["hedges"], dtype=np.int64)
    # A primary that lost its race is only known to be longer; without races, retries belong to what the caller saw.
    everything = workload.load(con, primary_only=bool(hedges.any()))
    closed = np.asarray(found["closed_loop"], dtype=np.int64)
    scopes: list[ScopeData] = []
    keys, codes = np.unique(np.column_stack((model, route)), axis=0, return_inverse=True)
    for k, (m, r) in enumerate(keys):
        rows = np.ravel(codes) == k
        scope = Scope(model=names["model"][m] if m >= 0 else None, route=names["route"][r] if r >= 0 else None)
        part = compact(everything.take(rows))
        scopes.append(ScopeData(scope, part, int(hedges[rows].sum()), bool(closed[rows].mean() > 0.5)))
    return sorted(scopes, key=lambda s: (-len(s.workload), s.scope.model or "", s.scope.route or ""))


def compact(part: Workload) -> Workload:
    """The same requests with only the replicas that serve them: another model's engines are no target for a copy."""
    used = np.unique(part.replica[part.replica >= 0])
    if len(used) == len(part.replicas):
        return part
    new = np.full(len(part.replicas) + 1, -1, dtype=np.int32)
    new[used] = np.arange(len(used))
    return replace(
        part,
        replica=new[part.replica],
        replicas=tuple(part.replicas[k] for k in used),
        pool_of_replica=part.pool_of_replica[used],
    )
