"""Known pitfalls of vLLM's spans, one test each.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
  a milestone never reached: values as large as the uptime (P1)                 -> test_vllm_milestone_never_reached
  negative queue (P2)                                                           -> test_vllm_negative_queue
  first token at the end (P6)                                                   -> test_vllm_first_token_at_the_end
  seconds in one version, nanoseconds in another                                -> test_vllm_unit_is_checked_against_the_span
  n > 1 and repeated request ids                                                -> test_vllm_choices_are_not_copies
  0.0 decode of a one-token answer is a true zero                               -> test_vllm_one_token
  queue + prefill + decode is less than e2e: the rest is not hidden             -> test_vllm_front_end_time_is_left_over
  start-up spans, log and metric exports in the same file                       -> test_vllm_other_records
  integers as text or numbers, ids in upper case or base64 (P31, P32)           -> test_vllm_encodings
  service.name unset or shared, instance ids that change at every start         -> test_vllm_replica_names
  no cached tokens, no model, n always 1: not observed, not 0                   -> test_vllm_what_is_not_in_the_span
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import MS, T_NS, Row, rows
from make_format_samples import attribute, export, llm_request

from hedgectl.formats import detect

TIMES = {
    "time_to_first_token": 0.25,
    "e2e": 1.75,
    "time_in_queue": 0.03,
    "time_in_model_prefill": 0.2,
    "time_in_model_decode": 1.5,
}


def span(
    number: int = 1, *, prompt: int = 100, tokens: int = 50, request: str = "chatcmpl-1", **times: float
) -> dict[str, Any]:
    return llm_request(number, T_NS, {**TIMES, **times}, prompt=prompt, tokens=tokens, request=request)


def vllm(*exports: dict[str, Any]) -> list[Row]:
    return rows("vllm_otlp", [json.dumps(e) for e in exports])


def test_vllm_milestone_never_reached() -> None:
    (row,) = vllm(
        export(
            "a",
            span(
                tokens=0,
                time_to_first_token=1.75,
                time_in_queue=-1062720.4,
                time_in_model_prefill=1062721.2,
                time_in_model_decode=0.0,
            ),
        )
    )
    assert ("queue_ns" in row, "prefill_ns" in row, "ttft_ns" in row) == (False, False, False)
    assert (row["note"], row["status"], row["error_kind"], row["e2e_ns"]) == (
        "component_out_of_range",
        "censored",
        "aborted",
        1750 * MS,
    )


def test_vllm_negative_queue() -> None:
    (row,) = vllm(export("a", span(time_in_queue=-0.5)))
    assert ("queue_ns" in row, row["prefill_ns"], row["note"], row["status"]) == (
        False,
        200 * MS,
        "component_out_of_range",
        "ok",
    )


def test_vllm_first_token_at_the_end() -> None:
    (row,) = vllm(export("a", span(time_to_first_token=1.75)))
    assert ("ttft_ns" in row, row["note"]) == (False, "ttft_equals_e2e")


def test_vllm_unit_is_checked_against_the_span() -> None:
    def timed(factor: float) -> dict[str, Any]:
        one = span()
        for a in one["attributes"]:
            if "doubleValue" in a["value"]:
                a["value"]["doubleValue"] *= factor
        return one

    seconds, nanos, millis, nonsense = (vllm(export("a", timed(f)))[0] for f in (1, 1e9, 1e3, 37.0))
    for row in (seconds, nanos, millis):
        assert (row["e2e_ns"], row["ttft_ns"], row["queue_ns"]) == (1750 * MS, 250 * MS, 30 * MS)
    assert [r.get("note") for r in (seconds, nanos, millis)] == [None, "unit_ns", "unit_ms"]
    assert (nonsense["kind"], nonsense["reason"]) == ("reject", "unit_unclear")


def test_vllm_choices_are_not_copies() -> None:
    a, b = vllm(export("a", span(1), span(2)))
    assert {a["request_id"], b["request_id"]} == {"chatcmpl-1", "chatcmpl-1#2"}
    again = dict(span(3), startTimeUnixNano=str(T_NS + 5_000_000_000), endTimeUnixNano=str(T_NS + 6_752_000_000))
    first, second = vllm(export("a", span(1)), export("a", again))
    assert first["request_id"] == second["request_id"], "a reused id is left to the reader of all rows"
    assert first["attempt_id"] != second["attempt_id"]
    two_prompts = vllm(export("a", span(1, request="cmpl-x-0"), span(2, request="cmpl-x-1")))
    assert {r["request_id"] for r in two_prompts} == {"cmpl-x-0", "cmpl-x-1"}


def test_vllm_one_token() -> None:
    (row,) = vllm(export("a", span(tokens=1, time_to_first_token=1.75, time_in_model_decode=0.0)))
    assert (row["decode_ns"], row["ttft_ns"], row.get("note")) == (0, 1750 * MS, None)


def test_vllm_front_end_time_is_left_over() -> None:
    (row,) = vllm(export("a", span()))
    assert row["e2e_ns"] - row["queue_ns"] - row["prefill_ns"] - row["decode_ns"] == 20 * MS
    assert {row[f"{c}_basis"] for c in ("queue", "prefill", "decode")} == {"measured"}
    assert row["ttft_basis"] == "engine"


def test_vllm_other_records() -> None:
    startup = dict(span(), name="Load model", attributes=[attribute("code.function", "llm_request_loader")])
    found = vllm(export("a", startup), {"resourceLogs": []}, {"resourceMetrics": []}, export("a", startup, span()))
    assert [(r["kind"], r.get("reason")) for r in found] == [("not_request", "other_span")] * 3 + [("attempt", None)]


def test_vllm_encodings() -> None:
    plain = vllm(export("a", span()))[0]
    numbers = json.loads(json.dumps(export("a", span())))
    one = numbers["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    one.update(
        startTimeUnixNano=int(one["startTimeUnixNano"]),
        endTimeUnixNano=int(one["endTimeUnixNano"]),
        spanId=one["spanId"].upper(),
    )
    for a in one["attributes"]:
        if "intValue" in a["value"]:
            a["value"]["intValue"] = int(a["value"]["intValue"])
    snake = {
        "resource_spans": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"string_value": "a"}}]},
            "scope_spans": [{"spans": [{
                "trace_id": one["traceId"], "span_id": one["spanId"].lower(), "name": "llm_request", "kind": "SPAN_KIND_SERVER",
                "start_time_unix_nano": one["startTimeUnixNano"], "end_time_unix_nano": one["endTimeUnixNano"],
                "attributes": [{"key": a["key"], "value": {{"doubleValue": "double_value", "intValue": "int_value", "stringValue": "string_value"}[k]: v
                                                           for k, v in a["value"].items()}} for a in one["attributes"]],
            }]}],
        }],
    }  # fmt: skip
    bare = {"name": "llm_request", "traceId": one["traceId"], "spanId": one["spanId"], "startTimeUnixNano": str(T_NS), "endTimeUnixNano": str(T_NS + 1752 * MS),
            "resource": {"service.name": "a"}, "attributes": {a["key"]: next(iter(a["value"].values())) for a in one["attributes"]}}  # fmt: skip
    for other in (numbers, snake, bare):
        assert vllm(other) == [plain]
        assert detect.detect([json.dumps(other)]).format.name == "vllm_otlp"
    coded = json.loads(json.dumps(export("a", dict(span(), traceId="S/kvNXezTaajzpKdDg5HNg=="))))
    assert vllm(coded)[0]["turn_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("resource", "replica"),
    [
        ({"service.name": "engine-a", "service.instance.id": "0e8afa31-9a9f-4cda-b102-ec9fbdf8c387"}, "engine-a"),
        ({"service.name": "vllm", "service.instance.id": "gpu-7"}, "gpu-7"),
        ({"service.name": "vllm", "k8s.pod.name": "vllm-0", "service.instance.id": "x"}, "vllm-0"),
        (
            {"service.name": "unknown_service", "service.instance.id": "0e8afa31-9a9f-4cda-b102-ec9fbdf8c387"},
            "0e8afa31-9a9f-4cda-b102-ec9fbdf8c387",
        ),
        ({"service.name": "unknown_service:python", "host.name": "node-3"}, "node-3"),
        ({"service.name": "unknown_service", "vllm.process_id": "4121"}, "4121"),
        ({}, None),
    ],
)
def test_vllm_replica_names(resource: dict[str, str], replica: str | None) -> None:
    one = export("a", span())
    one["resourceSpans"][0]["resource"]["attributes"] = [attribute(k, v) for k, v in resource.items()]
    assert vllm(one)[0].get("replica") == replica


def test_vllm_what_is_not_in_the_span() -> None:
    (row,) = vllm(export("a", span()))
    assert not {"cached_tokens", "model", "n_choices", "streamed", "http_status", "cost", "tools_offered"} & row.keys()
