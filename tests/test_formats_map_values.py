"""What a user's own mapping makes of values: units, status words, clocks and zones, money, tools, whole requests."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from format_rows import rows
from map_logs import T0, T0_NS, mapping, read

__all__ = ["mapping"]  # a fixture


def test_units_of_durations(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "t"\ne2e_us = "d"\nttft = { field = "f", unit = "s" }\nqueue_ns = "q"\n')
    (row,) = read(fmt, {"t": T0, "d": 1500000, "f": "0.25", "q": 1000})
    assert (row["e2e_ns"], row["ttft_ns"], row["queue_ns"], row["queue_basis"]) == (
        1_500_000_000,
        250_000_000,
        1000,
        "measured",
    )


UNITLESS = '[fields]\nts = "ts"\nrequest_id = "id"\ne2e = "e2e"\nttft = "ttft"\n'


def test_units_in_strings_and_none_at_all(mapping: Any) -> None:
    text = (
        "ts,id,ttft,e2e\n"
        f"{T0},q1,0.25,1.2\n"
        f"{T0},q2,250ms,1.2s\n"
        f'{T0},q3,"250,0","1,200.0"\n'
        f"{T0},q4,0:00:00.250,1m2s\n"
        f"{T0},q5,-,\n"
        f"{T0},q6,250000us,1200000µs\n"
    )
    found = {r["request_id"]: r for r in rows(mapping(UNITLESS), text)}
    assert {q: (r["kind"], r.get("reason")) for q, r in found.items()} == {
        "q1": ("reject", "no_unit"), "q2": ("attempt", None), "q3": ("reject", "bad_duration"), "q4": ("attempt", None),
        "q5": ("attempt", None), "q6": ("attempt", None),
    }  # fmt: skip
    assert [found[q]["e2e_ns"] // 10**6 for q in ("q2", "q4", "q6")] == [1200, 62000, 1200]
    assert {found[q]["ttft_ns"] for q in ("q2", "q4", "q6")} == {250_000_000}
    assert "e2e_ns" not in found["q5"], "blank is not observed, not zero"
    # told that bare numbers are seconds, q1 counts; values with a unit keep theirs
    said = {
        r["request_id"]: r
        for r in rows(
            mapping(
                UNITLESS.replace('"e2e"', '{ field = "e2e", unit = "s" }').replace(
                    '"ttft"', '{ field = "ttft", unit = "s" }'
                )
            ),
            text,
        )
    }
    assert (said["q1"]["ttft_ns"], said["q1"]["e2e_ns"], said["q2"]["e2e_ns"]) == (
        250_000_000,
        1_200_000_000,
        1_200_000_000,
    )


def test_status_codes_words_lists_and_errors(mapping: Any) -> None:
    fmt = mapping(
        'status_ok = ["fertig"]\nstatus_censored = ["weg", 7]\n[fields]\nts = "t"\ne2e_ms = "d"\nstatus = "s"\nerror = "e"\n'
    )
    said = {
        "200": "ok",
        "fertig": "ok",
        "weg": "censored",
        "7": "censored",
        "499": "censored",
        "504": "censored",
        "503": "error",
        "timeout": "censored",
        "failed": "error",
    }
    found = read(fmt, *[{"t": T0, "d": 1, "s": s} for s in said])
    assert [r["status"] for r in found] == list(said.values())
    unknown, none, bad, empty = read(
        fmt,
        {"t": T0, "d": 1, "s": "huh"},
        {"t": T0, "d": 1},
        {"t": T0, "d": 1, "e": "boom"},
        {"t": T0, "d": 1, "e": {}},
    )
    assert (unknown["kind"], unknown["reason"]) == ("reject", "unknown_status")
    assert (none["status"], bad["status"], empty["status"]) == ("ok", "error", "ok")


def test_rows_that_are_no_requests_or_unusable(mapping: Any) -> None:
    fmt = mapping(
        '[fields]\nts = "t"\ne2e_ms = "d"\nrequest_id = "id"\nstatus = "s"\n[skip]\nkind = ["health"]\n[only]\napp = ["llm", "chat"]\n'
    )
    base = {"t": T0, "d": 1, "id": "x", "s": 200, "app": "llm"}
    cases = {
        "ok": base, "filtered": {**base, "kind": "health"}, "filtered2": {**base, "app": "web"}, "no_request_field": {"t": T0, "level": "info", "app": "llm"},
        "bad_time": {**base, "t": "soon"}, "no_time": {**base, "t": None}, "negative_duration": {**base, "d": -5}, "bad_duration": {**base, "d": "x"},
        "duration_out_of_range": {**base, "d": 2e8},
    }  # fmt: skip
    found = read(fmt, *cases.values())
    assert [r.get("reason") for r in found] == [None, "filtered", "filtered", *list(cases)[3:]]
    assert [r["kind"] for r in found] == ["attempt", *["not_request"] * 3, *["reject"] * 5]


def test_absurd_numbers_end_in_a_reason_not_in_an_overflow(mapping: Any) -> None:
    edge = [9223372036854775807, -9223372036854775808, 9.3e18, 1e300, -1, 0, 7]
    fmt = mapping('[fields]\nts_ns = "a"\nend_ns = "b"\nfirst_token_ns = "c"\n')
    spans = [{"a": a, "b": b, "c": a} for a in edge for b in edge]
    other = mapping(
        '[fields]\nend_ns = "a"\ne2e_ns = "b"\nttft_ns = "c"\nqueue_ns = "c"\nattempt = "c"\nn_choices = "a"\ncost_usd = "b"\n'
    )
    for made, listed in ((fmt, spans), (other, spans)):
        found = read(made, *listed)
        assert len(found) == len(listed)
        assert all(r["kind"] == "attempt" or r["reason"] for r in found)
        assert all(0 <= r["e2e_ns"] <= 86_400_000_000_000 for r in found if r["kind"] == "attempt" and "e2e_ns" in r)


def test_first_tokens_that_are_none(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "t"\ne2e_ms = "d"\nttft_ms = "f"\ncompletion_tokens = "n"\nqueue_ms = "q"\n')
    base = {"t": T0, "d": 1000, "n": 20}
    found = read(fmt, {**base, "f": 200}, {**base, "f": 1000}, {**base, "f": 1000, "n": 1}, {**base, "f": 0}, {**base, "f": -3}, {**base, "f": 1500}, {**base, "f": "x"},
                 {**base, "q": 5000})  # fmt: skip
    assert [r.get("note") for r in found] == [
        None,
        "ttft_equals_e2e",
        None,
        "ttft_zero",
        "clock_skew",
        "ttft_beyond_e2e",
        "ttft_unreadable",
        "component_out_of_range",
    ]
    assert [r.get("ttft_ns") for r in found] == [200_000_000, None, 1_000_000_000, None, -3_000_000, None, None, None]
    assert all(r["kind"] == "attempt" and r["e2e_ns"] == 10**9 for r in found)


def test_a_first_token_from_another_clock(mapping: Any) -> None:
    fields = '[fields]\nts = "client_start"\nend = "client_end"\nfirst_token = "server_first"\n'
    skewed = {"client_start": T0, "client_end": "2026-02-01T10:00:01.5Z", "server_first": "2026-02-01T09:59:59.7Z"}
    fine = {**skewed, "server_first": "2026-02-01T10:00:00.21Z"}
    backwards = {**fine, "client_end": "2026-02-01T09:59:59.9Z"}
    a, b, c = read(mapping(fields), skewed, fine, backwards)
    # a negative first token stays as evidence of the offset; nothing uses it as a time
    assert (a["ttft_ns"], a["note"], a["e2e_ns"]) == (-300_000_000, "clock_skew", 1_500_000_000)
    assert "ttft_basis" not in a
    assert b["ttft_ns"] == 210_000_000
    assert c["reason"] == "negative_duration"
    # said to be another machine's clock, it is never a latency
    other = read(mapping('other_clock = ["first_token"]\n' + fields), fine)[0]
    assert (other.get("ttft_ns"), other["note"]) == (None, "cross_clock")


def test_naive_times_and_the_zone_that_reads_them(mapping: Any) -> None:
    text = '[fields]\nts = "t"\ne2e_ms = "d"\n'
    naive, zoned = {"t": "2026-02-01 10:00:00", "d": 1}, {"t": T0, "d": 1}
    default = read(mapping(text), naive, zoned)
    assert [r["arrival_ns"] for r in default] == [T0_NS, T0_NS]
    assert [r.get("note") for r in default] == ["naive_time", None]
    flag = read(mapping(text), naive, zoned, tz="America/New_York")
    assert [r["arrival_ns"] - T0_NS for r in flag] == [5 * 3600 * 10**9, 0]
    own = read(mapping('tz = "Europe/Berlin"\n' + text), naive, zoned, tz="America/New_York")
    assert [r["arrival_ns"] - T0_NS for r in own] == [-3600 * 10**9, 0], "the mapping knows its own log"
    assert own[0].get("note") is None


def test_money(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "t"\ne2e_ms = "d"\ncost_eur = { field = "c", scale = "0.01" }\n')
    assert read(fmt, {"t": T0, "d": 1, "c": 1.5})[0]["cost"] == Decimal("0.015")
    assert read(fmt, {"t": T0, "d": 1, "c": 1.5})[0]["currency"] == "EUR"
    own = mapping('[fields]\nts = "t"\ne2e_ms = "d"\ncost = "c"\ncurrency = "cur"\n')
    row, free = read(own, {"t": T0, "d": 1, "c": "0.1", "cur": "NOK"}, {"t": T0, "d": 1})
    assert (row["cost"], row["currency"]) == (Decimal("0.1"), "NOK")
    assert "currency" not in free
    nano = mapping('[fields]\nts = "t"\ne2e_ms = "d"\ncost_usd = { field = "c", scale = "0.000000001" }\n')
    assert read(nano, {"t": T0, "d": 1, "c": 12345})[0]["cost"] == Decimal("0.000012345")


def test_tools_tokens_and_flags(mapping: Any) -> None:
    fmt = mapping("""
