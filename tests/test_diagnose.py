"""Verdicts on logs of known making, and none from logs that cannot tell."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from analysis_logs import MS, START_NS, fleet, log, table

from hedgectl import decompose, schemas
from hedgectl.decompose import Selection
from hedgectl.diagnose import attribution, comovement, diagnose
from hedgectl.diagnose.replicas import replicas_seen

S = 1000 * MS


def diagnosed(con: Any, metric: Any = "e2e", **selection: Any) -> dict[str, Any]:
    doc = diagnose(con, decompose.prepare(con, Selection(**selection)), metric=metric)
    jsonschema.validate(doc, schemas.load("diagnosis"))
    json.dumps(doc, allow_nan=False)
    return doc


def of_fleet(metric: Any = "e2e", drop: tuple[str, ...] = (), **making: Any) -> dict[str, Any]:
    columns = {k: v for k, v in fleet(**making).items() if k not in drop}
    with table(columns) as con:
        return diagnosed(con, metric)


def codes(pieces: list[dict[str, Any]]) -> list[str]:
    return [p["code"] for p in pieces]


# --- verdicts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("making", "verdict"),
    [
        ({}, "no_tail"),
        ({"length_sigma": 1.1}, "long_work"),
        ({"alone": 0.04}, "isolated"),
        ({"alone": 0.2}, "isolated"),
        ({"hiccup": 0.03}, "isolated"),
        ({"alone": 0.03, "length_sigma": 0.9}, "isolated"),
        ({"together": 0.05}, "shared"),
        ({"together": 0.15}, "shared"),
        ({"alone": 0.03, "together": 0.03, "seed": 2}, "mixed"),
        ({"static": {2: 2.0}}, "outlier_replica"),
        ({"static": {1: 2.5, 2: 2.0}}, "outlier_replica"),
        ({"pools": 2, "pool_together": 0.04}, "mixed"),
    ],
)
def test_the_making_of_a_tail_is_named(making: dict[str, Any], verdict: str) -> None:
    doc = of_fleet(**making)
    assert doc["verdict"] == verdict
    assert doc["reasons"]
    assert doc["advice"]
    assert sum(v or 0 for v in doc["tail"]["attribution"].values()) == pytest.approx(1, abs=1e-6)


def test_a_replica_that_is_always_slow_is_named_with_its_factor() -> None:
    doc = of_fleet(static={2: 2.0})
    found = {r["replica"]: r for r in doc["replicas"]}
    assert found["r2"]["persistent"]
    assert found["r2"]["speed_ratio"] == pytest.approx(2.0, rel=0.05)
    assert [r for r in found.values() if r["persistent"]] == [found["r2"]]
    assert {"drain_replica"} <= set(codes(doc["advice"]))


def test_replicas_that_get_longer_work_are_no_outliers() -> None:
    columns = fleet(n=6000)
    longer = np.asarray(columns["replica"]) == "r1"
    factor = np.where(longer, 3, 1)
    columns["completion_tokens"] = columns["completion_tokens"] * factor
    columns["e2e_ns"] = columns["ttft_ns"] + (columns["e2e_ns"] - columns["ttft_ns"]) * factor
    with table(columns) as con:
        doc = diagnosed(con)
    assert not any(r["persistent"] for r in doc["replicas"])
    assert doc["verdict"] in ("long_work", "no_tail")


def two_models(static: dict[int, float] | None = None) -> dict[str, Any]:
    """A large model on replicas of its own that takes three times as long as the small one on others."""
    small, large = fleet(n=5000, seed=3, static=static or {}), fleet(n=5000, seed=4)
    both = {k: np.concatenate((np.asarray(small[k]), np.asarray(large[k]))) for k in small}
    big = np.arange(10_000) >= 5000
    both["model"] = np.where(big, "large", "small")
    both["replica"] = np.array([f"{m}-{r}" for m, r in zip(both["model"], both["replica"], strict=True)])
    for clock in ("ttft_ns", "e2e_ns"):
        both[clock] = both[clock] * np.where(big, 3, 1)
    both["request_id"] = np.array([f"q{i}" for i in range(10_000)])
    order = np.argsort(both["arrival_ns"], kind="stable")
    return {k: v[order] for k, v in both.items()}


def test_a_slower_model_on_replicas_of_its_own_is_no_outlier() -> None:
    with table(two_models()) as con:
        doc = diagnosed(con)
    assert not any(r["persistent"] for r in doc["replicas"])
    assert "one_model_is_the_tail" in codes(doc["reasons"])


def test_a_slow_replica_is_told_among_those_of_its_model() -> None:
    with table(two_models(static={1: 2.5})) as con:
        doc = diagnosed(con)
    slow = [r["replica"] for r in doc["replicas"] if r["persistent"]]
    assert slow == ["small-r1"], "slower than the other small ones, though faster than every large one"


def test_trouble_of_one_pool_is_cured_by_another() -> None:
    doc = of_fleet(pools=2, pool_together=0.04)
    move = doc["co_movement"]
    assert move["e2e"]["lift"] > 3
    assert move["between_pools"]["lift"] < 1.5
    assert "hedge_to_another_pool" in codes(doc["advice"])


def test_a_daily_rhythm_is_no_co_movement() -> None:
    # Two hours a day every replica has spells of its own six times as often as else: slow at the same hours, not together.
    rng = np.random.default_rng(4)
    n = 40_000
    at = np.sort(rng.uniform(0, 4 * 86400, n))
    busy = (at % 86400 // 3600).astype(int) % 12 == 5
    where = rng.integers(0, 4, n)
    slow = rng.random(n) < np.where(busy, 0.30, 0.02)
    e2e = rng.lognormal(0, 0.1, n) * np.where(slow, 8.0, 1.0)
    stratum, told = comovement.strata(at, 0)
    assert told == "hour of day, load by the hour"
    move = comovement.co_movement(at, e2e > np.quantile(e2e, 0.95), where, stratum, 2.0, seed=1)
    assert move is not None
    assert move.overall > 2.5
    assert 0.7 < move.lift < 1.3


# --- what cannot be told -------------------------------------------------------------------------------------------------


def test_few_requests_give_no_verdict() -> None:
    doc = of_fleet(n=900, alone=0.05)
    assert (doc["verdict"], doc["confidence"]) == ("cannot_tell", "low")
    assert doc["reasons"][0]["code"] == "too_few_requests"
    assert (doc["reasons"][0]["value"], doc["reasons"][0]["limit"]) == (900, 1000)


@pytest.mark.parametrize(
    ("making", "drop", "code"), [({"replicas": 1}, (), "one_replica"), ({}, ("replica",), "no_replica_ids")]
)
def test_one_place_cannot_be_compared(making: dict[str, Any], drop: tuple[str, ...], code: str) -> None:
    doc = of_fleet(n=3000, hiccup=0.03, drop=drop, **making)
    assert doc["verdict"] == "cannot_tell"
    assert code in codes(doc["reasons"])
    assert any(a.get("fields") == ["replica"] for a in doc["advice"])
    assert doc["co_movement"]["e2e"] is None


def test_an_empty_log_and_equal_times_have_answers() -> None:
    with log([]) as con:
        assert diagnosed(con)["verdict"] == "cannot_tell"
    with log([{"e2e_ns": S, "replica": f"r{i % 2}"} for i in range(40)]) as con:
        doc = diagnosed(con, min_requests=10)
    assert (doc["verdict"], doc["tail"]["n"]) == ("no_tail", 0)


def test_many_timeouts_are_an_incident() -> None:
    rows = [{"e2e_ns": (900 + i) * MS, "replica": f"r{i % 2}"} for i in range(70)]
    rows += [{"e2e_ns": 30 * S, "status": "error", "http_status": 504, "replica": "r0"}] * 30
    with log(rows) as con:
        doc = diagnosed(con, min_requests=10)
    assert doc["verdict"] == "cannot_tell"
    assert codes(doc["reasons"])[:2] == ["cut_short", "tail_not_seen"]


def test_waiting_for_tools_is_told_without_replicas() -> None:
    rng = np.random.default_rng(1)
    n = 2000
    tools = np.where(rng.random(n) < 0.1, 20 * S, 0)
    columns = {
        "arrival_ns": START_NS + np.arange(n) * S,
        "e2e_ns": 2 * S + tools + rng.integers(0, 200, n) * MS,
        "tool_wait_ns": tools,
        "ttft_ns": np.full(n, 300 * MS),
        "ttft_basis": np.full(n, "first_token", dtype=object),
        "completion_tokens": np.full(n, 100),
    }
    with table(columns) as con:
        doc = diagnosed(con)
    assert doc["verdict"] == "tools"
    assert doc["tail"]["attribution"]["tool_wait"] > 0.95


# --- small logs, the minimum lowered -------------------------------------------------------------------------------------


def minutes(slow: Any, replicas: int = 3, extra: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Six minutes, one request a replica each, at 1.1 s; `slow(minute, replica)` adds ms to the queue."""
    rows = []
    for m in range(6):
        for r in range(replicas):
            more = slow(m, r)
            rows.append(
                {
                    "arrival_ns": START_NS + (m * 60 + r) * S,
                    "replica": f"r{r}",
                    "queue_ns": (10 + more) * MS,
                    "ttft_ns": (150 + more) * MS,
                    "e2e_ns": (1150 + more) * MS,
                    "prompt_tokens": 100,
                    "completion_tokens": 50,
                }
                | (extra or {})
            )
    return rows


