"""Several observers of one request: joined by ids they share, durations only, and never counted twice.

Decided here, each with its test: the row nearest to the caller stays; what only an inner observer saw is counted and kept out of the
requests, unless it carries the id of a request that both saw: then it is an attempt of it, a loser. Nothing is joined without a shared id.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import make_joined_sample
import pytest
from analysis_logs import MS, START_NS, log
from hypothesis import given, settings
from hypothesis import strategies as st
from ingest_logs import query, read

from hedgectl import analysis, decompose, fleet, history, join, sql
from hedgectl.errors import UsageError
from hedgectl.formats.format import parse_join_ids
from hedgectl.store import connect
from hedgectl.tasks import Here

S = 1000 * MS


def gateway(request_id: str, at: int = 0, e2e: int = 1000, **more: Any) -> dict[str, Any]:
    """A gateway's row, times in ms."""
    return {"request_id": request_id, "arrival_ns": START_NS + at * MS, "e2e_ns": e2e * MS, "format": "plain"} | more


def engine(
    request_id: str, at: int = 0, parts: tuple[int, int, int] | None = (100, 200, 600), **more: Any
) -> dict[str, Any]:
    """An engine's row with queue, prefill and decode in ms; its clock is its own."""
    queue, prefill, decode = parts or (None, None, None)
    timed: dict[str, Any] = {"queue_ns": queue, "prefill_ns": prefill, "decode_ns": decode}
    row = {name: None if value is None else value * MS for name, value in timed.items()}
    row |= {name.replace("_ns", "_basis"): None if value is None else "measured" for name, value in timed.items()}
    row |= {"request_id": request_id, "arrival_ns": START_NS + at * MS, "e2e_ns": sum(parts or (900,)) * MS}
    return row | {"format": "spans", "observer": "engine", "resolution_ns": 1000} | more


@contextmanager
def joined(*rows: dict[str, Any]) -> Iterator[Any]:
    with log(rows) as con:
        decompose.prepare(con)
        yield con


def fetch(con: Any, text: str) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = con.execute(text).fetchall()
    return found


def count(con: Any) -> dict[str, int]:
    """What is not zero in the one row of counts."""
    (only,) = join.counts(con)
    parts = ("joined", "parts", "copies", "too_long", "ambiguous", "inner_unmatched")
    assert sum(only[p] for p in parts) == only["inner_rows"]
    assert only["joined"] + only["outer_unmatched"] == only["outer_rows"]
    return {k: v for k, v in only.items() if v and not k.endswith(("format", "rows"))}


def attempts(con: Any, columns: str = "attempt_no, cause, status, queue_ns // 1000000") -> list[tuple[Any, ...]]:
    return fetch(con, f"SELECT {columns} FROM selected_attempt ORDER BY request_key, attempt_no")


def test_the_engines_parts_lie_inside_the_gateways_time_and_the_rest_is_the_gateways() -> None:
    with joined(gateway("a", replica="r0", model="chat"), engine("a", replica="engine-0", prompt_tokens=70)) as con:
        assert count(con) == {"joined": 1}
        assert fetch(con, "SELECT e2e_ns, queue_ns, prefill_ns, decode_ns, other_ns FROM component") == [
            (1000 * MS, 100 * MS, 200 * MS, 600 * MS, 100 * MS)
        ]
        # names stay the gateway's, what it did not see comes from the engine
        assert attempts(con, "replica, model, observer, prompt_tokens, queue_basis") == [
            ("r0", "chat", "gateway", 70, "measured")
        ]


@pytest.mark.parametrize("hours", [-3, 0, 5])
def test_no_time_of_day_crosses_over(hours: int) -> None:
    """A clock that is wrong by hours is another time: nothing matches. One that is wrong by less changes nothing at all."""
    for skew in (-4 * 60_000, 0, 4 * 60_000):
        with joined(gateway("y", -3_600_000), gateway("a"), engine("a", at=skew), gateway("z", 3_600_000)) as con:
            assert fetch(con, "SELECT arrival_ns, e2e_ns, queue_ns FROM selected_attempt WHERE request_id = 'a'") == [
                (START_NS, 1000 * MS, 100 * MS)
            ]
    with joined(
        gateway("a"), engine("a", at=hours * 3_600_000), gateway("y", -4 * 3_600_000), gateway("z", 6 * 3_600_000)
    ) as con:
        assert count(con)["outer_unmatched"] == (2 if hours == 0 else 3)


