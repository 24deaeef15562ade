"""Engines and load tools: one test for each pitfall of theirs, and the arithmetic that their own files obey.

pitfall                                                              test
response TTFT of vLLM leaves the queue out                           test_vllm_response_ttft_counts_the_queue
a milestone missing or negative is no measurement                    test_a_missing_or_absurd_milestone_is_unknown
an engine that dies answers 200 and then an error event              test_an_error_event_in_a_good_stream_is_an_error
vLLM: abandoned requests only in the text log, twice the same id     test_vllm_log_finds_the_abandoned
SGLang: two generations of names, negative queue, zeros              test_sglang_generations
SGLang: aborts with and without a status                             test_sglang_aborts
SGLang spans: prefill attribute holds the queue, ranks repeat        test_sglang_tree (goldens: retracted, other lines, abort)
TensorRT-LLM: null and zero marks, pair without context side         test_trtllm_marks
TGI: text durations; inference is not prefill                        test_tgi_units
Triton: idle wait of gRPC, cancels, queue drops, order of objects    test_triton_order_does_not_matter
llama.cpp: cache is not in prompt_n, log and response agree          test_llamacpp_log_and_response_agree
llama.cpp: task numbers start anew, unfinished requests              test_llamacpp_restart
Ollama: the time is the end, missing fields are zeros or unknown     test_ollama_times
Dynamo: ids beyond 2^63, compact rows, tools once                    test_dynamo
Ray Serve: a hung-up stream is logged 200                            test_ray_serve_hung_up
bench tools: zeros of failures, role chunk, client's own wait        test_bench_arithmetic
closed loops are marked                                              test_closed_loops
one file, two parts of one system                                    test_a_file_with_parts_is_read_by_the_whole
summaries instead of requests are refused with the flag              test_summaries_are_refused
"""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from format_rows import Row, attempts, read_text, rows, samples

from hedgectl.errors import InputError
from hedgectl.formats import detect

MS = 1_000_000
S = 1_000 * MS


def sample(name: str, file: str) -> str:
    return next(read_text(p) for p in samples(name) if p.name == file)


def lines(*records: dict[str, Any]) -> list[str]:
    return [json.dumps(r) for r in records]


def vllm(**metrics: float | None) -> str:
    base: dict[str, float | None] = {
        "queue_time_ms": 100.0,
        "time_to_first_token_ms": 50.0,
        "generation_time_ms": 300.0,
    }
    return json.dumps(
        {
            "id": "c",
            "object": "chat.completion",
            "created": 1795000000,
            "usage": {"completion_tokens": 4},
            "metrics": {**base, **metrics},
        }
    )


def test_vllm_response_ttft_counts_the_queue() -> None:
    (row,) = attempts("vllm_response", [vllm()])
    assert (row["queue_ns"], row["prefill_ns"], row["ttft_ns"], row["e2e_ns"]) == (
        100 * MS,
        50 * MS,
        150 * MS,
        450 * MS,
    )


@pytest.mark.parametrize("value", [None, -1.0, 1e12])
def test_a_missing_or_absurd_milestone_is_unknown(value: float | None) -> None:
    (row,) = attempts("vllm_response", [vllm(queue_time_ms=value)])
    assert row.keys() & {"queue_ns", "ttft_ns", "e2e_ns"} == set()
    assert row["prefill_ns"] == 50 * MS


def test_an_error_event_in_a_good_stream_is_an_error() -> None:
    (row,) = attempts(
        "vllm_response",
        lines(
            {"status": "ok", "stream": True, "chunks": [{"data": {"choices": []}}, {"data": {"error": {"code": 500}}}]}
        ),
    )
    assert (row["status"], row["http_status"]) == ("error", 500)
    assert "e2e_ns" not in row


def test_vllm_log_finds_the_abandoned() -> None:
    found = attempts("vllm_log", sample("vllm_log", "server.log"))
    twice = [r for r in found if r["request_id"] == "chatcmpl-b"]
    assert [r["status"] for r in twice] == ["censored", "censored"]
    assert [r.get("e2e_ns") for r in twice] == [7 * S, None], "within one second a duration is unknown"
    assert not any("arrival_ns" in r for r in found), "the log has no year"


def by_id(name: str, text: str) -> dict[str, Row]:
    return {r["request_id"]: r for r in attempts(name, text)}


