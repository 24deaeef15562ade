"""Known pitfalls of the logs of proxies and load balancers, one test each, on single records.

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
Traefik
  Overhead holds the failed attempts                                            -> test_traefik_retry
ALB
  good answers have no length; -1; 460; a shared trace id                       -> test_alb_rows
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from format_rows import MS, attempts, first, one, read_text, rows, samples, view


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


# --- Traefik, ALB -----------------------------------------------------------------------------------------------------


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
