"""Generated logs for the benchmark of reading: lines shaped as the real systems write them, every row a request of its own."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

_CHUNK_ROWS = 20_000
_START_US = 1_787_220_000_000_000  # microseconds since 1970 of the first row


def write(path: Path, rows: int, line: Callable[[int], str]) -> None:
    """Writes a generated log of ``rows`` requests."""
    with path.open("w", encoding="utf-8") as out:
        for start in range(0, rows, _CHUNK_ROWS):
            out.write("".join(line(n) for n in range(start, min(rows, start + _CHUNK_ROWS))))


def litellm_line(n: int) -> str:
    """A successful streamed call as LiteLLM's payload has it, about 1.2 kB."""
    start = _START_US + n * 10_007
    first, end = start + 180_000 + n * 7919 % 900_000, start + 1_500_000 + n * 104_729 % 9_000_000
    prompt, completion = 100 + n * 31 % 3000, 20 + n * 17 % 700
    record = {
        "id": f"chatcmpl-{n:012x}", "trace_id": f"t-{n:010x}", "session_id": "", "litellm_call_id": f"c-{n:012x}",
        "call_type": "acompletion", "cache_hit": None, "stream": True, "status": "success",
        "status_fields": {"llm_api_status": "success", "guardrail_status": "not_run"}, "custom_llm_provider": "openai",
        "saved_cache_cost": 0.0, "startTime": start / 1e6, "endTime": end / 1e6, "completionStartTime": first / 1e6,
        "response_time": (first - start) / 1e6, "model": "openai/gpt-4o-mini", "model_group": "chat-fast", "model_id": f"dep-{n % 8}",
        "api_base": "https://eastus.example.net/openai", "response_cost": round(prompt * 15e-8 + completion * 6e-7, 9),
        "total_tokens": prompt + completion, "prompt_tokens": prompt, "completion_tokens": completion, "request_tags": ["tier:gold"],
        "metadata": {
            "user_api_key_hash": "0" * 40, "user_api_key_alias": "svc-search", "user_api_key_spend": 1.25, "user_api_key_team_id": "team-a",
            "user_api_key_team_alias": "Team A", "user_api_key_request_route": "/v1/chat/completions", "requester_ip_address": "192.0.2.10",
            "usage_object": {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": {"cached_tokens": n % 64}},
        },
        "model_parameters": {"stream": True, "temperature": 0.2, "max_tokens": 1024},
        "hidden_params": {"model_id": f"dep-{n % 8}", "litellm_overhead_time_ms": 1.5, "additional_headers": {}},
    }  # fmt: skip
    return json.dumps(record) + "\n"


def vllm_line(n: int) -> str:
    """A span of vLLM as a collector's file exporter writes it, one request a line, about 1.7 kB."""
    start = (_START_US + n * 10_007) * 1000
    e2e_us = 1_500_000 + n * 104_729 % 9_000_000
    queue_us, prefill_us = n * 31 % 90_000, 40_000 + n * 7919 % 600_000

    def text(key: str, value: str) -> dict[str, object]:
        return {"key": key, "value": {"stringValue": value}}

    def whole(key: str, value: int) -> dict[str, object]:
        return {"key": key, "value": {"intValue": str(value)}}

    def seconds(key: str, value_us: int) -> dict[str, object]:
        return {"key": f"gen_ai.latency.{key}", "value": {"doubleValue": value_us / 1e6}}

    span = {
        "traceId": f"{n:032x}", "spanId": f"{n + 1:016x}", "name": "llm_request", "kind": 2,
        "startTimeUnixNano": str(start), "endTimeUnixNano": str(start + (e2e_us + 2_000) * 1000),
        "attributes": [
            seconds("time_to_first_token", queue_us + prefill_us + 5_000), seconds("e2e", e2e_us), seconds("time_in_queue", queue_us),
            seconds("time_in_model_prefill", prefill_us), seconds("time_in_model_decode", e2e_us - queue_us - prefill_us - 10_000),
            seconds("time_in_model_inference", e2e_us - queue_us - 10_000),
            whole("gen_ai.usage.prompt_tokens", 100 + n * 31 % 3000), whole("gen_ai.usage.completion_tokens", 20 + n * 17 % 700),
            text("gen_ai.request.id", f"chatcmpl-{n:012x}"), whole("gen_ai.request.max_tokens", 1024), whole("gen_ai.request.n", 1),
        ],
        "status": {}, "flags": 256,
    }  # fmt: skip
    resource = {
        "attributes": [
            text("telemetry.sdk.language", "python"), text("service.name", f"engine-{n % 8}"),
            text("service.instance.id", f"0f0e0d0c-0b0a-4908-8706-05040302010{n % 8}"), whole("vllm.process_id", 17),
        ]
    }  # fmt: skip
    scope = {"scope": {"name": "vllm.tracing.otel"}, "spans": [span]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [scope]}]}) + "\n"