def test_three_replicas_slow_in_the_same_minutes_are_shared() -> None:
    with log(minutes(lambda m, r: 2000 + 50 * r if 2 <= m <= 4 else r)) as con:
        assert diagnosed(con)["verdict"] == "cannot_tell"
        doc = diagnosed(con, min_requests=10)
    assert (doc["verdict"], doc["confidence"]) == ("shared", "low")
    assert doc["tail"]["attribution"]["queue"] == pytest.approx(1)
    assert "do_not_hedge" in codes(doc["advice"])
    assert not any(r["persistent"] for r in doc["replicas"])


def test_one_replica_slow_in_every_other_minute_is_isolated() -> None:
    with log(minutes(lambda m, r: 1700 if r == 2 and m % 2 == 0 else 0)) as con:
        doc = diagnosed(con, min_requests=10)
    assert doc["verdict"] == "isolated"
    assert [(r["replica"], r["slow_share"]) for r in doc["replicas"]] == [("r0", 0.0), ("r1", 0.0), ("r2", 0.5)]
    assert [a["replicas"] for a in doc["advice"] if a["code"] == "drain_replica"] == [["r2"]]


def test_a_single_outlier_is_no_verdict() -> None:
    with log(minutes(lambda m, r: 3000 if (m, r) == (3, 1) else 7 * m)) as con:
        doc = diagnosed(con, min_requests=10)
    assert doc["verdict"] == "cannot_tell"
    assert doc["reasons"][0]["code"] == "too_few_slow"