def test_a_first_byte_gives_way_to_the_engines_first_token_and_a_first_token_does_not() -> None:
    seen = {"ttft_ns": 300 * MS, "ttft_basis": "engine"}
    early = {"ttft_ns": 10 * MS, "streamed": True}
    for basis, expected in (("first_byte", (300, "engine")), ("first_token", (10, "first_token"))):
        with joined(gateway("a", ttft_basis=basis, **early), engine("a", **seen)) as con:
            assert attempts(con, "ttft_ns // 1000000, ttft_basis") == [expected]
    with joined(gateway("a"), engine("a", **seen)) as con:
        assert attempts(con, "ttft_ns // 1000000, ttft_basis") == [(300, "engine")]


def test_a_callers_late_first_token_is_not_held_against_the_engines_decode() -> None:
    with joined(gateway("a", ttft_ns=500 * MS, ttft_basis="first_token", streamed=True), engine("a")) as con:
        assert fetch(con, sql.text("check/parts_exceed_e2e")) == []
        assert fetch(con, "SELECT decode_ns // 1000000, other_ns // 1000000 FROM component") == [(600, 100)]


def test_an_engine_row_longer_than_the_gateways_is_an_offender_and_not_joined() -> None:
    for longer, expected in ((0, {"joined": 1}), (1, {"joined": 1}), (2, {"too_long": 1, "outer_unmatched": 1})):
        # the gateway's resolution of 1 ms (and the engine's of 1 us) is no excess
        with joined(gateway("a", e2e=900), engine("a", parts=(100, 200, 600 + longer))) as con:
            assert count(con) == expected
            assert len(attempts(con)) == 1


def test_a_caller_that_hung_up_leaves_an_engine_that_ran_on() -> None:
    gone = {"status": "censored", "error_kind": "client_gone", "e2e": 350}
    with joined(gateway("a", **gone), gateway("b", 50, **gone | {"e2e": 250}), engine("a"), engine("b", 50)) as con:
        assert count(con) == {"joined": 2}
        # what fits is taken: all the time before the first token of the one, none of the other's
        assert attempts(con, "queue_ns // 1000000, prefill_ns // 1000000, decode_ns") == [
            (100, 200, None),
            (None, None, None),
        ]


def test_retries_with_one_id_on_both_sides_are_paired() -> None:
    failed = {"status": "error", "http_status": 503}
    with joined(
        gateway("a", 0, 400, **failed),
        gateway("a", 500, 950),
        engine("a", 10, (10, 0, 0), status="error"),
        engine("a", 500),
    ) as con:
        assert count(con) == {"joined": 2}
        assert attempts(con) == [(0, "primary", "error", 10), (1, "retry", "ok", 100)]


def test_attempts_that_the_engine_did_not_log_stay_as_they_are() -> None:
    """vLLM writes no span for a cancelled request: the loser has none, the winner's is not given to it."""
    loser = {"status": "censored", "error_kind": "loser"}
    with joined(gateway("a", 0, 1900, **loser), gateway("a", 900, 1000), engine("a", 900)) as con:
        assert count(con) == {"joined": 1, "outer_unmatched": 1}
        assert attempts(con) == [(0, "primary", "censored", None), (1, "hedge", "ok", 100)]


def test_replicas_tell_copies_apart_even_when_the_engines_clocks_do_not() -> None:
    """The names are learned from calls that are alone with their id; the copy's engine has a clock that is a minute behind."""
    alone = [
        row
        for i in range(3)
        for r in "xy"
        for row in (gateway(f"{r}{i}", i, replica=r), engine(f"{r}{i}", i, replica=f"gpu-{r}"))
    ]
    copies = [gateway("a", 0, 2000, status="censored", replica="x"), gateway("a", 900, 1000, replica="y")]
    spans = [engine("a", 5, (1, 2, 3), replica="gpu-x"), engine("a", -60_000, replica="gpu-y")]
    with joined(*alone, *copies, *spans) as con:
        assert count(con) == {"joined": 8}
        assert fetch(
            con, "SELECT replica, queue_ns // 1000000 FROM selected_attempt WHERE request_id = 'a' ORDER BY attempt_no"
        ) == [
            ("x", 1),
            ("y", 100),
        ]