def test_sglang_generations() -> None:
    export = by_id("sglang_export", sample("sglang_export", "sglang-request-metrics-20261119_14.log"))
    log = by_id("sglang_requests", sample("sglang_requests", "host-a_0.log"))
    assert export.keys() == log.keys()
    for key, row in export.items():
        for column in (
            "e2e_ns",
            "ttft_ns",
            "queue_ns",
            "prefill_ns",
            "decode_ns",
            "prompt_tokens",
            "cached_tokens",
            "status",
        ):
            assert row.get(column) == log[key].get(column), (key, column)
        parts = [row.get(f"{p}_ns", 0) for p in ("queue", "prefill", "decode")]
        assert sum(parts) <= row["e2e_ns"] + MS
    assert "queue_ns" not in export["sg004"], "a negative queue is unknown"
    assert "queue_ns" not in export["sg008"], "a zero that was never written is unknown"
    assert export["sg005"]["prefill_ns"] == 80 * MS


@pytest.mark.parametrize(
    ("reason", "status", "http"),
    [({"type": "abort"}, "censored", None), ({"type": "abort", "status_code": 503}, "error", 503), ({"type": "abort", "status_code": 499}, "censored", 499),
     ({"type": "stop"}, "ok", None), (None, "ok", None), ("stop", "ok", None)],
)  # fmt: skip
def test_sglang_aborts(reason: Any, status: str, http: int | None) -> None:
    (row,) = attempts(
        "sglang_export", lines({"id": "a", "request_parameters": "{}", "finish_reason": reason, "e2e_latency": 0.5})
    )
    assert (row["status"], row.get("http_status")) == (status, http)


def test_sglang_tree() -> None:
    text = sample("sglang_otlp", "spans.otlp.jsonl").splitlines()
    wanted = {
        r["request_id"]: (r.get("queue_ns"), r.get("prefill_ns"), r.get("decode_ns"))
        for r in attempts("sglang_otlp", text)
    }
    assert wanted["3f0b6c1e9d5a"][:2] == (round(183.5 * MS), round(209.75 * MS)), "the longest rank, not the sum"
    shuffled = random.Random(1).sample(text, len(text))
    assert {
        r["request_id"]: (r.get("queue_ns"), r.get("prefill_ns"), r.get("decode_ns"))
        for r in attempts("sglang_otlp", shuffled)
    } == wanted


def test_trtllm_marks() -> None:
    marks = {
        "server_arrival_time": None,
        "arrival_time": 100.0,
        "first_scheduled_time": 0.0,
        "first_token_time": 100.5,
        "last_token_time": 102.0,
    }
    (row,) = attempts("trtllm_perf", lines({"request_id": 1, "perf_metrics": {"timing_metrics": marks}}))
    assert (row["e2e_ns"], row["ttft_ns"], row["decode_ns"]) == (2 * S, 500 * MS, 1500 * MS)
    assert row.keys() & {"queue_ns", "prefill_ns", "arrival_ns", "request_id"} == set(), (
        "engine counters are no ids, its clock no time of day"
    )


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2.5s", 2_500_000_000),
        ("187.1ms", 187_100_000),
        ("812.44\u00b5s", 812_440),
        ("301ns", 301),
        ("1m2.5s", 62_500_000_000),
    ],
)
def test_tgi_units(text: str, ns: int) -> None:
    span = {"total_time": text, "queue_time": "0ns", "inference_time": text, "time_per_token": text, "name": "generate"}
    (row,) = attempts(
        "tgi",
        lines(
            {
                "timestamp": "2026-11-19T14:00:00Z",
                "level": "INFO",
                "message": "Success",
                "target": "text_generation_router",
                "span": span,
            }
        ),
    )
    assert (row["e2e_ns"], row["completion_tokens"]) == (ns, 1)
    assert row.keys() & {"ttft_ns", "prefill_ns", "decode_ns"} == set()


def test_triton_order_does_not_matter() -> None:
    events = json.loads(sample("triton_trace", "trace.json"))
    wanted = {
        (r.get("request_id"), r["e2e_ns"], r.get("queue_ns"), r["status"])
        for r in attempts("triton_trace", lines(*events))
    }
    for seed in range(3):
        shuffled = random.Random(seed).sample(events, len(events))
        assert {
            (r.get("request_id"), r["e2e_ns"], r.get("queue_ns"), r["status"])
            for r in attempts("triton_trace", lines(*shuffled))
        } == wanted
    assert all(e2e < 2 * S for _, e2e, _, _ in wanted), "the idle wait of gRPC is not in it"