def test_slow_requests_that_are_long_answers_are_long_work() -> None:
    rows = minutes(lambda m, r: 0, replicas=2)
    for i, tokens in enumerate((50, 60, 40, 55, 45, 50, 4000, 65, 50, 3500, 45, 60)):
        rows[i] |= {"completion_tokens": tokens, "e2e_ns": (150 + 20 * tokens) * MS}
    with log(rows) as con:
        doc = diagnosed(con, min_requests=10)
    assert doc["verdict"] == "long_work"
    assert doc["tail"]["attribution"]["decode_length"] == pytest.approx(1)
    (gain,) = [r for r in doc["reasons"] if r["code"] == "same_length_copy_gains"]
    assert gain["value"] == pytest.approx(0, abs=1e-6)


# --- the pieces ------------------------------------------------------------------------------------------------------------


def test_the_same_log_gives_the_same_bytes() -> None:
    columns = fleet(n=3000, alone=0.05)
    with table(columns) as con:
        first, again = (json.dumps(diagnosed(con)) for _ in range(2))
    assert first == again


def test_the_first_token_has_a_tail_of_its_own() -> None:
    doc = of_fleet(metric="ttft", hiccup=0.06, length_sigma=1.1)
    assert doc["tail"]["metric"] == "ttft_ms"
    assert doc["verdict"] == "isolated"
    assert doc["tail"]["attribution"]["queue"] > 0.9
    assert doc["tail"]["attribution"]["decode_speed"] == 0.0


def test_a_segment_that_is_slow_is_named() -> None:
    columns = fleet(n=4000, hiccup=0.0)
    pro = np.random.default_rng(9).random(4000) < 0.3
    columns["segment"] = np.where(pro, "pro", "free").astype(object)
    columns["e2e_ns"] = np.where(pro, columns["e2e_ns"] * 2, columns["e2e_ns"])
    with table(columns) as con:
        doc = diagnosed(con)
    first = doc["differs_by"][0]
    assert (first["field"], first["value"]) in {("segment", "pro"), ("segment", "free")}
    pro_share = {d["value"]: d for d in doc["differs_by"] if d["field"] == "segment"}["pro"]
    assert pro_share["share_overall"] == pytest.approx(0.3, abs=0.03)
    assert pro_share["lift"] > 2


