"""Figures a day and scope that outlive the raw rows: additive log buckets, counts, and what ``stats`` prints."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from hedgectl import decompose, quantiles, sql

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

METRICS = ("e2e", "ttft", "ttfc_streamed", "ttfc_whole")
_NS_PER_MS = 1e6
_SUMMED = (
    "requests",
    "attempts",
    "hedges",
    "hedge_wins",
    "cancels",
    "errors",
    "censored",
    "costed",
    "cost",
    "winners_cost",
)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was dropped: attempts, all of days before ``before``."""

    rows: int
    before: date


def record(con: DuckDBPyConnection, *, tz: str = "UTC") -> None:
    """Brings the history of an open, writable database up to its raw rows. Idempotent; runs in one transaction.

    Days that still have all their raw rows are replaced. Rows that arrived late for a day without them wait for
    :func:`prune`, which adds and drops them in one step, so that they count once.
    """
    decompose.prepare(con)
    count_today(con, tz)
    _with_variables(con, "history/replace", raw_from=raw_from(con) or date.min)


def prune(con: DuckDBPyConnection, *, keep_from_ns: int, tz: str = "UTC") -> Pruned | None:
    """Drops the raw rows of whole days before ``keep_from_ns`` (UTC ns) once the history holds their figures.

    Runs in one transaction. None if there is nothing to drop.
    """
    marked = raw_from(con)
    first_kept = max(_day_of(keep_from_ns, tz), marked or date.min)
    midnight = datetime.combine(first_kept, datetime.min.time(), ZoneInfo(tz)).astimezone(UTC)
    before_ns = int((midnight - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000
    ((attempts, tool_calls),) = con.execute(sql.text("history/prunable"), {"before_ns": before_ns}).fetchall()
    if not attempts and not tool_calls:
        return None
    record(con, tz=tz)  # others may have read logs into the database meanwhile
    if marked is not None:
        _with_variables(con, "history/add_late", raw_from=marked)
    _with_variables(con, "history/prune", before_ns=before_ns, raw_from=first_kept)
    return Pruned(attempts, first_kept)


def raw_from(con: DuckDBPyConnection) -> date | None:
    """The first day that has all its raw rows; None if none were ever dropped."""
    marked = con.execute(sql.text("history/mark")).fetchall()
    return marked[0][0] if marked else None


def _with_variables(con: DuckDBPyConnection, name: str, **values: Any) -> None:
    """Runs a query of several statements: DuckDB binds parameters to the last statement only, so they are variables."""
    for key, value in values.items():
        con.execute(f"SET VARIABLE {key} = ?", [value])  # keys are this module's own names
    con.execute(sql.text(name)).fetchall()


def count_today(con: DuckDBPyConnection, tz: str) -> None:
    """Fills the TEMP tables today_bucket and today_count from a prepared selection."""
    decompose.run(con, "history/today_bucket", tz=tz)
    decompose.run(con, "history/today_count", tz=tz)


def stats(
    con: DuckDBPyConnection, *, as_of: str | None, window: Mapping[str, Any], stored: bool, tz: str = "UTC"
) -> dict[str, Any]:
    """The document ``stats.v1``: one row a day and scope.

    ``stored`` reads the database's history (which must be up to date, see :func:`record`), else the TEMP tables of
    :func:`count_today`. Percentiles come from 1 % buckets: at most 0.5 % from the exact value.
    """
    counts, buckets = ("history_day", "history_bucket") if stored else ("today_count", "today_bucket")
    latencies = _latencies(_rows(con, "history/buckets", "{buckets}", buckets))
    rows = [
        _row(key, list(group), latencies)
        for key, group in itertools.groupby(
            _rows(con, "history/days", "{counts}", counts), key=itemgetter("day", "model", "route")
        )
    ]
    return {
        "schema": "hedgectl/stats.v1",
        "as_of": as_of,
        "window": dict(window),
        "by": ["day"],
        "tz": tz,
        "rows": rows,
        "notes": [
            {
                "code": "from_buckets",
                "level": "info",
                "text": "percentiles come from buckets of 1 %, so that days add up exactly: each is at most 0.5 % off",
            }
        ],
    }


def of_rows(con: DuckDBPyConnection, prepared: decompose.Prepared, *, tz: str = "UTC") -> dict[str, Any]:
    """The document ``stats.v1`` from the rows of a selection alone."""
    count_today(con, tz)
    return stats(con, as_of=prepared.as_of, window=prepared.window, stored=False, tz=tz)


def is_recorded(con: DuckDBPyConnection) -> bool:
    """Whether the database has daily figures at all (``daily`` writes them)."""
    return bool(_rows(con, "history/days", "{counts}", "history_day"))


def _rows(con: DuckDBPyConnection, name: str, placeholder: str, table: str) -> list[dict[str, Any]]:
    """Rows of a query whose table is one of this module's own names."""
    found = con.execute(sql.text(name).replace(placeholder, table))
    columns = [d[0] for d in found.description or []]
    return [dict(zip(columns, r, strict=True)) for r in found.fetchall()]


def _latencies(rows: Iterable[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Quantile objects in ms by (day, model, route, metric)."""
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key, group in itertools.groupby(rows, key=itemgetter("day", "model", "route", "metric")):
        members = list(group)
        summary = quantiles.bucket_summary(
            [r["bucket"] for r in members], [r["events"] for r in members], [r["censored"] for r in members]
        )
        for p in ("p50", "p95", "p99"):
            if summary.get(p) is not None:
                summary[p] = round(summary[p] / _NS_PER_MS, 3)
        summary["at_least"] = {p: round(v / _NS_PER_MS, 3) for p, v in summary["at_least"].items()}
        found[key] = summary
    return found


def _row(
    key: tuple[Any, ...], parts: list[dict[str, Any]], latencies: Mapping[tuple[Any, ...], dict[str, Any]]
) -> dict[str, Any]:
    """One day of one scope. Money is only summed within one currency; several are told apart by null."""
    total = {name: sum(p[name] for p in parts) for name in _SUMMED}
    currencies = sorted({p["currency"] for p in parts if p["costed"]})
    one = len(currencies) == 1
    empty = quantiles.bucket_summary([], [], [])
    day, model, route = key
    return {
        "day": day.isoformat(),
        "scope": {"model": model or None, "route": route or None},
        "n": int(total["requests"]),
        "attempts": int(total["attempts"]),
        "hedges": int(total["hedges"]),
        "hedge_rate": total["hedges"] / total["requests"],
        "win_rate": total["hedge_wins"] / total["hedges"] if total["hedges"] else None,
        "cancels_per_request": total["cancels"] / total["requests"],
        "cancels_per_hedge": total["cancels"] / total["hedges"] if total["hedges"] else None,
        "error_ratio": total["errors"] / total["requests"],
        "cost": total["cost"] if one else None,
        "currency": currencies[0] or None if one else None,
        "costed": int(total["costed"]),
        "cost_growth": total["cost"] / total["winners_cost"] - 1 if one and total["winners_cost"] > 0 else None,
        **{f"{metric}_ms": latencies.get((*key, metric), empty) for metric in METRICS},
    }


def _day_of(ns: int, tz: str) -> date:
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)).astimezone(ZoneInfo(tz)).date()
