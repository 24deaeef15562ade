"""Splits the prepared log into the scopes that are decided one by one: a model, or a model on a route."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hedgectl import decompose, workload
from hedgectl.model import CENSORED, ERROR, OK, Workload
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
    outlived: int  # timeouts counted as errors: answers often took longer than they were given


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
        part, outlived = settle_timeouts(compact(everything.take(rows)), hedges[rows] > 0)
        scopes.append(ScopeData(scope, part, int(hedges[rows].sum()), bool(closed[rows].mean() > 0.5), outlived))
    return sorted(scopes, key=lambda s: (-len(s.workload), s.scope.model or "", s.scope.route or ""))


def settle_timeouts(part: Workload, raced: NDArray[np.bool_]) -> tuple[Workload, int]:
    """Timeouts as lower bounds, unless at least as many answers took longer: then no clock ended them, but a failure.

    `raced`: rows whose primary may have lost to a copy; those stay lower bounds. Returns the workload and how many
    timeouts became errors.
    """
    cut = (part.status == CENSORED) & ~raced & np.isfinite(part.e2e_s)
    if not cut.any():
        return part, 0
    longer = int(((part.status == OK) & (part.e2e_s > float(np.median(part.e2e_s[cut])))).sum())
    if longer < int(cut.sum()):
        return part, 0
    return replace(part, status=np.where(cut, ERROR, part.status).astype(np.int8)), int(cut.sum())


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