def test_a_loser_that_only_the_engine_saw_is_an_attempt_and_no_request() -> None:
    """The gateway hedges behind its one row: the copy costs tokens and time, and its answer was not the caller's."""
    copy = engine(
        "a", 300, (50, 100, 200), status="censored", completion_tokens=9, cost=0.25, currency="USD", replica="gpu-y"
    )
    with joined(gateway("a", replica="x"), engine("a", replica="gpu-x"), copy, gateway("b", 60_000)) as con:
        assert count(con) == {"joined": 1, "copies": 1, "outer_unmatched": 1}
        assert fetch(
            con, "SELECT request_id, attempts, hedges, hedge_won, e2e_ns // 1000000, cost::DOUBLE FROM request"
        ) == [
            ("a", 2, 1, False, 1000, 0.25),
            ("b", 1, 0, False, 1000, None),
        ]
        assert attempts(con, "cause, status, error_kind, won, completion_tokens, replica")[:2] == [
            ("primary", "ok", None, True, None, "x"),
            ("hedge", "censored", "loser", False, 9, "gpu-y"),
        ]
    failed = engine("a", 0, (0, 0, 1), status="error", http_status=500)
    with joined(gateway("a"), failed, engine("a", 300, (50, 100, 200))) as con:
        assert attempts(con, "cause, status, error_kind, won, queue_ns // 1000000") == [
            ("primary", "ok", None, True, 50),
            ("retry", "error", "upstream", False, 0),
        ]


def test_one_id_for_several_calls_that_nothing_tells_apart_is_left_alone() -> None:
    with joined(gateway("a"), engine("a"), engine("a", 700, (1, 2, 3))) as con:
        assert count(con) == {"ambiguous": 2, "outer_unmatched": 1}
        assert attempts(con) == [(0, "primary", "ok", None)]
    # the tokens of the answer tell it
    with joined(
        gateway("a", completion_tokens=7),
        engine("a", completion_tokens=9),
        engine("a", 700, (1, 2, 3), completion_tokens=7),
    ) as con:
        assert count(con) == {"joined": 1, "copies": 1}
        assert attempts(con)[0] == (0, "primary", "ok", 1)


def test_an_id_that_comes_back_later_is_another_request() -> None:
    with joined(gateway("a"), gateway("a", 900_000, 950), engine("a", 900_000), gateway("b", 1_000)) as con:
        assert count(con) == {"joined": 1, "outer_unmatched": 2}
        assert attempts(con, "request_id, (arrival_ns - 1800000000000000000) // 1000000, queue_ns // 1000000") == [
            ("a", 0, None),
            ("b", 1000, None),
            ("a", 900_000, 100),
        ]


def test_choices_of_one_call_are_one_call_as_long_as_its_longest() -> None:
    spans = [engine("a#2", 0, (100, 200, 300)), engine("a", 0), engine("a#3", 1, (100, 200, 100))]
    with joined(gateway("a"), *(s | {"format": "vllm_otlp"} for s in spans)) as con:
        assert count(con) == {"joined": 1, "parts": 2}
        assert attempts(con, "decode_ns // 1000000") == [(600,)]


def test_unmatched_rows_are_counted_on_both_sides_and_only_the_outer_ones_are_requests() -> None:
    with joined(
        *(gateway(f"g{i}", i) for i in range(4)), *(engine(f"g{i}" if i < 2 else f"warm{i}", i) for i in range(5))
    ) as con:
        assert count(con) == {"joined": 2, "inner_unmatched": 3, "outer_unmatched": 2}
        assert fetch(con, "SELECT count(*), count(queue_ns) FROM request") == [(4, 2)]


