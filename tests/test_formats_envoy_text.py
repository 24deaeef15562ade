"""Known pitfalls of Envoy's text formats, its upstream log and its AI gateway, one test each, on single records.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
  flags on good rows; code 0; streams cut (text formats)                        -> test_envoy_text_flags
  the service time includes failed attempts: no first token from it             -> test_envoy_text_has_no_first_token
  upstream log: UT with 200 is good, code 0 is a loser, UF is refused           -> test_envoy_upstream_states
  upstream log: not numbered by the shared header                               -> test_envoy_upstream_is_numbered_by_start
  upstream log: 200 without an end                                              -> test_envoy_upstream_cut_stream
Envoy AI Gateway
  first token restarts with a retry; errors lose fields; MCP rows               -> test_ai_gateway_rows
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import MS, attempts, first, one


def envoy(code: int, flags: str, total: int = 1250, service: str = "310") -> str:
    return f'[2026-03-02T08:15:00.101Z] "POST /v1 HTTP/2" {code} {flags} 1930 8421 {total} {service} "-" "x" "id-1" "h" "10.0.0.1:80"'


@pytest.mark.parametrize(
    ("code", "flags", "status", "kind"),
    [
        (200, "-", "ok", None), (200, "URX", "ok", None), (200, "UO", "ok", None), (200, "UT,URX", "censored", "timeout"), (200, "DC", "censored", "client_gone"),
        (200, "UC", "error", "upstream"), (0, "DC", "censored", "client_gone"), (0, "-", "censored", "client_gone"), (503, "UO,UF", "error", "upstream"),
        (504, "UT", "censored", "timeout"), (429, "RL", "error", "rate_limited"),
    ],
)  # fmt: skip
def test_envoy_text_flags(code: int, flags: str, status: str, kind: str | None) -> None:
    istio = envoy(code, flags).replace(f" {flags} 1930", f' {flags} via_upstream - "-" 1930') + " cl 1:1 2:2 3:3 - rt"
    for text in (envoy(code, flags), istio):
        row = one("envoy_text", text)
        assert (row["status"], row.get("error_kind"), row["e2e_ns"]) == (status, kind, 1250 * MS)


def test_envoy_text_has_no_first_token() -> None:
    row = one("envoy_text", envoy(200, "-"))
    assert (row["headers_ns"], "ttft_ns" in row, "attempt_no" in row) == (310 * MS, False, False)
    assert "e2e_ns" not in one("envoy_text", envoy(429, "RL", 0, "-"))


def upstream(**changes: Any) -> dict[str, Any]:
    return {**first("envoy_upstream"), **changes}


GIVEN_UP = {
    "response_code": 0,
    "cd_to_us_rx_beg": None,
    "cd_to_us_rx_body_beg": None,
    "cd_us_rx": None,
    "response_duration": None,
}


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"response_flags": "UT"}, "ok", None),
        ({**GIVEN_UP, "response_flags": "UT"}, "censored", "timeout"),
        ({**GIVEN_UP, "response_flags": "-"}, "censored", "client_gone"),
        ({**GIVEN_UP, "response_flags": "UF", "duration": 0}, "error", "upstream"),
        ({"response_code": 500}, "error", "upstream"),
    ],
)
def test_envoy_upstream_states(changes: dict[str, Any], status: str, kind: str | None) -> None:
    row = one("envoy_upstream", upstream(**changes))
    assert (row["status"], row.get("error_kind")) == (status, kind)
    assert ("e2e_ns" in row) == (changes.get("duration") != 0)


def test_envoy_upstream_is_numbered_by_start() -> None:
    late = upstream(start_epoch="1772439302.501000", attempt_header="2")
    early = upstream(start_epoch="1772439302.101000", attempt_header="2")
    found = attempts("envoy_upstream", [json.dumps(late), json.dumps(early)])
    assert all("attempt_no" not in r and "cause" not in r for r in found)
    assert found[0]["arrival_ns"] - found[1]["arrival_ns"] == 400 * MS


def test_envoy_upstream_cut_stream() -> None:
    assert one("envoy_upstream", upstream(cd_us_rx=None, duration=689))["status"] == "censored"
    unlogged = upstream()
    del unlogged["cd_us_rx"]
    row = one("envoy_upstream", unlogged)
    assert (row["status"], row["note"]) == ("ok", "end_unlogged")
    # where empty values are left out, the other rows show that it is logged
    found = attempts("envoy_upstream", [json.dumps(unlogged), json.dumps(upstream())])
    assert [(r["status"], r.get("note")) for r in found] == [("censored", None), ("ok", None)]


@pytest.mark.parametrize(
    ("details", "status", "kind"),
    [
        ("via_upstream", "ok", None),
        ("downstream_remote_disconnect", "censored", "client_gone"),
        ("stream_idle_timeout", "censored", "timeout"),
        ("upstream_reset_after_response_started{remote_reset}", "error", "upstream"),
    ],
)
def test_envoy_json_without_flags_is_told_by_its_details(details: str, status: str, kind: str | None) -> None:
    record = first("envoy_json") | {"response_code": 200, "response_code_details": details}
    del record["response_flags"]
    row = one("envoy_json", record)
    assert (row["status"], row.get("error_kind")) == (status, kind)


def test_ai_gateway_rows() -> None:
    base = first("envoy_ai_gateway")
    again = one("envoy_ai_gateway", {**base, "upstream_request_attempt_count": 2})
    assert ("ttft_ns" in again, again["note"]) == (False, "ttft_of_last_attempt")
    failed = one(
        "envoy_ai_gateway",
        {**base, "response_code": 400, "gen_ai.usage.input_tokens": None, "gen_ai.provider.name": None},
    )
    assert (failed["status"], failed["replica"], failed.get("prompt_tokens")) == ("error", "10.9.0.11:8000", None)
    tool = one("envoy_ai_gateway", {**base, "mcp.tool.name": "search", "token_latency_ttft": None})
    assert (tool["kind"], tool["tool_names"], tool["turn_id"], tool["e2e_ns"]) == (
        "tool",
        "search",
        "walk-3",
        1250 * MS,
    )
