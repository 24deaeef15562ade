"""Known pitfalls of proxy and gateway logs, one test each, on single records.

pitfall                                                                         -> test
------------------------------------------------------------------------------------------------------------------------
nginx
  lists of attempts, ' : ' between groups, '-' inside them                      -> test_nginx_lists_are_attempts
  the name of a group stands for an address, also inside a list                 -> test_nginx_group_name_is_no_attempt
  text with bare lists, JSON with bare lists say the same as quoted JSON        -> test_nginx_spellings_agree
  the time is that of the end, in any zone                                      -> test_nginx_start_is_end_less_duration
  499 before the headers, 200 without completion in mid-stream                  -> test_nginx_caller_left
  header time of a whole answer is no first token; without a type neither       -> test_nginx_first_byte_needs_a_stream
  a slow upload is in request_time alone                                        -> test_nginx_upload
  internal redirects (307 : 200) are no retries                                 -> test_nginx_internal_redirect
  plain combined has no duration                                                -> test_nginx_combined_has_no_duration
HAProxy
  Tw holds failed attempts                                                      -> test_haproxy_queue_time_with_retries
  -1 stages, timers below -1                                                    -> test_haproxy_stages_never_reached
  + before totals (logasap) and retries (redispatch)                            -> test_haproxy_plus_signs
  sD with 200, CD, CH with a status of its own, CQ, sQ                          -> test_haproxy_termination_states
  captures shift fields                                                         -> test_haproxy_captures_may_be_missing
  local time without a zone                                                     -> test_haproxy_local_time
  lines that are no traffic                                                     -> test_haproxy_other_lines
  JSON that is not valid (+1), syslog in front, idle time before a request      -> test_haproxy_json_shapes
Envoy
  flags on good rows; code 0; streams cut (text formats)                        -> test_envoy_text_flags
  the service time includes failed attempts: no first token from it             -> test_envoy_text_has_no_first_token
  upstream log: UT with 200 is good, code 0 is a loser, UF is refused           -> test_envoy_upstream_states
  upstream log: not numbered by the shared header                               -> test_envoy_upstream_is_numbered_by_start
  upstream log: 200 without an end                                              -> test_envoy_upstream_cut_stream
Envoy AI Gateway
  first token restarts with a retry; errors lose fields; MCP rows               -> test_ai_gateway_rows
LiteLLM SpendLogs
  first token at the end; failures of no length; session ids; cache hits        -> test_spendlogs_doubtful_rows
  naive times are UTC under every --tz                                          -> test_spendlogs_naive_is_utc
  billed attempts have the length of the whole request                          -> test_spendlogs_billed_attempts
  metadata is text in CSV and an object in REST                                 -> test_spendlogs_csv_and_rest_agree
Kong
  tries hold starts, not lengths; zeros are unset; -1 wait                      -> test_kong_rows
Traefik
  Overhead holds the failed attempts                                            -> test_traefik_retry
ALB
  good answers have no length; -1; 460; a shared trace id                       -> test_alb_rows
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
from format_rows import Row, attempts, read_text, rows, samples

MS = 1_000_000


def first(name: str, file: str | None = None) -> dict[str, Any]:
    """The first record of a format's sample, to be changed."""
    path = next(p for p in samples(name) if file is None or p.name == file)
    record: dict[str, Any] = json.loads(read_text(path).splitlines()[0])
    return record


def one(name: str, record: dict[str, Any] | str, **options: Any) -> Row:
    found = rows(name, [record if isinstance(record, str) else json.dumps(record)], **options)
    assert len(found) == 1
    return found[0]


def view(found: list[Row], *keys: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.get(k) for k in keys) for r in found)


# --- nginx ------------------------------------------------------------------------------------------------------------
def nginx(**changes: Any) -> dict[str, Any]:
    return {**first("nginx_json"), **changes}


LISTS = {
    "upstream_addr": "10.0.0.1:80, 10.0.0.2:80 : 10.0.1.1:80", "upstream_status": "504, 500 : 200", "upstream_connect_time": "0.000, 0.001 : 0.001",
    "upstream_header_time": "-, 0.040 : 0.300", "upstream_response_time": "3.000, 0.040 : 0.900", "request_time": "3.940", "msec": "1772439310.000",
}  # fmt: skip