def test_nothing_is_joined_without_a_shared_id_however_alike() -> None:
    with joined(gateway("a", completion_tokens=7), engine("b", completion_tokens=7)) as con:
        assert count(con) == {"inner_unmatched": 1, "outer_unmatched": 1}
        (note,) = join.notes(join.counts(con))
        assert note["level"] == "warning"
        assert "passed on" in note["text"]


def test_ids_that_were_made_from_file_and_line_match_nothing() -> None:
    with joined(gateway("#1:1"), engine("#1:1")) as con:
        assert count(con) == {"inner_unmatched": 1, "outer_unmatched": 1}


def test_a_name_that_stands_for_several_engines_is_a_pool() -> None:
    rows = [
        row
        for i in range(6)
        for row in (gateway(f"q{i}", i, replica="group"), engine(f"q{i}", i, replica=f"gpu-{i % 2}"))
    ]
    with joined(*rows, gateway("lost", 3, replica="group")) as con:
        assert fetch(con, "SELECT DISTINCT pool, replica FROM selected_attempt ORDER BY ALL") == [
            ("group", "gpu-0"),
            ("group", "gpu-1"),
            ("group", None),
        ]


def test_client_gateway_and_engine_need_no_id_in_common_if_the_gateway_has_both() -> None:
    client = gateway("call-1", observer="client", e2e=1200)
    middle = gateway(
        "call-1", 0, 1100, observer="gateway", format="proxy", attempt_id="chatcmpl-7", pool="eu", ttft_ns=350 * MS
    )
    inside = engine("chatcmpl-7", format="vllm_otlp")
    for order in itertools.permutations([client, middle, inside]):
        with joined(*order) as con:
            assert [c["joined"] for c in join.counts(con)] == [1, 1]
            assert fetch(
                con, "SELECT observer, e2e_ns // 1000000, pool, queue_ns // 1000000, ttft_basis FROM selected_attempt"
            ) == [("client", 1200, "eu", 100, "engine")]


def test_logs_of_different_times_are_not_joined_and_both_count() -> None:
    with joined(gateway("a"), engine("b", 60_000)) as con:
        assert join.counts(con) == []
        assert fetch(con, "SELECT count(*) FROM request") == [(2,)]


def test_two_views_of_one_place_are_folded_field_by_field() -> None:
    """Azure logs durations and tokens of one call in two tables; neither lies inside the other."""
    times = gateway("c", format="azure_apim", replica="west")
    tokens = gateway("c", format="azure_apim_llm", model="gpt", prompt_tokens=11, completion_tokens=12) | {
        "e2e_ns": None
    }
    with joined(tokens, times) as con:
        assert count(con) == {"joined": 1}
        assert attempts(con, "format, e2e_ns // 1000000, replica, model, prompt_tokens, completion_tokens") == [
            ("azure_apim", 1000, "west", "gpt", 11, 12)
        ]


def test_a_call_that_a_framework_and_its_sdk_both_traced_is_joined_once() -> None:
    outer = gateway("resp-1", format="otlp_genai", observer="client", turn_id="t", attempt_id="s1")
    sdk = outer | {
        "arrival_ns": START_NS + MS,
        "e2e_ns": 990 * MS,
        "attempt_id": "s2",
        "parent_id": "s1",
        "replica": "r0",
    }
    with joined(outer, sdk, engine("resp-1")) as con:
        assert count(con) == {"joined": 1}
        assert attempts(con, "attempt_id, queue_ns // 1000000") == [("s2", 100)]


def test_what_vllm_makes_of_an_id_is_seen_through_and_no_more() -> None:
    same = {
        "req-21-0000": "chatcmpl-req-21-0000",  # X-Request-Id, chat: the last number belongs to it
        "chatcmpl-b7": "chatcmpl-b7",  # the id of the answer
        "cmpl-c7": "cmpl-c7-0",  # the same of a completion: the number of the prompt is the engine's
        "d-1": "cmpl-d-1-0",
    }
    other = {"req-1": "chatcmpl-req-10", "e": "cmpl-e", "f-1": "cmpl-f-1"}
    rows = [gateway(name, i) for i, name in enumerate([*same, *other])]
    inside = [engine(name, i, format="vllm_otlp") for i, name in enumerate([*same.values(), *other.values()])]
    with joined(*rows, *inside) as con:
        matched = fetch(
            con,
            "SELECT o.request_id, i.request_id FROM join_verdict JOIN attempt o ON o.rowid = outer_row JOIN attempt i ON i.rowid = inner_row",
        )
    assert dict(matched) == same


