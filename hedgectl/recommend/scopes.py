"""The scopes that are decided one by one (a model, or a model on a route), each with its requests and its diagnosis."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import decompose, workload
from hedgectl.decompose import Prepared
from hedgectl.diagnose import diagnose
from hedgectl.fit import LogFacts
from hedgectl.model import Workload
from hedgectl.policy import Scope
from hedgectl.recommend.options import Options
from hedgectl.workload import Loaded

if TYPE_CHECKING:
    import duckdb


@dataclass(frozen=True, slots=True, eq=False)
class ScopeData:
    """One scope with its requests. `workload` shows primaries alone: what no copy would have given."""

    scope: Scope
    workload: Workload
    loaded: Loaded
    raced: int  # requests that already had a copy when the log was written
    cache_hits: int  # answers of the response cache, left out of the workload
    diagnosis: dict[str, Any] | None
    raced_rows: NDArray[np.bool_]  # (n,) of the workload

    @property
    def facts(self) -> LogFacts:
        """What the rows say beyond the workload, for the question whether a replay can speak for them."""
        found = self.loaded
        return LogFacts(found.providers, found.attempt_count, found.hedges, found.retries, found.closed_loop)


@dataclass(frozen=True, slots=True)
class Listed:
    """A scope of the log, before its requests are looked at."""

    scope: Scope
    requests: int
    alone: bool  # the only one
    enough: bool  # it has as many requests as are needed

    @property
    def unnamed(self) -> bool:
        """The rows without a model, beside others: they have no TEMP tables of their own."""
        return self.scope.model is None and not self.alone


def listed(con: duckdb.DuckDBPyConnection, options: Options) -> list[Listed]:
    """The scopes of the TEMP table `request`, largest first."""
    found = decompose.rows(con, "recommend/scope_list", by_route=options.by_route)
    alone, needed = len(found) == 1, options.needed()
    return [
        Listed(Scope(model=r["model"], route=r["route"]), r["requests"], alone, r["requests"] >= needed) for r in found
    ]


@dataclass(frozen=True, slots=True)
class Small:
    """A scope with fewer requests than are needed, counted and never loaded: a log may have thousands of them."""

    scope: Scope
    counts: dict[str, int]  # requests, answered, raced, cache_hits, and how many carry each part of the coverage
    closed_loop: bool


def small(con: duckdb.DuckDBPyConnection, prepared: Prepared, options: Options) -> list[Small]:
    """Those that `listed` tells not to have enough, in its order; the TEMP tables are those of the whole selection."""
    found = decompose.rows(con, "recommend/scope_small", by_route=options.by_route, needed=options.needed())
    every = []
    for row in found:
        scope, closed_loop = Scope(model=row.pop("model"), route=row.pop("route")), bool(row.pop("closed_loop"))
        if _two_clocks(prepared, options):
            row["ttft"] = 0
        every.append(Small(scope, row, closed_loop))
    return every


def scope_data(
    con: duckdb.DuckDBPyConnection,
    prepared: Prepared,
    one: Listed,
    options: Options,
    diagnosis: dict[str, Any] | None = None,
) -> ScopeData:
    """One scope that has requests enough; unless it is the only one the TEMP tables are built anew for it.

    `diagnosis`: of the whole selection, made with the seed of `options`, if there is one already; it is that of an only
    scope.
    """
    scope, unnamed = one.scope, one.unnamed
    whole = one.alone or unnamed
    if unnamed:
        # another scope's TEMP tables may stand there
        decompose.prepare(con, prepared.selection)
    chosen = prepared if whole else _narrowed(con, prepared, scope)
    if unnamed:
        diagnosis = None
    elif diagnosis is None or not one.alone:
        options.say(f"diagnosing {scope.name}", 0.0)
        diagnosis = diagnose(con, chosen, seed=options.seed)
    # after the diagnosis, which reads the same rows: both at once would be the most memory of a recommendation
    options.say(f"loading {scope.name}", 0.0)
    model, route = (None, None) if whole else (scope.model, scope.route)
    loaded = workload.load(con, model, route)
    two_clocks = _two_clocks(prepared, options)
    if two_clocks:
        loaded = replace(loaded, requests=without_ttft(loaded.requests), attempts=without_ttft(loaded.attempts))
    own = decompose.columns(con, "recommend/scope", model=model, route=route)
    raced = np.asarray(own["hedges"], dtype=np.int64) > 0
    part = primaries(loaded.requests, raced, own) if raced.any() else loaded.requests
    part = without_ttft(part) if two_clocks else part
    if unnamed:
        rows = np.asarray(own["unnamed"], dtype=bool)
        part, raced = compact(part.take(rows)), raced[rows]
    served = part.cache_hit != 1  # an answer from the response cache reached no replica
    if not served.all():  # else the same rows would be kept twice
        part, raced = part.take(served), raced[served]
    return ScopeData(scope, part, loaded, int(raced.sum()), int((~served).sum()), diagnosis, raced)


def _two_clocks(prepared: Prepared, options: Options) -> bool:
    """Whether first tokens are on another clock than the starts."""
    return prepared.skew is not None and prepared.skew.telling and not options.one_clock


def _narrowed(con: duckdb.DuckDBPyConnection, prepared: Prepared, scope: Scope) -> Prepared:
    """The TEMP tables of one scope only, in the same window."""
    selection = replace(
        prepared.selection,
        as_of_ns=prepared.as_of_ns,
        model=scope.model,
        route=scope.route if scope.route is not None else prepared.selection.route,
    )
    return decompose.prepare(con, selection)


def primaries(part: Workload, raced: NDArray[np.bool_], own: dict[str, Any]) -> Workload:
    """Times and status of the first attempt where a copy was sent beside it; all else as the caller saw it."""
    hedge_won = np.asarray(own["hedge_won"], dtype=bool)
    return replace(
        part,
        e2e_s=np.where(raced, np.asarray(own["primary_e2e_s"], dtype=np.float64), part.e2e_s),
        ttft_s=np.where(raced, np.asarray(own["primary_ttft_s"], dtype=np.float64), part.ttft_s),
        headers_s=np.where(raced & hedge_won, np.nan, part.headers_s),
        status=np.where(raced, np.asarray(own["primary_status"]), part.status).astype(np.int8),
    )


def without_ttft(part: Workload) -> Workload:
    """The same with unknown first tokens: a delay would rest on the difference of two clocks."""
    return replace(part, ttft_s=np.full(len(part), np.nan))


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
