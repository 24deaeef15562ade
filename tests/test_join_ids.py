"""Which rows of two observers are one call: by ids they share, each row once, and never by likeness."""

from __future__ import annotations

import itertools

import pytest
from analysis_logs import MS
from hypothesis import given, settings
from hypothesis import strategies as st
from join_logs import attempts, count, engine, fetch, gateway, joined

from hedgectl import join
from hedgectl.errors import UsageError
from hedgectl.formats.format import parse_join_ids


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


def test_nothing_is_joined_without_a_shared_id_however_alike() -> None:
    with joined(gateway("a", completion_tokens=7), engine("b", completion_tokens=7)) as con:
        assert count(con) == {"inner_unmatched": 1, "outer_unmatched": 1}
        (note,) = join.notes(join.counts(con))
        assert note["level"] == "warning"
        assert "passed on" in note["text"]


def test_ids_that_were_made_from_file_and_line_match_nothing() -> None:
    with joined(gateway("#1:1"), engine("#1:1")) as con:
        assert count(con) == {"inner_unmatched": 1, "outer_unmatched": 1}


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