def test_an_engine_span_below_a_clients_span_needs_no_request_id() -> None:
    with joined(gateway("x", attempt_id="abcd"), engine("chatcmpl-9", parent_id="abcd", format="vllm_otlp")) as con:
        assert count(con) == {"joined": 1}


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_whatever_the_order_each_engine_row_is_used_once_and_no_request_is_lost(data: st.DataObject) -> None:
    """Any mixture of ids on both sides: rows are conserved, the sum rule holds, and the order of reading does not matter."""
    ids = st.sampled_from(["a", "b", "c", "d"])
    status = st.sampled_from(["ok", "ok", "error", "censored"])
    left = [
        gateway(data.draw(ids), i * 10, data.draw(st.integers(500, 1500)), status=data.draw(status))
        for i in range(data.draw(st.integers(1, 5)))
    ]
    right = [engine(data.draw(ids), i * 10, status=data.draw(status)) for i in range(data.draw(st.integers(1, 5)))]
    seen = []
    for rows in (left + right, right[::-1] + left[::-1]):
        rows = [row | {"line": (k + 1 if row in left else k + 50)} for k, row in enumerate(rows)]
        with joined(*rows) as con:
            told = count(con)
            assert fetch(con, "SELECT count(*) FROM selected_attempt") == [(len(left) + told.get("copies", 0),)]
            assert fetch(con, "SELECT count(DISTINCT request_id) FROM request") == [
                (len({r["request_id"] for r in left}),)
            ]
            assert (
                fetch(
                    con,
                    "SELECT count(*) FROM join_verdict WHERE verdict = 'joined' GROUP BY outer_row HAVING count(*) > 1",
                )
                == []
            )
            assert fetch(
                con,
                "SELECT count(*) FROM component WHERE coalesce(queue_ns, 0) + coalesce(prefill_ns, 0) + coalesce(unsplit_ns, 0)"
                " + coalesce(decode_ns, 0) + coalesce(tool_wait_ns, 0) + other_ns <> e2e_ns",
            ) == [(0,)]
            seen.append(
                (
                    told,
                    fetch(
                        con,
                        "SELECT request_id, arrival_ns, e2e_ns, status, queue_ns FROM selected_attempt ORDER BY ALL",
                    ),
                )
            )
    assert seen[0] == seen[1]


def test_patterns_of_join_ids_have_one_group_and_name_an_id() -> None:
    assert parse_join_ids("") == (("request_id", ""), ("attempt_id", ""))
    assert parse_join_ids(r"request_id~^cmpl-(.+)-\d{1,3}$, parent_id") == (
        ("request_id", r"^cmpl-(.+)-\d{1,3}$"),
        ("parent_id", ""),
    )
    for wrong in ("model", "request_id~^cmpl", "request_id~(", "request_id~(a)(b)"):
        with pytest.raises(UsageError, match="join_ids"):
            parse_join_ids(wrong)


# --- files and databases -----------------------------------------------------------------------------------------------------------


