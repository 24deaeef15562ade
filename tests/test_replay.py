"""From rows in the database to simulation.v1: loaded exactly, replayed or refused with the reason."""

from __future__ import annotations

from typing import Any

import duckdb
import fit_logs
import jsonschema
import numpy as np
import pytest

from hedgectl import replay, schemas, sql, workload
from hedgectl.config import Config, Value
from hedgectl.decompose import Prepared, prepare
from hedgectl.errors import UsageError
from hedgectl.model import CENSORED, OK

FACTS = {"engine.confirmed": True, "engine.max_running_requests": 32, "engine.kv_capacity_tokens": 120_000}


def config(**more: Any) -> Config:
    values = FACTS | {"engine.cancel": "frees_engine", "recommend.copy_length": "same"} | more
    return Config({k: Value(v, "test") for k, v in values.items()})


def database(rows: list[dict[str, Any]]) -> tuple[Any, Prepared]:
    con = duckdb.connect()
    for name in sorted(sql.names("schema")):
        con.execute(sql.text(f"schema/{name}"))
    fixed = {"file_id": 1, "record": 0, "format": "test", "observer": "gateway", "status": "ok"}
    for line, row in enumerate(rows, 1):
        full = fixed | {"line": line, "request_id": f"q{line}", "model": "chat"} | row
        columns = ", ".join(full)
        marks = ", ".join("?" * len(full))
        con.execute(f"INSERT INTO attempt ({columns}) VALUES ({marks})", list(full.values()))
    return con, prepare(con)


def rows_of(n: int = 1200) -> list[dict[str, Any]]:
    log = fit_logs.played(fit_logs.service(), fit_logs.fleet(), n=n)
    return [
        {
            "arrival_ns": 1_700_000_000_000_000_000 + round(log.arrival_s[i] * 1e6) * 1000,
            "e2e_ns": round(log.e2e_s[i] * 1e6) * 1000,
            "ttft_ns": round(log.ttft_s[i] * 1e6) * 1000,
            "prompt_tokens": int(log.prompt_tokens[i]),
            "completion_tokens": int(log.completion_tokens[i]),
            "replica": f"r{log.replica[i]}",
            "streamed": True,
        }
        for i in range(n)
    ]


@pytest.fixture(scope="module")
def logged() -> tuple[Any, Prepared]:
    return database(rows_of())


def test_a_replay_is_checked_and_stated_as_the_schema_says(logged: tuple[Any, Prepared]) -> None:
    con, prepared = logged
    doc = replay.simulate_document(
        con, prepared, config(), trigger="response", delay_s=5.0, budget=0.05, loads=[1.0, 1.5]
    )
    jsonschema.validate(doc, schemas.load("simulation.v1"))
    assert doc["replay_check"]["passed"] is True
    assert [load["scale"] for load in doc["loads"]] == [1.0, 1.5]
    hedged = doc["loads"][0]["hedged"]
    assert 0 < hedged["hedge_rate"] <= 0.05 + 100 / 1200
    assert doc["policy"]["hedge"]["budget"] == {"ratio": 0.05, "burst": 100, "max_concurrent": None}
    assert doc["engine"]["decode_step_s"]["base"] == pytest.approx(0.012, rel=0.02)
    assert doc["scope"] == {"model": "chat", "route": None}


def test_without_a_policy_nothing_is_hedged(logged: tuple[Any, Prepared]) -> None:
    con, prepared = logged
    doc = replay.simulate_document(con, prepared, config(), loads=[1.0])
    jsonschema.validate(doc, schemas.load("simulation.v1"))
    assert doc["policy"] is None
    assert doc["loads"][0]["hedged"] is None


def test_an_assumed_batch_cap_is_tried_lower_and_higher(logged: tuple[Any, Prepared]) -> None:
    con, prepared = logged
    known = config()
    del known.values["engine.max_running_requests"]  # type: ignore[attr-defined]
    doc = replay.simulate_document(con, prepared, known, loads=[1.0])
    assert doc["engine"]["source"]["max_running_requests"] == "assumed"
    assert [row["factor"] for row in doc["sensitivity"]] == [0.75, 2.0]


def test_an_unconfirmed_engine_is_not_replayed(logged: tuple[Any, Prepared]) -> None:
    con, prepared = logged
    doc = replay.simulate_document(con, prepared, config(**{"engine.confirmed": False}), loads=[1.0])
    jsonschema.validate(doc, schemas.load("simulation.v1"))
    assert doc["replay_check"]["passed"] is False
    assert (doc["engine"], doc["loads"]) == (None, [])
    assert doc["notes"][0]["code"] == "engine_not_confirmed"


def test_two_models_need_a_choice() -> None:
    some = rows_of(60)
    con, prepared = database([row | {"model": f"m{i % 2}"} for i, row in enumerate(some)])
    with pytest.raises(UsageError, match="2 models"):
        replay.simulate_document(con, prepared, config())


def test_unknown_is_nan_and_a_second_attempt_is_load() -> None:
    base = {"e2e_ns": 4_000_000_000, "prompt_tokens": 7, "request_id": "a"}
    con, _ = database(
        [
            base | {"arrival_ns": 10_000_000_000, "replica": "r1", "cause": "primary", "status": "censored",
                    "attempt_no": 0, "won": False},
            base | {"arrival_ns": 11_000_000_000, "replica": "r0", "cause": "hedge", "attempt_no": 1, "won": True,
                    "e2e_ns": 3_000_000_000, "ttft_ns": 250_000_000, "completion_tokens": 5},
            {"arrival_ns": 13_500_000_001, "request_id": "b", "replica": None},
        ]
    )  # fmt: skip
    found = workload.load(con)
    assert found.requests.t0_ns == 10_000_000_000
    assert found.requests.arrival_s == pytest.approx([0.0, 3.500000001], abs=1e-12)
    assert found.requests.ttft_s[0] == pytest.approx(1.25)
    assert np.isnan(found.requests.ttft_s[1])
    assert np.isnan(found.requests.e2e_s[1])
    assert list(found.requests.replica) == [1, -1]  # where the primary went
    assert list(found.requests.completion_tokens) == [5, -1]
    assert list(found.attempts.status) == [CENSORED, OK, OK]
    assert list(found.attempts.replica) == [1, 0, -1]
    assert (found.hedges, found.attempt_count) == (1, 3)
    assert len(workload.load(con, "x'; DROP TABLE attempt; --").requests) == 0
    assert len(workload.load(con, "chat").requests) == 2
