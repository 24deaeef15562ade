"""Folding attempts into requests, and which requests a selection holds."""

from __future__ import annotations

from typing import Any

import pytest
from analysis_logs import MS, START_NS, S, at, log, requests

from hedgectl import decompose, sql
from hedgectl.decompose import Selection
from hedgectl.errors import UsageError

# --- logical requests ------------------------------------------------------------------------------------------------


def test_a_retry_after_a_failure_counts_from_the_first_send() -> None:
    rows = [
        at(0, request_id="a", status="error", http_status=503, e2e_ns=5 * S, replica="r0"),
        at(6000, request_id="a", e2e_ns=S, ttft_ns=200 * MS, queue_ns=10 * MS, completion_tokens=50, replica="r1"),
        at(10_000, request_id="b", e2e_ns=1100 * MS, ttft_ns=210 * MS, completion_tokens=50, replica="r1"),
    ]
    (a, b), prepared = requests(rows)
    assert (prepared.requests, prepared.attempts) == (2, 3)
    assert (a["attempts"], a["retries"], a["hedges"], a["status"]) == (2, 1, 0, "ok")
    assert a["e2e_ns"] == 7 * S
    assert a["ttft_ns"] == 6200 * MS
    assert (a["replica"], a["primary_replica"], a["primary_status"]) == ("r1", "r0", "error")
    # Six seconds passed before the attempt that answered was sent: no queue and no prefill of that attempt.
    assert (a["unsplit_ns"], a["queue_ns"], a["prefill_ns"], a["decode_ns"]) == (6 * S, 10 * MS, 190 * MS, 800 * MS)
    assert b["e2e_ns"] == 1100 * MS


def test_a_hedge_that_wins_leaves_a_censored_primary() -> None:
    rows = [
        at(0, request_id="a", status="censored", http_status=499, e2e_ns=900 * MS, replica="r0"),
        at(600, request_id="a", e2e_ns=S, ttft_ns=300 * MS, completion_tokens=9, replica="r1"),
    ]
    (a,), _ = requests(rows)
    assert (a["hedges"], a["retries"], a["hedge_won"]) == (1, 0, True)
    assert a["ttft_ns"] == 900 * MS
    assert (a["primary_status"], a["primary_e2e_ns"]) == ("censored", 900 * MS)
    assert a["status"] == "ok"


def test_a_fast_refusal_never_wins() -> None:
    rows = [
        at(0, request_id="a", e2e_ns=1900 * MS, ttft_ns=900 * MS, completion_tokens=9, replica="r0"),
        at(500, request_id="a", status="error", http_status=429, e2e_ns=15 * MS, replica="r1"),
    ]
    (a,), _ = requests(rows)
    assert (a["ttft_ns"], a["replica"], a["hedges"], a["hedge_won"]) == (900 * MS, "r0", 1, False)


def test_the_first_success_wins_unless_the_log_says_who_won() -> None:
    rows = [at(0, request_id="a", e2e_ns=3 * S, replica="r0"), at(500, request_id="a", e2e_ns=S, replica="r1")]
    (a,), _ = requests(rows)
    assert (a["replica"], a["e2e_ns"], a["hedge_won"]) == ("r1", 1500 * MS, True)
    (a,), _ = requests([rows[0] | {"won": True}, rows[1] | {"won": False}])
    assert (a["replica"], a["e2e_ns"], a["hedge_won"]) == ("r0", 3 * S, False)


@pytest.mark.parametrize(("status", "code"), [("error", 499), ("error", 504), ("censored", None)])
def test_a_caller_who_gave_up_is_no_error(status: str, code: int | None) -> None:
    (a,), _ = requests([at(0, status=status, http_status=code, e2e_ns=30 * S)])
    assert (a["status"], a["e2e_ns"], a["other_ns"]) == ("censored", 30 * S, None)


def test_a_failure_of_all_attempts_is_what_the_last_one_was() -> None:
    rows = [
        at(0, request_id="a", status="error", http_status=504, error_kind="timeout", e2e_ns=10 * S),
        at(11_000, request_id="a", status="error", http_status=503, e2e_ns=S),
    ]
    (a,), _ = requests(rows)
    assert (a["status"], a["e2e_ns"], a["retries"]) == ("error", 12 * S, 1)


def test_an_id_used_again_after_its_answer_is_another_request() -> None:
    rows = [at(0, request_id="a", e2e_ns=S), at(60_000, request_id="a", e2e_ns=2 * S)]
    found, prepared = requests(rows)
    assert [r["e2e_ns"] for r in found] == [S, 2 * S]
    assert "request_id_reused" in [n["code"] for n in prepared.notes]


def test_logged_attempt_numbers_and_causes_stand() -> None:
    rows = [
        at(500, request_id="a", attempt_no=1, cause="retry", e2e_ns=S, replica="r1"),
        at(0, request_id="a", attempt_no=0, cause="primary", status="error", e2e_ns=2 * S, replica="r0"),
    ]
    (a,), _ = requests(rows)
    assert (a["retries"], a["hedges"], a["primary_replica"]) == (1, 0, "r0")


