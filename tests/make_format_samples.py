"""Writes the small sample logs of formats that have no other generator: one folder each under sample_logs/.

Every value is made up here. The rows of a sample show each column its format claims, and the traps of the format; days are apart so
that no two samples overlap in time. Run: python tests/make_format_samples.py
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

SAMPLES = Path(__file__).resolve().parent.parent / "sample_logs"

PLAIN_COLUMNS = (
    "ts", "request_id", "attempt", "attempt_id", "hedge_role", "replica", "model", "route", "segment", "status", "stream", "queue_ms",
    "prefill_ms", "ttft_ms", "decode_ms", "tool_wait_ms", "e2e_ms", "prompt_tokens", "cached_tokens", "completion_tokens", "cost_usd",
    "tools", "cache_hit",
)  # fmt: skip


def plain_rows() -> list[dict[str, Any]]:
    """Nine attempts of seven requests: a hedge that won, a retry, a client that left, a cache hit, tools."""
    base: dict[str, Any] = {
        "attempt": 1, "model": "chat", "route": "/v1/chat/completions", "segment": "free", "status": 200, "stream": True,
        "tool_wait_ms": 0, "cached_tokens": 0, "tools": [], "cache_hit": False,
    }  # fmt: skip

    def one(ts: str, request: str, replica: str | None, **more: Any) -> dict[str, Any]:
        return {**base, "ts": ts, "request_id": request, "attempt_id": f"{request}-1", "replica": replica, **more}

    done = {"queue_ms": 12.5, "prefill_ms": 180.25, "ttft_ms": 195.5, "decode_ms": 1204.5, "e2e_ms": 1400}
    size = {"prompt_tokens": 812, "completion_tokens": 84, "cost_usd": "0.000532"}
    return [
        one("2026-01-05T08:00:00.000Z", "p1", "r-a", **done, **size),
        one("2026-01-05T08:00:02.000Z", "p2", "r-b", hedge_role="primary", status="cancelled", e2e_ms=2100, prompt_tokens=900,
            completion_tokens=0, winner=False),
        one("2026-01-05T08:00:03.500Z", "p2", "r-c", hedge_role="hedge", attempt_id="p2-2", **done, **size, winner=True),
        one("2026-01-05T08:00:06.000Z", "p3", "r-a", status=503, e2e_ms=20, prompt_tokens=300, completion_tokens=0),
        one("2026-01-05T08:00:06.050Z", "p3", "r-b", attempt=2, attempt_id="p3-2", hedge_role="retry", **done, **size),
        one("2026-01-05T08:00:09.000Z", "p4", None, ttft_ms=2, e2e_ms=3, prompt_tokens=812, completion_tokens=84, cost_usd="0", cache_hit=True),
        one("2026-01-05T08:00:10.000Z", "p5", "r-c", tools=["get_weather", "get_order"], queue_ms=3, prefill_ms=410, ttft_ms=415, decode_ms=585,
            tool_wait_ms=350, e2e_ms=1350, prompt_tokens=2048, cached_tokens=1024, completion_tokens=41, cost_usd="0.000625", segment="pro"),
        one("2026-01-05T08:00:12.000Z", "p6", "r-a", status=499, e2e_ms=30000, prompt_tokens=512, completion_tokens=0),
        one("2026-01-05T08:00:13.000Z", "p7", "r-b", stream=False, e2e_ms=2200.125, prompt_tokens=640, completion_tokens=120, cost_usd="0.0005"),
    ]  # fmt: skip


def plain() -> dict[str, str]:
    """The plain sample as JSON lines, and other rows of the same columns as CSV."""
    rows = plain_rows()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(PLAIN_COLUMNS)
    for row in rows:
        moved = {**row, "ts": row["ts"].replace("2026-01-05", "2026-01-06"), "request_id": "c" + row["request_id"]}
        moved["tools"] = ",".join(row["tools"]) if row["tools"] else ("[]" if row["tools"] == [] else "")
        writer.writerow([_cell(moved.get(name)) for name in PLAIN_COLUMNS])
    return {"requests.jsonl": _lines(rows), "requests.csv": out.getvalue()}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)


def litellm_rows() -> list[dict[str, Any]]:
    """One payload a quirk of the proxy; the day is 2026-01-07."""
    start = 1767772800.0

    def one(number: int, at: float, first: float | None, end: float, **more: Any) -> dict[str, Any]:
        call = f"7d0c{number:04d}-0000-4000-8000-000000000000"
        row: dict[str, Any] = {
            "id": f"chatcmpl-{number:04d}", "litellm_call_id": call, "trace_id": f"a1b2{number:04d}", "session_id": "", "call_type": "acompletion",
            "cache_hit": False, "stream": True, "status": "success", "custom_llm_provider": "openai", "saved_cache_cost": 0.0,
            "startTime": round(start + at, 6), "endTime": round(start + end, 6),
            "completionStartTime": round(start + (end if first is None else first), 6), "model": "openai/example-8b", "model_group": "chat",
            "model_id": f"engine-{'abc'[number % 3]}", "api_base": "http://engine.internal/v1", "prompt_tokens": 640, "completion_tokens": 64,
            "total_tokens": 704, "response_cost": 0.000416, "request_tags": ["feature-search"],
            "metadata": {
                "user_api_key_request_route": "/v1/chat/completions", "user_api_key_team_alias": "Search",
                "user_api_key_auth_metadata": {"tier": "gold"},
                "usage_object": {
                    "prompt_tokens": 640, "completion_tokens": 64, "prompt_tokens_details": {"cached_tokens": 128},
                    "completion_tokens_details": {"reasoning_tokens": 16}},
                "mcp_tool_call_metadata": None},
            "model_parameters": {"stream": True, "stream_options": {"include_usage": True}},
            "hidden_params": {"model_id": None, "additional_headers": {"llm_provider-server": "uvicorn"}, "litellm_overhead_time_ms": None},
            "error_information": {"error_code": "", "error_class": "", "error_message": ""},
        }  # fmt: skip
        row.update(more)
        return row

    whole = {"stream": None, "model_parameters": {"stream": False}}
    failed = {"stream": None, "status": "failure", "response_cost": 0.0, "completion_tokens": 0}
    retried = {"additional_headers": {"x-litellm-attempted-retries": 1, "x-litellm-attempted-fallbacks": 0}}
    fallen = {"additional_headers": {"x-litellm-attempted-retries": 0, "x-litellm-attempted-fallbacks": 1}}

    def error(code: str, kind: str) -> dict[str, Any]:
        return {"error_information": {"error_code": code, "error_class": kind, "error_message": "example"}}

    return [
        one(1, 0.0, 0.3125, 1.5),
        one(2, 2.0, None, 3.25, **whole),
        one(3, 4.0, None, 5.0),  # a stream whose first token was not recorded
        # a whole answer after a retry starts at the attempt that answered
        one(4, 6.0, None, 6.1, **failed, **error("500", "InternalServerError"), id="7d0c0004-0000-4000-8000-000000000000"),
        one(4, 6.15, None, 7.0, **whole, hidden_params=retried),
        # a stream after a retry starts at the request, before the failed attempt
        one(5, 8.0, 8.9, 9.5),
        one(5, 8.01, None, 8.25, **failed, **error("503", "ServiceUnavailableError"), id="7d0c0005-0000-4000-8000-000000000000"),
        # a fallback to another group; attempted-retries is 0
        one(6, 10.0, None, 10.05, **failed, **error("429", "RateLimitError"), id="7d0c0006-0000-4000-8000-000000000000"),
        one(6, 10.3, None, 11.0, **whole, hidden_params=fallen, model_group="chat-backup"),
        # cache hits: whole, and streamed; the replica was not called
        one(7, 12.0, None, 12.001, **whole, cache_hit=True, id="chatcmpl-0001_cache_hit1767772812.0", response_cost=0.0) | {"cache_hit": True},
        one(8, 13.0, 13.02, 13.08, cache_hit=True, id="chatcmpl-0001_cache_hit1767772813.0", response_cost=0.0, saved_cache_cost=0.000416),
        # a client that left in mid-stream, and one that left before the first token
        one(9, 14.0, 14.4, 14.9, **error("499", "ClientDisconnected"), completion_tokens=12),
        one(10, 16.0, 17.9, 18.0, **error("499", "ClientDisconnected"), completion_tokens=0),
        one(11, 20.0, None, 26.0, **failed, **error("408", "Timeout"), id="7d0c0011-0000-4000-8000-000000000000"),
        one(12, 28.0, 28.2, 28.7, **{**failed, "completion_tokens": 9}, **error("500", "APIConnectionError")),  # cut by the engine
        one(13, 30.0, None, 30.0, **failed, **error("500", "InternalServerError")),  # no length: nothing known about time
        one(14, 32.0, 31.9, 33.0),  # a first token before the start
        one(15, 34.0, 34.25, 35.0, model_parameters={
            "stream": True, "n": 2, "tools": [{"type": "function", "function": {"name": "get_order"}}, {"name": "get_weather"}]}),
        one(16, 36.0, None, 37.0, call_type="aresponses", stream=None, id="resp_0016",
            model_parameters={"previous_response_id": "resp_0001", "include": []}),
        one(17, 38.0, None, 38.1, call_type="aget_responses", stream=None),
        one(18, 39.0, None, 39.5, call_type="call_mcp_tool", stream=None, trace_id="a1b20015",
            metadata={"mcp_tool_call_metadata": {"name": "get_order", "mcp_server_name": "shop"}}),
        one(19, 40.0, None, 40.2, **whole, request_tags=["litellm-internal-health-check"]),
    ]  # fmt: skip


def litellm() -> dict[str, str]:
    """The payload as ndjson, as one POST body (a JSON array) a line, and as a printed single object."""
    rows = litellm_rows()
    old = dict(rows[0], id="chatcmpl-0100", litellm_call_id="7d0c0100-0000-4000-8000-000000000000", trace_id="a1b20100")
    # an old export: naive UTC text instead of epoch seconds
    old.update(
        startTime="2026-01-07 09:00:00.000000",
        completionStartTime="2026-01-07 09:00:00.250000",
        endTime="2026-01-07 09:00:01.500000",
    )
    batch = [dict(r, id=r["id"] + "-b", litellm_call_id="b" + r["litellm_call_id"][1:], startTime=r["startTime"] + 7200,
                  completionStartTime=r["completionStartTime"] + 7200, endTime=r["endTime"] + 7200) for r in rows[:4]]  # fmt: skip
    return {
        "quirks.jsonl": _lines(rows),
        "bodies.jsonl": json.dumps(batch[:3]) + "\n" + json.dumps(batch[3:]) + "\n",
        "single.json": json.dumps(old, indent=4) + "\n",
    }


def attribute(key: str, value: Any) -> dict[str, Any]:
    """One OTLP attribute; integers as text, as the specification has it."""
    kind = "doubleValue" if isinstance(value, float) else "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {kind: str(value) if isinstance(value, int) else value}}


def llm_request(
    number: int, start_ns: int, times: dict[str, float], *, prompt: int, tokens: int, request: str, **more: Any
) -> dict[str, Any]:
    """One span of vLLM; ``times`` in seconds, the span 2 ms longer than e2e."""
    attributes = [attribute(f"gen_ai.latency.{name}", value) for name, value in times.items()]
    attributes += [attribute("gen_ai.usage.prompt_tokens", prompt), attribute("gen_ai.usage.completion_tokens", tokens)]
    attributes += [
        attribute("gen_ai.request.id", request),
        attribute("gen_ai.request.max_tokens", 256),
        attribute("gen_ai.request.n", 1),
    ]
    return {
        "traceId": f"{number:032x}", "spanId": f"{number:016x}", "name": "llm_request", "kind": 2, "startTimeUnixNano": str(start_ns),
        "endTimeUnixNano": str(start_ns + int(times["e2e"] * 1e9) + 2_000_000), "attributes": attributes, "status": {}, "flags": 256, **more,
    }  # fmt: skip


def export(service: str, *spans: dict[str, Any]) -> dict[str, Any]:
    """One ExportTraceServiceRequest."""
    resource = [attribute("telemetry.sdk.language", "python"), attribute("service.name", service),
                attribute("service.instance.id", "0f0e0d0c-0b0a-4908-8706-050403020100"), attribute("vllm.process_id", 17)]  # fmt: skip
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": resource},
                "scopeSpans": [{"scope": {"name": "vllm.tracing.otel"}, "spans": list(spans)}],
            }
        ]
    }


def vllm() -> dict[str, str]:
    """Spans of two engines on 2026-01-08: usual ones, n = 2, one token, a milestone never reached, start-up spans."""
    at = 1767859200_000000000
    usual = {"time_to_first_token": 0.25, "e2e": 1.75, "time_in_queue": 0.03, "time_in_model_prefill": 0.2,
             "time_in_model_decode": 1.5, "time_in_model_inference": 1.7}  # fmt: skip
    short = {"time_to_first_token": 0.12, "e2e": 0.12, "time_in_queue": 0.001, "time_in_model_prefill": 0.11,
             "time_in_model_decode": 0.0, "time_in_model_inference": 0.11}  # fmt: skip
    lost = {"time_to_first_token": 0.5, "e2e": 0.5, "time_in_queue": -812345.678, "time_in_model_prefill": 812346.1,
            "time_in_model_decode": 0.0, "time_in_model_inference": 812346.1}  # fmt: skip
    startup = {"traceId": f"{99:032x}", "spanId": f"{99:016x}", "name": "Load model", "kind": 1, "startTimeUnixNano": str(at - 60_000_000_000),
               "endTimeUnixNano": str(at - 50_000_000_000), "attributes": [attribute("code.function", "load_model")], "status": {}}  # fmt: skip
    lines = [
        export("engine-a", startup),
        export("engine-a", llm_request(1, at, usual, prompt=700, tokens=90, request="chatcmpl-s1"),
               llm_request(2, at + 3_000_000_123, short, prompt=64, tokens=1, request="chatcmpl-s2")),
        export("engine-b", llm_request(3, at + 4_000_000_000, usual, prompt=512, tokens=40, request="chatcmpl-s3"),
               llm_request(4, at + 4_000_000_000, {**usual, "e2e": 1.5}, prompt=512, tokens=33, request="chatcmpl-s3")),
        export("engine-b", llm_request(5, at + 9_000_000_000, lost, prompt=2000, tokens=0, request="cmpl-s5-0")),
    ]  # fmt: skip
    return {"spans.otlp.jsonl": _lines(lines)}


def envoy_row(number: int, at_ms: int, **more: Any) -> dict[str, Any]:
    """One typed access log row of 2026-01-09: a stream with late headers, one attempt."""
    epoch = 1767945600 + at_ms / 1000
    row: dict[str, Any] = {
        "start_time": f"2026-01-09T08:{at_ms // 60000:02d}:{at_ms // 1000 % 60:02d}.{at_ms % 1000:03d}Z", "start_epoch": f"{epoch:.6f}",
        "method": "POST", "path": "/v1/chat/completions", "response_code": 200, "response_flags": "-", "upstream_host": "10.0.0.1:8000",
        "upstream_cluster": "llm", "route_name": "chat", "x_request_id": f"5f3b{number:04d}-0000-4000-8000-000000000000", "session_id": None,
        "tenant": "acme", "model": "example-8b", "content_type": "text/event-stream", "prompt_tokens": "512", "completion_tokens": "64",
        "duration": 900, "request_duration": 1, "request_tx_duration": 1, "response_duration": 150, "response_tx_duration": 750,
        "pool_ready_duration": 0, "attempt_count": 1, "bytes_received": 2048, "bytes_sent": 5120, "upstream_wire_bytes_received": 5400,
        "upstream_hosts_attempted": "10.0.0.1:8000", "cd_to_us_tx_beg": 420, "cd_to_us_rx_beg": 150300, "cd_to_us_rx_body_beg": 150500,
        "cd_us_rx_body_beg_to_end": 749000, "cd_total": 900250,
    }  # fmt: skip
    row.update(more)
    return row


def envoy_rows() -> list[dict[str, Any]]:
    """One row a case of Envoy's access log."""
    nothing = {"response_duration": None, "response_tx_duration": None, "cd_to_us_rx_beg": None, "cd_to_us_rx_body_beg": None,
               "cd_us_rx_body_beg_to_end": None, "content_type": None, "completion_tokens": None}  # fmt: skip
    return [
        envoy_row(1, 0, session_id="s-1"),
        # early headers: they leave before prefill
        envoy_row(2, 1000, response_duration=5, response_tx_duration=895, cd_to_us_rx_beg=5100),
        # a whole answer: no first token
        envoy_row(3, 2000, content_type="application/json", response_duration=880, cd_to_us_rx_beg=880100, cd_to_us_rx_body_beg=899000,
                  cd_us_rx_body_beg_to_end=40),
        # 300 ms in the queue for a connection
        envoy_row(4, 3000, pool_ready_duration=300, cd_to_us_tx_beg=300900, duration=1200, cd_total=1200500, response_duration=450,
                  cd_to_us_rx_beg=450300, cd_to_us_rx_body_beg=450500),
        # a copy was sent after 400 ms and the primary won; URX: its per-try timeout struck once more
        envoy_row(5, 5000, attempt_count=2, response_flags="URX", response_duration=610, cd_to_us_rx_beg=610200, cd_to_us_rx_body_beg=610400,
                  duration=1360, cd_total=1360300, upstream_wire_bytes_received=0),
        # the copy won
        envoy_row(6, 7000, attempt_count=2, upstream_host="10.0.0.2:8000", cd_to_us_tx_beg=612000, request_tx_duration=612, response_duration=720,
                  cd_to_us_rx_beg=720200, cd_to_us_rx_body_beg=720400, duration=1470, cd_total=1470300),
        # a retry after a quick refusal
        envoy_row(7, 9000, attempt_count=2, upstream_host="10.0.0.3:8000", cd_to_us_tx_beg=24500, request_tx_duration=24, response_duration=175,
                  cd_to_us_rx_beg=175200, cd_to_us_rx_body_beg=175400, duration=925, cd_total=925300),
        # the retry budget refused the copy: a good answer
        envoy_row(8, 11000, response_flags="UO"),
        # clients that left: before the headers, and in mid-stream
        envoy_row(9, 12000, response_code=0, response_flags="DC", duration=5000, cd_total=None, **nothing),
        envoy_row(10, 18000, response_flags="DC", cd_total=None, cd_us_rx_body_beg_to_end=None, response_tx_duration=None),
        # a stream that was cut by the upstream's timer, and by the connection
        envoy_row(11, 20000, response_flags="UT", duration=10000, cd_total=10000100),
        envoy_row(12, 31000, response_flags="UC"),
        envoy_row(13, 33000, response_code=504, response_flags="UT", duration=10000, cd_total=10000200, **nothing),
        envoy_row(14, 44000, response_code=503, response_flags="UF,URX", attempt_count=3, duration=60, cd_total=60100, cd_to_us_tx_beg=None,
                  request_tx_duration=None, pool_ready_duration=None, **nothing),
        envoy_row(15, 45000, response_code=429, response_flags="-", duration=12, cd_total=12100, content_type="application/json",
                  response_duration=11, cd_to_us_rx_beg=11000, cd_to_us_rx_body_beg=11500, cd_us_rx_body_beg_to_end=20),
        envoy_row(16, 46000, method="GET", path="/healthz", model=None),
    ]  # fmt: skip


