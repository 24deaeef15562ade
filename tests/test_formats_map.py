"""A user's own TOML mapping: where it finds a field, and what it refuses."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from format_rows import connection, rows
from hypothesis import given, settings
from hypothesis import strategies as st
from map_logs import T0, T0_NS, mapping, read

from hedgectl.errors import HedgectlError, InputError, UsageError
from hedgectl.formats.catalogue import load_user_map

__all__ = ["mapping"]  # a fixture

APP = """
[fields]
ts = "ts"
request_id = "requestId"
route = "route"
model = "model"
segment = "segment"
streamed = "streamed"
e2e_ms = "latencyMs"
prompt_tokens = "inputTokens"
cached_tokens = "cachedTokens"
completion_tokens = "outputTokens"
tools_offered = "toolsOffered"
cost_usd = "costUsd"
status = "status"
"""


def test_an_application_log_in_fifteen_lines(mapping: Any) -> None:
    assert len(APP.strip().splitlines()) <= 15
    event = {"ts": "2026-02-01T10:00:00.427Z", "requestId": "r1", "route": "chat", "model": "m", "segment": "pro", "streamed": False,
             "latencyMs": 869.7, "inputTokens": 2112, "cachedTokens": 0, "outputTokens": 65, "toolsOffered": False, "costUsd": 0.0007961,
             "status": 200}  # fmt: skip
    (row,) = read(mapping(APP), event)
    wanted = {"request_id": "r1", "route": "chat", "model": "m", "segment": "pro", "streamed": False, "arrival_ns": T0_NS + 427_000_000,
              "e2e_ns": 869_700_000, "prompt_tokens": 2112, "cached_tokens": 0, "completion_tokens": 65, "tools_offered": False,
              "cost": Decimal("0.000796100000"), "currency": "USD", "status": "ok", "http_status": 200, "observer": "client", "weight": 1.0}  # fmt: skip
    assert {k: row.get(k) for k in wanted} == wanted
    assert "ttft_ns" not in row


def test_csv_and_a_data_wrapper_read_the_same(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "when"\ne2e_s = "took"\nmodel = "m"\n')
    record = {"when": T0, "took": "1.25", "m": "a,b"}
    by_lines = rows(fmt, [json.dumps(record)])
    by_csv = rows(fmt, f'when,took,m\n{T0},1.25,"a,b"\n')
    by_data = rows(fmt, json.dumps({"data": [record], "total": 1}))
    assert by_lines == by_csv == by_data
    assert by_lines[0]["e2e_ns"] == 1_250_000_000


def test_start_and_end_make_a_duration(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "a"\nend = "b"\nfirst_token = "c"\n')
    (row,) = read(fmt, {"a": T0, "b": "2026-02-01T11:00:02.5+01:00", "c": "2026-02-01T10:00:00.75Z"})
    assert (row["arrival_ns"], row["e2e_ns"], row["ttft_ns"]) == (T0_NS, 2_500_000_000, 750_000_000)


def test_a_log_stamped_at_the_end(mapping: Any) -> None:
    fmt = mapping('[fields]\nend_s = "t"\ne2e_s = "d"\n')
    (row,) = read(fmt, {"t": T0_NS // 10**9, "d": 0.25})
    assert row["arrival_ns"] == T0_NS - 250_000_000


def test_nanoseconds_survive_json_numbers(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "ts"\ne2e_ms = "d"\n')
    (row,) = rows(fmt, ['{"d": 5, "ts": 1769940000.123456789}'])
    assert row["arrival_ns"] == T0_NS + 123456789


@settings(max_examples=15, deadline=None)
@given(
    st.text(min_size=1, max_size=12).filter(
        lambda s: "\x00" not in s and s.strip() not in ("", "-") and not s.startswith("/")
    )
)
def test_any_name_can_be_mapped_and_any_value_comes_back(name: str) -> None:
    if any(0xD800 <= ord(c) < 0xE000 for c in name) or name in ("t", "d"):
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.toml"
        quoted = json.dumps(name, ensure_ascii=False).replace("\x7f", "\\u007f")
        path.write_text('[fields]\nts = "t"\ne2e_ms = "d"\nmodel = ' + quoted + "\n", encoding="utf-8")
        fmt = load_user_map(path)
    (row,) = rows(fmt, [json.dumps({"t": T0, "d": 1, name: f"v {name}"})])
    assert row["model"] == f"v {name}"


@pytest.mark.parametrize(
    "name",
    [
        "x'; DROP TABLE attempt; --",
        'a" OR 1=1 --',
        "{{7*7}} ${HOME}",
        "{{observer}}",
        "a.b",
        "a/b~c",
        "模型",
        "cafe\u0301",
        "0",
        "line",
    ],
)
def test_names_are_data_never_sql(mapping: Any, name: str) -> None:
    fmt = mapping(
        f'[fields]\nts = "t"\ne2e_ms = "d"\nmodel = {json.dumps(name)}\n[constants]\nsegment = {json.dumps(name)}\n'
    )
    (row,) = read(fmt, {"t": T0, "d": 1, name: name})
    assert (row["model"], row["segment"]) == (name, name)
    assert connection().execute("SELECT count(*) FROM attempt").fetchall() == [(0,)]


def test_dots_mean_the_key_first_then_the_path(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "t"\ne2e_ms = "d"\nprompt_tokens = "usage.prompt"\n')
    flat, nested = read(fmt, {"t": T0, "d": 1, "usage.prompt": 3}, {"t": T0, "d": 1, "usage": {"prompt": 4}})
    assert (flat["prompt_tokens"], nested["prompt_tokens"]) == (3, 4)


def test_pointers_lists_sums_and_names_that_differ_in_case(mapping: Any) -> None:
    fmt = mapping("""
