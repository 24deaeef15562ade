"""Data checks: every rule has rows that break it and rows that do not."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from analysis_logs import MS, START_NS, log

from hedgectl import decompose, schemas, sql
from hedgectl.checks import check

S = 1000 * MS
CLEAN: dict[str, Any] = {
    "e2e_ns": 2 * S,
    "ttft_ns": 500 * MS,
    "queue_ns": 100 * MS,
    "prompt_tokens": 90,
    "cached_tokens": 40,
    "completion_tokens": 20,
    "reasoning_tokens": 5,
    "cost": 0.1,
    "currency": "USD",
    "replica": "r0",
}


SPAN = {"format": "spans", "observer": "engine", "arrival_ns": START_NS}  # of the same time as the first row


def offenders(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Rules with offenders, by name."""
    with log(rows) as con:
        doc = check(con, decompose.prepare(con))
    jsonschema.validate(doc, schemas.load("check"))
    assert [r["rule"] for r in doc["rules"]] == sql.names("check")
    return {r["rule"]: r for r in doc["rules"] if r["offenders"]}


REFUSED = {"status": "error", "http_status": 429, "e2e_ns": 15 * MS, "ttft_ns": None, "queue_ns": None}
BROKEN: dict[str, list[dict[str, Any]]] = {
    "negative_parts": [{"queue_ns": -5 * MS}],
    "parts_exceed_e2e": [{"decode_ns": 3 * S}],
    "queue_exceeds_ttft": [{"queue_ns": 600 * MS}],
    "ttft_after_end": [{"ttft_ns": 3 * S, "queue_ns": None}],
    "ttft_equals_e2e": [{"ttft_ns": 2 * S}],
    "ttft_is_zero": [{"ttft_ns": 0, "queue_ns": None}],
    "clock_skew": [{"ttft_ns": -S, "queue_ns": None}],
    "tokens_out_of_range": [{"prompt_tokens": 2**40}],
    "cached_exceeds_prompt": [{"cached_tokens": 91}],
    "reasoning_exceeds_completion": [{"reasoning_tokens": 21}],
    "duplicate_ids": [{"attempt_id": "x", "content_hash": 1}, {"attempt_id": "x", "content_hash": 2}],
    "reused_request_ids": [{"request_id": "x"}, {"request_id": "x", "arrival_ns": START_NS + 90 * S}],
    "joined_too_long": [
        {"request_id": "x"},
        SPAN | {"request_id": "x", "e2e_ns": 3 * S},
    ],
    "not_joined": [{"request_id": "x"}, SPAN | {"request_id": "y"}],
    "two_winners": [{"request_id": "x", "won": True}, {"request_id": "x", "won": True, "replica": "r1"}],
    "retry_after_win": [
        {
            "request_id": "x",
            "status": "censored",
            "error_kind": "loser",
            "e2e_ns": 5 * S,
            "attempt_no": 0,
            "cause": "primary",
        },
        {"request_id": "x", "arrival_ns": START_NS + 3 * S, "attempt_no": 1, "cause": "hedge", "replica": "r1"},
        {"request_id": "x", "arrival_ns": START_NS + 6 * S, "attempt_no": 2, "cause": "retry"},
    ],
    "quota_after_copy": [
        {"request_id": "x"},
        {"request_id": "x", "cause": "hedge", "replica": "r1"} | REFUSED,
        {"request_id": "y", "arrival_ns": START_NS + 3 * S} | REFUSED,
    ],
    "copy_on_same_replica": [{"request_id": "x"}, {"request_id": "x"}],
    "time_out_of_range": [{"arrival_ns": 1_700_000_000}],
    "no_arrival": [{"arrival_ns": None}],
    "answer_without_time": [{"e2e_ns": None, "ttft_ns": None, "queue_ns": None}],
    "weight": [{"weight": 0.5}],
    "faster_than_engines": [{"e2e_ns": 1_900_000, "ttft_ns": None, "queue_ns": None}],
    "cost": [{"currency": None}],
    "hour_shift": [
        {"request_id": f"x{i}", "file_id": f, "arrival_ns": START_NS + i * S + f * 3600 * S, "attempt_no": f}
        for i in range(3)
        for f in (0, 1)
    ],
}


def test_every_rule_is_tried() -> None:
    # `sums` guards our own arithmetic: no log can break it.
    assert {*BROKEN, "sums"} == set(sql.names("check"))


@pytest.mark.parametrize("rule", BROKEN)
def test_a_rule_finds_its_offenders(rule: str) -> None:
    found = offenders([CLEAN | row for row in BROKEN[rule]])
    assert rule in found
    assert len(found[rule]["examples"]) >= 1


def test_clean_rows_pass() -> None:
    retry = {"request_id": "x", "status": "error", "http_status": 503, "ttft_ns": None, "queue_ns": None}
    rows = [CLEAN] * 5 + [CLEAN | retry, CLEAN | {"request_id": "x", "arrival_ns": START_NS + 30 * S}]
    assert offenders(rows) == {}


def test_an_example_names_its_line_and_at_most_three_are_shown() -> None:
    found = offenders([CLEAN | {"cached_tokens": 95}] * 5)["cached_exceeds_prompt"]
    assert found["offenders"] == 5
    assert [e["line"] for e in found["examples"]] == [1, 2, 3]
    assert found["examples"][0]["cached_tokens"] == 95


def test_an_empty_log_breaks_nothing() -> None:
    assert offenders([]) == {}


def test_costs_that_cannot_be_used_are_told_and_left_out() -> None:
    def request(name: str, **change: Any) -> dict[str, Any]:
        return CLEAN | {"request_id": name, "cost": 0.1, "currency": "USD"} | change

    rows = [request("a"), request("b", cost=-0.001), request("c", cost=None), request("d", cost=None, currency=None)]
    assert offenders(rows)["cost"]["offenders"] == 2
    with log(rows) as con:
        told = {n["code"]: n for n in decompose.prepare(con).notes}["bad_costs"]
        kept = con.execute("SELECT cost::DOUBLE FROM request ORDER BY request_id").fetchall()
    assert (told["level"], told["text"].startswith("2 costs that cannot be used")) == ("warning", True)
    assert kept == [(0.1,), (None,), (None,), (None,)]