def envoy_line(n: int) -> str:
    """A streamed answer in Envoy's typed JSON access log with its time points, about 0.9 kB."""
    start = _START_US + n * 10_007
    total, body = 1_500_000 + n * 104_729 % 9_000_000, 150_000 + n * 7919 % 900_000
    record = {
        "start_time": _iso(start, "T") + "Z", "start_epoch": f"{start / 1e6:.6f}", "method": "POST", "path": "/v1/chat/completions",
        "response_code": 200, "response_flags": "-", "upstream_host": f"192.0.2.{n % 8}:8000", "upstream_cluster": "llm", "route_name": "chat",
        "x_request_id": f"af3b0001-0000-4000-8000-{n:012x}", "session_id": f"s-{n % 5000}", "tenant": "acme", "model": "example-8b",
        "content_type": "text/event-stream", "prompt_tokens": 100 + n * 31 % 3000, "completion_tokens": 20 + n * 17 % 700,
        "duration": total // 1000, "request_duration": 1, "request_tx_duration": 1, "response_duration": (body - 200) // 1000,
        "response_tx_duration": (total - body) // 1000, "pool_ready_duration": 0, "attempt_count": 1, "bytes_received": 2048, "bytes_sent": 5120,
        "upstream_wire_bytes_received": 5400, "upstream_hosts_attempted": f"192.0.2.{n % 8}:8000", "cd_to_us_tx_beg": 420,
        "cd_to_us_rx_beg": body - 200, "cd_to_us_rx_body_beg": body, "cd_us_rx_body_beg_to_end": total - body - 250, "cd_total": total,
    }  # fmt: skip
    return json.dumps(record) + "\n"


def nginx_line(n: int) -> str:
    """A row of nginx's combined format with timings, about 0.35 kB."""
    end_ms = (_START_US + n * 10_007) // 1000
    total_ms, head_ms = 1_500 + n * 10_477 % 9_000, 150 + n * 7919 % 900
    stamp = datetime.datetime.fromtimestamp(end_ms // 1000, datetime.UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
    took, head = f"{total_ms / 1000:.3f}", f"{head_ms / 1000:.3f}"
    return (
        f'192.0.2.44 - - [{stamp}] "POST /v1/chat/completions HTTP/1.1" 200 {2000 + n % 7000} "-" "py-client/3.2" rt={took} uct="0.001" '
        f'uht="{head}" urt="{took}" ua="198.51.100.{n % 8}:8000" us="200" id={n:032x} ct="text/event-stream" '
        f'msec={end_ms // 1000}.{end_ms % 1000:03} rc="OK" model=chat-8b sid=s-{n % 5000}\n'
    )


def langfuse_line(n: int) -> str:
    """A generation of Langfuse's blob storage export, about 0.75 kB."""
    start = _START_US + n * 10_007
    prompt, cached, answer = 100 + n * 31 % 3000, n % 64, 20 + n * 17 % 700
    record = {
        "id": f"{n:016x}", "trace_id": f"{n // 4:032x}", "project_id": "p", "type": "GENERATION", "parent_observation_id": f"a{n // 4:015x}",
        "start_time": _iso(start, " "), "end_time": _iso(start + 1_500_000 + n * 104_729 % 9_000_000, " "), "name": "chat small-8b",
        "level": "DEFAULT", "status_message": "", "provided_model_name": "small-8b", "model_parameters": '{"stream": true}',
        "usage_details": {"input": prompt, "input_cached_tokens": cached, "output": answer, "total": prompt + cached + answer},
        "cost_details": {"total": round(prompt * 15e-8 + answer * 6e-7, 9)}, "completion_start_time": _iso(start + 150_000 + n * 7919 % 900_000, " "),
        "tool_definitions": {"find_hotel": "{}", "search": "{}"},
    }  # fmt: skip
    return json.dumps(record) + "\n"


def _iso(us: int, between: str) -> str:
    """Microseconds since 1970 as text, UTC, without a zone."""
    stamp = datetime.datetime.fromtimestamp(us // 1_000_000, datetime.UTC)
    return f"{stamp:%Y-%m-%d}{between}{stamp:%H:%M:%S}.{us % 1_000_000:06}"


LOGS: dict[str, Callable[[int], str]] = {
    "litellm_payload": litellm_line,
    "vllm_otlp": vllm_line,
    "envoy_json": envoy_line,
    "nginx_text": nginx_line,
    "langfuse": langfuse_line,
}
"""Format -> text of the n-th request in a generated log."""
