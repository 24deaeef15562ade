"""The document breakdown.v1: groups, exclusions, shares, percentiles that are not said."""

from __future__ import annotations

from typing import Any

import jsonschema
import numpy as np
import pytest
from analysis_logs import MS, START_NS, fleet, log, table

from hedgectl import decompose, schemas
from hedgectl.breakdown import COMPONENTS, DIMENSIONS, breakdown, tail_excess
from hedgectl.decompose import Selection
from hedgectl.errors import UsageError

S = 1000 * MS


def split(con: Any, *by: str, **selection: Any) -> dict[str, Any]:
    doc = breakdown(con, decompose.prepare(con, Selection(**selection)), by)
    jsonschema.validate(doc, schemas.load("breakdown"))
    return doc


def test_what_does_not_count_is_counted() -> None:
    rows = [
        {"e2e_ns": S},
        {"e2e_ns": 5 * MS, "cache_hit": True},
        {"e2e_ns": S, "status": "error", "http_status": 500},
        {"e2e_ns": S, "status": "error", "http_status": 500, "cache_hit": True},
        {"e2e_ns": 30 * S, "status": "error", "http_status": 504},
    ]
    with log(rows) as con:
        (group,) = split(con)["groups"]
    assert group["requests"] == 5
    assert group["excluded"] == {"cache_hit": 2, "error": 1, "censored": 1}
    assert group["e2e_ms"]["n"] == 1
    assert group["e2e_ms"]["at_least"] == {"p50": 15_500.0, "p95": 28_550.0, "p99": 29_710.0}


def test_only_cache_hits_leave_no_latency() -> None:
    with log([{"e2e_ns": 7 * MS, "cache_hit": True}] * 4) as con:
        (group,) = split(con)["groups"]
    assert group["e2e_ms"]["n"] == 0
    assert group["e2e_ms"]["p50"] is None
    assert group["components"]["other"]["share_of_mean"] is None


def test_an_empty_log_has_one_group_of_nothing() -> None:
    with log([]) as con:
        (group,) = split(con)["groups"]
        assert (group["requests"], group["e2e_ms"]["n"], group["ttft_ms"]["p50"]) == (0, 0, None)
        assert split(con, "replica")["groups"] == []
        assert split(con, "replica")["groups"] == []


def test_percentiles_equal_the_plain_ones_and_shares_sum_to_one() -> None:
    columns = fleet(n=4000, alone=0.03)
    with table(columns) as con:
        doc = split(con)
    (group,) = doc["groups"]
    e2e = np.asarray(columns["e2e_ns"]) / 1e6
    for p in (50, 95, 99):
        assert group["e2e_ms"][f"p{p}"] == pytest.approx(float(np.percentile(e2e, p)), abs=1e-5)
    parts = group["components"]
    assert sum(parts[c]["share_of_mean"] for c in COMPONENTS) == pytest.approx(1, abs=1e-7)
    assert sum(parts[c]["share_of_tail_excess"] for c in COMPONENTS) == pytest.approx(1, abs=1e-7)
    assert sum(parts[c]["mean"] or 0 for c in COMPONENTS) == pytest.approx(float(e2e.mean()), rel=1e-6)
    assert all(sum(parts[c]["basis"].values()) == 4000 for c in COMPONENTS)
    assert doc["as_of"].startswith("2027-01-15T08:")


def test_groups_partition_the_requests() -> None:
    columns = fleet(n=3000, replicas=3)
    with table(columns) as con:
        for by in (("replica",), ("replica", "size_class"), ("hour", "day")):
            groups = split(con, *by)["groups"]
            assert sum(g["requests"] for g in groups) == 3000
            keys = [tuple(g["key"].values()) for g in groups]
            assert len(set(keys)) == len(keys)
            assert keys == sorted(keys)
        replica = np.asarray(columns["replica"]) == "r1"
        (one,) = [g for g in split(con, "replica")["groups"] if g["key"] == {"replica": "r1"}]
    assert one["requests"] == int(replica.sum())
    assert one["e2e_ms"]["p50"] == pytest.approx(
        float(np.median(np.asarray(columns["e2e_ns"])[replica])) / 1e6, abs=1e-5
    )


def test_every_dimension_can_be_asked_and_no_other() -> None:
    with log([{"e2e_ns": S, "replica": "a"}]) as con:
        doc = split(con, *DIMENSIONS)
        assert list(doc["groups"][0]["key"]) == list(DIMENSIONS)
        with pytest.raises(UsageError, match="cannot group by e2e_ns"):
            split(con, "e2e_ns")


def test_hours_are_told_in_the_zone_asked_for() -> None:
    with log([{"e2e_ns": S, "arrival_ns": START_NS}]) as con:
        assert split(con, "hour", "day")["groups"][0]["key"] == {"hour": "08:00", "day": "2027-01-15"}
        key = split(con, "hour", "day", "weekday", tz="Asia/Kolkata")["groups"][0]["key"]
    assert key == {"hour": "13:00", "day": "2027-01-15", "weekday": "Fri"}


def test_first_tokens_by_basis_and_callers_who_left_before_one() -> None:
    rows: list[dict[str, Any]] = [{"e2e_ns": 2 * S, "ttft_ns": S, "completion_tokens": 9}] * 8
    rows += [{"e2e_ns": 2 * S, "ttft_ns": S, "ttft_basis": "first_byte", "completion_tokens": 9}]
    rows += [{"e2e_ns": 30 * S, "status": "censored", "streamed": True}]
    with log(rows) as con:
        (group,) = split(con)["groups"]
    assert group["ttft_ms"]["basis"] == {"first_token": 8, "first_byte": 1, "engine": 0}
    assert group["ttft_ms"]["p50"] == 1000.0
    assert group["ttft_ms"]["at_least"]["p95"] > 1000.0


def test_a_log_without_first_tokens_bounds_none() -> None:
    with log([{"e2e_ns": S}] * 5 + [{"e2e_ns": 30 * S, "status": "censored"}]) as con:
        (group,) = split(con)["groups"]
    assert group["ttft_ms"] | {"basis": None} == {
        "n": 0,
        "p50": None,
        "p95": None,
        "p99": None,
        "at_least": {},
        "unreliable": [],
        "basis": None,
    }


def test_a_sampled_log_is_weighted() -> None:
    rows = [{"e2e_ns": S, "weight": 1.0}] * 50 + [{"e2e_ns": 3 * S, "weight": 10.0}] * 50
    with log(rows) as con:
        doc = split(con)
    (group,) = doc["groups"]
    assert group["e2e_ms"]["p50"] == 3000.0
    assert group["components"]["other"]["mean"] == pytest.approx(1000 * (50 + 1500) / 550)
    assert "sampled" in [n["code"] for n in doc["notes"]]


def test_tail_excess_may_be_negative_and_is_not_clipped() -> None:
    # Slow requests have a shorter first part than ordinary ones.
    e2e = np.concatenate((np.full(95, 100.0), np.full(5, 300.0)))
    first = np.concatenate((np.full(95, 50.0), np.full(5, 10.0)))
    shares = tail_excess({"a": first, "b": e2e - first}, e2e, np.ones(100))
    assert shares == {"a": pytest.approx(-0.2), "b": pytest.approx(1.2)}
    assert tail_excess({"a": np.ones(100)}, np.ones(100), np.ones(100)) is None
