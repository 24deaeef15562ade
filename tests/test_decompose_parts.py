"""Dividing a request's time into its parts without losing a nanosecond; parts that are estimated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from analysis_logs import MS, START_NS, S, at, fleet, requests, table
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl import decompose, prefill
from hedgectl.decompose import Selection

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