def test_llamacpp_log_and_response_agree() -> None:
    said = {
        r["attempt_id"]: r
        for r in attempts("llamacpp_response", sample("llamacpp_response", "bodies.jsonl"))
        if "attempt_id" in r
    }
    logged = {
        r["attempt_id"]: r
        for r in attempts("llamacpp_slots", sample("llamacpp_slots", "server.log"))
        if "attempt_id" in r
    }
    assert said.keys() == logged.keys()
    for key, row in said.items():
        for column in ("prompt_tokens", "cached_tokens", "completion_tokens"):
            assert row[column] == logged[key][column]
        assert 0 <= logged[key]["e2e_ns"] - row["e2e_ns"] < 5 * MS


def test_llamacpp_restart() -> None:
    log = sample("llamacpp_slots", "server.log").splitlines()
    once, twice = attempts("llamacpp_slots", log), attempts("llamacpp_slots", log + log)
    # the request that was running when the log ended gets its end from nowhere
    assert len(twice) == 2 * len(once)
    assert sorted(r.get("e2e_ns", 0) for r in twice) == sorted([r.get("e2e_ns", 0) for r in once] * 2)


def test_ollama_times() -> None:
    end = {
        "model": "m",
        "created_at": "2026-11-19T14:00:10Z",
        "done": True,
        "total_duration": 4 * S,
        "load_duration": S,
    }
    (row,) = attempts("ollama", lines(end))
    assert row["arrival_ns"] == 1795096806 * S
    assert row["completion_tokens"] == 0
    assert row.keys() & {"prompt_tokens", "queue_ns", "ttft_ns", "decode_ns"} == set()
    assert attempts("ollama", lines({**end, "done": False}, {**end, "done_reason": "load"})) == []


def test_dynamo() -> None:
    found = rows("dynamo_trace", sample("dynamo_trace", "trace.000000.jsonl"))
    assert [r["tool_names"] for r in found if r["kind"] == "tool"] == ["web_search", "h5f2"], (
        "a start event is no second call"
    )
    assert {r["replica"] for r in found if "replica" in r} == {"17587890123456789012/dp0", "17587890123456789012/dp1"}
    compact = next(r for r in found if r.get("request_id") == "dyn-2")
    assert (compact["kind"], compact["e2e_ns"], compact["prompt_tokens"]) == ("attempt", 1900 * MS, 900)
    assert len({r["request_id"] for r in found if r["kind"] == "attempt"}) == 5, "a session is not a request"


def test_ray_serve_hung_up() -> None:
    found = by_id("ray_serve", sample("ray_serve", "proxy.log"))
    assert (found["a-2"]["status"], found["a-2"]["http_status"], found["a-2"]["error_kind"]) == (
        "censored",
        200,
        "client_gone",
    )
    assert found["a-1"]["status"] == "ok"
    assert found["a-4"]["status"] == "error"
    assert {k: v.get("replica") for k, v in found.items() if k in ("a-1", "a-2", "a-3")} == {
        "a-1": "r1",
        "a-2": "r2",
        "a-3": None,
    }


def bench(**more: Any) -> str:
    base = {"backend": "openai-chat", "date": "20261119-140010", "num_prompts": 3, "duration": 10.0, "max_concurrency": 2,
            "input_lens": [10, 20, 30], "output_lens": [2, 2, 0], "ttfts": [0.1, 0.2, 0.0], "itls": [[0.01, 0.05], [0.0, 0.3], []],
            "start_times": [50.0, 51.5, 52.0], "queue_times": [0.0, 1.25, 0.0], "errors": ["", "", "Bad Gateway"]}  # fmt: skip
    return json.dumps({**base, **more})


