"""Folding attempts into requests, and dividing their time without losing a nanosecond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from analysis_logs import MS, START_NS, fleet, log, table
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl import decompose, prefill, sql
from hedgectl.decompose import Prepared, Selection
from hedgectl.errors import UsageError

S = 1000 * MS


def requests(
    rows: Sequence[Mapping[str, Any]], selection: Selection | None = None
) -> tuple[list[dict[str, Any]], Prepared]:
    """Rows of `request` joined with `component`, in order of arrival."""
    with log(rows) as con:
        prepared = decompose.prepare(con, selection)
        found = con.execute(
            "SELECT r.* EXCLUDE (queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns, decode_basis, tool_wait_ns, "
            "tool_wait_basis), c.* EXCLUDE (request_key, e2e_ns) "
            "FROM request r LEFT JOIN component c USING (request_key) ORDER BY r.request_key"
        )
        names = [d[0] for d in found.description or []]
        return [dict(zip(names, r, strict=True)) for r in found.fetchall()], prepared


def at(ms: float, **more: Any) -> dict[str, Any]:
    return {"arrival_ns": START_NS + round(ms * MS), **more}


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


# --- parts of the time -----------------------------------------------------------------------------------------------

PARTS = ("queue_ns", "prefill_ns", "unsplit_ns", "decode_ns", "tool_wait_ns", "other_ns")
maybe = st.one_of(st.none(), st.integers(-2000, 12_000).map(lambda ms: ms * MS + 137))


@settings(max_examples=20, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "e2e_ns": st.integers(0, 10_000).map(lambda ms: ms * MS + 251),
                "ttft_ns": maybe,
                "queue_ns": maybe,
                "prefill_ns": maybe,
                "decode_ns": maybe,
                "tool_wait_ns": maybe,
                "completion_tokens": st.one_of(st.none(), st.integers(0, 9)),
                "streamed": st.sampled_from([True, False, None]),
                "resolution_ns": st.sampled_from([None, 1, 1000, MS]),
                "request_id": st.integers(0, 15).map(str),
                "status": st.sampled_from(["ok", "ok", "error", "censored"]),
            }
        ),
        min_size=1,
        max_size=40,
    )
)
def test_parts_sum_to_e2e_whatever_the_log_says(rows: list[dict[str, Any]]) -> None:
    found, _ = requests(rows)
    for r in found:
        if r["status"] != "ok":
            continue
        assert sum(r[p] or 0 for p in PARTS) == r["e2e_ns"]
        assert all(r[p] is None or r[p] >= 0 for p in PARTS[:-1])
        assert all((r[p] is None) == (r[p.replace("_ns", "_basis")] == "unknown") for p in PARTS[:-1])


def one(**row: Any) -> dict[str, Any]:
    (found,), _ = requests([at(0, **row)])
    return found


def test_queue_measured_prefill_and_decode_are_differences() -> None:
    r = one(e2e_ns=2 * S, ttft_ns=500 * MS, queue_ns=100 * MS, completion_tokens=20)
    assert [r[p] for p in PARTS] == [100 * MS, 400 * MS, None, 1500 * MS, None, 0]
    assert (r["queue_basis"], r["prefill_basis"], r["decode_basis"]) == ("measured", "derived", "derived")


def test_first_token_alone_is_not_divided() -> None:
    r = one(e2e_ns=2 * S, ttft_ns=500 * MS, completion_tokens=20)
    assert [r[p] for p in PARTS] == [None, None, 500 * MS, 1500 * MS, None, 0]


def test_a_whole_answer_is_unexplained() -> None:
    r = one(e2e_ns=2 * S, streamed=False, completion_tokens=20)
    assert [r[p] for p in PARTS] == [None, None, None, None, None, 2 * S]
    assert r["other_basis"] == "unknown"


def test_tool_wait_is_no_decode() -> None:
    r = one(e2e_ns=10 * S, ttft_ns=S, tool_wait_ns=5 * S, completion_tokens=20)
    assert (r["decode_ns"], r["tool_wait_ns"], r["other_ns"]) == (4 * S, 5 * S, 0)


def test_an_engine_knows_its_phases_of_a_whole_answer() -> None:
    r = one(e2e_ns=2 * S, queue_ns=200 * MS, prefill_ns=300 * MS, streamed=False, completion_tokens=20)
    assert [r[p] for p in PARTS] == [200 * MS, 300 * MS, None, 1500 * MS, None, 0]


def test_rounding_goes_to_the_largest_part() -> None:
    parts = {"queue_ns": 100 * MS, "prefill_ns": 300 * MS, "decode_ns": 1599 * MS}
    r = one(e2e_ns=2 * S, ttft_ns=400 * MS, completion_tokens=20, **parts)
    assert (r["decode_ns"], r["other_ns"]) == (1600 * MS, 0)
    r = one(e2e_ns=2 * S, ttft_ns=400 * MS, completion_tokens=20, **parts | {"decode_ns": 1590 * MS})
    assert (r["decode_ns"], r["other_ns"]) == (1590 * MS, 10 * MS)


def test_parts_beyond_the_whole_show_as_a_negative_rest() -> None:
    r = one(e2e_ns=2 * S, ttft_ns=400 * MS, decode_ns=1800 * MS, completion_tokens=20)
    assert (r["decode_ns"], r["other_ns"]) == (1800 * MS, -200 * MS)


@pytest.mark.parametrize(
    ("row", "code"),
    [
        ({"ttft_ns": 2 * S, "streamed": True, "completion_tokens": 9}, "ttft_equals_e2e"),
        ({"ttft_ns": 2 * S, "streamed": True}, "ttft_equals_e2e"),
        ({"ttft_ns": 3 * S, "streamed": True}, "ttft_after_end"),
        ({"ttft_ns": -300 * MS, "streamed": True}, "clock_skew"),
        ({"ttft_ns": 0, "streamed": True}, "ttft_is_zero"),
        ({"ttft_ns": S, "streamed": False}, "not_streamed"),
    ],
)
def test_a_first_token_that_is_none_is_unknown_and_told(row: dict[str, Any], code: str) -> None:
    found, prepared = requests([at(0, e2e_ns=2 * S, **row), at(5000, e2e_ns=2 * S, ttft_ns=S, completion_tokens=9)])
    assert [r["ttft_ns"] for r in found] == [None, S]
    told = {n["code"]: n for n in prepared.notes}[code]
    assert told["share"] == 0.5


def test_streamed_answers_without_a_first_token_are_counted() -> None:
    rows = [at(0, e2e_ns=S, ttft_ns=S // 2, completion_tokens=9)]
    rows += [at(1000, e2e_ns=S, streamed=True), at(2000, e2e_ns=S, streamed=True), at(3000, e2e_ns=S, streamed=False)]
    _, prepared = requests(rows)
    told = {n["code"]: n for n in prepared.notes}["ttft_unknown"]
    assert told["share"] == pytest.approx(2 / 3, abs=1e-6)
    assert told["text"] == "the first token is known for 1 of 3 streamed answers"


def test_one_token_may_come_at_the_end() -> None:
    assert one(e2e_ns=2 * S, ttft_ns=2 * S, completion_tokens=1)["ttft_ns"] == 2 * S


def test_an_engine_times_its_first_token_without_a_stream() -> None:
    assert one(e2e_ns=2 * S, ttft_ns=S, ttft_basis="engine", streamed=False, completion_tokens=5)["ttft_ns"] == S


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


# --- estimated parts ---------------------------------------------------------------------------------------------------


def test_prefill_is_divided_from_the_queue_where_the_fit_is_good() -> None:
    with table(fleet(n=6000, replicas=4, rate_per_s=4.0)) as con:
        prepared = decompose.prepare(con)
        fit = prepared.prefill_fits["chat"]
        assert fit.good
        assert fit.base_ns == pytest.approx(30 * MS, rel=0.05)
        assert fit.per_token_ns == pytest.approx(120_000, rel=0.02)
        bases = con.execute("SELECT DISTINCT queue_basis, prefill_basis FROM component").fetchall()
        assert bases == [("estimated", "estimated")]
        # Nothing waited here: what is left for the queue is the fit's error.
        (queue,) = con.execute("SELECT quantile_cont(queue_ns, 0.9) FROM component").fetchall()[0]
        assert queue < 5 * MS


@pytest.mark.parametrize("lost", ["cached_tokens", "replica", "prompt_tokens"])
def test_prefill_is_not_divided_without_what_the_fit_needs(lost: str) -> None:
    columns = fleet(n=1500, replicas=3, rate_per_s=3.0)
    del columns[lost]
    with table(columns) as con:
        told = [n["code"] for n in decompose.prepare(con).notes]
        assert ("cached_tokens_unknown" in told) is (lost == "cached_tokens")
        assert con.execute("SELECT count(queue_ns), count(unsplit_ns) FROM component").fetchall() == [(0, 1500)]
        if lost == "cached_tokens":
            decompose.prepare(con, Selection(assume_uncached=True))
            assert con.execute("SELECT count(queue_ns) FROM component").fetchall() == [(1500,)]


def test_a_bad_fit_says_why() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(10, 4000, 500)
    clean = 30e6 + 120_000 * x
    assert prefill.fit(x, clean).good
    assert prefill.fit(x[:150], clean[:150]).refused == "too_few_idle_arrivals"
    assert prefill.fit(x % 20, clean).refused == "too_few_prompt_lengths"
    assert prefill.fit(x, np.full(500, 3e8) + rng.normal(0, 1e5, 500)).refused in (
        "no_growth_with_prompt",
        "slope_too_uncertain",
    )
    noisy = clean * rng.lognormal(0, 0.6, 500)
    assert not prefill.fit(x, noisy).good


def test_slow_spells_do_not_pull_the_fit() -> None:
    rng = np.random.default_rng(2)
    x = rng.integers(10, 4000, 3000)
    slow = np.where(rng.random(3000) < 0.15, 6.0, 1.0)
    fit = prefill.fit(x, (30e6 + 120_000 * x) * slow * rng.normal(1, 0.02, 3000))
    assert fit.good
    assert fit.per_token_ns == pytest.approx(120_000, rel=0.02)


def test_stream_bytes_stand_in_for_tokens_only_where_the_scale_holds() -> None:
    n = 300
    rng = np.random.default_rng(3)
    tokens = rng.integers(10, 500, n)
    columns: dict[str, Any] = {
        "arrival_ns": START_NS + np.arange(n) * S,
        "e2e_ns": np.full(n, S),
        "streamed": np.ones(n, dtype=bool),
        "response_bytes": tokens * 250,
        "completion_tokens": np.array([int(t) if i % 2 else None for i, t in enumerate(tokens)], dtype=object),
    }

    def lengths(columns: dict[str, Any]) -> tuple[float | None, list[Any]]:
        with table(columns) as con:
            prepared = decompose.prepare(con)
            found = con.execute("SELECT output_tokens, output_basis FROM output_length ORDER BY request_key").fetchall()
        return prepared.bytes_per_token, found

    scale, found = lengths(columns)
    assert scale == pytest.approx(250)
    assert found[0] == (pytest.approx(tokens[0]), "estimated")
    assert found[1] == (tokens[1], "measured")
    scale, found = lengths(columns | {"response_bytes": rng.integers(1000, 200_000, n)})
    assert (scale, found[0]) == (None, (None, "unknown"))
    scale, found = lengths({k: v for k, v in columns.items() if k != "completion_tokens"})
    assert (scale, found[0]) == (1.0, (float(tokens[0] * 250), "estimated"))


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
