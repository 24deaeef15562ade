"""History: buckets add exactly, days without raw rows survive, late rows are not lost and not counted twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from hedgectl import decompose, history, schemas, store
from hedgectl.cli import prometheus

DAY_NS = 86_400_000_000_000
T0 = 1_795_000_000_000_000_000 // DAY_NS * DAY_NS  # a midnight UTC


def add(con: Any, rows: list[tuple[str, int, int, int, str, float | None]], file_id: int = 1) -> None:
    """(request_id, arrival_ns, e2e_ns, ttft_ns, status, cost) as attempts."""
    seen = [
        {"file_id": file_id, "line": i + 1, "request_id": r, "arrival_ns": a, "e2e_ns": e, "status": s, "cost": c}
        | ({"ttft_ns": t} if s == "ok" else {"error_kind": "loser"})
        for i, (r, a, e, t, s, c) in enumerate(rows)
    ]
    con.execute(
        """
        INSERT INTO attempt BY NAME
        SELECT unnest(from_json($1, '[{"file_id":"INTEGER","line":"BIGINT","request_id":"VARCHAR","arrival_ns":"BIGINT",
               "e2e_ns":"BIGINT","ttft_ns":"BIGINT","status":"VARCHAR","error_kind":"VARCHAR","cost":"DECIMAL(24,12)"}]'),
               recursive := true),
               0 AS record, 'plain' AS format, 'gateway' AS observer, 'first_token' AS ttft_basis, 'USD' AS currency,
               true AS streamed, 'chat' AS model
        """,
        [json.dumps(seen)],
    )


def day(number: int, n: int, seed: int) -> list[tuple[str, int, int, int, str, float | None]]:
    rng = np.random.default_rng(seed)
    e2e = np.exp(rng.normal(0, 0.5, n)) * 1e9
    at = np.sort(rng.uniform(0, DAY_NS - 4e9, n))
    return [
        (f"d{number}-{seed}-{i}", int(T0 + number * DAY_NS + at[i]), int(e2e[i]), int(e2e[i] * 0.2), "ok", 0.01)
        for i in range(n)
    ]


def rows_of(db: Path) -> list[dict[str, Any]]:
    with store.connect(db, read_only=True) as opened:
        doc = history.stats(opened.con, as_of=None, window={}, stored=True)
    Draft202012Validator(schemas.load("stats")).validate(doc)
    return doc["rows"]


def test_percentiles_are_those_of_the_rows_within_half_a_bucket(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    rows = day(0, 2000, 1)
    with store.connect(db) as opened:
        add(opened.con, rows)
        with opened.transaction() as con:
            history.record(con)
    (row,) = rows_of(db)
    exact = np.quantile([r[2] for r in rows], [0.5, 0.95, 0.99]) / 1e6
    got = [row["e2e_ms"][p] for p in ("p50", "p95", "p99")]
    assert got == pytest.approx(exact, rel=0.006)
    assert row["n"] == 2000
    assert row["ttfc_streamed_ms"]["n"] == 2000
    assert row["ttfc_whole_ms"]["n"] == 0
    assert row["cost"] == pytest.approx(20.0)


def test_recording_twice_changes_nothing_and_pruned_days_stay(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    with store.connect(db) as opened:
        add(opened.con, day(0, 500, 1) + day(1, 500, 2))
        for _ in range(2):
            with opened.transaction() as con:
                history.record(con)
    before = rows_of(db)
    assert [r["n"] for r in before] == [500, 500]
    with store.connect(db) as opened, opened.transaction() as con:
        history.prune(con, keep_from_ns=T0 + DAY_NS)
        history.record(con)
        assert con.execute("SELECT count(*) FROM attempt").fetchall() == [(500,)]
    assert rows_of(db) == before


def test_late_rows_of_a_pruned_day_are_added_once(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    with store.connect(db) as opened:
        add(opened.con, day(0, 500, 1) + day(1, 400, 2))
        with opened.transaction() as con:
            history.record(con)
            history.prune(con, keep_from_ns=T0 + DAY_NS)
        add(opened.con, day(0, 300, 9), file_id=2)
        for _ in range(2):
            with opened.transaction() as con:
                history.record(con)
                history.prune(con, keep_from_ns=T0 + DAY_NS)
    assert [r["n"] for r in rows_of(db)] == [800, 400]


def test_a_cancelled_loser_is_a_bound_of_the_unhedged_service_and_a_cancel(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    rows = day(0, 400, 3)
    slow = [
        ("s", T0 + 5 * 10**12, 9 * 10**9, 0, "censored", 0.01),
        ("s", T0 + 5 * 10**12 + 3 * 10**9, 6 * 10**9, 10**9, "ok", 0.01),
    ]
    with store.connect(db) as opened:
        add(opened.con, rows + slow)
        with opened.transaction() as con:
            history.record(con)
        primary = opened.con.execute(
            "SELECT sum(events), sum(censored) FROM history_bucket WHERE metric = 'primary_e2e'"
        ).fetchall()
    (row,) = rows_of(db)
    assert primary == [(400, 1)]
    assert (row["n"], row["attempts"], row["hedges"]) == (401, 402, 1)
    assert row["cancels_per_hedge"] == 1
    assert row["cancels_per_request"] == pytest.approx(1 / 401)
    assert row["cost_growth"] == pytest.approx(1 / 401)


def test_a_day_follows_the_zone_that_was_asked_for(tmp_path: Path) -> None:
    with store.connect(None) as opened:
        add(opened.con, [("a", T0 + 20 * 3_600_000_000_000, 10**9, 10**8, "ok", None)])
        prepared = decompose.prepare(opened.con)
        for tz, expected in (("UTC", 0), ("Asia/Tokyo", 1)):
            history.count_today(opened.con, tz)
            doc = history.stats(opened.con, as_of=prepared.as_of, window=prepared.window, stored=False, tz=tz)
            (row,) = doc["rows"]
            assert row["day"] == str(np.datetime64(T0 + expected * DAY_NS, "ns").astype("datetime64[D]"))
            assert (row["cost"], row["currency"], row["e2e_ms"]["p50"]) == (None, None, row["e2e_ms"]["p50"])


def test_figures_for_a_node_exporter_are_those_of_the_last_day_and_what_is_unknown_is_absent(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    with store.connect(db) as opened:
        add(opened.con, day(0, 300, 1) + day(1, 200, 2))
        with opened.transaction() as con:
            history.record(con)
    rows = rows_of(db)
    page = prometheus.text({"rows": rows})
    last = max(row["day"] for row in rows)
    samples = dict(line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#"))
    labels = f'day="{last}",model="{rows[-1]["scope"]["model"]}",route=""'
    assert samples[f"hedgectl_requests{{{labels}}}"] == "200"
    p95 = next(row for row in rows if row["day"] == last)["e2e_ms"]["p95"]
    assert float(samples[f'hedgectl_e2e_seconds{{{labels},percentile="95"}}']) == p95 / 1000
    assert not any(last not in name for name in samples)
    assert not any(name.startswith("hedgectl_hedge_win_ratio") for name in samples)  # no copies, no rate
    assert prometheus.text({"rows": []}) == ""