def test_bench_arithmetic() -> None:
    first, second, failed = attempts("vllm_bench", [bench()])
    assert (first["ttft_ns"], first["e2e_ns"]) == (110 * MS, 160 * MS), "the role chunk is not the first token"
    assert (second["ttft_ns"], second["e2e_ns"]) == (1450 * MS, 1750 * MS), "the client's own wait belongs to the user"
    assert second["arrival_ns"] - first["arrival_ns"] == 250 * MS, "planned send"
    assert failed["status"] == "error"
    assert failed.keys() & {"e2e_ns", "ttft_ns", "completion_tokens"} == set()
    plain = attempts("vllm_bench", [bench(backend="vllm")])[0]
    assert plain["ttft_ns"] == 100 * MS
    late = attempts("vllm_bench", [bench(errors=["", "", "asyncio.TimeoutError: "])])[2]
    assert (late["status"], late["error_kind"]) == ("censored", "timeout")


@pytest.mark.parametrize(
    ("deltas", "first_ms"),
    [
        ([{"role": "assistant", "content": ""}, {"content": "a"}, {"content": "b"}], 60),
        ([{"role": "assistant", "content": None}, {"reasoning_content": "a"}, {"content": "b"}], 60),
        ([{"role": "assistant"}, {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": ""}}]}, {}], 60),
        ([{"role": "assistant", "content": "a"}, {"content": "b"}, {"content": "c"}], 20),
        ([{}, {}, {}], 20),
    ],
)
def test_genai_perf_takes_no_role_for_a_token(deltas: list[dict[str, Any]], first_ms: int) -> None:
    said = [{"response": "data: " + json.dumps({"choices": [{"index": 0, "delta": d}]})} for d in deltas]
    start = 1_795_000_000_000_000_000
    one = {
        "timestamp": start,
        "response_timestamps": [start + t * MS for t in (10, 20, 60, 100, 101)],
        "response_outputs": [{"response": ""}, *said, {"response": "data: [DONE]"}],
    }
    (row,) = attempts("genai_perf", [json.dumps({"experiments": [{"experiment": {}, "requests": [one]}]})])
    assert (row["ttft_ns"], row["e2e_ns"]) == (first_ms * MS, 100 * MS)


@pytest.mark.parametrize(("limit", "closed"), [(2, True), (2.0, True), ("2", True), (None, False)])
def test_closed_loops(limit: Any, closed: bool) -> None:
    assert {r["closed_loop"] for r in attempts("vllm_bench", [bench(max_concurrency=limit)])} == {closed}


def test_a_file_with_parts_is_read_by_the_whole() -> None:
    mixed = [
        *sample("ray_serve", "proxy.log").splitlines()[:9],
        *sample("ray_serve_replica", "replica_llm_Tiny_r1.log").splitlines(),
    ]
    assert detect.detect(mixed).format.name == "ray_serve"
    both = [json.dumps({**json.loads(mixed[1]), "startTime": 1, "endTime": 2, "call_type": "x"})]
    with pytest.raises(Exception, match="more than one format"):
        detect.detect(both)


@pytest.mark.parametrize(
    ("text", "flag"),
    [
        (
            json.dumps(
                {"backend": "sglang", "request_rate": 1.0, "mean_ttft_ms": 1, "median_ttft_ms": 1, "mean_itl_ms": 2}
            ),
            "--output-details",
        ),
        (json.dumps({"num_prompts": 9, "mean_ttft_ms": 1, "median_ttft_ms": 1, "std_ttft_ms": 2}), "--save-detailed"),
        ("INFO Engine 000: Avg prompt throughput: 12.5 tokens/s, Running: 3 reqs", "--otlp-traces-endpoint"),
        ("MLPerf Results Summary\n=====\nScenario : Server", "enable_trace"),
    ],
)
def test_summaries_are_refused(text: str, flag: str) -> None:
    with pytest.raises(InputError) as caught:
        detect.detect(text.splitlines())
    assert "summary" in caught.value.what
    assert flag in str(caught.value.hint)


def test_requests_of_many_records_are_no_sign_of_a_wrong_log() -> None:
    from hedgectl import store
    from hedgectl.ingest import ingest

    for name, file in (("triton_trace", "trace.json"), ("llamacpp_slots", "server.log")):
        path = next(p for p in samples(name) if p.name == file)
        document = ingest(
            store.connect(None), [str(path)], format=None, map_file=None, tz=None, max_reject=None, progress=None
        )
        assert document["files"][0]["format"] == name
        assert "mostly_not_requests" not in {n["code"] for n in document["notes"]}