def envoy() -> dict[str, str]:
    """Typed rows; the same cases an hour later as text with '-'; and the default keys of Envoy Gateway."""
    typed = envoy_rows()
    later = []
    for row in typed:
        moved = {**row, "x_request_id": "a" + row["x_request_id"][1:], "start_time": row["start_time"].replace("T08", "T09"),
                 "start_epoch": f"{float(row['start_epoch']) + 3600:.6f}"}  # fmt: skip
        later.append({k: "-" if v is None else str(v) for k, v in moved.items()})
    first = typed[0]
    default = {
        "start_time": "2026-01-09T10:00:00.000Z", "method": "POST", "x-envoy-origin-path": "/v1/chat/completions", "protocol": "HTTP/1.1",
        "response_code": 200, "response_flags": "-", "response_code_details": "via_upstream", "connection_termination_details": None,
        "bytes_received": 2048, "bytes_sent": 5120, "duration": 900, "x-envoy-upstream-service-time": "149",
        "x-request-id": "c" + first["x_request_id"][1:], ":authority": "gw.example", "upstream_host": "10.0.0.1:8000", "upstream_cluster": "llm",
        "route_name": "chat",
    }  # fmt: skip
    return {"typed.jsonl": _lines(typed), "strings.jsonl": _lines(later), "gateway_default.jsonl": _lines([default])}