def calls(path: Path, n: int, **more: Any) -> Path:
    rows = (
        {
            "ts": f"2026-11-20T10:00:{i:02d}Z",
            "request_id": f"q{i}",
            "attempt_id": f"q{i}-1",
            "replica": "r0",
            "e2e_ms": 900,
            "status": 200,
        }
        | more
        for i in range(n)
    )
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def spans(path: Path, numbers: range) -> Path:
    start = 1_795_168_800_000_000_000  # 2026-11-20T10:00:00Z
    lines = []
    for i in numbers:
        value = {
            "e2e": 0.7,
            "time_in_queue": 0.1,
            "time_in_model_prefill": 0.2,
            "time_in_model_decode": 0.4,
            "time_to_first_token": 0.3,
        }
        attributes = [{"key": f"gen_ai.latency.{k}", "value": {"doubleValue": v}} for k, v in value.items()]
        attributes.append({"key": "gen_ai.request.id", "value": {"stringValue": f"cmpl-q{i}-1-0"}})
        span = {
            "traceId": f"{i + 1:032x}", "spanId": f"{i + 1:016x}", "name": "llm_request",
            "startTimeUnixNano": str(start + i * S), "endTimeUnixNano": str(start + i * S + 700 * MS), "attributes": attributes,
        }  # fmt: skip
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "gpu-0"}}]}
        lines.append(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}))
    path.write_text("\n".join(lines) + "\n")
    return path


def both_ways(db: Path) -> list[tuple[Any, ...]]:
    with connect(None) as memory:
        analysis.copy(db, memory)
        decompose.prepare(memory.con)
        return fetch(
            memory.con, "SELECT request_id, e2e_ns, queue_ns, prefill_ns, decode_ns, replica FROM request ORDER BY ALL"
        )


def test_the_other_observer_may_arrive_later_or_first(tmp_path: Path) -> None:
    log_file, span_file = calls(tmp_path / "a.jsonl", 6), spans(tmp_path / "s.jsonl", range(1, 5))
    at_once = read(log_file, span_file, db=tmp_path / "1.duckdb", join=True)
    read(log_file, db=tmp_path / "2.duckdb")
    with pytest.raises(UsageError, match="overlap in time") as refused:
        read(span_file, db=tmp_path / "2.duckdb")
    assert "--join" in str(refused.value.hint)
    later = read(span_file, db=tmp_path / "2.duckdb", join=True)
    read(span_file, db=tmp_path / "3.duckdb")
    read(log_file, db=tmp_path / "3.duckdb", join=True)
    assert at_once["joined"] == later["joined"]
    assert at_once["totals"]["requests"] == later["totals"]["requests"] == 6
    assert at_once["coverage"]["queue"] == later["coverage"]["queue"] == round(4 / 6, 4)
    first, *others = (both_ways(tmp_path / f"{i}.duckdb") for i in (1, 2, 3))
    assert [r[2] is not None for r in first] == [False, True, True, True, True, False]
    assert others == [first, first]