def test_the_order_of_lines_changes_nothing() -> None:
    rows = [at(i * 700, request_id=f"q{i % 4}", attempt_no=i // 4, e2e_ns=(i + 1) * 100 * MS) for i in range(8)]
    first, _ = requests(rows)
    again, _ = requests(rows[::-1])
    drop = ("line", "record")
    assert [{k: v for k, v in r.items() if k not in drop} for r in first] == [
        {k: v for k, v in r.items() if k not in drop} for r in again
    ]


# --- selection ---------------------------------------------------------------------------------------------------------


def test_the_window_ends_with_the_newest_row_and_counts_what_lies_outside() -> None:
    rows = [at(i * 10_000, e2e_ns=S, model=f"m{i % 2}") for i in range(6)]
    _, prepared = requests(rows, Selection(window_ns=20 * S))
    assert prepared.requests == 3
    assert prepared.window["to"] == "2027-01-15T08:00:50Z"
    assert prepared.facts["requests_read"] - prepared.requests == 3
    _, prepared = requests(rows, Selection(since_ns=START_NS, until_ns=START_NS + 10 * S))
    assert prepared.requests == 1
    _, prepared = requests(rows, Selection(model="m1"))
    assert prepared.requests == 3
    _, prepared = requests(rows, Selection(as_of_ns=START_NS + 25 * S, window_ns=10 * S))
    assert prepared.requests == 1


def test_a_request_is_never_cut_apart_by_where() -> None:
    rows = [
        at(0, request_id="a", status="error", segment="pro", e2e_ns=S),
        at(2000, request_id="a", segment="free", e2e_ns=S),
        at(9000, request_id="b", segment="free", e2e_ns=S),
    ]
    found, _ = requests(rows, Selection(where="segment = 'pro'"))
    assert [(r["request_id"], r["attempts"]) for r in found] == [("a", 2)]


def test_names_that_look_like_sql_are_names() -> None:
    name = "x'; DROP TABLE attempt; --"
    _, prepared = requests([at(0, model=name, e2e_ns=S), at(1, model="y", e2e_ns=S)], Selection(model=name))
    assert prepared.requests == 1


@pytest.mark.parametrize(
    "where",
    [
        "",
        "nothing_known > 1",
        "prompt_tokens",
        "1 = 1; DROP TABLE attempt",
        "1 = 1) OR (1 = 1",
        "1 = 1) UNION SELECT (1 = 1",
        "(SELECT count(*) FROM attempt) > 0",
        "EXISTS (FROM read_text('/etc/hostname'))",
        "prompt_tokens > 1, model = 'a'",
        "sum(prompt_tokens) > 1",
        "row_number() OVER () = 1",
        "prompt_tokens > $x",
        "model = 'a' ORDER BY model",
    ],
)
def test_where_is_one_boolean_expression(where: str) -> None:
    with log([at(0, e2e_ns=S, prompt_tokens=5, model="a")]) as con:
        with pytest.raises(UsageError) as raised:
            decompose.prepare(con, Selection(where=where))
        assert raised.value.hint
        assert con.execute("SELECT count(*) FROM attempt").fetchall() == [(1,)]


def test_an_empty_log_has_an_answer() -> None:
    with log([]) as con:
        prepared = decompose.prepare(con)
    assert prepared.window == {"from": None, "to": None, "requests": 0, "attempts": 0}
    assert [n["code"] for n in prepared.notes] == ["no_requests"]


def test_prepare_works_on_a_read_only_database(tmp_path: Any) -> None:
    import duckdb

    with log([at(0, e2e_ns=S)]) as con:
        con.execute(f"ATTACH '{tmp_path}/a.db' AS kept").fetchall()
        con.execute("CREATE TABLE kept.attempt AS FROM attempt").fetchall()
        con.execute("CREATE TABLE kept.tool_span AS FROM tool_span").fetchall()
    with duckdb.connect(str(tmp_path / "a.db"), read_only=True) as con:
        assert decompose.prepare(con, Selection(where="e2e_ns > 0")).requests == 1


# --- queries that ship ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["failures", "hedges_seen", "hours", "lengths", "replica_minutes", "slowest"])
def test_a_report_runs_on_prepared_tables(name: str) -> None:
    rows = [
        at(0, request_id="a", status="censored", http_status=499, e2e_ns=900 * MS, replica="r0", model="m"),
        at(600, request_id="a", e2e_ns=S, ttft_ns=300 * MS, completion_tokens=9, replica="r1", model="m"),
        at(5000, e2e_ns=S, completion_tokens=20, replica="r0", model="m"),
        # a copy that is not in its row (Envoy, the primary won) stands at the request's start: no delay
        *(
            at(9000 + k, request_id=f"w{k}", attempt_no=0, cause="primary", e2e_ns=S, replica="r0", model="m")
            for k in (0, 1)
        ),
        *(at(9000 + k, request_id=f"w{k}", attempt_no=1, cause="hedge", status="censored", model="m") for k in (0, 1)),
    ]
    with log(rows) as con:
        decompose.prepare(con)
        found = con.execute(sql.text(f"report/{name}"))
        names = [d[0] for d in found.description or []]
        told = [dict(zip(names, r, strict=True)) for r in found.fetchall()]
    assert told
    if name == "hedges_seen":
        assert told == [
            {
                "model": "m",
                "requests": 4,
                "copies": 3,
                "copies_per_request": 0.75,
                "wins_per_copy": 0.3333,
                "cancels_per_request": 0.75,
                "cancels_per_hedge": 1.0,
                "refused_by_rate_limit": 0,
                "delay_p50_ms": 600.0,
            }
        ]


@pytest.mark.parametrize(("e2e_ns", "doubtful"), [(1300 * MS, False), (1_300_000, True), (1_300, True)])
def test_answers_that_no_engine_writes_so_fast_are_told(e2e_ns: int, doubtful: bool) -> None:
    # seconds that stand in a field of milliseconds: every delay of a policy would be as wrong
    rows = [at(k * 1000, e2e_ns=e2e_ns, completion_tokens=90 + k) for k in range(9)]
    cached = [at(k, e2e_ns=MS // 10, completion_tokens=500, cache_hit=True) for k in range(20)]
    with log([*rows, *cached]) as con:
        told = {note["code"]: note["level"] for note in decompose.prepare(con).notes}
    assert ("unit_doubtful" in told) == doubtful
    assert told.get("unit_doubtful", "warning") == "warning"