def lmbenchmark() -> dict[str, str]:
    """Eight rows of 2026-01-12, grouped by user, token counts as floats; and the variant without user columns."""
    start = 1768204800
    rows = ["prompt_tokens,generation_tokens,ttft,generation_time,user_id,question_id,launch_time,finish_time"]
    for user in (1, 2):
        for turn in range(4):
            at = start + turn * 30 + user * 1.25
            ttft, spent = 0.0859375 + 0.03125 * turn, 0.984375 + 0.25 * turn
            rows.append(f"{75.0 + turn},{20.0 + 5 * turn},{ttft},{spent},{user},{turn},{at},{at + ttft + spent}")
    bare = ["prompt_tokens,generation_tokens,ttft,generation_time,launch_time,finish_time",
            f"686,275,0.125,9.5,{start + 3600}.25,{start + 3609}.875",
            f"12,1,0.0625,0.0,{start + 3610}.0,{start + 3610}.0625"]  # fmt: skip
    return {"short_input_qps1.csv": "\n".join(rows) + "\n", "sharegpt.csv": "\n".join(bare) + "\n"}


FOLDERS = {
    "plain": plain,
    "litellm_payload": litellm,
    "vllm_otlp": vllm,
    "envoy_json": envoy,
    "lmbenchmark_csv": lmbenchmark,
}

if __name__ == "__main__":
    for name, build in FOLDERS.items():
        folder = SAMPLES / name
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in build().items():
            (folder / file).write_text(text, encoding="utf-8")
            print(f"{name}/{file}: {len(text)} characters")
