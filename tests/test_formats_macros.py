"""The shared SQL macros: exact times and durations, zones and clock changes, words, tools, OTLP values."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import ROUND_HALF_UP, Decimal
from typing import Any
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest
from format_rows import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl import sql
from hedgectl.formats import macros
from hedgectl.formats.catalogue import load_all

NS = 1_000_000_000


def call(expression: str, *values: Any, tz: str | None = None) -> Any:
    con = connection()
    con.execute("SET VARIABLE hedgectl_tz = $1", [tz])
    return con.execute(f"SELECT {expression}", list(values)).fetchall()[0][0]


def utc_ns(text: str) -> int:
    moment = datetime.fromisoformat(text)
    return round((moment - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(microseconds=1)) * 1000


def test_a_format_needs_no_macro_beside_those_it_is_given() -> None:
    """Each format alone, on a connection that has nothing else."""
    every = sql.text("formats/_macros").count("TEMP MACRO")
    block = {"line": np.zeros(1, np.int64), "record": np.zeros(1, np.int32), "t": np.array(["{}"])}
    with duckdb.connect() as con:
        for name, fmt in load_all().items():
            needed = macros.needed(fmt.select_sql)
            assert needed.count("TEMP MACRO") < 0.7 * every, name
            with con.cursor() as alone:
                alone.register("block", block)
                alone.execute(sql.text("ingest/raw_text" if fmt.input == "text" else "ingest/raw_json"))
                alone.execute(needed)
                alone.execute(f"CREATE TEMP VIEW format_rows AS {fmt.select_sql.rstrip().rstrip(';')}")


@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=0, max_value=4_000_000_000 * NS), st.sampled_from(["s", "ms", "us", "ns"]))
def test_decimal_text_becomes_exact_nanoseconds(ns: int, unit: str) -> None:
    digits = {"s": 9, "ms": 6, "us": 3, "ns": 0}[unit]
    text = str(Decimal(ns).scaleb(-digits))
    text = f"{Decimal(text):f}"
    assert call(f"{unit}_ns(?)", text) == ns


@settings(max_examples=40, deadline=None)
@given(st.decimals(min_value=0, max_value=10**6, places=12, allow_nan=False))
def test_more_digits_than_a_nanosecond_are_rounded_half_up(seconds: Decimal) -> None:
    # the decimal is cut to 9 digits first, so the last digit may be off by rounding twice at most
    wanted = int((seconds * NS).quantize(Decimal(1), ROUND_HALF_UP))
    assert call("s_ns(?)", f"{seconds:f}") == wanted


def test_a_double_would_have_lost_this() -> None:
    assert call("s_ns('1763632804.123456789')") == 1763632804123456789
    assert call("time_ns('1763632804123456789')") == 1763632804123456789
    record = '{"ts": 1763632804.123456789, "n": 1}'
    shown = call("json_extract_string(?::JSON, '$.ts')", record)
    assert shown != "1763632804.123456789"
    pattern = r'"ts"\s*:\s*(-?[0-9.]+)'
    assert call("exact_digits(?::JSON, ?, ?)", record, pattern, shown) == "1763632804.123456789"


@pytest.mark.parametrize(
    "text",
    ["", "-", "abc", "nan", "inf", "1e400", "99999999999999999999", "12", "-5", "1970-01-01", "2026-11-20", "10:00"],
)
def test_what_is_no_time_is_null(text: str) -> None:
    assert call("time_ns(?)", text) is None


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2026-11-20T10:00:01Z", "2026-11-20T10:00:01+00:00"),
        ("2026-11-20 10:00:01", "2026-11-20T10:00:01+00:00"),
        ("2026-11-20T10:00:01 UTC", "2026-11-20T10:00:01+00:00"),
        ("2026-11-20 10:00:01,250", "2026-11-20T10:00:01.250+00:00"),
        ("2026-11-20T11:00:03+01:00", "2026-11-20T10:00:03+00:00"),
        ("2026-11-20T02:30:03.5-0730", "2026-11-20T10:00:03.5+00:00"),
        ("2026-11-20T10:00:03+05", "2026-11-20T05:00:03+00:00"),
        ("1763632801", "2025-11-20T10:00:01+00:00"),
        ("1763632801000", "2025-11-20T10:00:01+00:00"),
        ("1763632801000000", "2025-11-20T10:00:01+00:00"),
        ("1763632801000000000", "2025-11-20T10:00:01+00:00"),
        ("1763632801.5", "2025-11-20T10:00:01.5+00:00"),
    ],
)
def test_times_of_every_spelling(text: str, same: str) -> None:
    # the session's own zone is Asia/Tokyo (format_rows.py) and must not show
    assert call("time_ns(?)", text) == utc_ns(same)


def test_nine_fractional_digits_with_an_offset() -> None:
    assert call("time_ns('2026-11-20T15:30:01.123456789+05:30')") == utc_ns("2026-11-20T10:00:01+00:00") + 123456789


@settings(max_examples=60, deadline=None)
@given(st.datetimes(datetime(2001, 1, 1), datetime(2150, 1, 1)), st.integers(-14 * 60, 14 * 60))
def test_iso_with_an_offset_is_what_python_reads(moment: datetime, minutes: int) -> None:
    text = moment.replace(tzinfo=timezone(timedelta(minutes=minutes))).isoformat()
    assert call("time_ns(?)", text) == utc_ns(text)


@settings(max_examples=60, deadline=None)
@given(
    st.datetimes(datetime(2001, 1, 1), datetime(2036, 1, 1)),
    st.sampled_from(["America/New_York", "Europe/Berlin", "Asia/Kolkata", "UTC"]),
)
def test_naive_times_are_read_in_the_given_zone(moment: datetime, zone: str) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    got = call("time_ns(?)", moment.isoformat(sep=" "), tz=zone)
    early, late = (moment.replace(tzinfo=ZoneInfo(zone), fold=fold) for fold in (0, 1))
    # outside clock changes the two folds agree
    if early.utcoffset() == late.utcoffset():
        assert got == utc_ns(early.isoformat())
    else:
        assert got in {utc_ns(early.isoformat()), utc_ns(late.isoformat())}


def test_clock_changes_follow_the_stated_rule() -> None:
    # set back: 01:30 happens twice, the later instant (standard time) is meant
    assert call("time_ns('2026-11-01 01:30:00')", tz="America/New_York") == utc_ns("2026-11-01T06:30:00+00:00")
    # set forward: 02:30 does not happen, it is read with the offset before the change
    assert call("time_ns('2026-03-08 02:30:00')", tz="America/New_York") == utc_ns("2026-03-08T07:30:00+00:00")


def test_a_zone_never_moves_a_time_that_has_one() -> None:
    assert call("time_ns('2026-11-20T10:00:04Z')", tz="America/New_York") == utc_ns("2026-11-20T10:00:04+00:00")


@pytest.mark.parametrize(
    ("text", "naive"),
    [
        ("2026-11-20 10:00:01", True),
        ("2026-11-20T10:00:01Z", False),
        ("2026-11-20T10:00:01+01:00", False),
        ("1763632801", False),
    ],
)
def test_which_times_are_naive(text: str, naive: bool) -> None:
    assert call("is_naive(?)", text) is naive


def test_access_log_time() -> None:
    assert call("clf_ns('29/Nov/2026:19:06:27 +0100')") == utc_ns("2026-11-29T18:06:27+00:00")
    assert call("clf_ns('29/Foo/2026:19:06:27 +0100')") is None


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("250ms", 250), ("1.2s", 1200), ("1m2s", 62000), ("250000us", 250), ("1200000µs", 1200), ("1200000μs", 1200), ("0:00:00.250", 250),
        ("1h2m3.5s", 3723500), ("5 ms", 5), ("1.5 min", 90000), ("2s 5ms", 2005), ("3 seconds", 3000), ("0s", 0),
        ("250", None), ("0.25", None), ("250,0", None), ("1,200.0", None), ("-", None), ("", None), ("1.2sx", None), ("s", None), ("1.2.3s", None),
    ],
)  # fmt: skip
def test_durations_carry_their_unit(text: str, ms: float | None) -> None:
    assert call("duration_ns(?)", text) == (None if ms is None else int(ms * 1_000_000))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(["ns", "us", "ms", "s"]))
def test_duration_text_round_trips(value: int, unit: str) -> None:
    assert call("duration_ns(?)", f"{value}{unit}") == value * {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}[unit]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("True", True),
        ("1", True),
        ("hit", True),
        ("YES", True),
        ("false", False),
        ("0", False),
        ("miss", False),
        ("None", None),
        ("maybe", None),
        ("", None),
    ],
)
def test_booleans_as_logs_spell_them(text: str, value: bool | None) -> None:
    assert call("to_bool(?)", text) is value


@pytest.mark.parametrize(
    ("text", "value"),
    [("12", 12), ("75.0", 75), ("0", 0), ("-1", None), ("x", None), ("", None), ("18446744073709551616", None)],
)
def test_counts_are_not_negative(text: str, value: int | None) -> None:
    assert call("to_count(?)", text) == value


@pytest.mark.parametrize(
    ("code", "status", "kind"),
    [(200, "ok", None), (304, "ok", None), (400, "error", "client"), (408, "censored", "timeout"), (429, "error", "rate_limited"), (460, "censored", "client_gone"),
     (499, "censored", "client_gone"), (500, "error", "upstream"), (504, "censored", "timeout"), (0, None, None), (700, None, "upstream")],
)  # fmt: skip
def test_http_codes(code: int, status: str | None, kind: str | None) -> None:
    assert call("http_class(?)", code) == status
    assert call("http_kind(?)", code) == kind


@pytest.mark.parametrize(
    ("word", "status", "kind"),
    [("success", "ok", None), ("Completed", "ok", None), ("CANCELLED", "censored", "client_gone"), ("timeout", "censored", "timeout"), ("loser", "censored", "loser"),
     ("failure", "error", "upstream"), ("rate_limited", "error", "rate_limited"), ("weird", None, None)],
)  # fmt: skip
def test_status_words(word: str, status: str | None, kind: str | None) -> None:
    assert (call("word_class(?)", word), call("word_kind(?)", word)) == (status, kind)


@pytest.mark.parametrize(
    ("text", "names"),
    [('["b", "a", "a"]', "a,b"), ("[]", ""), ("b, a", "a,b"), (None, None), ("null", None), ("{}", None),
     ('[{"type": "function", "function": {"name": "z"}}, {"name": "y"}, {"type": "web_search"}]', "web_search,y,z")],
)  # fmt: skip
def test_lists_of_tools(text: str | None, names: str | None) -> None:
    assert call("tool_list(?::VARCHAR)", text) == names


def test_otlp_values_of_every_type_and_encoding() -> None:
    values = (
        '[{"key": "i", "value": {"intValue": "5"}}, {"key": "n", "value": {"intValue": 5}}, {"key": "d", "value": {"doubleValue": 0.5}},'
        ' {"key": "b", "value": {"boolValue": false}}, {"key": "s", "value": {"string_value": "x"}}, {"key": "e", "value": {}},'
        ' {"key": "a", "value": {"arrayValue": {"values": [{"stringValue": "q"}]}}}]'
    )
    got = {k: call(f"otlp_attr(otlp_attrs(?::JSON), '{k}')", values) for k in "indbsez"}
    assert got == {"i": "5", "n": "5", "d": "0.5", "b": "false", "s": "x", "e": None, "z": None}
    assert call("otlp_attr(otlp_attrs(?::JSON), 'a/b.c')", '{"a/b.c": 7}') == "7"


def test_trace_ids_in_hex_and_base64() -> None:
    assert call("otlp_id('4BF92F3577B34DA6A3CE929D0E0E4736')") == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert call("otlp_id('S/kvNXezTaajzpKdDg5HNg==')") == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert call("otlp_id('')") is None
