"""Several observers of one request: joined by ids they share, durations only, and never counted twice.

Decided here, each with its test: the row nearest to the caller stays; what only an inner observer saw is counted and kept out of the
requests, unless it carries the id of a request that both saw: then it is an attempt of it, a loser. Nothing is joined without a shared id.
"""

from __future__ import annotations

import pytest
from analysis_logs import MS, START_NS
from join_logs import attempts, count, engine, fetch, gateway, joined

from hedgectl import join, sql


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


def test_unmatched_rows_are_counted_on_both_sides_and_only_the_outer_ones_are_requests() -> None:
    with joined(
        *(gateway(f"g{i}", i) for i in range(4)), *(engine(f"g{i}" if i < 2 else f"warm{i}", i) for i in range(5))
    ) as con:
        assert count(con) == {"joined": 2, "inner_unmatched": 3, "outer_unmatched": 2}
        assert fetch(con, "SELECT count(*), count(queue_ns) FROM request") == [(4, 2)]


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
