"""Mappings of public files that ship as examples: each reads a record of its own shape, and none counts a failure as 0."""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import attempts

from hedgectl import sql
from hedgectl.formats.catalogue import load_user_map

FOLDER = sql.samples_dir() / "mappings"

RECORDS: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {
    "nimstats": [
        (
            {
                "run_timestamp": "2026-11-19T14:00:00Z",
                "model": "m",
                "success": "1",
                "error": "",
                "response_time": "16108",
                "time_to_first_token": "6537",
            },
            {
                "status": "ok",
                "e2e_ns": 16_108_000_000,
                "ttft_ns": 6_537_000_000,
                "replica": "m",
                "arrival_ns": 1795096800_000000000,
            },
        ),
        (
            {
                "run_timestamp": "2026-11-19T14:00:00Z",
                "model": "m",
                "success": "0",
                "error": "HTTP 404",
                "response_time": "",
                "time_to_first_token": "",
            },
            {"status": "error", "e2e_ns": None, "ttft_ns": None},
        ),
    ],
    "alibaba_lora_requests": [
        (
            {
                "gmt_create": "2026-11-19 22:00:00",
                "predict_type": "TXT_2_IMG",
                "predict_status": "SUCCEED",
                "exec_time_seconds": "32.0",
            },
            {"status": "ok", "e2e_ns": 32_000_000_000, "arrival_ns": 1795096800_000000000},
        ),
        (
            {"gmt_create": "2026-11-19 22:00:00", "predict_status": "PENDING", "exec_time_seconds": "0.0"},
            {"status": "censored"},
        ),
    ],
    "nezha_spans": [
        (
            {
                "TraceID": "a",
                "SpanID": "b",
                "ParentID": "root",
                "PodName": "p-1",
                "StartTimeUnixNano": "1795096800000000123",
                "Duration": "191530",
            },
            {"status": "ok", "e2e_ns": 191_530_000, "arrival_ns": 1795096800_000000123, "replica": "p-1"},
        ),
    ],
}


def test_every_mapping_has_a_record_here() -> None:
    assert {p.stem for p in FOLDER.glob("*.toml")} == RECORDS.keys()


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_reads_its_own_shape(name: str) -> None:
    fmt = load_user_map(FOLDER / f"{name}.toml")
    for record, wanted in RECORDS[name]:
        (row,) = attempts(fmt, [json.dumps(record)])
        assert {key: row.get(key) for key in wanted} == wanted


def test_spans_below_a_root_are_no_requests() -> None:
    fmt = load_user_map(FOLDER / "nezha_spans.toml")
    child = {
        "TraceID": "a",
        "SpanID": "c",
        "ParentID": "b",
        "PodName": "p-2",
        "StartTimeUnixNano": "1795096800000000123",
        "Duration": "5",
    }
    assert attempts(fmt, [json.dumps(child)]) == []
