"""The document breakdown.v1: where the time of requests goes, by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import decompose, quantiles, sql
from hedgectl.errors import UsageError

if TYPE_CHECKING:
    import duckdb

Floats = NDArray[np.float64]

DIMENSIONS = (
    "replica",
    "model",
    "route",
    "segment",
    "provider",
    "pool",
    "observer",
    "hour",
    "day",
    "weekday",
    "streamed",
    "tools_offered",
    "size_class",
    "sends",
)
COMPONENTS = ("queue", "prefill", "unsplit", "decode", "tool_wait", "other")
BASES = ("measured", "derived", "estimated", "unknown")
TTFT_BASES = ("first_token", "first_byte", "engine")
EXCLUDED = ("cache_hit", "error", "censored")
_MS = 1e6


def breakdown(con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared, by: Sequence[str] = ()) -> dict[str, Any]:
    """The split of the prepared selection, one group a combination of `by` (names from DIMENSIONS).

    Raises UsageError for an unknown dimension.
    """
    for one in by:
        if one not in DIMENSIONS:
            raise UsageError(f"cannot group by {one}", where="--by", hint=f"choose from {', '.join(DIMENSIONS)}")
    by = list(dict.fromkeys(by))
    decompose.run(con, "decompose/tz_choice", tz=prepared.selection.tz or "UTC")
    decompose.run(con, "decompose/request_dimension")
    names = ", ".join(by)
    if by:
        keys = con.execute(sql.text("decompose/breakdown_key").replace("{by}", names)).fetchall()
    else:
        keys = [()]  # one group, also of nothing: n = 0 is an answer
    found = con.execute(sql.text("decompose/breakdown_row").replace("{by}", names or "NULL")).fetchnumpy()
    code = np.asarray(found.pop("code"))
    edges = np.searchsorted(code, np.arange(len(keys) + 1))
    table = decompose.floats(found)
    groups = [
        {"key": dict(zip(by, key, strict=True)), **_group({k: v[lo:hi] for k, v in table.items()})}
        for key, lo, hi in zip(keys, edges[:-1], edges[1:], strict=True)
    ]
    return {
        "schema": "hedgectl/breakdown.v1",
        "as_of": prepared.as_of,
        "window": prepared.window,
        "by": by,
        "groups": groups,
        "notes": list(prepared.notes),
    }


def _group(rows: dict[str, Floats]) -> dict[str, Any]:
    kind, weight, e2e, ttft = rows["kind"], rows["weight"], rows["e2e_ns"], rows["ttft_ns"]
    ok = kind == 0
    finished = ok & ~np.isnan(e2e)
    bounded = (kind == 3) & ~np.isnan(e2e)
    known = ok & ~np.isnan(ttft)
    # Without one known first token the log does not time it at all: a hang-up then bounds nothing.
    waiting = bounded & np.isnan(ttft) & (rows["may_stream"] == 1) & bool(known.any())
    first = quantiles.summary(
        ttft[known] / _MS,
        weights=weight[known],
        censored=ttft_bound(e2e, waiting),
        censored_weights=weight[waiting],
    )
    first["basis"] = {b: int((rows["ttft_basis"][known] == i).sum()) for i, b in enumerate(TTFT_BASES)}
    parts = {c: rows[f"{c}_ns"][finished] for c in COMPONENTS}
    bases = {c: rows[f"{c}_basis"][finished] for c in COMPONENTS}
    return {
        "requests": len(kind),
        "attempts": int(rows["attempts"].sum()),
        "excluded": {name: int((kind == i).sum()) for i, name in enumerate(EXCLUDED, start=1)},
        "e2e_ms": quantiles.summary(
            e2e[finished] / _MS,
            weights=weight[finished],
            censored=e2e[bounded] / _MS,
            censored_weights=weight[bounded],
        ),
        "ttft_ms": first,
        "components": components(parts, bases, e2e[finished], weight[finished]),
    }


def ttft_bound(e2e: Floats, waiting: NDArray[np.bool_]) -> Floats:
    """A caller who hung up before the first token waited at least that long for it, in ms."""
    return np.asarray(e2e[waiting] / _MS)


def tail_excess(
    parts: dict[str, Floats], e2e: Floats, weight: Floats, tail: NDArray[np.bool_] | None = None
) -> dict[str, float] | None:
    """Share of each part in the excess of requests beyond p95 over the p45-p55 band; sums to 1, may be negative.

    None if nothing lies beyond p95 or the excess is 0. `parts` must sum to `e2e` row by row (NaN = 0).
    """
    if not len(e2e):
        return None
    uniform = bool(np.all(weight == 1.0))
    low, high, limit = (quantiles.quantile(e2e, p, None if uniform else weight) or 0.0 for p in (0.45, 0.55, 0.95))
    beyond = (e2e > limit) if tail is None else tail
    band = (e2e >= low) & (e2e <= high)
    if not beyond.any() or not band.any():
        return None

    def mean(x: Floats, rows: NDArray[np.bool_]) -> float:
        return float((np.nan_to_num(x[rows]) * weight[rows]).sum() / weight[rows].sum())

    excess = {name: mean(part, beyond) - mean(part, band) for name, part in parts.items()}
    total = sum(excess.values())
    if total <= 0:
        return None
    return {name: value / total for name, value in excess.items()}


def components(
    parts: dict[str, Floats], bases: dict[str, Floats], e2e: Floats, weight: Floats
) -> dict[str, dict[str, Any]]:
    """The six parts of one group: ns in, ms out."""
    total = float((e2e * weight).sum())
    enough = quantiles.printable(len(e2e), 0.95)
    excess = tail_excess(parts, e2e, weight) if enough else None
    out: dict[str, dict[str, Any]] = {}
    for name in COMPONENTS:
        part, basis = parts[name], bases[name]
        known = ~np.isnan(part)
        piece = quantiles.summary(part[known] / _MS, weights=weight[known])
        del piece["at_least"], piece["unreliable"]
        mass = float((part[known] * weight[known]).sum())
        piece["mean"] = round(mass / float(weight[known].sum()) / _MS, 6) if known.any() else None
        piece["share_of_mean"] = round(mass / total, 9) if total > 0 else None
        piece["share_of_tail_excess"] = None if excess is None else round(excess[name], 9)
        piece["basis"] = {b: int((basis == i).sum()) for i, b in enumerate(BASES)}
        out[name] = piece
    return out
