"""Known pitfalls of hosted and AI gateways and of clouds, one test each, on single records.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
Kong
  tries hold starts, not lengths; zeros are unset; -1 wait                      -> test_kong_rows
Cloudflare
  rows stand for _sample_interval rows; 0 is unset                              -> test_wae_weights, test_wae_percentiles_by_weight
  steps are fallbacks; one document holds many rows                             -> test_cloudflare_steps
hosted gateways
  `latency` means four things                                                   -> test_latency_means_what_its_writer_says
  Portkey: response_time of streams ends at the headers; cents                  -> test_portkey_streams_and_cents
  Helicone: cost in 1e-9 dollars, zero id is not cached                         -> test_helicone_scales
  OpenRouter: failed providers are attempts, cancelled is censored              -> test_openrouter_attempts
  Bifrost: fallback rows join their parent, unfinished rows, tool time          -> test_bifrost_links
clouds
  Bedrock: latency in the body, cached tokens beside the input                  -> test_bedrock_body
  Azure: ticks of 100 ns                                                        -> test_azure_ticks_are_exact
  APIM: split messages repeat tokens                                            -> test_apim_tokens_once
  Vertex: thoughts beside candidates, no start                                  -> test_vertex_tokens
not tested: attempts a source does not log at all (LiteLLM later retries, Kong's last failed try of old versions), rows that
were never written (ALB best effort, full Cloudflare stores, Vertex sampling): nothing in the file shows them.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from format_rows import MS, attempts, first, one, read_text, rows, samples, view


# --- Kong -------------------------------------------------------------------------------------------------------------
def test_kong_rows() -> None:
    found = rows("kong_ai", read_text(samples("kong_ai")[0]))
    of = {(r["request_id"], r["attempt_no"]): r for r in found}
    assert (of["k2", 0]["e2e_ns"], of["k2", 0]["status"]) == (5011 * MS, "censored")
    assert of["k2", 1]["arrival_ns"] == of["k2", 0]["arrival_ns"] + 5011 * MS
    assert "ttft_ns" not in of["k2", 1]
    assert of["k3", 0]["cache_hit"]
    assert "replica" not in of["k3", 0]
    assert "headers_ns" not in of["k3", 0]
    assert not {"prompt_tokens", "completion_tokens", "cost"} & of["k4", 0].keys()
    assert of["k5", 0]["prompt_tokens"] == 700
    assert of["k1", 0]["e2e_ns"] == 1250 * MS


# --- Cloudflare -------------------------------------------------------------------------------------------------------
def test_wae_weights() -> None:
    row = one("cloudflare_wae", {**first("cloudflare_wae"), "_sample_interval": 10, "double2": 0, "double4": 0})
    assert (row["weight"], row["e2e_ns"], "ttft_ns" in row, "completion_tokens" in row) == (
        10.0,
        1250 * MS,
        False,
        False,
    )
    failed = one("cloudflare_wae", {**first("cloudflare_wae"), "blob3": "429", "double1": 0, "double2": 0})
    assert (failed["status"], "e2e_ns" in failed) == ("error", False)


def test_wae_percentiles_by_weight(tmp_path: Path) -> None:
    """One slow row that stands for 50 pulls the 95th percentile over 100 fast ones that stand for themselves."""
    from typer.testing import CliRunner

    from hedgectl.cli import app

    base = first("cloudflare_wae")
    log, db = tmp_path / "wae.jsonl", tmp_path / "w.duckdb"
    slow = [{**base, "double1": 9000, "double2": 0, "_sample_interval": 50}]
    fast = [
        {**base, "double1": 100 + i, "double2": 0, "timestamp": f"2026-03-02 08:{i // 60:02}:{i % 60:02}"}
        for i in range(100)
    ]
    log.write_text("\n".join(json.dumps(r) for r in slow + fast) + "\n")
    run = CliRunner()
    assert run.invoke(app, ["ingest", str(log), "--db", str(db)]).exit_code == 0
    done = run.invoke(app, ["breakdown", "--db", str(db), "-o", "json"])
    assert done.exit_code == 0, done.output
    e2e = json.loads(done.output)["groups"][0]["e2e_ms"]
    assert (e2e["n"], e2e["p95"]) == (101, 9000)
    # by rows it would have been one of the fast ones
    assert 100 < e2e["p50"] < 200


def test_cloudflare_steps() -> None:
    page = json.loads(read_text(next(p for p in samples("cloudflare_ai_gateway") if p.suffix == ".json")))
    found = attempts("cloudflare_ai_gateway", [json.dumps(page)])
    assert [(r["attempt_no"], r["cause"]) for r in found] == [(0, "primary"), (1, "retry")] + [(0, "primary")] * 3
    assert found[3]["status"] == "censored"
    assert "prompt_tokens" not in found[3]
    # success = false outweighs a status of 200
    assert found[4]["status"] == "error"
    assert "e2e_ns" not in found[4]
    empty = one("cloudflare_ai_gateway", {**page, "result": []})
    assert (empty["kind"], empty["reason"]) == ("not_request", "no_request_field")


# --- hosted gateways --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "changes", "ttft", "e2e"),
    [
        ("openrouter", {"latency": 310, "generation_time": 940}, 310, 1250),
        ("openrouter", {"latency": 900, "generation_time": 880, "streamed": False}, None, 900),
        ("vercel_ai_gateway", {"latency": 310, "generation_time": 1250}, 310, 1250),
        ("vercel_ai_gateway", {"latency": 1240, "generation_time": 1250, "streamed": False}, None, 1250),
        ("vercel_ai_gateway", {"latency": 0, "generation_time": 1250}, None, 1250),
        ("helicone", {"latency": 1250, "time_to_first_token": 310}, 310, 1250),
        ("bifrost", {"latency": 1250.5}, None, 1250.5),
    ],
)
def test_latency_means_what_its_writer_says(name: str, changes: dict[str, Any], ttft: float | None, e2e: float) -> None:
    record = first(name, "logs.jsonl" if name == "bifrost" else None)
    record = {"data": {**record["data"], **changes}} if "data" in record else {**record, **changes}
    row = one(name, record)
    assert (row.get("ttft_ns"), row["e2e_ns"]) == (None if ttft is None else ttft * MS, e2e * MS)


def test_portkey_streams_and_cents() -> None:
    base = first("portkey_log")
    whole = one("portkey_log", base)
    assert (whole["e2e_ns"], whole["cost"], whole["currency"]) == (1250 * MS, Decimal("0.00021"), "USD")
    stream = one("portkey_log", {**base, "request": {"body": {"model": "m", "stream": True}}})
    assert (stream.get("e2e_ns"), stream["headers_ns"], stream["note"]) == (None, 1250 * MS, "stream_without_length")
    record = one("portkey_metric", first("portkey_metric"))
    assert (record["e2e_ns"], record["headers_ns"], record["turn_id"], "cost" in record) == (
        1250 * MS,
        310 * MS,
        "walk-3",
        False,
    )
    assert (
        one("portkey_metric", {**first("portkey_metric"), "retry_success_count": "-1", "response_status_code": 503.0})[
            "cause"
        ]
        == "retry"
    )


def test_helicone_scales() -> None:
    base = first("helicone")
    assert one("helicone", base)["cost"] == Decimal("0.00021")
    assert one("helicone", base)["cache_hit"] is False
    hit = one("helicone", {**base, "cache_reference_id": "11111111-0000-4000-8000-000000000001"})
    assert (hit["cache_hit"], "ttft_ns" in hit, "replica" in hit) == (True, False, False)


def test_openrouter_attempts() -> None:
    found = [
        r
        for r in attempts("openrouter", read_text(samples("openrouter")[0]))
        if r["request_id"] in ("gen-02", "gen-04")
    ]
    assert view(found, "request_id", "attempt_no", "e2e_ns", "status", "replica") == [
        ("gen-02", 0, 5010 * MS, "error", "ep1"), ("gen-02", 1, 4090 * MS, "ok", "ep2"), ("gen-04", 0, 700 * MS, "censored", "ep1"),
    ]  # fmt: skip


def test_bifrost_links() -> None:
    logs = rows("bifrost", read_text(next(p for p in samples("bifrost") if p.name == "logs.jsonl")))
    fallback = [r for r in logs if r["request_id"] == "b-03"]
    assert view(fallback, "attempt_no", "cause", "status") == [(0, "primary", "censored"), (1, "retry", "ok")]
    assert [r["reason"] for r in logs if r["request_id"] == "b-07"] == ["unfinished"]
    tools = rows("bifrost", read_text(next(p for p in samples("bifrost") if p.name == "mcp_tool_logs.jsonl")))
    caller = next(r for r in logs if r["attempt_id"] == "b-06")
    assert (tools[0]["kind"], tools[0]["turn_id"]) == ("tool", caller["turn_id"])


# --- clouds -----------------------------------------------------------------------------------------------------------
def test_bedrock_body() -> None:
    found = {r["request_id"]: r for r in rows("bedrock_invocation", read_text(samples("bedrock_invocation")[0]))}
    assert (found["br-01"]["e2e_ns"], found["br-01"]["prompt_tokens"], found["br-01"]["cached_tokens"]) == (
        1250 * MS,
        1000,
        256,
    )
    assert (found["br-02"]["ttft_ns"], found["br-02"]["e2e_ns"], found["br-02"]["ttft_basis"]) == (
        310 * MS,
        1250 * MS,
        "first_byte",
    )
    assert "e2e_ns" not in found["br-03"]
    assert found["br-03"]["note"] == "no_latency_in_body"
    assert (found["br-04"]["error_kind"], found["br-05"]["status"]) == ("rate_limited", "censored")


def test_azure_ticks_are_exact() -> None:
    base = first("azure_openai")
    # one tick is 100 ns, beyond what a double holds at this size
    props = {**json.loads(base["properties"]), "requestTime": 639080361001012501, "responseTime": 639080361013512508}
    row = one("azure_openai", {**base, "properties": json.dumps(props)})
    assert (row["arrival_ns"], row["e2e_ns"]) == (1772439300_101250_100, 1_250_000_700)
    assert one("azure_openai", {**base, "properties": ""})["e2e_ns"] == 1250 * MS


def test_apim_tokens_once() -> None:
    base = first("azure_apim_llm")
    found = rows("azure_apim_llm", [json.dumps({**base, "SequenceNumber": n}) for n in range(3)])
    assert [r["kind"] for r in found] == ["attempt", "not_request", "not_request"]
    assert all("streamed" not in r and "e2e_ns" not in r for r in found)


def test_vertex_tokens() -> None:
    row = one("vertex_request_response", first("vertex_request_response"))
    assert (row["prompt_tokens"], row["cached_tokens"], row["completion_tokens"], row["reasoning_tokens"]) == (
        1000,
        256,
        155,
        64,
    )
    assert "arrival_ns" not in row
    assert "e2e_ns" not in row
