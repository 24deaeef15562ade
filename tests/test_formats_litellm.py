"""Known pitfalls of LiteLLM's logs, one test each.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
LiteLLM payloads
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
LiteLLM SpendLogs
  first token at the end; failures of no length; session ids; cache hits        -> test_spendlogs_doubtful_rows
  naive times are UTC under every --tz                                          -> test_spendlogs_naive_is_utc
  billed attempts have the length of the whole request                          -> test_spendlogs_billed_attempts
  metadata is text in CSV and an object in REST                                 -> test_spendlogs_csv_and_rest_agree
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import MS, T_NS, Row, T, read_text, rows, samples, view

from hedgectl import decompose


# --- payloads --------------------------------------------------------------------------------------------------------
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


# --- LiteLLM SpendLogs ------------------------------------------------------------------------------------------------
def spend() -> list[Row]:
    return rows("litellm_spendlogs", read_text(next(p for p in samples("litellm_spendlogs") if p.suffix == ".csv")))


def test_spendlogs_doubtful_rows() -> None:
    by_id = {r["attempt_id"]: r for r in spend()}
    assert ("ttft_ns" in by_id["chatcmpl-003"], by_id["chatcmpl-003"]["note"]) == (False, "ttft_equals_e2e")
    assert ("e2e_ns" in by_id["call-008"], by_id["call-008"]["status"]) == (False, "censored")
    hit = by_id["chatcmpl-001_cache_hit1772439311.5"]
    assert (hit["cache_hit"], hit.get("replica"), hit["request_id"]) == (True, None, "call-011")
    # a session is a turn and never a request
    assert by_id["chatcmpl-001"]["turn_id"] == "walk-3" != by_id["chatcmpl-001"]["request_id"]


def test_spendlogs_naive_is_utc() -> None:
    path = next(p for p in samples("litellm_spendlogs") if p.suffix == ".csv")
    assert [r.get("arrival_ns") for r in rows("litellm_spendlogs", read_text(path), tz="Asia/Kolkata")] == [
        r.get("arrival_ns") for r in spend()
    ]


def test_spendlogs_billed_attempts() -> None:
    same = [r for r in spend() if r["request_id"] == "call-013"]
    assert view(same, "attempt_no", "note", "status") == [
        (0, "billed_attempt", "censored"),
        (1, "holds_failed_attempts", "censored"),
    ]
    assert [("e2e_ns" in r) for r in sorted(same, key=lambda r: int(r["attempt_no"]))] == [False, True]


def test_spendlogs_csv_and_rest_agree() -> None:
    rest = next(p for p in samples("litellm_spendlogs") if p.suffix == ".json")
    keys = ("arrival_ns", "e2e_ns", "ttft_ns", "cached_tokens", "segment", "status", "cost")
    by_id = {r["attempt_id"]: r for r in spend()}
    for row in rows("litellm_spendlogs", read_text(rest)):
        assert {k: row.get(k) for k in keys} == {k: by_id[row["attempt_id"]].get(k) for k in keys}
