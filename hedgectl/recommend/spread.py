"""One task a scope: each loads its own scope from a folder and decides as one machine would."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hedgectl import fleet, store
from hedgectl.decompose import Prepared
from hedgectl.errors import HedgectlError
from hedgectl.recommend import scopes
from hedgectl.recommend.options import Options
from hedgectl.recommend.run import OfScope, Recommended, composed, decide_scope, of_small
from hedgectl.recommend.run import recommended as here
from hedgectl.recommend.scopes import Listed
from hedgectl.tasks import Tasks

if TYPE_CHECKING:
    import duckdb

_FLOOR_BYTES = 512 << 20
_REQUEST_BYTES = 3000  # of a request with its attempts, as rows, as tables and as arrays of the replay


@dataclass(frozen=True, slots=True)
class _Scope:
    """What one task is told. ``prepared`` tells the window and what counts as now."""

    folder: str
    prepared: Prepared
    listed: Listed
    options: Options
    memory_limit: str | None


def recommended(
    con: duckdb.DuckDBPyConnection,
    prepared: Prepared,
    options: Options,
    tasks: Tasks,
    folder: str,
    memory_limit: str | None = None,
    diagnosis: dict[str, Any] | None = None,
) -> Recommended:
    """As :func:`hedgectl.recommend.run.recommended`, for a selection of ``folder`` that is open in ``con``; the same bytes.

    A scope that fails is told in a note and does not stop the others. Raises what the first one raised if all fail.
    """
    every = scopes.listed(con, options)
    if len([one for one in every if one.enough]) < 2:
        return here(con, prepared, options, diagnosis)
    small = of_small(con, prepared, options)  # more tasks than answers otherwise
    every = [one for one in every if one.enough]
    told = replace(options, progress=None)
    # rows without a model can only be told apart among all others: they are decided here, where all are loaded
    work = [_Scope(folder, prepared, one, told, memory_limit) for one in every if not one.unnamed]
    done: dict[Listed, OfScope] = {}
    failures: list[tuple[Listed, HedgectlError]] = []
    memory = [_FLOOR_BYTES + _REQUEST_BYTES * one.listed.requests for one in work]
    for each in tasks.run(_decide, work, memory):
        one = work[each.index].listed
        if each.result is not None:
            done[one] = each.result
        elif each.error is not None:
            failures.append((one, each.error))
        options.say(f"{one.scope.name} decided, {len(done)} of {len(work)} scopes", len(done) / len(work))
    for one in every:
        if one.unnamed:
            done[one] = decide_scope(con, scopes.scope_data(con, prepared, one, options), options)
    if failures and not done:
        raise failures[0][1]
    found = composed([*(done[one] for one in every if one in done), *small], prepared, options)
    found.document["notes"] += [_failed(one, error) for one, error in failures]
    return found


def _failed(one: Listed, error: HedgectlError) -> dict[str, Any]:
    text = f"{one.scope.name} could not be decided: {error.what}"
    return {"code": "scope_failed", "level": "warning", "share": None, "text": text}


def _decide(work: _Scope) -> OfScope:
    """The work of one task."""
    prepared, scope = work.prepared, work.listed.scope
    selection = replace(prepared.selection, as_of_ns=prepared.as_of_ns)
    with store.connect(None, memory_limit=work.memory_limit) as memory, store.explained(work.folder):
        fleet.load(work.folder, memory, selection, fleet.Scope(scope.model, scope.route))
        one = scopes.scope_data(memory.con, prepared, work.listed, work.options)
        # the requests stay where they are: an entry is small
        return replace(decide_scope(memory.con, one, work.options), slowest=None)