prompt_excludes_cached = true
[fields]
ts = "t"
e2e_ms = "d"
tools = "tools"
prompt_tokens = "in"
cached_tokens = "read"
cache_hit = "hit"
weight = "w"
""")
    with_tools, none, unknown = read(
        fmt,
        {"t": T0, "d": 1, "tools": ["b", "a"], "in": 200, "read": 7800, "hit": "hit", "w": 10},
        {"t": T0, "d": 1, "tools": [], "in": "75.0"},
        {"t": T0, "d": 1, "tools": None, "in": -1},
    )
    assert (with_tools["tools_offered"], with_tools["tool_names"], with_tools["prompt_tokens"]) == (True, "a,b", 8000)
    assert (with_tools["cache_hit"], with_tools["weight"]) == (True, 10.0)
    assert (none["tools_offered"], none.get("tool_names"), none["prompt_tokens"]) == (False, None, 75)
    assert "tools_offered" not in unknown, "no tools field is not the same as no tools"
    assert "prompt_tokens" not in unknown


def test_a_list_where_a_name_belongs_is_not_a_name(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "t"\ne2e_ms = "d"\nreplica = "r"\n')
    found = read(
        fmt,
        {"t": T0, "d": 1, "r": ["a", "b"]},
        {"t": T0, "d": 1, "r": "[odd name"},
        {"t": T0, "d": 1, "r": 9007199254740993},
    )
    assert [r.get("replica") for r in found] == [None, "[odd name", "9007199254740993"]


REQUEST = """
one_row = "request"
[fields]
ts = "t"
request_id = "id"
e2e_ms = "d"
ttft_ms = "f"
queue_ms = "q"
replica = "r"
loser_replica = "lost"
hedged = "h"
hedge_delay_ms = "wait"
hedge_won = "won"
completion_tokens = "n"
cost_usd = "c"
"""


def test_a_row_that_is_a_whole_request_gives_the_loser_too(mapping: Any) -> None:
    base = {"t": T0, "id": "x", "d": 1000, "f": 700, "q": 3, "r": "a", "n": 9, "c": 0.5, "h": False}
    plain, copy, kept, broken = (
        read(mapping(REQUEST), base),
        read(mapping(REQUEST), {**base, "h": True, "wait": 600, "won": True, "r": "b", "lost": "a"}),
        read(mapping(REQUEST), {**base, "h": True, "wait": 600, "won": False, "lost": "b"}),
        read(mapping(REQUEST), {**base, "h": True, "wait": 600, "t": "?"}),
    )
    assert len(plain) == 1
    assert plain[0].get("cause") is None
    first, second = sorted(copy, key=lambda r: r["attempt_no"])
    assert (first["cause"], first["status"], first["error_kind"], first["replica"], first["won"]) == (
        "primary",
        "censored",
        "loser",
        "a",
        False,
    )
    assert (first["arrival_ns"], first["e2e_ns"], first.get("ttft_ns"), first.get("cost")) == (T0_NS, 10**9, None, None)
    assert (second["cause"], second["status"], second["replica"], second["won"]) == ("hedge", "ok", "b", True)
    assert (second["arrival_ns"], second["e2e_ns"], second["ttft_ns"]) == (
        T0_NS + 600_000_000,
        400_000_000,
        100_000_000,
    )
    assert {r.get("queue_ns") for r in copy} == {None}, "the row does not say whose queue it was"
    first, second = sorted(kept, key=lambda r: r["attempt_no"])
    assert (first["status"], first["ttft_ns"], second["status"], second["arrival_ns"], second["e2e_ns"]) == (
        "ok",
        700_000_000,
        "censored",
        T0_NS + 600_000_000,
        400_000_000,
    )
    # both end when the request ends, and only the winner is paid for in the row
    assert {r["arrival_ns"] + r["e2e_ns"] for r in kept} == {T0_NS + 10**9}
    assert len(broken) == 1, "a rejected record is rejected once"
