"""Known pitfalls of the formats we read, one test each.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
LiteLLM
  first token missing, written as the end (streams, /v1/messages)               -> test_litellm_first_token_at_the_end_is_unknown
  an upstream that buffers: first token just before the end                     -> test_litellm_buffered_answers_are_noted
  negative or zero time to first token after a fallback                         -> test_litellm_first_token_before_the_start
  failed rows of no length are not fast                                         -> test_litellm_zero_length_failure
  retries are rows of their own, only the first failure is logged               -> test_litellm_retry_is_one_request
  a streamed row after a retry starts at the request and overlaps the failure   -> test_litellm_streamed_retry_is_not_a_hedge
  a fallback reports no retry and another group                                 -> test_litellm_fallback
  trace_id is a whole session                                                   -> test_litellm_session_does_not_join_requests
  ids that are not unique, reused ids                                           -> test_litellm_same_id_other_call
  /v1/responses bookkeeping calls, health checks, internal and shadow calls     -> test_litellm_rows_that_nobody_asked_for
  cache hits name a replica that was not called, cost nothing                   -> test_litellm_cache_hit
  prompt cache is not the response cache; lost cached tokens are unknown        -> test_litellm_cached_tokens
  naive timestamps are UTC under every zone                                     -> test_litellm_naive_is_utc
  status success with error code 499: the client left, maybe before a token     -> test_litellm_client_left
  a stream cut by the engine has stream null and a real first token             -> test_litellm_cut_stream
  stream is true or null, never false                                           -> test_litellm_stream_is_never_false
  timeouts are longer than observed                                             -> test_litellm_timeout_is_censored
  /v1/messages and /v1/responses ids and call types                             -> test_litellm_other_endpoints
  MCP calls are tool time, not requests                                         -> test_litellm_tool_calls
vLLM
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
Envoy
  RESPONSE_DURATION stops at early headers                                      -> test_envoy_first_token_with_early_headers
  whole answers have no first token                                             -> test_envoy_whole_answer
  without a content type a stream is not known                                  -> test_envoy_default_keys
  pool wait is queue time                                                       -> test_envoy_queue
  text formats: every value a string, '-' for null; omitted keys; tcp://        -> test_envoy_spellings_agree
  200 with URX or UO is good; DC, UT, UC are not                                -> test_envoy_flags
  code 0                                                                        -> test_envoy_flags
  hedged rows do not say so; the winner's own latency                           -> test_envoy_hedged_rows
  retries are one after another, only the last attempt has times                -> test_envoy_retry
  three attempts, none good                                                     -> test_envoy_exhausted
  negative COMMON_DURATION                                                      -> test_envoy_negative_points
  hosts attempted names one host at most: not used                              -> test_envoy_hosts_attempted_is_not_used
  rows that are no generation                                                   -> test_envoy_other_traffic
  upstream log rows are another format                                          -> test_envoy_upstream_log_is_not_taken_for_this
LMBenchmark
  token counts as floats, rows out of order, one-token answers                  -> test_lmbenchmark_rows
plain
  attempt numbers that hedges share, losers by status                           -> test_plain_hedge_and_loser
  cached tokens inside or beside the prompt, three providers                    -> test_plain_usage_of_three_providers
  cache hits spelled four ways                                                  -> test_plain_cache_hit_spellings
  tools: none, some, run by the provider, not said; state; n                    -> test_plain_eligibility_fields
  epochs of four units, ids beyond 2^53                                         -> test_plain_huge_numbers
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import Row, attempts, read_text, rows, samples
from make_format_samples import attribute, envoy_row, export, llm_request

from hedgectl import decompose
from hedgectl.formats import catalogue, detect
from hedgectl.formats.catalogue import get
from hedgectl.formats.sample import sample_of

T = 1770000000.0
T_NS = 1770000000_000000000
MS = 1_000_000


# --- LiteLLM ---------------------------------------------------------------------------------------------------------
def payload(**more: Any) -> dict[str, Any]:
    """A streamed success of 2 s with a first token after 0.25 s."""
    row: dict[str, Any] = {
        "id": "chatcmpl-1", "litellm_call_id": "call-1", "trace_id": "trace-1", "call_type": "acompletion", "stream": True, "status": "success",
        "cache_hit": False, "startTime": T, "completionStartTime": T + 0.25, "endTime": T + 2, "model": "openai/m", "model_group": "chat",
        "model_id": "engine-a", "custom_llm_provider": "openai", "prompt_tokens": 100, "completion_tokens": 50, "response_cost": 0.001,
        "metadata": {"usage_object": {"prompt_tokens_details": {"cached_tokens": 20}}}, "model_parameters": {"stream": True},
    }  # fmt: skip
    row.update(more)
    return row


def litellm(*payloads: dict[str, Any], **options: Any) -> list[Row]:
    return rows("litellm_payload", [json.dumps(p) for p in payloads], **options)


def failure(code: str, kind: str = "InternalServerError", **more: Any) -> dict[str, Any]:
    base = {"id": "call-1", "status": "failure", "stream": None, "completionStartTime": T + 0.1, "endTime": T + 0.1, "completion_tokens": 0,
            "error_information": {"error_code": code, "error_class": kind}}  # fmt: skip
    return payload(**{**base, **more})


def test_litellm_first_token_at_the_end_is_unknown() -> None:
    (row,) = litellm(payload(completionStartTime=T + 2))
    assert "ttft_ns" not in row
    assert (row["note"], row["e2e_ns"], row["streamed"]) == ("ttft_equals_e2e", 2000 * MS, True)
    (missing,) = litellm(payload(completionStartTime=None, call_type="anthropic_messages"))
    assert ("ttft_ns" in missing, missing.get("note")) == (False, None)


def test_litellm_buffered_answers_are_noted() -> None:
    (row,) = litellm(payload(completionStartTime=T + 1.99))
    assert (row["ttft_ns"], row["note"]) == (1990 * MS, "ttft_near_e2e")


def test_litellm_first_token_before_the_start() -> None:
    before, at = litellm(payload(completionStartTime=T - 0.1), payload(completionStartTime=T))
    assert [(r.get("ttft_ns"), r["note"]) for r in (before, at)] == [(None, "clock_skew"), (None, "ttft_zero")]


def test_litellm_zero_length_failure() -> None:
    (row,) = litellm(failure("500", completionStartTime=T, endTime=T))
    assert (row.get("e2e_ns"), row["status"], row["note"]) == (None, "error", "zero_length_failure")


def test_litellm_retry_is_one_request() -> None:
    headers = {"additional_headers": {"x-litellm-attempted-retries": 1, "x-litellm-attempted-fallbacks": 0}}
    failed, good = litellm(
        failure("429", "RateLimitError"),
        payload(stream=None, startTime=T + 0.2, completionStartTime=T + 2, hidden_params=headers),
    )
    assert failed["request_id"] == good["request_id"] == "call-1"
    assert failed["attempt_id"] != good["attempt_id"]
    assert (failed["attempt_no"], failed["cause"], failed["status"], failed["error_kind"]) == (
        0,
        "primary",
        "error",
        "rate_limited",
    )
    assert (good["attempt_no"], good["cause"], good["status"], good["arrival_ns"]) == (
        1,
        "retry",
        "ok",
        T_NS + 200 * MS,
    )


def test_litellm_streamed_retry_is_not_a_hedge() -> None:
    from analysis_logs import log

    good, failed = litellm(payload(startTime=T - 0.01), failure("500"))
    listed = [{k: v for k, v in r.items() if k not in ("kind", "note")} for r in (good, failed)]
    with log(listed) as con:
        decompose.prepare(con, None)
        found = con.execute("SELECT attempts, hedges, retries, status, e2e_ns FROM request").fetchall()
    assert found == [(2, 0, 1, "ok", 2010 * MS)]


def test_litellm_fallback() -> None:
    headers = {"additional_headers": {"x-litellm-attempted-retries": 0, "x-litellm-attempted-fallbacks": 1}}
    (row,) = litellm(payload(model_group="backup", hidden_params=headers))
    assert (row["cause"], row.get("attempt_no"), row["model"]) == ("retry", None, "backup")


def test_litellm_session_does_not_join_requests() -> None:
    a, b = litellm(payload(trace_id="session"), payload(trace_id="session", litellm_call_id="call-2", id="chatcmpl-2"))
    assert {a["request_id"], b["request_id"]} == {"call-1", "call-2"}
    assert a["turn_id"] == b["turn_id"] == "session"
    (old,) = litellm(payload(litellm_call_id=None))
    assert old["request_id"] == "trace-1", "old payloads have only the trace"


def test_litellm_same_id_other_call() -> None:
    a, b = litellm(payload(), payload(litellm_call_id="call-2"))
    assert (a["attempt_id"], b["attempt_id"]) == ("chatcmpl-1", "chatcmpl-1")
    assert a["request_id"] != b["request_id"]


def test_litellm_rows_that_nobody_asked_for() -> None:
    found = litellm(
        payload(call_type="aget_responses"),
        payload(request_tags=["litellm-internal-health-check"]),
        payload(metadata={"internal_call_origin": "classifier"}),
        payload(metadata={"is_silent_experiment": True}),
        payload(startTime=None),
    )
    assert [(r["kind"], r["reason"]) for r in found] == [
        ("not_request", "bookkeeping_call"), ("not_request", "health_check"), ("not_request", "internal_call"), ("not_request", "internal_call"),
        ("not_request", "no_request_field"),
    ]  # fmt: skip


def test_litellm_cache_hit() -> None:
    (row,) = litellm(
        payload(cache_hit=True, stream=None, completionStartTime=T + 0.001, endTime=T + 0.001, response_cost=0.0)
    )
    assert (row["cache_hit"], row.get("replica"), row["cost"], row["status"]) == (True, None, 0, "ok")
    whole_miss, stream_miss, text = litellm(
        payload(cache_hit=None), payload(cache_hit=False), payload(cache_hit="True")
    )
    assert [r["cache_hit"] for r in (whole_miss, stream_miss, text)] == [False, False, True]


def test_litellm_cached_tokens() -> None:
    said, other, lost = litellm(
        payload(),
        payload(metadata={"usage_object": {"cache_read_input_tokens": 7}}),
        payload(metadata={"usage_object": {}}),
    )
    assert [r.get("cached_tokens") for r in (said, other, lost)] == [20, 7, None]
    assert [r["cache_hit"] for r in (said, other, lost)] == [False, False, False]


@pytest.mark.parametrize("tz", [None, "Asia/Kolkata", "America/New_York"])
def test_litellm_naive_is_utc(tz: str | None) -> None:
    text = {
        "startTime": "2026-02-02 02:40:00.000000",
        "completionStartTime": "2026-02-02 02:40:00.250000",
        "endTime": "2026-02-02T02:40:02Z",
    }
    (row,) = litellm(payload(**text), tz=tz)
    assert (row["arrival_ns"], row["ttft_ns"], row["e2e_ns"]) == (T_NS, 250 * MS, 2000 * MS)


def test_litellm_client_left() -> None:
    left = {"error_information": {"error_code": "499", "error_class": "ClientDisconnected"}}
    midway, early = litellm(
        payload(**left, completion_tokens=12), payload(**left, completion_tokens=0, completionStartTime=T + 1.9)
    )
    assert [(r["status"], r["error_kind"], r["http_status"]) for r in (midway, early)] == [
        ("censored", "client_gone", 499)
    ] * 2
    assert midway["ttft_ns"] == 250 * MS
    assert ("ttft_ns" in early, early["note"]) == (False, "ttft_after_hangup")


def test_litellm_cut_stream() -> None:
    (row,) = litellm(failure("500", completionStartTime=T + 0.3, endTime=T + 1, completion_tokens=9))
    assert (row["streamed"], row["ttft_ns"], row["status"], row["completion_tokens"]) == (True, 300 * MS, "error", 9)


def test_litellm_stream_is_never_false() -> None:
    whole, failed, told = litellm(
        payload(stream=None, completionStartTime=T + 2), failure("500", model_parameters={}), failure("500")
    )
    assert [r.get("streamed") for r in (whole, failed, told)] == [False, None, True]


def test_litellm_timeout_is_censored() -> None:
    by_code, by_class = litellm(failure("408", "Timeout"), failure("", "litellm.Timeout"))
    assert [(r["status"], r["error_kind"]) for r in (by_code, by_class)] == [("censored", "timeout")] * 2


def test_litellm_other_endpoints() -> None:
    messages, answer = litellm(
        payload(call_type="anthropic_messages", id="msg_1", metadata={"user_api_key_request_route": "/v1/messages"}),
        payload(
            call_type="aresponses",
            id="resp_1",
            stream=None,
            completionStartTime=T + 2,
            model_parameters={"previous_response_id": "resp_0"},
        ),
    )
    assert (messages["route"], messages["ttft_ns"], messages["stored_state"]) == ("/v1/messages", 250 * MS, False)
    assert (answer["stored_state"], answer["streamed"]) == (True, False)


def test_litellm_tool_calls() -> None:
    tool = {"mcp_tool_call_metadata": {"name": "get_order"}}
    linked, alone = litellm(
        payload(call_type="call_mcp_tool", metadata=tool),
        payload(call_type="call_mcp_tool", metadata=tool, trace_id=None),
    )
    assert (linked["kind"], linked["turn_id"], linked["tool_names"], linked["e2e_ns"]) == (
        "tool",
        "trace-1",
        "get_order",
        2000 * MS,
    )
    assert (alone["kind"], alone["reason"]) == ("not_request", "tool_without_trace")
    offered, none, unknown = litellm(
        payload(model_parameters={"tools": [{"function": {"name": "b"}}, {"name": "a"}], "n": 2}),
        payload(),
        payload(model_parameters=None),
    )
    assert (offered["tools_offered"], offered["tool_names"], offered["n_choices"]) == (True, "a,b", 2)
    assert (none["tools_offered"], none["n_choices"]) == (False, 1)
    assert ("tools_offered" in unknown, "n_choices" in unknown) == (False, False)


def test_litellm_unusable_rows() -> None:
    found = litellm(payload(endTime=T - 1), payload(endTime="soon"), payload(endTime=T + 90000), payload(status="huh"))
    assert [(r["kind"], r["reason"]) for r in found] == [
        ("reject", "negative_duration"), ("reject", "bad_time"), ("reject", "duration_out_of_range"), ("reject", "unknown_status"),
    ]  # fmt: skip


# --- vLLM ------------------------------------------------------------------------------------------------------------
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


# --- Envoy -----------------------------------------------------------------------------------------------------------
def envoy(*listed: dict[str, Any]) -> list[Row]:
    return rows("envoy_json", [json.dumps(r) for r in listed])


def test_envoy_first_token_with_early_headers() -> None:
    late, early = envoy(envoy_row(1, 0), envoy_row(2, 0, response_duration=5, cd_to_us_rx_beg=5100))
    assert (late["ttft_ns"], late["ttft_basis"], late["headers_ns"]) == (150_500_000, "first_token", 150_300_000)
    assert (early["ttft_ns"], early["headers_ns"], early["decode_ns"], early["decode_basis"]) == (
        150_500_000,
        5_100_000,
        749 * MS,
        "measured",
    )
    (blind,) = envoy(envoy_row(3, 0, cd_to_us_rx_body_beg=None, cd_us_rx_body_beg_to_end=None, cd_to_us_rx_beg=None))
    assert (blind["ttft_ns"], blind["ttft_basis"], blind["note"], "decode_ns" in blind) == (
        150 * MS,
        "first_byte",
        "first_byte_only",
        False,
    )


def test_envoy_whole_answer() -> None:
    (row,) = envoy(envoy_row(1, 0, content_type="application/json; charset=utf-8"))
    assert (row["streamed"], "ttft_ns" in row, "decode_ns" in row, row["headers_ns"]) == (
        False,
        False,
        False,
        150_300_000,
    )


def test_envoy_default_keys() -> None:
    row = {"start_time": "2026-02-02T02:40:00.000Z", "method": "POST", "response_code": 200, "response_flags": "-", "duration": 900,
           "x-envoy-upstream-service-time": "149", "x-request-id": "r", "upstream_host": "tcp://10.0.0.1:8000", "upstream_cluster": "llm"}  # fmt: skip
    (found,) = envoy(row)
    assert (found["arrival_ns"], found["e2e_ns"], found["headers_ns"], found["replica"], found["request_id"]) == (
        T_NS,
        900 * MS,
        149 * MS,
        "10.0.0.1:8000",
        "r",
    )
    assert not {"streamed", "ttft_ns", "queue_ns"} & found.keys()


def test_envoy_queue() -> None:
    (row,) = envoy(envoy_row(1, 0, pool_ready_duration=300, cd_to_us_tx_beg=300900, cd_total=1200000))
    assert (row["queue_ns"], row["queue_basis"], row["arrival_ns"] % 10**9) == (300 * MS, "measured", 0)


def test_envoy_spellings_agree() -> None:
    typed = envoy_row(1, 0)
    text = {k: "-" if v is None else str(v) for k, v in typed.items()}
    short = {k: v for k, v in typed.items() if v is not None}
    old = {**typed, "upstream_host": "tcp://10.0.0.1:8000"}
    renamed = {
        ("upstream_" + k if k == "pool_ready_duration" else "upstream_request_" + k if k == "attempt_count" else k): v
        for k, v in typed.items()
    }
    wanted = envoy(typed)
    for other in (text, short, old, renamed):
        assert envoy(other) == wanted


@pytest.mark.parametrize(
    ("code", "flags", "status", "kind"),
    [
        (200, "-", "ok", None), (200, "URX", "ok", None), (200, "UO", "ok", None), (200, None, "ok", None), (200, "DC", "censored", "client_gone"),
        (0, "DC", "censored", "client_gone"), (0, "-", "censored", "client_gone"), (200, "UT", "censored", "timeout"), (200, "UC", "error", "upstream"),
        (504, "UT", "censored", "timeout"), (408, "DT", "censored", "timeout"), (503, "UF,URX", "error", "upstream"), (503, "UO", "error", "upstream"),
        (429, "RL", "error", "rate_limited"), (429, "-", "error", "rate_limited"), (404, "NR", "error", "client"), (500, "URX", "error", "upstream"),
    ],
)  # fmt: skip
def test_envoy_flags(code: int, flags: str | None, status: str, kind: str | None) -> None:
    (row,) = envoy(envoy_row(1, 0, response_code=code, response_flags=flags))
    assert (row["status"], row.get("error_kind")) == (status, kind)
    assert row.get("http_status") == (code or None)


PRIMARY_WON = {"attempt_count": 2, "response_duration": 610, "cd_to_us_rx_beg": 610200, "cd_to_us_rx_body_beg": 610400, "cd_total": 1360300, "duration": 1360,
               "upstream_wire_bytes_received": 0}  # fmt: skip
COPY_WON = {"attempt_count": 2, "upstream_host": "10.0.0.2:8000", "cd_to_us_tx_beg": 612000, "cd_to_us_rx_beg": 720200, "cd_to_us_rx_body_beg": 720400,
            "cd_total": 1470300, "duration": 1470}  # fmt: skip


def test_envoy_hedged_rows() -> None:
    found = envoy(envoy_row(1, 0, **PRIMARY_WON), envoy_row(2, 5000, **COPY_WON))
    kept = {r["cause"]: r for r in found if r["line"] == 1}
    assert (kept["primary"]["status"], kept["primary"]["e2e_ns"], kept["primary"]["won"]) == ("ok", 1_360_300_000, True)
    # the copy's own times are not in the row, and are not made up
    assert (
        kept["hedge"]["status"],
        kept["hedge"]["error_kind"],
        "e2e_ns" in kept["hedge"],
        "replica" in kept["hedge"],
    ) == ("censored", "loser", False, False)
    moved = {r["cause"]: r for r in found if r["line"] == 2}
    assert (moved["hedge"]["replica"], moved["hedge"]["ttft_ns"], moved["hedge"]["headers_ns"]) == (
        "10.0.0.2:8000",
        108_400_000,
        108_200_000,
    )
    assert moved["hedge"]["arrival_ns"] - moved["primary"]["arrival_ns"] == 612 * MS
    assert moved["hedge"]["arrival_ns"] + moved["hedge"]["e2e_ns"] == moved["primary"]["arrival_ns"] + 1_470_300_000
    # cancelled when the copy's headers came: at least that long
    assert (moved["primary"]["status"], moved["primary"]["e2e_ns"], moved["primary"]["note"]) == (
        "censored",
        720_200_000,
        "hedge_inferred",
    )


def test_envoy_retry() -> None:
    quick = {
        **COPY_WON,
        "cd_to_us_tx_beg": 24500,
        "cd_to_us_rx_beg": 175200,
        "cd_to_us_rx_body_beg": 175400,
        "cd_total": 925300,
    }
    for neighbours in ([], [envoy_row(1, 0, **PRIMARY_WON)]):
        found = [r for r in envoy(*neighbours, envoy_row(2, 5000, **quick)) if r["line"] == 1 + len(neighbours)]
        first, second = sorted(found, key=lambda r: r["attempt_no"])
        assert (first["cause"], first["status"], "e2e_ns" in first, "replica" in first) == (
            "primary",
            "error",
            False,
            False,
        )
        assert (second["cause"], second["status"], second["arrival_ns"] - first["arrival_ns"], second["ttft_ns"]) == (
            "retry",
            "ok",
            24_500_000,
            150_900_000,
        )


def test_envoy_exhausted() -> None:
    nothing = dict.fromkeys(
        (
            "cd_to_us_tx_beg",
            "cd_to_us_rx_beg",
            "cd_to_us_rx_body_beg",
            "response_duration",
            "request_tx_duration",
            "pool_ready_duration",
            "content_type",
        )
    )
    found = envoy(envoy_row(1, 0, response_code=503, response_flags="UF,URX", attempt_count=3, **nothing))
    assert [(r["attempt_no"], r["cause"], r["status"]) for r in sorted(found, key=lambda r: r["attempt_no"])] == [
        (0, "primary", "error"), (1, "retry", "error"), (2, "retry", "error"),
    ]  # fmt: skip
    assert sum("e2e_ns" in r for r in found) == 1
    (never,) = envoy(envoy_row(1, 0, response_code=503, response_flags="UH", attempt_count=0, **nothing))
    assert (never["attempt_no"], never["status"]) == (0, "error")


def test_envoy_negative_points() -> None:
    (row,) = envoy(
        envoy_row(
            1,
            0,
            cd_to_us_rx_body_beg=-5,
            cd_us_rx_body_beg_to_end=-10,
            cd_to_us_rx_beg=-6,
            pool_ready_duration=-1,
            cd_to_us_tx_beg=-3,
        )
    )
    assert not {"ttft_ns", "decode_ns", "headers_ns", "queue_ns"} & row.keys()
    assert row["status"] == "ok"


def test_envoy_hosts_attempted_is_not_used() -> None:
    assert envoy(envoy_row(1, 0, upstream_hosts_attempted="a,b")) == envoy(
        envoy_row(1, 0, upstream_hosts_attempted=None)
    )


def test_envoy_other_traffic() -> None:
    health, empty, bad = envoy(
        envoy_row(1, 0, method="GET", path="/healthz"),
        {"response_flags": "-"},
        envoy_row(1, 0, start_time="?", start_epoch="?"),
    )
    assert [(r["kind"], r["reason"]) for r in (health, empty, bad)] == [
        ("not_request", "not_a_generation"), ("not_request", "no_request_field"), ("reject", "bad_time")
    ]  # fmt: skip


def test_envoy_upstream_log_is_not_taken_for_this() -> None:
    from hedgectl.errors import InputError

    upstream = {**envoy_row(1, 0), "attempt_header": "2", "attempt_count": 0, "request_duration": None}
    with pytest.raises(InputError):
        detect.detect([json.dumps(upstream)], formats={"envoy_json": get("envoy_json")})


# --- LMBenchmark -----------------------------------------------------------------------------------------------------
def test_lmbenchmark_rows() -> None:
    text = (
        "prompt_tokens,generation_tokens,ttft,generation_time,user_id,question_id,launch_time,finish_time\n"
        "75.0,20.0,0.08541369438171387,0.9395415782928467,403,1,1746595087.941034,1746595088.9659898\n"
        "75.0,1.0,0.5,0.0,1,1,1746595000.0,1746595000.5\n"
    )
    later, first = attempts("lmbenchmark_csv", text)
    assert (later["prompt_tokens"], later["completion_tokens"], later["arrival_ns"]) == (75, 20, 1746595087941034000)
    assert (later["e2e_ns"], later["ttft_ns"], later["decode_ns"]) == (1_024_955_800, 85_413_694, 939_541_578)
    assert later["arrival_ns"] > first["arrival_ns"]
    assert (first["ttft_ns"], first["e2e_ns"], first.get("note")) == (500 * MS, 500 * MS, None), (
        "one token: the first is the last"
    )


# --- plain -----------------------------------------------------------------------------------------------------------
TS = "2026-02-02T02:40:00Z"


def plain(*listed: dict[str, Any]) -> list[Row]:
    return rows(
        "plain",
        [json.dumps({"ts": TS, "request_id": "q", "replica": "a", "status": 200, "e2e_ms": 1000, **r}) for r in listed],
    )


def test_plain_hedge_and_loser() -> None:
    lost, won, gone = plain(
        {"attempt": 1, "attempt_id": "p", "hedge_role": "primary", "status": 499},
        {"attempt": 1, "attempt_id": "h", "hedge_role": "hedge"},
        {"status": "cancelled"},
    )
    assert (lost["attempt_no"], lost["cause"], lost["status"], lost["error_kind"]) == (
        0,
        "primary",
        "censored",
        "client_gone",
    )
    assert ("attempt_no" in won, won["cause"], won["status"]) == (False, "hedge", "ok")
    assert (gone["status"], "cause" in gone) == ("censored", False)


def test_plain_usage_of_three_providers() -> None:
    found = plain(
        {"usage": {"prompt_tokens": 8000, "prompt_tokens_details": {"cached_tokens": 7800}, "completion_tokens": 50}},
        {
            "usage": {
                "input_tokens": 200,
                "cache_read_input_tokens": 7800,
                "cache_creation_input_tokens": 0,
                "output_tokens": 50,
            }
        },
        {
            "usageMetadata": {
                "promptTokenCount": 8000,
                "cachedContentTokenCount": 7800,
                "candidatesTokenCount": 20,
                "thoughtsTokenCount": 30,
            }
        },
    )
    assert {(r["prompt_tokens"], r["cached_tokens"], r["completion_tokens"]) for r in found} == {(8000, 7800, 50)}


def test_plain_cache_hit_spellings() -> None:
    assert [
        r.get("cache_hit") for r in plain(*[{"cache_hit": v} for v in (True, "True", 1, "hit", False, "miss", None)])
    ] == [True] * 4 + [False] * 2 + [None]


def test_plain_eligibility_fields() -> None:
    none, some, provider, unsaid, state, many = plain(
        {"tools": []},
        {"tools": ["charge_card"]},
        {"tools": None, "server_side_tools": ["code_interpreter"]},
        {},
        {"store": True},
        {"n": 4},
    )
    assert [r.get("tools_offered") for r in (none, some, provider, unsaid)] == [False, True, True, None]
    assert (some["tool_names"], provider["tool_names"]) == ("charge_card", "code_interpreter")
    assert (state["stored_state"], many["n_choices"]) == (True, 4)


def test_plain_huge_numbers() -> None:
    found = plain(
        {"ts": 1763632801, "request_id": 9007199254740993}, {"ts": 1763632802000, "request_id": 9007199254740992}, {"ts": 1763632803000000},
        {"ts": 1763632804000000000}, {"ttft_ms": 340282366920938463463374607431768211456}, {"ts": 99999999999999999999},
    )  # fmt: skip
    assert [r["arrival_ns"] // 10**9 - 1763632800 for r in found[:4]] == [1, 2, 3, 4]
    assert [r["request_id"] for r in found[:2]] == ["9007199254740993", "9007199254740992"]
    assert ("ttft_ns" in found[4], found[4]["e2e_ns"], found[4]["note"]) == (False, 1000 * MS, "ttft_unreadable")
    assert (found[5]["kind"], found[5]["reason"]) == ("reject", "bad_time")


JSON_SAMPLES = [name for name, fmt in catalogue.load_all().items() if fmt.input == "json" and samples(name)]


@pytest.mark.parametrize("name", JSON_SAMPLES)
def test_ids_are_made_of_values_and_not_of_how_they_are_written(name: str) -> None:
    """A file that jq or an editor wrote again is the same file: other spaces, keys in another order."""
    for path in samples(name):
        records = sample_of(read_text(path).splitlines()).records
        ids = [
            [(r.get("request_id"), r.get("attempt_id"), r.get("turn_id")) for r in attempts(name, lines)]
            for lines in (
                [json.dumps(r, separators=(",", ":")) for r in records],
                [json.dumps(r, sort_keys=True, separators=(" , ", " : ")) for r in records],
            )
        ]
        assert ids[0] == ids[1]


FIRST_TOKENS = {
    "aibrix_client": "ttft", "aiperf": "time_to_first_token", "bedrock_invocation": "firstByteLatency", "cloudflare_wae": "double2",
    "dynamo_trace": "ttft_ms", "envoy_ai_gateway": "token_latency_ttft", "envoy_json": "cd_to_us_rx_body_beg", "helicone": "time_to_first_token",
    "inferencex_replay": "ttft", "kong_ai": "time_to_first_token", "llmperf": "ttft_s", "sglang_export": "first_token_latency",
    "trtllm_bench": "time_to_first_token", "vercel_ai_gateway": "latency",
}  # fmt: skip


def turned(value: Any, key: str, factor: int, here: bool = False) -> Any:
    """The same with all numbers under ``key`` times ``factor``."""
    if isinstance(value, dict):
        return {k: turned(v, key, factor, here or k == key) for k, v in value.items()}
    if isinstance(value, list):
        return [turned(v, key, factor, here) for v in value]
    if here and isinstance(value, int | float) and not isinstance(value, bool):
        return value * factor
    return str(float(value) * factor) if here and str(value).replace(".", "").isdigit() else value


@pytest.mark.parametrize("name", FIRST_TOKENS)
def test_a_first_token_that_cannot_be_one_is_unknown_and_told(name: str) -> None:
    """A clock that was set back, or a bug of the writer: never a time, never dropped without a word, the request stays."""
    records = [r for path in samples(name) for r in sample_of(read_text(path).splitlines()).records]
    clean = attempts(name, [json.dumps(r) for r in records])
    assert any("ttft_ns" in r for r in clean)
    for factor, codes in (
        (-1, {"clock_skew", "ttft_unreadable"}),
        (100_000, {"ttft_beyond_e2e", "ttft_of_last_attempt"}),
    ):
        found = attempts(name, [json.dumps(turned(r, FIRST_TOKENS[name], factor)) for r in records])
        assert len(found) == len(clean)
        for was, now in zip(clean, found, strict=True):
            assert now.get("ttft_ns") is None or now["ttft_ns"] == was["ttft_ns"]
            if "ttft_ns" in was and now.get("ttft_ns") is None and was.get("e2e_ns") == now.get("e2e_ns"):
                assert codes & set((now.get("note") or "").split(",")), (was, now)
