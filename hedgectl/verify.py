"""Projected against observed: compares seeded blocks of time with hedging on against blocks with it off.

A switchback is the only live comparison that sees harm done to others: a held-out request queues behind the copies too.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hedgectl import config, sql
from hedgectl.errors import NotEnoughData, UsageError
from hedgectl.policy import PolicyDocument, ScopePolicy

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MIN_BLOCKS = 20  # a side; the design's limit
LOAD_TOLERANCE = 0.10  # arrivals per second, on against off
RESAMPLES = 1000
_WASHOUT_SHARE, _WASHOUT_MAX_S = 0.1, 60.0  # a block's start still carries the backlog of the block before
_BUCKET = 1.002  # log buckets of 0.2 %: far below any interval that blocks can give
_QUANTILES = (("p50", 0.50), ("p95", 0.95), ("p99", 0.99))

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What each logical request experienced, in order of arrival; every array has shape (n,). NaN = not observed."""

    arrival_s: Floats  # unix seconds
    e2e_s: Floats
    ttft_s: Floats
    failed: Bools
    attempts: NDArray[np.int64]
    hedges: NDArray[np.int64]
    hedge_won: Bools
    cost: Floats


def is_on(block_s: float, seed: int, unix_s: float) -> bool:
    """Whether hedging is on at a moment: block k = floor(unix seconds / block), on if sha256("seed:k") starts even."""
    k = int(unix_s // block_s)
    return hashlib.sha256(f"{seed}:{k}".encode()).digest()[0] % 2 == 0


def load(con: DuckDBPyConnection, model: str | None, route: str | None) -> Outcomes:
    """The outcomes of one scope from the prepared TEMP table ``request``."""
    got = con.execute(sql.text("report/switchback_requests"), {"model": model, "route": route}).fetchnumpy()
    negative = {k: np.where(got[k] < 0, np.nan, got[k] / 1e9) for k in ("e2e_ns", "ttft_ns")}
    return Outcomes(
        np.asarray(got["arrival_ns"] / 1e9, dtype=np.float64),
        negative["e2e_ns"],
        negative["ttft_ns"],
        np.asarray(got["status"] != "ok"),
        np.asarray(got["attempts"], dtype=np.int64),
        np.asarray(got["hedges"], dtype=np.int64),
        np.asarray(got["hedge_won"], dtype=bool),
        np.ma.filled(np.ma.asarray(got["cost"], dtype=np.float64), np.nan),
    )


def verify(con: DuckDBPyConnection, policy: PolicyDocument, *, window: dict[str, Any], seed: int = 1) -> dict[str, Any]:
    """The document ``verify.v1``: every scope of the policy that has an experiment.

    Raises UsageError if no scope has one. ``enough`` is false (exit 3) if any scope has too few blocks or unequal load.
    """
    scopes = [p for p in policy.policies if p.experiment is not None]
    if not scopes:
        raise UsageError(
            "the policy has no experiment, so there is nothing to compare",
            hint='set "experiment": {"kind": "switchback", "block": "30m", "seed": 1} in the policy and obey it in the client',
        )
    answers = [compare(load(con, p.scope.model, p.scope.route), p, seed) for p in scopes]
    return {
        "schema": "hedgectl/verify.v1",
        "as_of": window.get("to"),
        "window": window,
        "policy_id": policy.policy_id(),
        "enough": all(a["enough"] for a in answers),
        "scopes": answers,
        "notes": [
            {
                "code": "washout",
                "level": "info",
                "text": f"the first {100 * _WASHOUT_SHARE:.0f} % of each block (at most {_WASHOUT_MAX_S:.0f} s) is left out: "
                "it still carries the backlog of the block before",
            }
        ],
    }


def compare(seen: Outcomes, policy: ScopePolicy, seed: int = 1) -> dict[str, Any]:
    """One scope: rows of metric, projected, observed, interval, inside; and a verdict on the goal's percentile."""
    experiment = policy.experiment
    if experiment is None:
        raise NotEnoughData("this scope has no experiment")
    block_s = config.seconds(experiment.block)
    number = np.floor(seen.arrival_s / block_s).astype(np.int64)
    late_enough = seen.arrival_s - number * block_s >= min(_WASHOUT_SHARE * block_s, _WASHOUT_MAX_S)
    whole = _whole_blocks(number)
    use = late_enough & np.isin(number, whole)
    on_blocks = np.array([b for b in whole if is_on(block_s, experiment.seed, float(b) * block_s)], dtype=np.int64)
    off_blocks = np.setdiff1d(whole, on_blocks)
    on, off = use & np.isin(number, on_blocks), use & np.isin(number, off_blocks)
    usable_s = block_s - min(_WASHOUT_SHARE * block_s, _WASHOUT_MAX_S)
    load = {
        "on_per_s": _rate(int(on.sum()), len(on_blocks), usable_s),
        "off_per_s": _rate(int(off.sum()), len(off_blocks), usable_s),
    }
    reasons = _not_enough(len(on_blocks), len(off_blocks), load)
    answer: dict[str, Any] = {
        "scope": {"model": policy.scope.model, "route": policy.scope.route, "size_class": policy.scope.size_class},
        "blocks": {"on": len(on_blocks), "off": len(off_blocks), "block_s": block_s, "needed_a_side": MIN_BLOCKS},
        "load": load,
        "enough": not reasons,
        "reasons": reasons,
        "verdict": None,
        "rows": [],
    }
    if not on.any() or not off.any():
        return answer
    rng = np.random.Generator(np.random.PCG64([seed, 0x5B]))
    projection = policy.projection or {}
    for metric, values in (("e2e", seen.e2e_s), ("ttft", seen.ttft_s)):
        known = ~seen.failed & ~np.isnan(values)
        answer["rows"] += _quantile_rows(
            metric, values, number, on & known, off & known, on_blocks, off_blocks, projection, rng
        )
    answer["rows"] += _rate_rows(seen, on, off, projection)
    if not reasons:
        answer["verdict"] = _verdict(answer["rows"])
    return answer


def _whole_blocks(number: NDArray[np.int64]) -> NDArray[np.int64]:
    """Blocks that the log covers from end to end: all but the first and the last one seen."""
    present = np.unique(number)
    return present[1:-1]


def _rate(requests: int, blocks: int, usable_s: float) -> float | None:
    return requests / (blocks * usable_s) if blocks else None


def _not_enough(on: int, off: int, load: dict[str, float | None]) -> list[dict[str, Any]]:
    reasons: list[dict[str, Any]] = []
    if min(on, off) < MIN_BLOCKS:
        reasons.append(
            {
                "code": "not_enough_blocks",
                "text": f"not enough blocks: {on} on and {off} off, {MIN_BLOCKS} a side are needed",
                "value": min(on, off),
                "limit": MIN_BLOCKS,
            }
        )
    a, b = load["on_per_s"], load["off_per_s"]
    if a and b and abs(a / b - 1) > LOAD_TOLERANCE:
        reasons.append(
            {
                "code": "unequal_load",
                "text": f"the load differs: {a:.2f} requests/s on, {b:.2f} off; more blocks even it out",
                "value": abs(a / b - 1),
                "limit": LOAD_TOLERANCE,
            }
        )
    return reasons


def _quantile_rows(
    metric: str,
    values: Floats,
    number: NDArray[np.int64],
    on: Bools,
    off: Bools,
    on_blocks: NDArray[np.int64],
    off_blocks: NDArray[np.int64],
    projection: dict[str, Any],
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Ratios on/off of three percentiles, whole blocks resampled on either side."""
    rows = []
    resampled = _resampled(values, number, on, on_blocks, rng) if on.any() else None
    baseline = _resampled(values, number, off, off_blocks, rng) if off.any() else None
    for name, p in _QUANTILES:
        row: dict[str, Any] = {
            "metric": f"{metric}_{name}_ratio",
            "projected": _projected(projection, f"{metric}_ms", name),
            "observed": None,
            "interval": None,
            "inside": None,
            "n": [int(on.sum()), int(off.sum())],
        }
        if resampled is not None and baseline is not None and min(on.sum(), off.sum()) * (1 - p) >= 1:
            row["observed"] = float(np.quantile(values[on], p) / np.quantile(values[off], p))
            ratios = _bucket_quantile(resampled, p) / _bucket_quantile(baseline, p)
            row["interval"] = [float(np.quantile(ratios, q)) for q in (0.025, 0.975)]
            if row["projected"] is not None:
                row["inside"] = bool(row["interval"][0] <= row["projected"] <= row["interval"][1])
        rows.append(row)
    return rows


def _resampled(
    values: Floats, number: NDArray[np.int64], mask: Bools, blocks: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(bucket indices, cumulative share per resample): counts per block and bucket, whole blocks drawn with replacement."""
    bucket = np.floor(np.log(np.maximum(values[mask], 1e-6)) / np.log(_BUCKET)).astype(np.int64)
    kinds, column = np.unique(bucket, return_inverse=True)
    row = np.searchsorted(blocks, number[mask])
    counts = np.zeros((len(blocks), len(kinds)))
    np.add.at(counts, (row, column), 1.0)
    draws = rng.multinomial(len(blocks), np.full(len(blocks), 1 / len(blocks)), size=RESAMPLES)
    total = np.cumsum(draws @ counts, axis=1)
    return kinds, total / np.maximum(total[:, -1:], 1.0)


def _bucket_quantile(resampled: tuple[NDArray[np.int64], NDArray[np.float64]], p: float) -> Floats:
    kinds, cumulative = resampled
    position = np.minimum((cumulative < p).sum(axis=1), len(kinds) - 1)
    return np.asarray(_BUCKET ** (kinds[position] + 0.5), dtype=np.float64)


def _projected(projection: dict[str, Any], metric: str, name: str) -> float | None:
    arms = [((projection.get(arm) or {}).get(metric) or {}).get(name) for arm in ("hedged", "unhedged")]
    return arms[0] / arms[1] if arms[0] and arms[1] else None


def _rate_rows(seen: Outcomes, on: Bools, off: Bools, projection: dict[str, Any]) -> list[dict[str, Any]]:
    requests, hedges = int(on.sum()), int(seen.hedges[on].sum())
    losers = int((seen.attempts[on] - 1).sum())
    hedged = projection.get("hedged") or {}
    known = ~np.isnan(seen.cost)
    growth = None
    if (on & known).any() and (off & known).any() and seen.cost[off & known].mean() > 0:
        growth = float(seen.cost[on & known].mean() / seen.cost[off & known].mean() - 1)
    rows = [
        ("hedge_rate", hedged.get("hedge_rate"), hedges / requests),
        ("win_rate", hedged.get("win_rate"), float(seen.hedge_won[on].sum() / hedges) if hedges else None),
        ("cancels_per_request", hedged.get("cancels_per_request"), losers / requests),
        ("cancels_per_hedge", hedged.get("cancels_per_hedge"), losers / hedges if hedges else None),
        ("error_ratio_on", hedged.get("error_ratio"), float(seen.failed[on].mean())),
        ("error_ratio_off", (projection.get("unhedged") or {}).get("error_ratio"), float(seen.failed[off].mean())),
        ("cost_growth", (projection.get("cost") or {}).get("delta_ratio"), growth),
        ("tasks_per_gpu_hour", hedged.get("tasks_per_gpu_hour"), None),
    ]
    return [
        {
            "metric": m,
            "projected": projected,
            "observed": observed,
            "interval": None,
            "inside": None,
            "n": [requests, int(off.sum())],
        }
        for m, projected, observed in rows
    ]


def _verdict(rows: list[dict[str, Any]]) -> dict[str, str]:
    """On the e2e p99: helps, harms, or no difference that these blocks can show."""
    row = next(r for r in rows if r["metric"] == "e2e_p99_ratio")
    if row["interval"] is None:
        return {"code": "cannot_tell", "text": "too few requests for a p99"}
    low, high = row["interval"]
    change = f"e2e p99 {100 * (row['observed'] - 1):+.0f} % ({100 * (low - 1):+.0f} % to {100 * (high - 1):+.0f} %)"
    if high < 1:
        return {"code": "helps", "text": f"hedging helps: {change}"}
    if low > 1:
        return {"code": "harms", "text": f"hedging HARMS: {change}; switch it off"}
    return {"code": "not_significant", "text": f"no difference that these blocks can show: {change}"}