[fields]
ts = "t"
e2e_ms = "d"
model = ["Model", "model", "/choices/0/model"]
prompt_tokens = { sum = ["in", "read"] }
completion_tokens = ["out", "OUT"]
""")
    a, b, c = read(
        fmt,
        {"t": T0, "d": 1, "model": "low", "in": 5, "read": 7, "OUT": 1},
        {"t": T0, "d": 1, "Model": "high", "model": "low", "read": 7},
        {"t": T0, "d": 1, "choices": [{"model": "first"}], "in": 5},
    )
    assert (a["model"], b["model"], c["model"]) == ("low", "high", "first")
    assert (a.get("prompt_tokens"), b.get("prompt_tokens"), c.get("prompt_tokens")) == (12, None, 5)
    assert a["completion_tokens"] == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no [fields]"),
        ("[fields]\n", "no [fields]"),
        ("fields = 3", "no [fields]"),
        ("[fields\n", "TOML"),
        ('[fields]\nts = "t"\n', "no latency"),
        ('[fields]\ne2e_ms = "d"\ntools = "t"\n[left_out]\nn_choices = 1\n', 'add n_choices = "its name in the log"'),
        ('[fields]\ne2e_ms = "d"\nn_choices = "n"\n[left_out]\nn_choices = 1\n', "can never hold for n_choices"),
        ('[fields]\ne2e_msec = "d"\n', "e2e_ms"),
        ('[fields]\nlatency = "d"\n', "e2e_ms"),
        ('[fields]\ntimestamp = "t"\ne2e_ms = "d"\n', "ts"),
        ('[fields]\ncompletion_token = "t"\ne2e_ms = "d"\n', "completion_tokens"),
        ('observr = "client"\n[fields]\ne2e_ms = "d"\n', "observer"),
        ('observer = "clinet"\n[fields]\ne2e_ms = "d"\n', "client"),
        ('e2e_ms = "d"\n[fields]\nts = "t"\n', "under [fields]"),
        ("[fields]\ne2e_ms = 3\n", "name of a field"),
        ('[fields]\ne2e_ms = ""\n', "name of a field"),
        ('[fields]\ne2e_ms = "d"\ne2e_s = "d"\n', "both give e2e"),
        ('[fields]\ne2e = { field = "d", unit = "weeks" }\n', "weeks"),
        ('[fields]\ne2e = { feld = "d" }\n', "field"),
        ('[fields]\ne2e_ms = "d"\ncost = { field = "c", scale = "lots" }\n', "scale"),
        ('tz = "Europe/Berln"\n[fields]\ne2e_ms = "d"\n', "Europe/Berlin"),
        ('resolution = "fast"\n[fields]\ne2e_ms = "d"\n', "resolution"),
        ('one_row = "request"\n[fields]\ne2e_ms = "d"\n', "hedged"),
        ('[fields]\ne2e_ms = "d"\n[constants]\ne2e_ms = 5\n', "constant"),
        ('[fields]\ne2e_ms = "d"\n[constants]\nstreamed = "yes"\n', "wrong type"),
        ('[fields]\ne2e_ms = "d"\n[only]\nkind = 1.5\n', "list of texts"),
        ('[fields]\ne2e_ms = "a\\u0000b"\n', "NUL"),
        ('prompt_excludes_cached = "yes"\n[fields]\ne2e_ms = "d"\n', "true or false"),
    ],
)
def test_a_faulty_mapping_is_refused_with_file_and_nearest_name(mapping: Any, text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        mapping(text)
    assert says in f"{caught.value.what} {caught.value.hint}"
    assert caught.value.where is None or "mine.toml" in caught.value.where


def test_the_line_of_the_fault_is_named(mapping: Any) -> None:
    with pytest.raises(UsageError) as caught:
        mapping('[fields]\nts = "t"\ne2e_msx = "d"\n')
    assert str(caught.value.where).endswith("mine.toml:3")


def test_a_mapping_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        load_user_map(tmp_path / "missing.toml")
    (tmp_path / "latin.toml").write_bytes(b'[fields]\nts = "\xff"\n')
    with pytest.raises(HedgectlError):
        load_user_map(tmp_path / "latin.toml")


def test_what_a_mapping_can_observe(mapping: Any) -> None:
    fmt = mapping('[fields]\nts = "t"\nend = "e"\nfirst_token = "f"\nmodel = "m"\n[constants]\nstreamed = true\n')
    assert set(fmt.observes) == {"model", "streamed", "arrival_ns", "e2e_ns", "ttft_ns", "status"}
    assert (fmt.name, fmt.input, fmt.keys) == ("mine", "json", ("t", "e", "f", "m"))
