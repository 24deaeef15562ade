"""Knobs: each rule says what it keeps, costs and saves, and the flags turn them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import recommend_logs as logs
from recommend_cases import given, only

from hedgectl.model import Workload
from hedgectl.policy import Rule, Window
from hedgectl.recommend import Options, eligibility
from hedgectl.recommend.eligibility import mask

PRICES = {"chat": {"input_per_mtok": 1.0, "output_per_mtok": 4.0}}


def tools_are_slow(n: int = 6000) -> Workload:
    """A third of the requests offers a tool; spells hit all alike."""
    w = logs.spells(n, slow=0.05)
    offered = (np.arange(n) % 3 == 0).astype(np.int8)
    names = np.where(offered == 1, np.arange(n) // 3 % 2, -1)  # "search", "pay,search"
    return replace(
        w,
        tools_offered=offered,
        tool_set=names.astype(np.int32),
        tool_sets=("search", "pay,search"),
        segment=(np.arange(n) % 2).astype(np.int32),
        segments=("free", "pro"),
        prompt_tokens=np.where(np.arange(n) % 10 == 0, 4000, 100),
    )


def knob(entry: dict[str, Any], field: str, applied: bool) -> list[dict[str, Any]]:
    return [k for k in entry["projection"]["knobs"] if k["field"] == field and k["applied"] is applied]


def test_a_rule_says_what_it_keeps_costs_and_saves() -> None:
    w = tools_are_slow()
    entry = only(w, Options(prices=PRICES))
    rule = next(r for r in entry["eligible"] if r["field"] == "tools_offered")
    assert rule["keeps_ratio"] == pytest.approx(2 / 3, abs=1e-4)
    # Slow requests with tools stay slow: that is the price in p99, and the copies they do not get are what is saved.
    without = only(
        replace(w, tools_offered=np.zeros(len(w), dtype=np.int8), tool_set=np.full(len(w), -1, dtype=np.int32)),
        given_like(entry),
    )
    before, after = without["projection"], entry["projection"]
    # The priced rule is the difference between the two policies, each projected on its own.
    assert rule["p99_cost_ms"] > 0
    assert rule["saves_cost_ratio"] > 0
    assert after["hedged"]["hedge_rate"] < before["hedged"]["hedge_rate"]
    assert knob(entry, "tools_offered", True)[0]["p99_cost_ms"] == rule["p99_cost_ms"]


def given_like(entry: dict[str, Any]) -> Options:
    return replace(given(entry["hedge"]["delay_ms"]), prices=PRICES)


def test_leaving_a_rule_out_by_hand_gives_its_price() -> None:
    w = tools_are_slow()
    rules = (Rule("tools_offered", "=", False), Rule("segment", "in", ("pro",)))
    both = only(w, replace(given(3000.0, *rules), prices=PRICES, copy_length="same"))
    alone = only(w, replace(given(3000.0, rules[1]), prices=PRICES, copy_length="same"))
    rule = both["eligible"][0]
    high = both["projection"]["hedged"]["e2e_ms"]["p99"] - alone["projection"]["hedged"]["e2e_ms"]["p99"]
    assert rule["p99_cost_ms"] == pytest.approx(high, abs=0.01)
    saved = alone["projection"]["cost"]["delta_ratio"] - both["projection"]["cost"]["delta_ratio"]
    assert rule["saves_cost_ratio"] == pytest.approx(saved, abs=2e-6)


def test_a_rule_that_excludes_nobody_costs_nothing_and_one_never_logged_has_no_price() -> None:
    w = replace(logs.spells(slow=0.05), batch=np.zeros(6000, dtype=np.int8))
    rules = {r["field"]: r for r in only(w)["eligible"]}
    assert (rules["batch"]["keeps_ratio"], rules["batch"]["p99_cost_ms"]) == (1.0, 0.0)
    assert (rules["stored_state"]["keeps_ratio"], rules["stored_state"]["p99_cost_ms"]) == (None, None)
    assert rules["batch"]["saves_cost_ratio"] is None  # nobody said what a request costs


def test_knobs_that_are_not_turned_are_offered_with_their_price() -> None:
    entry = only(tools_are_slow(), Options(prices=PRICES))
    segments = knob(entry, "segment", False)
    assert [k["value"] for k in segments] == [["free"], ["pro"]]
    assert all(k["keeps_ratio"] == 0.5 and k["p99_cost_ms"] > 0 and k["saves_cost_ratio"] > 0 for k in segments)
    assert len(knob(entry, "prompt_tokens", False)) == 1
    # what is not turned does not stand in the policy
    assert not any(r["field"] in ("segment", "prompt_tokens") for r in entry["eligible"])


def test_sessions_kept_on_one_replica_get_no_copy_and_the_price_is_shown() -> None:
    w = tools_are_slow()
    bound = (np.arange(len(w)) % 4 == 0).astype(np.int8)
    entry = only(replace(w, sticky_session=bound), Options(prices=PRICES))
    rule = next(r for r in entry["eligible"] if r["field"] == "sticky_session")
    assert (rule["op"], rule["value"], rule["keeps_ratio"]) == ("=", False, 0.75)
    assert rule["p99_cost_ms"] > 0
    assert rule["saves_cost_ratio"] > 0
    assert knob(entry, "sticky_session", True)[0]["p99_cost_ms"] == rule["p99_cost_ms"]
    # a log that does not say so: no rule that nobody could keep, and a knob without a made-up price
    silent = only(w, Options(prices=PRICES))
    assert not any(r["field"] == "sticky_session" for r in silent["eligible"])
    (unknown,) = knob(silent, "sticky_session", False)
    assert (unknown["keeps_ratio"], unknown["p99_cost_ms"], unknown["saves_cost_ratio"]) == (None, None, None)


def test_declared_segments_long_prompts_and_idempotent_tools_become_rules() -> None:
    w = tools_are_slow()
    entry = only(w, Options(segments=("pro",), max_prompt_tokens=2000, allow_tools=("search",)))
    rules = {r["field"]: r for r in entry["eligible"]}
    assert rules["segment"]["value"] == ["pro"]
    assert rules["segment"]["source"] == "config"
    assert rules["segment"]["keeps_ratio"] == 0.5
    assert rules["prompt_tokens"]["value"] == 2000.0
    assert "tools_offered" not in rules
    assert rules["tool_names"]["keeps_ratio"] == pytest.approx(5 / 6, abs=1e-4)


def test_a_list_of_tools_asks_for_every_name_and_unknown_names_are_not_allowed() -> None:
    w = replace(
        Workload.of(np.arange(5.0), np.ones(5), np.ones(5)),
        tools_offered=np.array([0, 1, 1, 1, -1], dtype=np.int8),
        tool_set=np.array([-1, 0, 1, -1, -1], dtype=np.int32),
        tool_sets=("a,b", "a,c"),
    )
    assert mask(w, (Rule("tool_names", "in", ("a", "b")),)).tolist() == [True, True, False, False, False]
    assert mask(w, (Rule("tool_names", "not_in", ("c",)),)).tolist() == [True, True, False, False, False]
    never = Workload.of(np.arange(2.0), np.ones(2), np.ones(2))
    assert eligibility.keeps(never, Rule("tool_names", "in", ("a",))) is None


def busy_hours() -> Workload:
    """Fourteen days; from 13 to 15 o'clock one request in eight is ten times slower, at other hours one in a hundred."""
    rng = np.random.default_rng(1)
    n = 30_000
    at = np.sort(rng.random(n) * 14 * 86_400)
    busy = np.isin((at % 86_400 // 3600).astype(int), (13, 14))
    slow = rng.random(n) < np.where(busy, 0.12, 0.01)
    tokens = rng.integers(50, 150, n)
    e2e = (0.1 + 0.01 * tokens) * np.where(slow, 10.0, 1.0)
    midnight = 1_790_553_600 * 10**9
    return Workload.of(at, np.full(n, 100), tokens, t0_ns=midnight, e2e_s=e2e, streamed=np.zeros(n))


def test_busy_hours_are_offered_and_switched_on_by_choice() -> None:
    w = busy_hours()
    offered = only(w, Options(prices=PRICES))
    assert offered["decision"] == "hedge"
    assert offered["windows_utc"] == []
    (hours,) = knob(offered, "windows_utc", False)
    assert [(h["from"], h["to"]) for h in hours["windows_utc"]] == [("13:00", "15:00")]
    assert hours["keeps_ratio"] == pytest.approx(2 / 24, abs=0.01)
    assert hours["p99_cost_ms"] > 0
    assert hours["saves_cost_ratio"] > 0
    on = only(w, Options(prices=PRICES, windows=True, tz="Asia/Tokyo"))
    assert [(h["from"], h["to"]) for h in on["windows_utc"]] == [("13:00", "15:00")]
    assert "22:00-24:00 Asia/Tokyo" in on["windows_utc"][0]["why"]
    assert on["hedge"]["delay_ms"] == offered["hedge"]["delay_ms"]  # the delay follows all hours
    assert on["projection"]["hedged"]["hedge_rate"] < offered["projection"]["hedged"]["hedge_rate"]
    (applied,) = knob(on, "windows_utc", True)
    assert applied["p99_cost_ms"] > 0


def test_a_given_window_has_a_price_too() -> None:
    w = busy_hours()
    entry = only(w, given(3000.0, windows=(Window((1, 2, 3, 4, 5, 6, 7), "13:00", "15:00"),)))
    (hours,) = knob(entry, "windows_utc", True)
    everywhere = only(w, given(3000.0))
    cost = entry["projection"]["hedged"]["e2e_ms"]["p99"] - everywhere["projection"]["hedged"]["e2e_ms"]["p99"]
    assert hours["p99_cost_ms"] == pytest.approx(cost, abs=0.02)


def test_tool_names_and_sessions_come_out_of_the_database() -> None:
    from hedgectl import workload

    w = logs.spells(n=4)
    con = logs.database(
        w,
        tool_names=["a,b", "", None, "a"],
        tools_offered=[True, False, None, True],
        sticky_session=[True, False, None, False],
    )
    logs.prepared(con)
    found = workload.load(con).requests
    assert found.tool_sets == ("a", "a,b")
    assert found.tool_set.tolist() == [1, -1, -1, 0]
    assert found.sticky_session.tolist() == [1, 0, -1, 0]