def test_nginx_lists_are_attempts() -> None:
    found = attempts("nginx_json", [json.dumps(nginx(**LISTS))])
    start = 1772439306_060 * MS
    assert view(found, "attempt_no", "arrival_ns", "e2e_ns", "status", "replica", "won") == [
        (0, start, 3000 * MS, "censored", "10.0.0.1:80", False),
        (1, start + 3000 * MS, 40 * MS, "error", "10.0.0.2:80", False),
        (2, start + 3040 * MS, 900 * MS, "ok", "10.0.1.1:80", True),
    ]
    assert [r["ttft_ns"] for r in found if "ttft_ns" in r] == [300 * MS]


@pytest.mark.parametrize(
    ("addr", "status", "last", "replicas"),
    [
        ("pool", "502", "0.000", [None]),
        ("pool : 10.0.0.1:80", "502 : 200", "0.000 : 0.900", ["10.0.0.1:80"]),
        ("10.0.0.1:80, pool : 10.0.0.2:80", "500, 502 : 200", "0.010, 0.000 : 0.900", ["10.0.0.1:80", "10.0.0.2:80"]),
        ("10.0.0.1:80, pool", "504, 502", "3.000, 0.000", ["10.0.0.1:80"]),
    ],
)
def test_nginx_group_name_is_no_attempt(addr: str, status: str, last: str, replicas: list[str | None]) -> None:
    record = nginx(
        upstream_addr=addr,
        upstream_status=status,
        upstream_response_time=last,
        upstream_header_time="-",
        status=status[-3:],
    )
    found = attempts("nginx_json", [json.dumps(record)])
    assert [r.get("replica") for r in sorted(found, key=lambda r: int(r["attempt_no"]))] == replicas


def test_nginx_spellings_agree() -> None:
    log = '192.0.2.1 - - [02/Mar/2026:09:15:10 +0100] "POST /v1 HTTP/1.1" 200 9 "-" "x" '
    quoted = (
        log + 'rt=3.940 uht="-, 0.040 : 0.300" urt="3.000, 0.040 : 0.900" ua="10.0.0.1:80, 10.0.0.2:80 : 10.0.1.1:80"'
    )
    json_bare = '{"t":1772439310.000,"status":200,"rt":3.940,"uht":-, 0.040 : 0.300,"urt":3.000, 0.040 : 0.900}'
    expected = view(attempts("nginx_json", [json.dumps(nginx(**LISTS))]), "attempt_no", "arrival_ns", "e2e_ns")
    for text in (quoted, quoted.replace('="', "=").replace('" u', " u")[:-1], json_bare):
        assert view(attempts("nginx_text", [text]), "attempt_no", "arrival_ns", "e2e_ns") == expected


def test_nginx_start_is_end_less_duration() -> None:
    iso = nginx(time_iso8601="2026-03-02T09:15:10+01:00", msec="", request_time="0.250", upstream_response_time="0.250")
    clf = '192.0.2.1 - - [02/Mar/2026:00:15:10 -0800] "POST /v1 HTTP/1.1" 200 9 "-" "x" rt=0.250'
    assert one("nginx_json", iso)["arrival_ns"] == one("nginx_text", clf)["arrival_ns"] == 1772439309_750 * MS


def test_nginx_caller_left() -> None:
    before = one(
        "nginx_json", nginx(status="499", upstream_status="-", upstream_header_time="-", request_completion="")
    )
    during = one("nginx_json", nginx(request_completion=""))
    assert [(r["status"], r["error_kind"], r.get("note")) for r in (before, during)] == [
        ("censored", "client_gone", None), ("censored", "client_gone", "cut_answer"),
    ]  # fmt: skip
    unlogged = nginx()
    del unlogged["request_completion"]
    assert one("nginx_json", unlogged)["status"] == "ok"


@pytest.mark.parametrize(
    ("content_type", "basis"),
    [("text/event-stream; charset=utf-8", "first_byte"), ("application/json", None), ("", None)],
)
def test_nginx_first_byte_needs_a_stream(content_type: str, basis: str | None) -> None:
    row = one("nginx_json", nginx(content_type=content_type))
    assert (row.get("ttft_basis"), row["headers_ns"]) == (basis, 310 * MS)


