"""The decision by the screen: what it says about logs of known cause, and every way it refuses."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import recommend_logs as logs
from recommend_cases import codes, given, only

from hedgectl import decompose, policy
from hedgectl.errors import InputError, UsageError
from hedgectl.model import Workload
from hedgectl.policy import Budget, Rule, Window
from hedgectl.recommend import Options, delay, parse_goal, recommend, scopes
from hedgectl.recommend.arms import Pool
from hedgectl.recommend.decide import decide
from hedgectl.recommend.run import Coverage


def test_a_slow_replica_now_and_then_is_hedged_with_low_confidence() -> None:
    entry = only(logs.spells(slow=0.05))
    assert (entry["decision"], entry["confidence"]) == ("hedge", "low")
    assert entry["hedge"]["trigger"] == "first_token"
    arms = entry["projection"]
    assert arms["hedged"]["e2e_ms"]["p99"] < 0.6 * arms["unhedged"]["e2e_ms"]["p99"]
    assert arms["hedged"]["hedge_rate"] <= 0.05 + 100 / 6000 + 1e-9
    assert arms["p99_change"]["ratio"] == pytest.approx(
        arms["hedged"]["e2e_ms"]["p99"] / arms["unhedged"]["e2e_ms"]["p99"], rel=1e-4
    )


def test_long_answers_are_not_hedged() -> None:
    entry = only(logs.spells(long_share=0.03))
    assert entry["decision"] == "do_not_hedge"
    assert "long_work" in codes(entry)
    assert entry["hedge"] is not None  # a reader sees what was refused


def test_a_fleet_that_is_slow_together_is_not_hedged_and_says_so() -> None:
    shared = {"verdict": "shared", "co_movement": {"e2e": {"lift": 8.0, "interval": [6.0, 10.0]}}}
    entry = only(logs.spells(slow=0.08, shared=True), diagnosis=shared)
    assert entry["decision"] == "do_not_hedge"
    assert "shared" in codes(entry)
    assert "add_capacity" in codes(entry, "instead")


def test_the_worse_copy_length_has_to_pass() -> None:
    w = logs.spells(long_share=0.03, streamed=0)
    assert only(w, Options(copy_length="independent"))["decision"] == "hedge"
    assert only(w, Options(copy_length="same"))["decision"] == "do_not_hedge"
    assert only(w)["decision"] == "do_not_hedge"


def test_whole_answers_wait_for_the_response_and_exclude_streams() -> None:
    entry = only(logs.spells(slow=0.05, streamed=0))
    assert entry["decision"] == "hedge"
    assert entry["hedge"]["trigger"] == "response"
    assert {k: entry["eligible"][0][k] for k in ("field", "op", "value")} == {
        "field": "streamed",
        "op": "=",
        "value": False,
    }


def test_too_few_requests_withhold_the_answer_unless_the_minimum_is_lowered() -> None:
    few = logs.spells(n=298, slow=0.05)
    entry = only(few)
    assert entry["decision"] == "not_enough_data"
    assert codes(entry) == ["too_few_requests"]
    assert entry["hedge"] is None
    assert only(few, Options(min_requests=100))["decision"] != "not_enough_data"


def test_one_replica_needs_a_second_target() -> None:
    entry = only(logs.spells(replicas=1, slow=0.1))
    assert entry["decision"] == "do_not_hedge"
    assert codes(entry) == ["one_replica"]
    assert "r0" in entry["reasons"][0]["text"]


def test_many_failures_are_an_incident_not_a_tail() -> None:
    w = logs.spells()
    failed = np.where(np.arange(len(w)) % 5 == 0, 1, 0)
    entry = only(replace(w, status=failed.astype(np.int8)))
    assert codes(entry) == ["incident"]
    raced = only(replace(w, status=failed.astype(np.int8)), raced=len(w) // 5)
    assert "incident" not in codes(raced)


def test_a_target_that_sees_headers_needs_headers_in_the_log() -> None:
    streams = logs.spells(slow=0.05)
    entry = only(streams, Options(target="envoy"))
    assert entry["decision"] == "not_enough_data"
    assert "headers_ms" in entry["reasons"][0]["text"]
    with_headers = replace(streams, headers_s=streams.ttft_s, streamed=np.zeros(len(streams), dtype=np.int8))
    assert only(with_headers, Options(target="envoy"))["hedge"]["trigger"] == "response_headers"
    whole = logs.spells(slow=0.05, streamed=0)
    assert only(whole, Options(target="grpc"))["hedge"]["trigger"] == "response"
    with pytest.raises(UsageError, match="nginx"):
        only(streams, Options(target="nginx"))


def test_a_goal_on_a_clock_that_was_not_logged_withholds_the_answer() -> None:
    entry = only(logs.spells(slow=0.05, streamed=0), Options(goal=parse_goal("ttft_p95")))
    assert entry["decision"] == "not_enough_data"
    assert "log ttft_ms" in entry["reasons"][0]["text"]


def test_rules_that_leave_nobody_are_no_missing_clock() -> None:
    w = logs.spells(slow=0.05)
    entry = only(replace(w, tools_offered=np.ones(len(w), dtype=np.int8)))
    assert codes(entry) == ["nothing_eligible"]
    assert entry["decision"] == "do_not_hedge"


def test_fields_the_log_never_has_exclude_nothing_and_are_named() -> None:
    w = logs.spells(slow=0.05)
    entry = only(w)
    assumed = [n for n in entry["notes"] if n["code"] == "eligibility_assumed"]
    assert len(assumed) == 1
    assert "tools_offered = false" in assumed[0]["text"]
    assert {r["field"] for r in entry["eligible"]} >= {
        "tools_offered",
        "cache_hit",
        "stored_state",
        "n_choices",
        "batch",
    }
    # Half of the rows say it: the other half is unknown, hence not eligible.
    half = np.where(np.arange(len(w)) % 2 == 0, 0, -1).astype(np.int8)
    entry = only(replace(w, tools_offered=half))
    rule = next(r for r in entry["eligible"] if r["field"] == "tools_offered")
    assert rule["keeps_ratio"] == 0.5
    assert any(n["code"] == "eligibility_unknown" and n["share"] == 0.5 for n in entry["notes"])


def test_a_prompt_that_lives_off_one_cache_is_not_copied() -> None:
    w = logs.spells(slow=0.05)
    cached = np.where(np.arange(len(w)) % 4 == 0, 97, 0)
    rule = next(r for r in only(replace(w, cached_tokens=cached))["eligible"] if r["field"] == "cached_ratio")
    assert rule["keeps_ratio"] == 0.75


def test_delay_comes_from_the_healthy_mode_when_p95_is_a_slow_request() -> None:
    entry = only(logs.spells(n=8000, slow=0.12), Options(budget=Budget(0.2, 500)))
    note = next(n for n in entry["notes"] if n["code"] == "p95_in_slow_mode")
    assert note["share"] > 0.05
    assert entry["hedge"]["delay_ms"] < 300.0  # a healthy first token takes 100 ms, a slow one 1,000 ms
    assert entry["hedge"]["delays"]["first_token"]["at_budget_ms"] < 1100.0


def test_goal_limits_and_cost_limits() -> None:
    w = logs.spells(slow=0.05)
    met = only(w, Options(goal=parse_goal("e2e_p99 < 1h")))
    assert met["decision"] == "do_not_hedge"
    assert codes(met)[0] == "goal_already_met"
    missed = only(w, Options(goal=parse_goal("e2e_p99 < 10ms")))
    assert missed["decision"] == "hedge"
    assert "goal_missed" in codes(missed)
    asked = parse_goal(None, max_cost_delta_ratio=0.001)
    assert "cost_unknown" in codes(only(w, Options(goal=asked)))
    prices = {"chat": {"input_per_mtok": 1.0, "output_per_mtok": 4.0, "currency": "USD"}}
    dear = only(w, Options(goal=asked, prices=prices))
    assert "cost_above_limit" in codes(dear)
    assert dear["projection"]["cost"]["delta_ratio"] > 0.001
    assert only(w, Options(prices=prices))["decision"] == "hedge"  # no limit was asked for


@pytest.mark.parametrize("text", ["p99", "p99 < 7s", "e2e_p99 < 7", "e2e_p99 < soon", "latency", "e2e_p99 <", ""])
def test_a_goal_is_exact_or_refused_with_a_hint(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_goal(text)
    assert refused.value.hint


def test_goals_that_can_be_read() -> None:
    assert parse_goal("e2e_p99 < 7s").below_ms == 7000.0
    assert parse_goal(" ttft_p95<850ms ").metric == "ttft_p95_ms"
    assert parse_goal("e2e_p99.9").metric == "e2e_p99.9_ms"
    assert parse_goal(None).metric == "e2e_p99_ms"


def test_a_given_policy_is_priced_as_it_stands() -> None:
    w = replace(logs.spells(slow=0.05, streamed=0), segment=np.arange(6000) % 3, segments=("free", "pro", "team"))
    everyone = only(w, given(2000.0))
    assert everyone["hedge"]["delay_ms"] == 2000.0
    assert everyone["hedge"]["budget"] is None
    late = float(np.mean(w.e2e_s > 2.0))
    assert everyone["projection"]["hedged"]["hedge_rate"] == pytest.approx(late, abs=1e-6)
    paying = only(w, given(2000.0, Rule("segment", "in", ("pro", "team"))))
    rate = paying["projection"]["hedged"]["hedge_rate"]
    assert rate == pytest.approx(float(np.mean((w.e2e_s > 2.0) & (w.segment > 0))), abs=1e-6)
    refused = paying["projection"]["hedged"]["hedges_refused"]
    assert refused["ineligible"] == int(np.sum((w.e2e_s > 2.0) & (w.segment == 0)))


def test_windows_are_utc_and_may_run_past_midnight() -> None:
    from hedgectl.recommend.eligibility import in_windows

    monday = 1_790_553_600  # 2026-09-28T00:00:00Z
    hours = np.array([22.5, 23.5, 24.5, 25.5])
    w = Workload.of(hours * 3600.0, np.ones(4), np.ones(4), t0_ns=monday * 10**9)
    assert in_windows(w, (Window((1,), "23:00", "01:00"),)).tolist() == [False, True, True, False]
    assert in_windows(w, (Window((2,), "00:00", "02:00"),)).tolist() == [False, False, True, True]
    assert in_windows(w, ()).all()


def test_scopes_are_decided_apart_and_the_slowest_stands_first() -> None:
    con = logs.database(logs.spells(slow=0.05), "slow")
    logs.add(con, logs.spells(seed=2), "fine")
    found = recommend(con, logs.prepared(con), Options())
    assert [p["scope"]["model"] for p in found["policies"]] == ["slow", "fine"]
    assert [p["decision"] for p in found["policies"]] == ["hedge", "do_not_hedge"]
    assert found["method"]["estimator"] == "matched"
    assert found["coverage"]["ttft"] == 1.0
    assert found["coverage"]["cost"] == 0.0
    assert found["window"]["requests"] == 12000
    policy.parse(json.loads(json.dumps(found)))


def test_the_same_log_gives_the_same_bytes() -> None:
    w = logs.spells(n=2000, slow=0.05)
    texts = []
    for _ in range(2):
        con = logs.database(w)
        texts.append(json.dumps(recommend(con, logs.prepared(con), Options()), allow_nan=False))
    assert texts[0] == texts[1]


def test_a_diagnosis_that_is_there_serves_an_only_scope_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgectl.diagnose import diagnose
    from hedgectl.recommend import scopes

    made: list[str | None] = []

    def counted(*given: Any, **known: Any) -> dict[str, Any]:
        made.append(given[1].selection.model)
        return diagnose(*given, **known)

    monkeypatch.setattr(scopes, "diagnose", counted)
    con = logs.database(logs.spells(n=2000, slow=0.05))
    ready = logs.prepared(con)
    alone = recommend(con, ready, Options())
    assert made == [None]
    assert recommend(con, ready, Options(), diagnose(con, ready)) == alone
    assert made == [None]
    logs.add(con, logs.spells(n=2000, seed=2), "other")
    both = logs.prepared(con)
    recommend(con, both, Options(), diagnose(con, both))
    assert sorted(made[1:], key=str) == ["chat", "other"]


def test_an_empty_selection_is_said() -> None:
    con = logs.database(logs.spells(n=100))
    with pytest.raises(InputError):
        recommend(con, logs.prepared(con, model="nobody"), Options())


def test_primaries_that_lost_their_race_count_as_longer() -> None:
    """Copies after 2 s hid the slow answers: the unhedged arm must show them again, the delay must not shrink."""
    w = logs.spells(slow=0.05)
    con = logs.database(w)
    late = np.flatnonzero(w.e2e_s > 3.0)
    part = w.take(late)
    end = part.arrival_s + 2.0 + 1.0
    con.execute(
        "UPDATE attempt SET status='error', error_kind='loser', e2e_ns=3000000000, cause='primary' WHERE e2e_ns > 3000000000"
    )
    copies = replace(
        part,
        arrival_s=part.arrival_s + 2.0,
        e2e_s=np.full(len(part), 1.0),
        ttft_s=np.full(len(part), 0.1),
        replica=((part.replica + 1) % 4).astype(np.int32),
    )
    logs.add(
        con,
        copies,
        request_id=[f"chat-{i}" for i in late],
        attempt_no=1,
        cause="hedge",
    )
    assert np.allclose(end, copies.arrival_s + copies.e2e_s)
    found = recommend(con, logs.prepared(con), Options())
    arm = found["policies"][0]["projection"]["unhedged"] if found["policies"][0]["projection"] else None
    assert any(n["code"] == "already_hedged" for n in found["notes"])
    assert arm is not None
    assert found["policies"][0]["decision"] == "not_enough_data"
    # 5 % are only known to be longer than 3 s: p99 cannot be told, and is never the 3 s at which they were cut.
    assert arm["e2e_ms"]["p99"] is None
    assert arm["e2e_ms"]["at_least"]["p99"] >= 3000.0


def test_a_long_log_gives_the_databases_memory_back_and_keeps_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    from hedgectl.recommend import run

    monkeypatch.setattr(run, "LONG_LOG", 1)
    con = logs.database(logs.spells(n=500))

    def limit() -> float:
        number, unit = con.execute("SELECT current_setting('memory_limit')").fetchall()[0][0].split()
        return float(number) * {"MiB": 1.0, "GiB": 1024.0}[unit]

    before = limit()
    ready = logs.prepared(con)
    seen: list[float] = []
    monkeypatch.setattr(
        run,
        "decide",
        lambda *given, **known: seen.append(limit()) or decide(*given, **known),
    )
    found = recommend(con, ready, Options())
    assert seen == [pytest.approx(122.0, rel=0.01)]
    assert limit() == pytest.approx(before, rel=0.02)  # the setting is a rounded text
    assert found["window"]["requests"] == con.execute("SELECT count(*) FROM request").fetchall()[0][0] == 500


def test_a_request_of_many_outcomes_weighs_in_a_percentile_as_it_does_alone() -> None:
    rng = np.random.default_rng(4)
    alone = rng.exponential(1.0, 201)
    times = rng.integers(1, 4, 201)
    for p in (0.0, 0.03, 0.5, 0.95, 0.99, 1.0):
        expected = np.quantile(alone, p)
        split = Pool.of(np.repeat(alone, 16), np.full(16 * 201, 1 / 16))
        assert Pool.of(alone).at(p) == pytest.approx(expected)
        assert split.at(p) == pytest.approx(expected), "a copy that never wins changes nothing"
        assert Pool.of(alone, times.astype(float)).at(p) == pytest.approx(np.quantile(np.repeat(alone, times), p))
    # one request of two outcomes beside a fast one: p100 is the mean of what the slow one may be
    assert Pool.of(np.array([1.0, 2.0, 4.0]), np.array([1.0, 0.5, 0.5])).at(1.0) == pytest.approx(3.0)
    assert Pool.of(np.array([1.0, 5.0]), censored=np.array([False, True])).at(0.9) is None


def test_where_more_are_slow_than_the_budget_pays_for_later_copies_are_tried() -> None:
    rng = np.random.default_rng(4)
    slow = rng.random(4000) < 0.12
    ttft = np.where(slow, rng.uniform(5.0, 20.0, 4000), rng.lognormal(-1.5, 0.2, 4000))
    log = Workload.of(np.arange(4000.0), np.full(4000, 100), np.full(4000, 100), ttft_s=ttft, e2e_s=ttft + 1.0)
    clock = delay.clock(log, "first_token", np.ones(4000, dtype=bool))
    assert clock is not None
    plain = delay.rule_delay_s(clock, delay.rule_for(clock, delay.RULE_QUANTILE, delay.Limits()))
    waits = delay.later(clock, delay.Limits())
    at = [delay.rule_delay_s(clock, delay.rule_for(clock, delay.RULE_QUANTILE, delay.Limits(), w)) for w in waits]
    assert plain < 1.0
    assert at == pytest.approx([np.quantile(ttft, p) for p in delay.LATER], rel=0.01)
    assert delay.later(clock, delay.Limits(margin_s=0.1)) == delay.later(clock, delay.Limits(ceiling_s=2.0)) == ()
    healthy = delay.clock(replace(log, ttft_s=np.sort(ttft)[:1000].repeat(4)), "first_token", np.ones(4000, dtype=bool))
    assert healthy is not None
    assert delay.later(healthy, delay.Limits()) == ()


def test_scopes_with_too_few_requests_are_counted_and_never_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    con = logs.database(logs.spells(700), model="large")
    for k in range(6):
        logs.add(con, logs.spells(5 + k), model=f"small{k}", cache_hit=np.arange(5 + k) % 2 == 1)
    whole, chosen = logs.prepared(con), Options(min_requests=500)
    small = [one for one in scopes.listed(con, chosen) if not one.enough]
    counted = {one.scope: one for one in scopes.small(con, whole, chosen)}
    assert [one.scope for one in small] == list(counted)
    for one in small:
        loaded = scopes.scope_data(con, whole, one, replace(chosen, min_requests=1))
        seen = Coverage()
        seen.add(loaded.workload)
        same = Coverage()
        same.count(counted[one.scope].counts["requests"], counted[one.scope].counts)
        assert same.document() == seen.document()
        assert counted[one.scope].counts["cache_hits"] == loaded.cache_hits > 0
        decompose.prepare(con, whole.selection)
    built: list[Any] = []
    told: list[str] = []
    prepare = decompose.prepare
    monkeypatch.setattr(decompose, "prepare", lambda *a: built.append(a) or prepare(*a))
    document = recommend(con, whole, replace(chosen, progress=lambda stage, share: told.append(stage)))
    assert len(built) == 2, "the tables of the large scope, and those of the whole selection again"
    assert len(document["policies"]) == 7
    few = [p for p in document["policies"] if p["decision"] == "not_enough_data"]
    assert {p["scope"]["model"]: p["reasons"][0]["value"] for p in few} == {f"small{k}": (6 + k) // 2 for k in range(6)}
