"""The decision by replay on engines of known law: when it hedges, when better routing is the answer, when it steps back."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import engine_logs
import jsonschema
import numpy as np
import pytest

from hedgectl import policy, schemas, tasks
from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.policy import Budget, Hedge, PolicyDocument, Scope, ScopePolicy
from hedgectl.recommend import Options
from hedgectl.recommend.decide import Decided, decide
from hedgectl.recommend.entry import notes
from hedgectl.recommend.projecting import Candidate
from hedgectl.recommend.replaying import with_replicas, with_shorter_answers, without_replica
from hedgectl.recommend.stability import Stability, fewer_at_once
from hedgectl.recommend.tournament import FINALISTS, finalists, pessimistic
from hedgectl.sim import load, scenario
from hedgectl.sim.scenario import Assumed, Spec
from hedgectl.sim.sweep import play


def decided(workload: Workload, options: Options | None = None, **known: Any) -> Decided:
    chosen = options or Options()
    if chosen.config is None:
        chosen = replace(chosen, config=engine_logs.config())
    found = decide(workload, Scope("chat"), chosen, **known)
    document = PolicyDocument("2026-11-29T00:00:00Z", (found.policy,), notes=found.notes).to_document()
    printed = json.loads(json.dumps(document, allow_nan=False))
    policy.parse(printed)
    jsonschema.Draft202012Validator(schemas.load("policy")).validate(printed)
    return found


def codes(found: Decided, key: str = "reasons") -> list[str]:
    return [one["code"] for one in getattr(found.policy, key)]


@cache
def isolated() -> Workload:
    return engine_logs.log(slow=6.0, seed=2)


FREES = Options(cancel="frees_engine")


@cache
def isolated_decision() -> Decided:
    return decided(isolated(), FREES)


def test_slow_spells_under_random_routing_are_hedged_but_routing_stands_first() -> None:
    found = isolated_decision()
    assert (found.estimator, found.policy.decision, found.policy.confidence) == ("simulation", "hedge", "high")
    assert codes(found, "instead")[0] == "route_least_outstanding"
    projection = found.policy.projection
    assert projection is not None
    hedged = projection["hedged"]["e2e_ms"]["p99"]
    assert hedged < 0.95 * projection["unhedged"]["e2e_ms"]["p99"]
    routed = found.policy.instead[0]["expected"]["e2e_p99_ms"]
    assert routed == projection["better_routed"]["e2e_ms"]["p99"] < hedged
    assert projection["hedged"]["hedge_rate"] <= 0.05 + 100 / 8000 + 1e-9


def test_the_choice_holds_at_the_top_and_says_so() -> None:
    projection = isolated_decision().policy.projection
    assert projection is not None
    labels = [one["label"] for one in projection["loads"]]
    assert labels == ["busiest hour", "rho 0.9"]
    for one in projection["loads"]:
        assert one["hedged"]["e2e_ms"]["p99"] <= 1.005 * one["unhedged"]["e2e_ms"]["p99"] + 1e-6
    assert projection["holds_up_to"]["rho"] == pytest.approx(0.9, abs=0.02)
    for limit in isolated_decision().policy.suppress_when:
        assert limit.why


def test_the_projection_is_what_the_true_engines_do() -> None:
    """The chosen policy on the law that made the log, not on the fitted one."""
    found = isolated_decision().policy
    assert found.hedge is not None
    assert found.projection is not None
    w = isolated()
    check = found.projection["replay_check"]
    assert check["passed"]
    for p in ("p50", "p95"):
        assert abs(check["e2e_ms"][p]["error_ratio"]) < 0.05
    assert found.projection["unhedged"]["e2e_ms"]["p50"] == pytest.approx(1e3 * float(np.median(w.e2e_s)), rel=0.03)


def test_a_fleet_that_is_routed_well_has_nothing_to_hedge() -> None:
    found = decided(engine_logs.log(slow=6.0, routing="least_outstanding", seed=3))
    assert found.policy.decision == "do_not_hedge"
    assert "route_least_outstanding" not in codes(found, "instead")
    assert found.policy.projection is not None
    assert "better_routed" not in found.policy.projection


def test_long_answers_are_not_hedged_and_a_limit_is_tried() -> None:
    found = decided(engine_logs.log(long_sigma=1.1), diagnosis={"verdict": "long_work"})
    assert found.policy.decision == "do_not_hedge"
    assert "gain_too_small" in codes(found)
    cure = next(one for one in found.policy.instead if one["code"] == "limit_output")
    assert found.policy.projection is not None
    assert cure["expected"]["e2e_p99_ms"] < found.policy.projection["unhedged"]["e2e_ms"]["p99"]


def test_a_replica_that_is_always_slow_is_ejected_before_it_is_copied_around() -> None:
    found = decided(engine_logs.log(outlier=2.0))
    assert codes(found, "instead")[0] == "eject_outlier"
    assert "r2" in found.policy.instead[0]["text"]
    assert found.policy.projection is not None
    assert found.policy.instead[0]["expected"]["e2e_p99_ms"] < found.policy.projection["unhedged"]["e2e_ms"]["p99"]


def test_a_policy_says_why_there_is_no_limit_on_copies_in_flight() -> None:
    found = isolated_decision().policy
    assert found.hedge is not None
    assert found.hedge.budget is not None
    told = [r for r in found.reasons if r["code"] in ("no_limit_in_flight", "limit_in_flight")]
    assert len(told) == 1
    assert told[0]["limit"] == found.hedge.budget.max_concurrent
    assert told[0]["value"] >= 1


def test_copies_in_flight_are_limited_to_today_s_peak_and_below() -> None:
    s = setting()
    at = load.at(s.workload, 1.0, 1)
    spec = Spec("response", 0.5, ratio=0.5, burst=100)
    arm = play(s, at, spec, Assumed(), "as_logged")
    peak = arm.copies_at_once
    assert 1 < peak <= arm.hedges
    capped = play(s, at, replace(spec, max_concurrent=peak // 2), Assumed(), "as_logged")
    assert capped.copies_at_once == peak // 2
    same = play(s, at, replace(spec, max_concurrent=peak), Assumed(), "as_logged")
    assert same.e2e_s.tobytes() == arm.e2e_s.tobytes()
    candidate = Candidate("response", 0.5, 0.95, Budget(0.5, 100), np.ones(len(s.workload), dtype=bool))

    def seen(today: int, top: int) -> Stability:
        results = [SimpleNamespace(hedged=SimpleNamespace(copies_at_once=k)) for k in (today, top)]
        return Stability(tuple(results), None, ("e2e", 0.99))  # type: ignore[arg-type]

    def limits(given: Candidate, today: int, top: int) -> list[int | None]:
        return [c.budget.max_concurrent for c in fewer_at_once(given, seen(today, top)) if c.budget is not None]

    assert limits(candidate, 8, 30) == [8, 4]
    assert limits(candidate, 8, 8) == [4]
    assert limits(candidate, 1, 2) == [1]
    assert limits(replace(candidate, budget=None), 8, 30) == []


@pytest.mark.parametrize(("rate", "said"), [(0.08, True), (0.051, False), (0.03, False)])
def test_a_burst_that_carries_a_short_log_is_told(rate: float, said: bool) -> None:
    hedge = Hedge("response", 900.0, budget=Budget(0.05, 100))
    refused = {"budget": 0, "suppressed": 0}
    hedged = {"hedge_rate": rate, "logical_requests": 300, "hedges_refused": refused}
    policy = ScopePolicy(Scope(), "hedge", hedge=hedge, projection={"hedged": hedged})
    assert ("burst_carries_log" in [n["code"] for n in notes(setting().workload, policy, [])]) is said


def test_without_confirmed_engines_the_screen_decides() -> None:
    found = decided(isolated(), Options(config=engine_logs.config(confirmed=None)))
    assert (found.estimator, found.policy.confidence) == ("matched", "low")
    assert next(n["code"] for n in found.notes) == "engine_not_confirmed"


def test_a_replay_that_is_not_the_log_decides_nothing() -> None:
    w = isolated()
    # Half of the traffic is missing from this log: the engines were busier than it says.
    wrong = engine_logs.config(max_running_requests=2)
    found = decided(w, Options(config=wrong))
    assert found.estimator == "matched"
    assert any(n["code"] == "replay_check_failed" for n in found.notes)
    assert found.replay_check is not None
    assert not found.replay_check["passed"]


def test_a_guessed_batch_cap_lowers_the_confidence() -> None:
    found = decided(isolated(), Options(config=engine_logs.config(max_running_requests=None), cancel="frees_engine"))
    assert found.estimator == "simulation"
    assert found.policy.confidence == "medium"


def test_a_copy_that_may_run_on_always_has_a_budget() -> None:
    found = decided(isolated(), Options(budget=None))
    assert found.policy.hedge is not None
    assert found.policy.hedge.budget is not None
    bare = ScopePolicy(Scope(), "hedge", hedge=Hedge("first_token", 900.0, budget=None))
    given = PolicyDocument("2026-11-29T00:00:00Z", (bare,))
    priced = decided(isolated(), Options(policy=given))
    assert priced.policy.decision == "do_not_hedge"
    assert "run_on_without_budget" in codes(priced)
    assert priced.policy.hedge == bare.hedge


def test_a_given_policy_is_replayed_as_it_stands() -> None:
    bare = ScopePolicy(Scope(), "hedge", hedge=Hedge("first_token", 700.0, budget=Budget(0.05, 100)))
    found = decided(isolated(), Options(policy=PolicyDocument("2026-11-29T00:00:00Z", (bare,)), cancel="frees_engine"))
    assert found.policy.hedge == bare.hedge
    assert found.policy.projection is not None
    assert found.policy.projection["hedged"]["hedge_rate"] > 0
    assert found.policy.projection["worst_of"]["cancel"] == "frees_engine"


def test_the_same_log_and_seed_give_the_same_decision() -> None:
    again = decided(isolated(), FREES)
    assert again.policy == isolated_decision().policy


class Elsewhere(tasks.Here):
    """Plays the parts of a decision from copies, the last first, as another machine would."""

    def __init__(self) -> None:
        self.parts = 0

    def run(self, function: Any, items: Sequence[Any], memory_bytes: Sequence[int]) -> Iterator[tasks.Done[Any]]:
        raw = pickle.dumps(function)
        for index in reversed(range(len(items))):
            self.parts += 1
            yield tasks.Done(index, pickle.loads(raw)(pickle.loads(pickle.dumps(items[index]))), None, 0.0, "there")


def test_candidates_that_are_played_elsewhere_give_the_same_decision() -> None:
    others = Elsewhere()
    with tasks.helped(others):
        found = decided(isolated(), FREES)
    assert others.parts > 20
    assert found.policy == isolated_decision().policy
    assert found.notes == isolated_decision().notes


def setting(n: int = 300) -> scenario.Setting:
    rng = np.random.default_rng(2)
    w = Workload.of(
        np.cumsum(rng.exponential(0.3, n)),
        np.full(n, 500),
        rng.integers(10, 300, n),
        replica=rng.integers(0, 3, n),
        streamed=np.ones(n),
    )
    slow = SlowSeries.of({0: [(1.0, 2.0, 3.0)], 2: [(5.0, 6.0, 4.0), (7.0, 8.0, 2.0)]}, 3)
    service = ServiceModel(
        0.03, 0.0001, 0.01, 0.0004, SlowSeries(slow.offsets, slow.start_s, slow.factor, np.array([1.0, 2.0, 1.0]))
    )
    fleet = Fleet(Fact(3, "config"), Fact(8, "config"), Fact(50_000, "config"), confirmed=True)
    return scenario.setting(w, service, fleet, seed=1)


def test_a_fleet_without_one_replica_keeps_the_others_troubles() -> None:
    rest = without_replica(setting(), 1)
    slow = rest.service.slow
    assert rest.replicas == 2
    assert slow.static_factor.tolist() == [1.0, 1.0]
    assert slow.start_s[slow.offsets[1] : slow.offsets[2]].tolist() == [5.0, 6.0, 7.0, 8.0]
    assert set(rest.workload.replica.tolist()) == {-1, 0, 1}
    arm = play(rest, load.at(rest.workload, 1.0, 1), None, Assumed(), "as_logged")
    assert arm.answered.all()


def test_more_replicas_and_shorter_answers_do_not_lose_requests() -> None:
    s = setting()
    more = play(with_replicas(s, 2), load.at(s.workload, 1.0, 1), None, Assumed(), "least_outstanding")
    assert more.answered.all()
    cut, limit = with_shorter_answers(s, 0.5)
    assert cut.tokens.max() == limit < s.tokens.max()
    shorter = play(cut, load.at(s.workload, 1.0, 1), None, Assumed(), "random")
    longer = play(s, load.at(s.workload, 1.0, 1), None, Assumed(), "random")
    assert shorter.e2e_s.mean() < longer.e2e_s.mean()


def test_long_logs_have_fewer_finalists_and_the_worst_way_goes_first() -> None:
    from hedgectl.recommend.projecting import Assumption

    assert finalists(1000, 4) == FINALISTS
    assert 4 <= finalists(1_000_000, 4) <= FINALISTS
    ways = [Assumption(c, n) for c in ("frees_engine", "engine_runs_on") for n in ("independent", "same")]  # type: ignore[arg-type]
    assert pessimistic(ways) == Assumption("engine_runs_on", "same")
