"""Known pitfalls of plain records, of a load generator, and of all formats alike, one test each.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
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
from format_rows import MS, Row, attempts, read_text, rows, samples

from hedgectl.formats import catalogue
from hedgectl.formats.sample import sample_of


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


@pytest.mark.parametrize("format_name", ["plain", "plain_units"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("streamed", True),
        ("tools_offered", True),
        ("cache_hit", True),
        ("stored_state", True),
        ("sticky_session", True),
        ("batch", True),
        ("n_choices", 4),
    ],
)
def test_what_rules_a_copy_out_is_read_by_our_own_name(format_name: str, name: str, value: object) -> None:
    e2e = {"e2e_ms": 1000} if format_name == "plain" else {"e2e": "1s"}
    (row,) = rows(
        format_name, [json.dumps({"ts": TS, "request_id": "q", "replica": "a", "status": 200, name: value, **e2e})]
    )
    assert row[name] == value


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
