"""Reads the prepared requests of a database into the arrays that fit, screen, replay and diagnosis share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hedgectl import decompose
from hedgectl.model import Workload

if TYPE_CHECKING:
    import duckdb

_SECONDS = ("ttft", "e2e", "headers", "queue", "prefill", "decode")
_WHOLE = (
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "streamed",
    "replica",
    "tools_offered",
    "cache_hit",
    "stored_state",
    "batch",
    "n_choices",
    "segment",
    "route",
    "request_bytes",
    "response_bytes",
)


def load(con: duckdb.DuckDBPyConnection, *, primary_only: bool = True) -> Workload:
    """The workload after `decompose.prepare`: one row a logical request with an arrival time.

    `primary_only`: times and status are those of the first attempt alone (a primary that lost is censored), so that an
    already hedged log shows what no hedge would have given. False: what the callers saw.
    """
    found = decompose.columns(con, "decompose/workload", primary_only=primary_only)
    names = decompose.rows(con, "decompose/workload_name")
    arrival = np.asarray(found["arrival_ns"], dtype=np.int64)
    t0 = int(arrival[0]) if len(arrival) else 0
    by_kind: dict[str, list[dict[str, Any]]] = {k: [] for k in ("replica", "segment", "route", "currency")}
    for one in names:
        by_kind[one["kind"]].append(one)
    pools = sorted({r["pool"] for r in by_kind["replica"] if r["pool"] is not None})
    fields: dict[str, Any] = {f"{k}_s": _filled(found[f"{k}_ns"], np.nan) / 1e9 for k in _SECONDS}
    fields |= {k: _filled(found[k], -1) for k in _WHOLE}
    prompt, completion = fields.pop("prompt_tokens"), fields.pop("completion_tokens")
    currencies = [c["name"] for c in by_kind["currency"]]
    return Workload.of(
        (arrival - t0) / 1e9,
        prompt,
        completion,
        t0_ns=t0,
        status=_filled(found["status"], 2),
        cost=_filled(found["cost"], np.nan),
        # Costs in several currencies cannot be added up.
        currency=currencies[0] if len(currencies) == 1 else None,
        weight=_filled(found["weight"], 1.0),
        replicas=tuple(r["name"] for r in by_kind["replica"]),
        pool_of_replica=np.array([pools.index(r["pool"]) if r["pool"] is not None else -1 for r in by_kind["replica"]]),
        pools=tuple(pools),
        segments=tuple(s["name"] for s in by_kind["segment"]),
        routes=tuple(r["name"] for r in by_kind["route"]),
        **fields,
    )


def _filled(column: Any, missing: float) -> np.ndarray[Any, Any]:
    return np.asarray(np.ma.filled(np.ma.asarray(column).astype(np.float64), missing))
