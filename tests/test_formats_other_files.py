"""Files that stand beside a log of requests are refused with the way to the requests, and large documents cost memory once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hedgectl import store
from hedgectl.errors import InputError
from hedgectl.formats import detect
from hedgectl.ingest import ingest

OTHER_FILES = {
    "search hits": (
        '{"traces": [{"traceID": "a", "rootServiceName": "app", "startTimeUnixNano": "1", "durationMs": 9}]}',
        "/api/v2/traces/TRACE_ID",
    ),
    "traces without spans": (
        '{"data": [{"id": "x", "trace_id": "a", "project_id": "p", "start_time": "t", "spans": null}], "next_cursor": null}',
        "/spans",
    ),
    "CloudWatch statistics": (
        '{"Label": "InvocationLatency", "Datapoints": [{"SampleCount": 3.0, "Average": 812.0, "Unit": "Milliseconds"}]}',
        "invocation log",
    ),
    "an answer of Prometheus": (
        '{"status": "success", "data": {"resultType": "matrix", "result": [{"metric": {}, "values": [[1763632800, "0.9"]]}]}}',
        "log of the gateway",
    ),
    "averages a minute": ("time,avg_latency_ms,p95_latency_ms,total_requests\n2026-11-20T10:00:00Z,200,900,10\n", "one row a request"),
    "aiperf summary": ('{"aiperf_version": "1", "request_latency": {"unit": "ms", "avg": 8.1}}', "profile_export.jsonl"),
    "inference-perf summary": (
        '{"benchmark_time_seconds": 1.5, "load_summary": {"count": 3, "schedule_delay": {"mean": 0.1}}}',
        "per_request_lifecycle_metrics.json",
    ),
    "load tool's print": ("======= Serving Benchmark Result =======\nSuccessful requests: 60", "--save-detailed"),
    "triton statistics": ('{"model_stats": [{"name": "m", "inference_stats": {"success": {"count": 9}}}]}', "trace-config"),
    "envoy counters": ("cluster.llm.upstream_rq_total: 12\ncluster.llm.upstream_rq_retry: 0", "access log"),
    "answer headers": ("x-compute-time: 2.9\nx-queue-time: 187\nx-inference-time: 2748", "--json-output"),
    "slots": ('{"t": 1, "slots": [{"id": 0, "is_processing": false}]}', "timings{}"),
    "nginx error log": ("2026/11/02 18:55:14 [warn] 15#15: *1 upstream server temporarily disabled", "access log"),
    "envoy process log": ("[2026-11-02 19:06:24.220][23][warning][main] [source/a.cc:1] no limit", "access log"),
    "serve controller": ('{"levelname": "INFO", "component_name": "controller", "message": "starting"}', "replica_*.log"),
    "lengths only": ("TIMESTAMP,ContextTokens,GeneratedTokens\n2026-11-02 18:17:03.9,100,7", "start and the end"),
    "lengths only, as JSON": ('{"timestamp": 0, "input_length": 9, "output_length": 4, "hash_ids": [1]}', "start and the end"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER_FILES)
def test_what_stands_beside_requests_is_refused_with_the_way_to_them(name: str) -> None:
    text, way = OTHER_FILES[name]
    with pytest.raises(InputError) as caught:
        detect.detect(text.splitlines(), where="x")
    assert way in str(caught.value.hint), caught.value
    assert "no format fits" not in caught.value.what


N = 1500
DOCUMENTS: dict[str, Any] = {
    "guidellm": {
        "benchmarks": [
            {
                "requests": {
                    "successful": [
                        {"request_id": f"g{i}", "start_time": 1793e6 + i, "end_time": 1793e6 + i + 1, "first_token_time": 1793e6 + i + 0.25, "prompt_tokens": 7, "prompt": "w " * 200}
                        for i in range(N)
                    ],
                    "errored": [],
                    "incomplete": [],
                }
            }
        ]
    },
    "vllm_bench": {
        "date": "20261102-101112", "duration": 10.0, "num_prompts": N, "input_lens": [7] * N, "output_lens": [31] * N, "ttfts": [0.25] * N, "itls": [[0.025] * 30] * N,
        "start_times": [100.0 + i for i in range(N)], "errors": [""] * N,
    },
    "sglang_bench": {"input_lens": [7] * N, "output_lens": [31] * N, "ttfts": [0.25] * N, "itls": [[0.025] * 30] * N, "errors": [""] * N},
    "genai_perf": {
        "experiments": [
            {
                "experiment": {"mode": "request_rate", "value": 4},
                "requests": [
                    {"timestamp": 1793 * 10**15 + i, "response_timestamps": [1793 * 10**15 + i + 250_000_000, 1793 * 10**15 + i + 10**9], "response_outputs": [{"response": "w " * 200}] * 2}
                    for i in range(N)
                ],
            }
        ]
    },
}  # fmt: skip


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_record_of_thousands_of_requests_costs_its_memory_once(name: str, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(json.dumps(DOCUMENTS[name]), encoding="utf-8")
    with store.connect(None, memory_limit="200MB") as opened:
        found = ingest(opened, [str(path)])
        assert found["files"][0]["format"] == name
        rows = opened.con.execute("SELECT count(*), min(ttft_ns), max(e2e_ns) FROM attempt").fetchone()
    assert rows is not None
    assert rows == (N, 250_000_000, 1_000_000_000)
