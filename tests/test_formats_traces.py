"""Trace stores: one agent turn gives one answer whatever store it is read from, and the traps of spans.

pitfall                                                  test
tools overlap and nest, a tool runs beside a call        test_one_turn_has_one_answer_in_every_store
ids in hex, base64, upper case; times text or number     the same test (every file spells them differently)
children before parents, a trace over several lines      the same test (otlp_genai/genai.jsonl)
a call that never ended, one that ended before it began  test_odd_spans
first token at the end, failure of no length, time-out   test_odd_spans
framework and SDK both trace one call                    test_a_call_traced_twice_counts_once
a trace download lists every observation twice           test_one_turn_has_one_answer_in_every_store (langfuse/trace_download.json)
the first chunk of a stream names the role only          the same test (mlflow_trace: the role leaves 250 ms before the first token)
cached input inside the prompt, or beside it (Anthropic) test_a_prompt_holds_what_came_from_the_cache
a session-wide trace id                                  test_a_trace_of_many_calls_is_many_requests
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from format_rows import attempts
from make_trace_samples import files
from trace_spans import EXPECTED_MS, TRACE

from hedgectl import decompose, ingest, sql, store

FILES = sorted(files())
WHOLE = [f for f in FILES if not f.endswith("openllmetry.jsonl")]


@contextmanager
def read(*names: str) -> Iterator[Any]:
    with store.connect(None) as memory:
        ingest.ingest(memory, [str(sql.samples_dir() / n) for n in names])
        yield memory.con, decompose.prepare(memory.con)


@pytest.mark.parametrize("name", FILES)
def test_samples_are_what_the_generator_writes(name: str) -> None:
    assert (sql.samples_dir() / Path(name)).read_text(encoding="utf-8") == files()[name]


@pytest.mark.parametrize("name", FILES)
def test_one_turn_has_one_answer_in_every_store(name: str) -> None:
    with read(name) as (con, prepared):
        names = ("wall_ns", "model_ns", "tool_wait_ns", "other_ns", "tool_ns", "tool_sum_ns", "calls", "tools")
        found = con.execute(f"SELECT {', '.join(names)} FROM turn WHERE turn_id = $1", [TRACE]).fetchall()
        assert len(found) == 1
        row = {
            k.removesuffix("_ns"): v // 1_000_000 if k.endswith("_ns") else v
            for k, v in zip(names, found[0], strict=True)
        }
        # OpenLLMetry calls a retriever a task: it lies inside its tool, so the union does not change
        wanted = EXPECTED_MS if name in WHOLE else EXPECTED_MS | {"tools": 3, "tool_sum": 4550}
        assert row == wanted
        assert row["wall"] == row["model"] + row["tool_wait"] + row["other"]
        calls = con.execute(
            "SELECT e2e_ns // 1000000, ttft_ns // 1000000, completion_tokens FROM request WHERE turn_id = $1 ORDER BY arrival_ns",
            [TRACE],
        ).fetchall()
        assert calls == [(1800, 400, 60), (1950, 900, 110)]
        assert any(n["code"] == "agent_turns" for n in prepared.notes)


@pytest.mark.parametrize("name", [f for f in FILES if f.rsplit("/")[-1] in ("genai.jsonl", "rest_spans.jsonl", "traces.jsonl", "blob_export.jsonl", "otel_traces.jsonl", "runs.jsonl", "traces.json")])  # fmt: skip
def test_odd_spans(name: str) -> None:
    with read(name) as (con, _):
        found = dict(
            con.execute(
                "SELECT attempt_id, {'s': status, 'k': error_kind, 'e': e2e_ns // 1000000, 't': ttft_ns} FROM attempt WHERE attempt_id LIKE 'b%'"
            ).fetchall()
        )
        assert found["b000000000000001"] == {"s": "censored", "k": "timeout", "e": 30000, "t": None}
        assert found["b000000000000002"] == {"s": "censored", "k": "unfinished", "e": None, "t": None}
        assert found["b000000000000003"] == {"s": "error", "k": "rate_limited", "e": None, "t": None}
        assert found["b000000000000004"] == {"s": "ok", "k": None, "e": 1000, "t": None}
        assert "b000000000000006" not in found


def test_a_call_traced_twice_counts_once() -> None:
    with read("otlp_genai/genai.jsonl") as (con, prepared):
        found = con.execute(
            "SELECT request_id, ttft_ns // 1000000 FROM request WHERE request_id LIKE 'd%' OR request_id = 'resp-0005'"
        ).fetchall()
        assert found == [("d000000000000001", 200)]
        assert any(n["code"] == "folded_spans" for n in prepared.notes)


def test_a_trace_of_many_calls_is_many_requests() -> None:
    with read("otlp_genai/genai.jsonl") as (con, _):
        assert con.execute("SELECT count(*), max(attempts) FROM request WHERE turn_id = $1", [TRACE]).fetchall() == [
            (2, 1)
        ]


@pytest.mark.parametrize(
    ("usage", "prompt"),
    [
        ({"prompt_tokens": 8000, "prompt_tokens_details": {"cached_tokens": 3000}}, 8000),
        ({"input": 5000, "input_cached_tokens": 3000}, 8000),
        ({"input": 5000, "cache_read_input_tokens": 3000, "cache_creation_input_tokens": 100}, 8100),
        ({"input": 200, "cache_read_input_tokens": 3000}, 3200),
        ({"input_tokens": 200, "cache_read_input_tokens": 3000}, 3200),
        ({"input_tokens": 8000, "cache_read_input_tokens": 3000}, 8000),
    ],
)
def test_a_prompt_holds_what_came_from_the_cache(usage: dict[str, Any], prompt: int) -> None:
    times = {"startTime": "2026-11-20T10:00:00.000Z", "endTime": "2026-11-20T10:00:02.000Z"}
    langfuse = {"id": "o", "traceId": "t", "parentObservationId": None, "type": "GENERATION", "usageDetails": usage}
    start = 1_795_000_000_000_000_000
    told = {"mlflow.spanType": "CHAT_MODEL", "mlflow.chat.tokenUsage": usage}
    span = {
        "trace_id": "t", "span_id": "s", "name": "c", "start_time_unix_nano": start, "end_time_unix_nano": start + 10**9,
        "attributes": {k: json.dumps(v) for k, v in told.items()},
    }  # fmt: skip
    for name, record in (("langfuse", langfuse | times), ("mlflow_trace", {"data": {"spans": [span]}})):
        (row,) = attempts(name, [json.dumps(record)])
        assert (row["prompt_tokens"], row["cached_tokens"]) == (prompt, 3000), name