def test_nginx_upload() -> None:
    big = one("nginx_json", nginx(request_length="1048900", request_time="1.800"))
    assert (big["e2e_ns"], big["ttft_ns"]) == (1800 * MS, (310 + 1800 - 1249) * MS)
    # a small body was there at once: the rest is a slow reader
    assert one("nginx_json", nginx(request_time="1.800"))["ttft_ns"] == 310 * MS


def test_nginx_internal_redirect() -> None:
    row = one(
        "nginx_json",
        nginx(
            upstream_addr="10.0.9.1:80 : 10.0.0.1:80",
            upstream_status="307 : 200",
            upstream_header_time="0.010 : 0.300",
            upstream_response_time="0.010 : 1.240",
        ),
    )
    assert (row["attempt_no"], row["replica"], row["e2e_ns"], row["ttft_ns"]) == (0, "10.0.0.1:80", 1250 * MS, 310 * MS)


def test_nginx_combined_has_no_duration() -> None:
    row = one("nginx_text", '192.0.2.1 - - [02/Mar/2026:09:15:10 +0100] "POST /v1 HTTP/1.1" 200 9 "-" "x"')
    assert (row["kind"], row["note"], row.get("e2e_ns"), row.get("arrival_ns")) == (
        "attempt",
        "no_duration",
        None,
        None,
    )


# --- HAProxy ----------------------------------------------------------------------------------------------------------
def haproxy(
    timers: str,
    state: str = "----",
    status: int = 200,
    retries: str = "0",
    server: str = "s1",
    captures: str = "",
    sent: str = "900",
) -> str:
    return (
        f"192.0.2.7:41001 [02/Mar/2026:09:15:00.100] in be/{server} {timers} {status} {sent} - - {state} 1/1/1/1/{retries} 0/0 "
        f'{captures}"POST /v1/chat HTTP/1.1"'
    )


def test_haproxy_queue_time_with_retries() -> None:
    assert one("haproxy_httplog", haproxy("1/300/2/500/1250"))["queue_ns"] == 300 * MS
    found = attempts("haproxy_httplog", [haproxy("0/4001/1/271/5435", retries="+1")])
    assert all("queue_ns" not in r for r in found)
    assert view(found, "attempt_no", "e2e_ns", "status", "replica") == [
        (0, 4002 * MS, "error", None),
        (1, 1433 * MS, "ok", "s1"),
    ]
    # of several failed attempts the parts are not known
    found = attempts("haproxy_httplog", [haproxy("0/4001/1/271/5435", retries="2")])
    assert [r.get("e2e_ns") for r in sorted(found, key=lambda r: int(r["attempt_no"]))] == [None, None, 1433 * MS]


def test_haproxy_stages_never_reached() -> None:
    row = one("haproxy_httplog", haproxy("0/111/-111/-1/111", "SC--", 503))
    assert (row["e2e_ns"], row["queue_ns"], row.get("headers_ns"), row["status"]) == (111 * MS, 111 * MS, None, "error")


def test_haproxy_plus_signs() -> None:
    row = one("haproxy_httplog", haproxy("1/0/1/500/+502", sent="+120"))
    assert (row.get("e2e_ns"), row["headers_ns"], row.get("response_bytes")) == (None, 502 * MS, None)
    assert "logged_at_headers" in row["note"]


@pytest.mark.parametrize(
    ("timers", "state", "code", "server", "status", "kind", "told"),
    [
        ("0/0/0/2/4002", "sD--", 200, "s1", "censored", "timeout", 200),
        ("0/0/0/99/306", "CD--", 200, "s1", "censored", "client_gone", 200),
        ("0/0/0/-1/700", "CH--", 400, "s1", "censored", "client_gone", None),
        ("0/150/-1/-1/150", "CQ--", -1, "<NOSRV>", "censored", "client_gone", None),
        ("0/2000/-1/-1/2001", "sQ--", 503, "<NOSRV>", "censored", "timeout", 503),
        ("0/0/1/-1/60003", "sH--", 504, "s1", "censored", "timeout", 504),
        ("0/0/0/45/900", "SD--", 200, "s1", "error", "upstream", 200),
        ("0/0/0/3/3", "----", 429, "s1", "error", "rate_limited", 429),
        ("0/0/0/3/9", "LR--", 200, "s1", "ok", None, 200),
    ],
)
def test_haproxy_termination_states(
    timers: str, state: str, code: int, server: str, status: str, kind: str | None, told: int | None
) -> None:
    row = one("haproxy_httplog", haproxy(timers, state, code, server=server))
    assert (row["status"], row.get("error_kind"), row.get("http_status")) == (status, kind, told)
    assert row.get("replica") == (None if server == "<NOSRV>" else server)