def test_attribution_by_hand() -> None:
    # 80 ordinary answers of 100 tokens at 10 ms; 20 slow ones: 200 tokens at 15 ms, after 1 s of queue.
    slow = np.arange(100) >= 80
    length = np.where(slow, 200.0, 100.0)
    decode = length * np.where(slow, 15.0, 10.0)
    queue = np.where(slow, 1000.0, 0.0)
    nothing = np.full(100, np.nan)
    rows = {
        "queue": queue,
        "prefill": nothing,
        "unsplit": nothing,
        "decode": decode,
        "tool_wait": nothing,
        "other": nothing,
    }
    shares = attribution.attribution(rows | {"output_tokens": length}, queue + decode, slow, np.ones(100))
    # 3 s more: 1 s of queue, 1 s for 100 tokens more at 10 ms, 1 s for 200 tokens 5 ms slower.
    assert shares == {
        "queue": pytest.approx(1 / 3),
        "prefill": 0.0,
        "unsplit": 0.0,
        "decode_length": pytest.approx(1 / 3),
        "decode_speed": pytest.approx(1 / 3),
        "tool_wait": 0.0,
        "other": 0.0,
    }


def test_lengths_that_are_not_known_leave_decode_whole() -> None:
    doc = of_fleet(n=3000, alone=0.05, drop=("completion_tokens",))
    shares = doc["tail"]["attribution"]
    assert (shares["decode_length"], shares["decode_speed"]) == (None, None)
    assert sum(v or 0 for v in shares.values()) == pytest.approx(1, abs=1e-6)


def test_lift_by_hand() -> None:
    # Every 100 s three replicas are asked at once; every tenth time all of them are slow.
    rounds = 300
    at = np.repeat(np.arange(rounds) * 100.0, 3)
    place = np.tile(np.array([0, 1, 2]), rounds)
    slow = np.repeat(np.arange(rounds) % 10 == 0, 3)
    flat = np.zeros(3 * rounds, dtype=np.int64)
    move = comovement.co_movement(at, slow, place, flat, 0.0, seed=1)
    assert move is not None
    assert (move.lift, move.copy_slow, move.pairs) == (pytest.approx(10), 1.0, 180)
    assert move.low <= move.lift <= move.high
    other = comovement.co_movement(at, slow & (place == 0), place, flat, 0.0, seed=1)
    assert other is not None
    assert other.lift == 0.0
    assert comovement.co_movement(at, slow & (at < 0), place, flat, 0.0, seed=1) is None
    assert comovement.co_movement(at, slow, np.zeros_like(place), flat, 0.0, seed=1) is None


def test_episodes_count_spells_not_requests() -> None:
    at = np.arange(60_000) * 0.1
    alone = np.random.default_rng(1).random(60_000) < 0.05
    assert comovement.episodes(at, alone) > 2000
    spells = (at // 30 % 20) == 3  # ten spells of 30 s
    assert 5 <= comovement.episodes(at, spells) <= 20
    assert comovement.episodes(at, at < 0) == 0


def test_slow_half_of_the_time_is_not_persistent() -> None:
    rng = np.random.default_rng(2)
    replica = np.tile(np.arange(3), 1000)
    ratio = rng.lognormal(0, 0.1, 3000)
    now_and_then = np.where((replica == 0) & (np.arange(3000) // 300 % 2 == 0), 5.0, 1.0)
    none = np.zeros(3000, dtype=bool)
    assert not any(r.persistent for r in replicas_seen(["a", "b", "c"], replica, none, ratio * now_and_then))
    always = np.where(replica == 0, 1.5, 1.0)
    assert [r.persistent for r in replicas_seen(["a", "b", "c"], replica, none, ratio * always)] == [True, False, False]
    lately = np.where((replica == 0) & (np.arange(3000) >= 1500), 1.5, 1.0)
    assert not any(r.persistent for r in replicas_seen(["a", "b", "c"], replica, none, ratio * lately))