def test_a_joined_database_takes_more_of_both_logs_without_the_flag_and_reads_nothing_twice(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    read(calls(tmp_path / "a.jsonl", 3), spans(tmp_path / "s.jsonl", range(3)), db=db, join=True)
    grown = read(calls(tmp_path / "a.jsonl", 5), spans(tmp_path / "s.jsonl", range(4)), db=db)
    assert (grown["totals"]["accepted"], grown["totals"]["requests"], grown["joined"][0]["joined"]) == (3, 5, 4)
    assert query(db, "SELECT count(*) FROM attempt") == [(9,)]  # what was read stays as it was read


def test_the_daily_figures_of_a_joined_database_count_a_request_once(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    read(calls(tmp_path / "a.jsonl", 5), spans(tmp_path / "s.jsonl", range(1, 7)), db=db, join=True)
    with connect(db) as store, store.transaction() as con:
        history.record(con)
    assert query(db, "SELECT requests::INT, attempts::INT FROM history_day") == [(5, 5)]


def test_the_flag_reaches_the_readers_from_the_command_line_and_the_settings(tmp_path: Path) -> None:
    calls(tmp_path / "a.jsonl", 3)
    spans(tmp_path / "s.jsonl", range(3))
    (tmp_path / "joined.toml").write_text("join = true\n")
    logs = [str(tmp_path / "a.jsonl"), str(tmp_path / "s.jsonl")]
    command = [sys.executable, "-m", "hedgectl", "breakdown", *logs, "-o", "json"]
    for more, code in (([], 2), (["--join"], 0), (["--config", str(tmp_path / "joined.toml")], 0)):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stderr
        if not code:
            (group,) = json.loads(done.stdout)["groups"]
            assert (group["requests"], group["components"]["queue"]["n"]) == (3, 3)


def test_a_log_without_a_time_of_day_is_refused_beside_another_one(tmp_path: Path) -> None:
    text = "slot launch_slot_: id 0 | task 1 | processing task\n"
    text += "slot print_timing: id 0 | task 1 | prompt eval time = 10.00 ms / 5 tokens\nslot print_timing: id 0 | task 1 | eval time = 20.00 ms / 2 tokens\n"
    text += "slot      release: id 0 | task 1 | stop processing: n_tokens = 6, truncated = 0\n"
    slots = tmp_path / "server.log"
    slots.write_text(text)
    with pytest.raises(UsageError, match="same requests would be counted twice"):
        read(calls(tmp_path / "a.jsonl", 2), slots)
    done = read(calls(tmp_path / "a.jsonl", 2), slots, join=True)
    assert (done["joined"][0]["inner_unmatched"], done["totals"]["requests"]) == (1, 2)


def test_the_sample_pair_is_as_its_maker_writes_it_and_joins_to_the_last_row() -> None:
    folder = sql.samples_dir() / "joined"
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} == make_joined_sample.files()
    with analysis.opened(analysis.Logs(paths=(str(folder),), join=True), decompose.Selection()) as found:
        (told,) = join.counts(found.con)
        losers = fetch(found.con, "SELECT count(*), count(queue_ns) FROM selected_attempt WHERE status = 'censored'")
        # the gateway's own time was drawn from 4 to 30 ms
        (low, high) = fetch(found.con, "SELECT min(other_ns), max(other_ns) FROM component")[0]
    assert (told["joined"], told["outer_unmatched"], told["inner_unmatched"]) == (60, 6, 1)
    assert losers == [(6, 0)]
    assert 4 * MS - 100_000 <= low <= high <= 30 * MS + 100_000


def test_the_daily_job_joins_where_the_configuration_says_so(tmp_path: Path) -> None:
    """Two logs in one line of cron; whatever keeps the rows, a request that both saw is one."""
    (tmp_path / "hedgectl.toml").write_text("join = true\n")
    (tmp_path / "state").mkdir()
    logs = [str(path) for path in sorted((sql.samples_dir() / "joined").iterdir())]
    command = [sys.executable, "-m", "hedgectl", "daily", *logs, "--config", "hedgectl.toml", "-o", "json", "--dry-run"]
    for place in (["--state-dir", "state"], ["--from", "folder"]):
        given = [*command, *place, "--policy-file", "policy.json", "--as-of", "2026-10-13T00:00:00Z"]
        if place[0] == "--from":
            given.remove("--dry-run")
        done = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 3, done.stderr
        ingested = json.loads(done.stdout)["ingested"]
        assert (ingested["lines"], ingested["attempts"], ingested["requests"]) == (127, 66, 60), place


def test_a_folder_tells_what_was_joined_as_a_database_does(tmp_path: Path) -> None:
    logs = sorted((sql.samples_dir() / "joined").iterdir())
    expected = read(*logs, db=tmp_path / "a.duckdb", join=True)
    got = fleet.ingest(str(tmp_path / "out"), [str(p) for p in logs], Here(), batch_bytes=1, join=True)
    assert got["joined"][0]["joined"] == 60
    assert got | {"database": ""} == expected | {"database": ""}
    with pytest.raises(UsageError, match="overlap in time"):
        fleet.ingest(str(tmp_path / "other"), [str(p) for p in logs], Here(), batch_bytes=1)


def test_of_choices_of_one_length_the_answered_one_stands_for_the_call() -> None:
    """Two engine rows that begin together and last as long: which was read first does not matter."""
    outer = gateway("c", 10, 899)
    inner = [engine("c", 0), engine("c", 10, status="error")]
    for rows in ([outer, *inner], [*inner[::-1], outer]):
        with joined(*rows) as con:
            assert count(con) == {"joined": 1, "parts": 1}
            assert fetch(con, "SELECT queue_ns FROM selected_attempt WHERE cause IS NULL OR cause = 'primary'") == [
                (100 * MS,)
            ]
