"""Which format fits a log and why; refusals that say what the log is; mappings to start from."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from format_rows import rows

from hedgectl import schemas
from hedgectl.errors import InputError, UsageError
from hedgectl.formats import columns, detect, starter
from hedgectl.formats.catalogue import Format, get, load_user_map
from hedgectl.formats.document import detection_document
from hedgectl.formats.sample import page_start, sample_of
from hedgectl.formats.terms import terms
from hedgectl.formats.unread import field_report

PLAIN = {"ts": "2026-02-01T10:00:00Z", "request_id": "q", "replica": "a", "status": 200, "e2e_ms": 5}


def lines(*records: dict[str, Any]) -> list[str]:
    return [json.dumps(r) for r in records]


def named(name: str, terms: str, kind: str = "json") -> Format:
    return replace(get("plain"), name=name, detect=terms, input=kind)


# --- containers ------------------------------------------------------------------------------------------------------
def test_containers() -> None:
    one = json.dumps(PLAIN)
    assert sample_of([one, "", one]).container == "json"
    assert len(sample_of([f"[{one}, {one}]"]).records) == 2
    assert len(sample_of([json.dumps({"data": [PLAIN, PLAIN]})]).records) == 2
    assert len(sample_of(json.dumps([PLAIN, PLAIN], indent=1).splitlines()).records) == 2
    assert len(sample_of(json.dumps(PLAIN, indent=4).splitlines()).records) == 1
    assert sample_of(["a,b", "1,2"]).container == "csv"
    assert sample_of(["a;b", "1;2"]).records == ({"a": "1", "b": "2"},)
    assert sample_of(["GET / 200 5"]).container == "text"
    assert sample_of([], parquet_rows=[{"ts": 1}]).container == "parquet"
    assert sample_of(["\ufeffa,b", "1,2"]).records[0] == {"a": "1", "b": "2"}


def test_a_document_that_is_larger_than_the_sample_gives_its_whole_elements() -> None:
    text = json.dumps([PLAIN, PLAIN, PLAIN])[:-20]
    assert len(sample_of([text]).records) == 2
    wrapped = json.dumps({"data": [PLAIN, PLAIN, PLAIN]})[:-20]
    assert len(sample_of([wrapped]).records) == 2
    columns = json.dumps({"meta": [{"name": "data", "data": []}], "data": [PLAIN, PLAIN, PLAIN], "rows": 3})[:-30]
    assert len(sample_of([columns]).records) == 2
    assert page_start('{"inner": {"data": [{"a": 1}') == -1


def test_a_document_over_lines_is_no_log_of_lines() -> None:
    whole = json.dumps({"version": 2, "choices": [{}], "eval": {"task": "browse"}}, indent=1).splitlines()
    assert "  {}" in whole
    assert [dict(r) for r in sample_of(whole).records] == [{"version": 2, "choices": [{}], "eval": {"task": "browse"}}]
    # cut by the sample, and an array
    assert sample_of(whole[:-2]).records[0]["version"] == 2
    assert len(sample_of(json.dumps([{"a": {}}, {"a": {}}], indent=1).splitlines()).records) == 2


def test_a_quoted_comma_and_a_short_row_in_csv() -> None:
    sample = sample_of(["ts,model", '1,"a,b"', "only one", "2,c"])
    assert [r["model"] for r in sample.records] == ["a,b", "c"]


# --- which one -------------------------------------------------------------------------------------------------------
def test_says_which_and_why() -> None:
    found = detect.detect(lines(PLAIN, PLAIN, {"level": "info"}))
    assert (found.format.name, round(found.share, 2)) == ("plain", 0.67)
    assert found.why == "2 of 3 records have ts, request_id or replica or model, e2e_ms or ttft_ms"


def test_a_mixed_file_goes_to_the_format_that_most_records_fit() -> None:
    mixed = [
        "INFO engine started",
        *lines(PLAIN),
        "Traceback (most recent call last):",
        *lines(PLAIN, {"startTime": 1, "endTime": 2, "model_id": "x"}, PLAIN),
    ]
    assert detect.detect(mixed).format.name == "plain"


def test_two_that_fit_are_refused_with_both_names() -> None:
    formats = {n: named(n, "ts, e2e_ms") for n in ("one", "two")}
    with pytest.raises(UsageError) as caught:
        detect.detect(lines(PLAIN, PLAIN), where="x.jsonl", formats=formats)
    assert "one (2 of 2), two (2 of 2)" in caught.value.what
    assert caught.value.hint == "name it: --format one"
    assert caught.value.where == "x.jsonl"


def test_half_of_a_rival_is_a_rival_and_less_is_not() -> None:
    formats = {"one": named("one", "a"), "two": named("two", "b")}
    assert detect.detect(lines({"a": 1}, {"a": 1}, {"a": 1}, {"b": 1}), formats=formats).format.name == "one"
    with pytest.raises(UsageError):
        detect.detect(lines({"a": 1}, {"a": 1}, {"b": 1}), formats=formats)


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ("a", True), ("z", False), ("z|a", True), ("!z", True), ("!a", False), ("a=1", True), ("a=2", False), ("b~^x", True), ("b~^y", False),
        ("n.m", True), ("n.z", False), ('"d.t"', True), ("d.t", True), ('"c,d"', True), ('!"c,d"', False), ("/xyz/", True), ("/a{3}/", False), ("!/xyz/", False),
        ("a, /xyz/, !z", True), ("a, /x,y/", False), ("t=true", True), ("b~x|q", True),
    ],
)  # fmt: skip
def test_terms(terms: str, holds: bool) -> None:
    record = {"a": 1, "b": "xyz", "n": {"m": None}, "d.t": 0, "c,d": 0, "t": True}
    formats = {"one": named("one", terms)}
    if holds:
        assert detect.detect(lines(record), formats=formats).format.name == "one"
    else:
        with pytest.raises(InputError):
            detect.detect(lines(record), formats=formats)


def test_a_term_that_is_not_understood_is_a_fault_of_the_catalogue() -> None:
    with pytest.raises(UsageError):
        terms("!a=1")


def test_text_formats_match_lines_and_csv_formats_only_csv() -> None:
    formats = {"text": named("text", r"/^\S+ \d{3}$/", "text"), "csv": named("csv", "a, b", "csv")}
    assert detect.detect(["GET 200", "GET 404", "x"], formats=formats).format.name == "text"
    assert detect.detect(["a,b", "1,2"], formats=formats).format.name == "csv"
    with pytest.raises(InputError):
        detect.detect(lines({"a": 1, "b": 2}), formats=formats)


def test_a_header_without_rows_still_has_a_format() -> None:
    assert detect.detect(["ts,request_id,replica,status,ttft_ms,e2e_ms"]).format.name == "plain"


# --- refusals --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("text", [[], ["", "  "], ["\ufeff"]])
def test_an_empty_log(text: list[str]) -> None:
    with pytest.raises(InputError, match="empty"):
        detect.detect(text)


def test_no_format_names_the_closest_and_what_it_lacks() -> None:
    with pytest.raises(InputError) as caught:
        detect.detect(lines({"ts": "x", "request_id": "q", "latencyMs": 5}))
    assert "plain, which also needs e2e_ms or ttft_ms" in str(caught.value.hint)
    assert "formats --detect" in str(caught.value.hint)


METRICS = """# HELP vllm:num_requests_running Number of requests
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
# TYPE vllm:e2e_request_latency_seconds histogram
vllm:e2e_request_latency_seconds_bucket{le="0.3",model_name="m"} 12.0
vllm:e2e_request_latency_seconds_bucket{le="+Inf",model_name="m"} 90.0
process_cpu_seconds_total 12.5
""".splitlines()


def test_a_metrics_page_is_told_by_name() -> None:
    with pytest.raises(InputError) as caught:
        detect.detect(METRICS)
    assert "metrics page" in caught.value.what
    assert "config engine --from" in str(caught.value.hint)


@pytest.mark.parametrize(
    "header",
    [
        "window_start,replica,count,p50_ms,p95_ms,p99_ms",
        "minute,p95,p99,requests",
        "t,latency_p50,latency_p90,latency_p99",
        "time,q50,q95,q99",
    ],
)
def test_percentiles_cannot_be_averaged(header: str) -> None:
    row = ",".join("1" for _ in header.split(","))
    for act in (detect.detect, starter.write):
        with pytest.raises(InputError) as caught:
            act([header, row])
        assert "percentiles" in caught.value.what
        assert "one row a request" in str(caught.value.hint)


def test_a_single_percentile_column_beside_requests_is_no_aggregate() -> None:
    record = {**PLAIN, "p95_budget": 3, "n_requests": 1}
    assert detect.detect(lines(record)).format.name == "plain"


# --- fields that are not read ----------------------------------------------------------------------------------------
def test_unknown_and_near_fields() -> None:
    records = [{**PLAIN, "ttft_ms": 2, "x_new": {"deep": 1}}, {**PLAIN, "TTFT_MS": 210, "Replica ": "z"}]
    report = field_report(get("plain"), records)
    assert report.unknown == ("x_new",)
    # the second record has a replica already; its first token is missing and may be the field in capitals
    assert report.near == {"TTFT_MS": "ttft_ms", "Replica ": "replica"}
    assert report.beside == {"Replica "}
    assert field_report(get("litellm_payload"), records).unknown == ()


# --- units and mappings to start from --------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("latencyMs", "ms"), ("latency_ms", "ms"), ("duration_seconds", "s"), ("ttft_s", "s"), ("durationNs", "ns"), ("time_us", "us"), ("elapsed (ms)", "ms"), ("latency", None),
        ("status", None), ("tokens", None), ("durationMillis", "ms"), ("requests", None), ("latencySec", "s"), ("e2e-ms", "ms"), ("microseconds", "us"),
    ],
)  # fmt: skip
def test_units_in_names(name: str, unit: str | None) -> None:
    assert columns.suggest_unit(name) == unit


EVENT = {
    "ts": "2026-02-01T10:00:04.427Z", "requestId": "r1", "route": "chat", "model": "m", "segment": "pro", "streamed": False, "latencyMs": 869.7, "inputTokens": 2112,
    "cachedTokens": 0, "outputTokens": 65, "toolsOffered": False, "costUsd": 0.0007961, "status": 200,
}  # fmt: skip


def test_a_starter_works_as_it_is_where_everything_is_stated(tmp_path: Path) -> None:
    text = starter.write(lines(EVENT))
    fields = tomllib.loads(text)["fields"]
    assert fields == {
        "ts": "ts", "request_id": "requestId", "model": "model", "route": "route", "segment": "segment", "status": "status", "streamed": "streamed", "e2e_ms": "latencyMs",
        "prompt_tokens": "inputTokens", "cached_tokens": "cachedTokens", "completion_tokens": "outputTokens", "tools_offered": "toolsOffered", "cost_usd": "costUsd",
    }  # fmt: skip
    path = tmp_path / "app.toml"
    path.write_text(text, encoding="utf-8")
    (row,) = rows(load_user_map(path), lines(EVENT))
    assert (row["e2e_ns"], row["prompt_tokens"], row["status"]) == (869_700_000, 2112, "ok")


def test_a_time_is_found_by_its_values_where_no_name_tells_it() -> None:
    calls = [
        {
            "gone": f"2025-11-27T08:00:0{k}.900Z",
            "came": f"2025-11-27T08:00:0{k}.422Z",
            "day": "2025-11-27",
            "n": 1764230400,
        }
        for k in range(5)
    ]
    text = starter.write(lines(*calls))
    assert (
        tomllib.loads(text)["fields"]["ts"] == "came"
    )  # the first of two; a day is no moment, a number may be a count
    assert "is it the start of the request?" in text
    named = starter.write(lines({"begin": "2025-11-27T08:00:00.422Z", "other": "2025-11-27T07:00:00Z"}))
    assert tomllib.loads(named)["fields"] == {"ts": "begin"}
    assert "no field looks like a time" in starter.write(lines({"day": "2025-11-27", "n": 1764230400}))


def test_a_unit_that_nothing_states_is_asked_for() -> None:
    text = starter.write(lines({"time": "2026-02-01T10:00:00Z", "duration": 4215}))
    assert '# e2e_?? = "duration"  # unit not known: is 4215 milliseconds or seconds?' in text
    assert tomllib.loads(text)["fields"] == {"ts": "time"}


@pytest.mark.parametrize(("value", "unit"), [(4.215, "s"), (4215, "ms"), (4215000, "us"), (4215000000, "ns")])
def test_a_unit_is_taken_from_start_and_end(value: float, unit: str) -> None:
    record = {"start_time": "2026-02-01T10:00:00Z", "end_time": "2026-02-01T10:00:04.215Z", "duration": value}
    text = starter.write(lines(record, record))
    assert tomllib.loads(text)["fields"][f"e2e_{unit}"] == "duration"
    assert "unit from end minus start" in text


def test_a_name_that_contradicts_the_clock_is_asked_about() -> None:
    record = {"start_time": "2026-02-01T10:00:00Z", "end_time": "2026-02-01T10:00:04.215Z", "duration_ms": 4.215}
    text = starter.write(lines(record))
    assert '# e2e_?? = "duration_ms"  # the name says ms, end minus start says s' in text


def test_values_that_carry_units_need_no_suffix() -> None:
    text = starter.write(["ts,ttft,e2e", "2026-02-01T10:00:00Z,250ms,1.2s", "2026-02-01T10:00:00Z,250ms,1.2"])
    assert 'e2e = "e2e"  # 1 of 2 values have no unit and will be rejected' in text
    assert 'ttft = "ttft"  # the values carry their unit' in text


def test_nested_fields_odd_names_and_control_characters() -> None:
    record = {
        "time": 1769940000,
        "duration_ms": 5,
        "usage": {"input_tokens": 3},
        "mod\u001bel": "x",
        'model"name': "a\nb",
        "model": "m\u202e",
    }
    text = starter.write(lines(record))
    assert tomllib.loads(text)["fields"]["prompt_tokens"] == "/usage/input_tokens"
    assert not any(ord(c) < 32 and c != "\n" for c in text)
    assert "\u202e" not in text


@pytest.mark.parametrize("text", [["INFO started", "INFO stopped"], ["x"]])
def test_no_mapping_for_text(text: list[str]) -> None:
    with pytest.raises(InputError, match="no records of named fields"):
        starter.write(text)


# --- the document ----------------------------------------------------------------------------------------------------
def test_detection_document() -> None:
    known = detection_document(sample_of(lines(PLAIN)), path="a.jsonl")
    unknown = detection_document(sample_of(lines(EVENT)), path="b.jsonl")
    for document in (known, unknown):
        jsonschema.validate(document, schemas.load("formats"))
    assert (known["detected"]["format"], known["detected"]["mapping"], known["formats"][0]["format"]) == (
        "plain",
        None,
        "plain",
    )
    assert (unknown["detected"]["format"], unknown["formats"]) == (None, [])
    assert "latencyMs" in unknown["detected"]["mapping"]
    with pytest.raises(InputError, match="metrics page"):
        detection_document(sample_of(METRICS), path="m")


def test_a_text_format_whose_lines_are_objects_is_found_without_a_shippers_prefix() -> None:
    """HAProxy's JSON is read as text, for the sake of its +1: bare numbers, as it comes from a container."""
    line = '{"ts":"29/Nov/2026:19:05:44 +0000","TR":0,"Tw":0,"Tc":0,"Tr":246,"Ta":246,"status":200,"retries":0,"server":"r1","request":"POST /v1"}'
    assert detect.detect([line] * 5).format.name == "haproxy_json"