@pytest.mark.parametrize(("cookie", "sticky"), [("V", True), ("N", False), ("D", False), ("U", False), ("-", None)])
def test_haproxy_sessions_kept_by_a_cookie(cookie: str, sticky: bool | None) -> None:
    state = f"--{cookie}-"
    assert one("haproxy_httplog", haproxy("0/0/0/310/1250", state)).get("sticky_session") is sticky
    assert one("haproxy_json", {**first("haproxy_json"), "term": state}).get("sticky_session") is sticky
    # the two characters of a TCP log say nothing of cookies
    assert "sticky_session" not in one("haproxy_httplog", haproxy("0/0/0/310/1250", "--"))


def test_haproxy_captures_may_be_missing() -> None:
    key = "7d1f3c52-0a41-4b52-9c11-000000000001"
    both = one("haproxy_httplog", haproxy("0/0/0/310/1250", captures="{" + key + "|a|b} {1|text/event-stream} "))
    assert (both["request_id"], both["streamed"], both["ttft_ns"], both["ttft_basis"]) == (
        key,
        True,
        310 * MS,
        "first_byte",
    )
    none = one("haproxy_httplog", haproxy("0/0/0/310/1250"))
    assert "request_id" not in none
    assert "streamed" not in none
    assert "ttft_ns" not in none
    assert none["headers_ns"] == 310 * MS


def test_haproxy_local_time() -> None:
    berlin = one("haproxy_httplog", haproxy("0/0/0/1/2"), tz="Europe/Berlin")["arrival_ns"]
    assert one("haproxy_httplog", haproxy("0/0/0/1/2"))["arrival_ns"] - berlin == 3_600_000 * MS
    assert berlin == 1772439300_100 * MS


def test_haproxy_other_lines() -> None:
    found = rows(
        "haproxy_httplog",
        ["Server be/s1 is DOWN, reason: Layer4 timeout.", "what", haproxy("0/0/0/1/2").replace("POST", "GET")],
    )
    assert [r["reason"] for r in found] == ["server_state", "unrecognised_line", "not_a_generation"]


def test_haproxy_json_shapes() -> None:
    quoted = first("haproxy_json")
    bare = json.dumps({**quoted, "retries": "@"}).replace('"@"', "+1")
    assert [r["cause"] for r in sorted(attempts("haproxy_json", [bare]), key=lambda r: int(r["attempt_no"]))] == [
        "primary",
        "retry",
    ]
    row = one("haproxy_json", "Mar  2 09:15:01 edge haproxy[1]: " + json.dumps({**quoted, "Ti": "2000"}))
    assert row["arrival_ns"] - one("haproxy_json", {**quoted, "Ti": "0"})["arrival_ns"] == 2000 * MS
    assert row["e2e_ns"] == 1250 * MS


# --- Envoy ------------------------------------------------------------------------------------------------------------
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


# --- Kong, Traefik, ALB -----------------------------------------------------------------------------------------------
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


def test_traefik_retry() -> None:
    record = {**first("traefik_json"), "RetryAttempts": 1, "Duration": 6_100 * MS, "OriginDuration": 1_198 * MS}
    found = attempts("traefik_json", [json.dumps(record)])
    assert view(found, "attempt_no", "e2e_ns", "status") == [(0, 4902 * MS, "error"), (1, 1198 * MS, "ok")]


def test_alb_rows() -> None:
    found = attempts("aws_alb", read_text(samples("aws_alb")[0]))
    assert [(r["status"], r.get("e2e_ns"), r.get("headers_ns")) for r in found] == [
        ("ok", None, 311 * MS), ("error", 1319 * MS, 33 * MS), ("censored", 59_000 * MS, None), ("censored", 2_000 * MS, None),
    ]  # fmt: skip
    assert all("request_id" not in r and r["turn_id"] for r in found)


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
