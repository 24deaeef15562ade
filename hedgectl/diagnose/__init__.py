"""The document diagnosis.v1: what the tail is made of, and whether a second copy could touch it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgectl import decompose
from hedgectl.diagnose.comovement import CoMovement
from hedgectl.diagnose.evidence import Evidence, Metric, gather
from hedgectl.diagnose.verdict import judge

if TYPE_CHECKING:
    import duckdb

__all__ = ["Evidence", "diagnose"]

ONE_MODEL_SHARE = 0.8  # of the slow requests; and ...
ONE_MODEL_LIFT = 1.5  # ... more often there than overall: the tail is that model


def diagnose(
    con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared, *, metric: Metric = "e2e", seed: int = 1
) -> dict[str, Any]:
    """The diagnosis of a prepared selection; `metric` is the clock whose tail is explained. Same input and seed, same bytes.

    Never raises for thin data: the verdict is then `cannot_tell`, with the fields to log.
    """
    e = gather(con, prepared, metric, seed)
    found = judge(e, prepared.selection.min_requests, decompose.MIN_REQUESTS)
    notes = list(prepared.notes)
    if e.attribution_fitted:
        text = "no first token in the log: the share of longer answers is fitted (time over output tokens), the rest is `other`"
        notes.append(decompose.note("decode_length_fitted", text))
    differs = _differs(con, prepared, e)
    return {
        "schema": "hedgectl/diagnosis.v1",
        "as_of": prepared.as_of,
        "window": prepared.window,
        "scope": {"model": prepared.selection.model, "route": prepared.selection.route},
        "verdict": found.verdict,
        "confidence": found.confidence,
        "tail": {
            "metric": f"{metric}_ms",
            "threshold_ms": _round(e.threshold_ms, 6),
            "n": e.tail,
            "episodes": e.episodes,
            "attribution": e.attribution,
        },
        "co_movement": {
            "e2e": _move(e.e2e),
            "ttft": _move(e.ttft),
            "between_pools": _move(e.between_pools),
            "strata": e.strata,
        },
        "routing": {
            "seen": e.routing.seen,
            "share_to_least_outstanding": _round(e.routing.share_to_least_outstanding),
            "by_chance": _round(e.routing.by_chance),
        },
        "replicas": [
            {
                "replica": r.replica,
                "requests": r.requests,
                "slow_share": _round(r.slow / r.requests) if r.requests else None,
                "speed_ratio": _round(r.speed_ratio),
                "persistent": r.persistent,
                "slow_share_over_time": list(r.over_time),
            }
            for r in e.replicas
        ],
        "differs_by": differs,
        "reasons": [*found.reasons, *_one_model(differs)],
        "advice": found.advice,
        "notes": notes,
    }


def _round(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(value, digits)


def _move(m: CoMovement | None) -> dict[str, Any] | None:
    if m is None:
        return None
    return {
        "lift": _round(m.lift),
        "interval": [_round(m.low), _round(m.high)],
        "pairs": m.pairs,
        "overall_lift": _round(m.overall),
        "copy_slow_share": _round(m.copy_slow),
        "blocks": m.blocks,
        "window_s": _round(m.window_s),
    }


def _one_model(differs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The reason to look at one model at a time: replicas are compared within their model, but the tail is of all of them."""
    return [
        {
            "code": "one_model_is_the_tail",
            "text": f"{one['share_in_tail']:.0%} of slow requests are of {one['value']}, {one['share_overall']:.0%} of all "
            f"are: --model {one['value']} looks at it by itself",
            "value": one["share_in_tail"],
            "limit": ONE_MODEL_SHARE,
        }
        for one in differs
        if one["field"] == "model" and one["share_in_tail"] >= ONE_MODEL_SHARE and one["lift"] >= ONE_MODEL_LIFT
    ]


def _differs(con: duckdb.DuckDBPyConnection, prepared: decompose.Prepared, e: Evidence) -> list[dict[str, Any]]:
    """Kinds of requests whose share in the tail differs most from their share overall, at most eight, two a field."""
    if e.threshold_ms is None or e.tail < 10:
        return []
    decompose.run(con, "decompose/tz_choice", tz=prepared.selection.tz or "UTC")
    decompose.run(con, "decompose/request_dimension")
    limit = e.threshold_ms * 1e6
    found = decompose.rows(con, "decompose/differs_by", threshold_ns=limit, use_ttft=e.metric == "ttft")
    out: list[tuple[float, dict[str, Any]]] = []
    for r in found:
        tail, overall = float(r["slow"] / r["field_slow"]), float(r["requests"] / r["field_requests"])
        one = {
            "field": r["field"],
            "value": r["value"],
            "share_in_tail": round(tail, 4),
            "share_overall": round(overall, 4),
            "lift": round(tail / overall, 4),
        }
        out.append((abs(tail - overall), one))
    out.sort(key=lambda p: (-p[0], p[1]["field"], p[1]["value"]))
    kept: list[dict[str, Any]] = []
    for _, one in out:
        if len(kept) < 8 and sum(k["field"] == one["field"] for k in kept) < 2:
            kept.append(one)
    return kept
