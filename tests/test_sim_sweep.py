"""From a log to arms: loads, lengths, cached prefixes, errors, the check against the log, the document."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from true_worlds import World, run_world

from hedgectl import schemas
from hedgectl.model import ERROR, Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.policy import Budget, Deadline, Hedge, Suppress, Target
from hedgectl.sim import burst, check, load, scenario, sweep
from hedgectl.sim.document import document
from hedgectl.sim.scenario import Assumed, Setting, Spec
from hedgectl.sim.validate import judge

FLEET = Fleet(Fact(4, "config"), Fact(16, "config"), Fact(60_000, "config"), confirmed=True)
NONE = Assumed()


def service(slow: SlowSeries | None = None, **more: Any) -> ServiceModel:
    return ServiceModel(0.02, 1e-4, 0.01, 0.0005, slow or SlowSeries.none(4), **more)


def log(n: int = 3000, seed: int = 1, rate: float = 6.0) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload.of(
        np.cumsum(rng.exponential(1 / rate, n)),
        rng.lognormal(6, 0.5, n).astype(int),
        rng.lognormal(4.5, 0.6, n).astype(int),
        replica=rng.integers(0, 4, n),
    )


def observed(w: Workload, law: ServiceModel) -> Workload:
    """The log that these engines would have written."""
    s = scenario.setting(w, law, FLEET, routing_seen="random")
    arm = sweep.play(s, load.at(w, 1.0, 0), None, NONE, "as_logged", exact=True)
    return dataclasses.replace(w, ttft_s=arm.ttft_s, e2e_s=arm.e2e_s)


def ready(w: Workload, law: ServiceModel | None = None, fleet: Fleet = FLEET, seen: str = "random") -> Setting:
    return scenario.setting(w, law or service(), fleet, seed=3, routing_seen=seen)


SICK = SlowSeries.of({0: [(100.0, 130.0, 6.0), (300.0, 330.0, 6.0)], 2: [(200.0, 230.0, 6.0)]}, 4)


# --- loads ------------------------------------------------------------------------------------------------------------


def test_today_is_the_log_itself() -> None:
    w = log(500)
    at = load.at(w, 1.0, 0)
    assert at.arrival_s.tobytes() == w.arrival_s.tobytes()
    assert list(at.row) == list(range(500))


@pytest.mark.parametrize("scale", [0.3, 0.8, 1.25, 2.0, 3.7])
def test_a_load_keeps_the_span_and_scales_the_rate(scale: float) -> None:
    w = log(4000)
    at = load.at(w, scale, 0)
    assert len(at.row) == pytest.approx(scale * len(w), rel=0.03)
    assert np.all(np.diff(at.arrival_s) >= 0)
    assert at.arrival_s[0] >= w.arrival_s[0] - 1e-6
    assert at.arrival_s[-1] <= w.arrival_s[-1] + 1e-6


def test_regular_arrivals_stay_regular_and_poisson_stays_poisson() -> None:
    regular = Workload.of(np.arange(2000) * 0.2, np.ones(2000), np.ones(2000))
    gaps = np.diff(load.at(regular, 1.5, 0).arrival_s)
    assert np.std(gaps) / np.mean(gaps) < 0.2
    gaps = np.diff(load.at(log(8000), 1.5, 0).arrival_s)
    assert np.std(gaps) / np.mean(gaps) == pytest.approx(1.0, abs=0.08)


def test_a_burst_keeps_its_moment_and_its_length() -> None:
    rng = np.random.default_rng(0)
    calm = rng.uniform(0, 1000, 4000)
    crowd = rng.uniform(500, 560, 1000)
    w = Workload.of(np.sort(np.concatenate((calm, crowd))), np.ones(5000), np.ones(5000))
    at = load.at(w, 2.0, 0)
    counts, edges = np.histogram(at.arrival_s, bins=np.arange(0, 1001, 20))
    busy = edges[:-1][counts > 2 * np.median(counts)]
    assert 460 <= busy.min() <= 500
    assert 540 <= busy.max() + 20 <= 600
    assert len(busy) <= 5


def test_above_today_the_same_job_does_not_come_twice_in_a_row() -> None:
    at = load.at(log(3000), 3.0, 0)
    assert np.mean(at.row[1:] == at.row[:-1]) < 0.02


def test_jobs_of_a_load_are_those_of_the_log() -> None:
    w = log(4000)
    at = load.at(w, 1.7, 0)
    assert np.mean(w.completion_tokens[at.row]) == pytest.approx(np.mean(w.completion_tokens), rel=0.03)


def test_a_load_of_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="above 0"):
        load.at(log(10), 0.0, 0)


def test_the_busiest_hour_of_a_day_and_of_an_hour() -> None:
    rng = np.random.default_rng(2)
    night, noon = rng.uniform(0, 86_400, 20_000), rng.uniform(43_200, 46_800, 10_000)
    arrival = np.sort(np.concatenate((night, noon)))
    w = Workload.of(arrival, np.ones(30_000), np.ones(30_000))
    span = load.busiest_hour(w, np.ones(30_000))
    assert span.start_s == pytest.approx(43_200, abs=600)
    assert span.density == pytest.approx((10_833 / 3600) / (30_000 / 86_400), rel=0.05)
    short = log(3000)
    assert load.busiest_hour(short, np.ones(3000)) == load.whole(short)


def test_rho_is_the_share_of_full_batch_time() -> None:
    w = Workload.of(np.arange(101.0), np.full(101, 1000), np.full(101, 100))
    s = ready(w)
    each = 0.02 + 0.1 + 100 * (0.01 / 16 + 0.0005)
    assert sweep.offered(s, load.at(w, 1.0, 0), load.whole(w)) == pytest.approx(each * 1.01 / 4, rel=1e-3)


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_a_copy_pays_for_the_prompt_that_the_primary_had_in_cache() -> None:
    w = Workload.of([0.0], [1000], [10], cached_tokens=[900], replica=[0])
    jobs = scenario.jobs_of(ready(w), load.at(w, 1.0, 0), Spec("response", 1.0), NONE)
    assert jobs.work[0, 0] == pytest.approx(0.02 + 0.01)
    assert jobs.work[0, 1] == pytest.approx(0.02 + 0.1)
    assert list(jobs.prompt[0]) == [1000, 1000]


def test_copy_lengths_same_and_independent() -> None:
    w = log(500)
    s, at = ready(w), load.at(w, 1.0, 0)
    same = scenario.jobs_of(s, at, Spec("response", 1.0), Assumed(copy_length="same")).tokens
    fresh = scenario.jobs_of(s, at, Spec("response", 1.0), Assumed(copy_length="independent")).tokens
    assert np.array_equal(same[:, 0], same[:, 1])
    assert np.array_equal(same[:, 0], fresh[:, 0])
    assert abs(np.corrcoef(fresh[:, 0], fresh[:, 1])[0, 1]) < 0.15


def test_hedging_changes_no_draw_of_the_primaries() -> None:
    w = log(300)
    s = ready(w, service(hiccup_s=np.array([1.0, 2.0]), hiccup_probability=0.1, error_probability=0.1))
    at = load.at(w, 1.0, 0)
    plain = scenario.jobs_of(s, at, None, NONE)
    hedged = scenario.jobs_of(s, at, Spec("response", 1.0), NONE)
    for name in ("gateway", "fails_after", "pick", "tokens", "work"):
        assert getattr(plain, name)[:, 0].tobytes() == getattr(hedged, name)[:, 0].tobytes()
    assert not np.array_equal(hedged.gateway[:, 0], hedged.gateway[:, 1])


def test_cached_answers_are_left_out_and_said() -> None:
    w = dataclasses.replace(log(100), cache_hit=np.array([1] * 20 + [0] * 80, dtype=np.int8))
    s = ready(w)
    assert len(s.workload) == 80
    assert s.notes[0]["code"] == "cache_hits_left_out"
    assert s.notes[0]["share"] == pytest.approx(0.2)


def test_errors_of_the_log_come_again_and_count() -> None:
    w = log(400)
    failed = np.arange(400) % 10 == 0
    w = dataclasses.replace(
        w,
        status=np.where(failed, ERROR, 0).astype(np.int8),
        e2e_s=np.where(failed, 0.5, np.nan),
        completion_tokens=np.where(failed, 0, w.completion_tokens),
    )
    s = ready(w)
    arm = sweep.play(s, load.at(w, 1.0, 0), None, NONE, "as_logged", exact=True)
    assert arm.document()["error_ratio"] == pytest.approx(0.1)
    assert np.allclose(arm.e2e_s[failed], 0.5)
    assert arm.document()["e2e_ms"]["n"] == 360


def test_a_callers_timeout_is_a_lower_bound_and_not_a_latency() -> None:
    w = log(2000, rate=8.0)
    s = ready(w, service(SICK), dataclasses.replace(FLEET, timeout_s=3.0))
    arm = sweep.play(s, load.at(w, 1.0, 0), None, NONE, "as_logged", exact=True).document()
    assert arm["error_ratio"] > 0.01
    assert arm["e2e_ms"]["p99"] is None
    assert arm["e2e_ms"]["at_least"]["p99"] == pytest.approx(3000.0)


def test_unknown_lengths_are_drawn_from_the_known() -> None:
    w = dataclasses.replace(log(300), completion_tokens=np.array([-1] * 100 + [7] * 200))
    assert set(ready(w).tokens) == {7.0}
    unknown = dataclasses.replace(w, completion_tokens=np.full(300, -1))
    assert set(ready(unknown, service(fixed_decode_tokens=42)).tokens) == {42.0}


def test_a_whole_answer_shows_no_first_token_to_wait_for() -> None:
    w = dataclasses.replace(log(50), streamed=np.array([0] * 25 + [1] * 25, dtype=np.int8))
    s, at = ready(w), load.at(w, 1.0, 0)
    assert scenario.jobs_of(s, at, Spec("first_token", 1.0), NONE).eligible.sum() == 25
    headers = scenario.jobs_of(s, at, Spec("response_headers", 1.0), NONE)
    assert headers.eligible.sum() == 50
    assert list(headers.clock) == [1] * 25 + [0] * 25


def test_a_policy_becomes_a_spec() -> None:
    hedge = Hedge(
        "first_token",
        1500.0,
        budget=Budget(0.1, 7, 3),
        deadline=Deadline(9000.0, 5000.0),
        target=Target(different_pool=True, choose="least_outstanding"),
    )
    spec = Spec.of_policy(hedge, (Suppress("target_queue_age_ms", ">", 800.0), Suppress("hedge_rate", ">=", 0.1)))
    assert (spec.delay_s, spec.ratio, spec.burst, spec.max_concurrent) == (1.5, 0.1, 7.0, 3)
    assert (spec.deadline_s, spec.attempt_s, spec.different_pool, spec.choose) == (9.0, 5.0, True, "least_outstanding")
    rule = scenario.rule_of(ready(log(10)), spec, Assumed("engine_runs_on"), 0)
    assert rule.suppress["queue_age"] == pytest.approx(0.8)
    assert rule.suppress["hedges"] < 0.1
    assert rule.cancel == 1
    unlimited = Spec.of_policy(dataclasses.replace(hedge, budget=None))
    assert unlimited.ratio is None


def test_more_engines_than_were_fitted_run_at_full_speed() -> None:
    w = log(50)
    fleet = dataclasses.replace(FLEET, replicas=Fact(6, "config"))
    law = scenario.law_of(ready(w, service(SICK), fleet))
    assert law.replicas == 6
    assert law.slow is not None
    assert list(law.slow.offsets[-3:]) == [law.slow.offsets[4]] * 3
    assert len(law.slow.static_factor) == 6


# --- arms -------------------------------------------------------------------------------------------------------------


def test_the_replay_of_a_log_of_this_very_model_passes_the_check_exactly() -> None:
    law = service(SICK)
    w = observed(log(), law)
    found = sweep.sweep(ready(w, law), None, loads=[1.0])
    assert found.check["passed"] is True
    assert all(abs(row["error_ratio"]) < 1e-9 for row in found.check["e2e_ms"].values())


def test_the_check_fails_where_the_law_is_wrong_and_says_by_how_much() -> None:
    w = observed(log(), service(SICK))
    wrong = dataclasses.replace(service(SICK), decode_base_s=0.02)
    found = sweep.sweep(ready(w, wrong), None, loads=[1.0])
    assert found.check["passed"] is False
    row = found.check["e2e_ms"]["p50"]
    assert row["error_ratio"] > row["limit_ratio"] == 0.15


def test_a_log_without_times_cannot_pass_the_check() -> None:
    found = sweep.sweep(ready(log(200)), None, loads=[1.0])
    assert found.check["passed"] is False


def test_clustered_tails_widen_the_limit() -> None:
    rng = np.random.default_rng(0)
    spread = rng.exponential(1.0, 4000)
    clustered = np.sort(spread)
    assert check.standard_error(clustered, 0.95) > 3 * check.standard_error(spread, 0.95)


def test_hedging_cures_isolated_slow_spells_and_the_unknown_is_the_worse_way() -> None:
    law = service(SICK)
    w = observed(log(), law)
    found = sweep.sweep(ready(w, law), Spec("response", 4.0, ratio=0.05), loads=[1.0])
    result = found.results[0]
    assert set(result.ways) == {
        Assumed(cancel, length) for cancel in ("frees_engine", "engine_runs_on") for length in ("same", "independent")
    }
    p99 = {way: arm.quantile("e2e", 0.99) or 0.0 for way, arm in result.ways.items()}
    assert result.worst == max(p99, key=lambda way: p99[way])
    assert result.hedged is not None
    assert (result.hedged.quantile("e2e", 0.99) or 0.0) < 0.8 * (result.unhedged.quantile("e2e", 0.99) or 0.0)
    free, run_on = (result.ways[Assumed(cancel, "same")] for cancel in ("frees_engine", "engine_runs_on"))
    assert run_on.gpu_s["wasted"] > free.gpu_s["wasted"] > 0
    assert run_on.document(refused=True)["cancels_per_hedge"] == pytest.approx(1.0)


def test_a_log_routed_to_the_least_outstanding_is_replayed_by_that_discipline() -> None:
    s = ready(log(200), seen="least_outstanding")
    assert scenario.discipline(s, "as_logged", exact=True) == 0
    assert scenario.discipline(s, "as_logged", exact=False) == 2
    assert scenario.discipline(ready(log(200)), "as_logged", exact=False) == 0


def test_no_hedging_has_no_hedged_arm_and_given_loads_no_frontier() -> None:
    w = observed(log(400), service())
    found = sweep.sweep(ready(w), None, loads=[0.5, 2.0])
    assert [round(r.load.scale, 1) for r in found.results] == [0.5, 2.0]
    assert found.results[0].hedged is None
    assert found.holds_up_to is None
    assert found.burst is None


def test_a_frontier_with_a_burst_and_a_document_that_fits_its_schema() -> None:
    law = service(SICK)
    w = observed(log(), law)
    s = ready(w, law)
    said: list[str] = []
    found = sweep.sweep(
        s, Spec("response", 4.0, ratio=0.05), cancel="frees_engine", copy_length="same", progress=said.append
    )
    labels = [r.label for r in found.results]
    assert labels[:5] == ["low", "medium", "today", "busiest hour", "rho 0.9"]
    assert len(labels) > 5
    assert found.results[4].rho == pytest.approx(0.9, abs=0.03)
    assert found.holds_up_to is not None
    assert found.burst is not None
    assert any("today" in text for text in said)
    doc = document(
        found,
        s,
        as_of="2026-01-01T00:00:00Z",
        window={},
        scope={"model": "chat", "route": None},
        policy=None,
        cancel="frees_engine",
        copy_length="same",
        routing="as_logged",
    )
    jsonschema.validate(json.loads(json.dumps(doc)), schemas.load("simulation.v1"))
    assert doc["copy_length"]["independent"] is None
    again = sweep.sweep(s, Spec("response", 4.0, ratio=0.05), cancel="frees_engine", copy_length="same")
    assert again.results[2].hedged is not None
    assert json.dumps(again.results[2].hedged.document()) == json.dumps(found.results[2].hedged.document())  # type: ignore[union-attr]


def test_an_assumed_batch_cap_is_tried_lower_and_higher() -> None:
    w = observed(log(500), service())
    fleet = dataclasses.replace(FLEET, max_running_requests=Fact(16, "assumed"))
    found = sweep.sweep(
        ready(w, fleet=fleet), Spec("response", 2.0), cancel="frees_engine", copy_length="same", loads=[1.0]
    )
    assert [row["value"] for row in found.sensitivity] == [12, 32]
    assert all(row["hedged"] is not None for row in found.sensitivity)


def test_a_backlog_that_grows_is_not_stable() -> None:
    w = log(3000)
    s = ready(w)
    heavy = sweep.play(s, load.at(w, 8.0, 0), None, NONE, "random")
    light = sweep.play(s, load.at(w, 1.0, 0), None, NONE, "random")
    assert light.stable
    assert not heavy.stable


def test_a_load_that_is_not_worked_off_is_not_held() -> None:
    w, goal = log(3000), ("e2e", 0.99)
    s, every = ready(w), load.whole(w)
    for spec in (None, Spec("response", 500.0, ratio=0.05)):  # in light load nothing waits so long, so nothing is worse
        ways = [NONE] if spec is not None else []
        light, heavy = (
            sweep.one_load(s, sweep.Point(f"x{k:g}", every, k), spec, ways, "random", goal) for k in (1.0, 8.0)
        )
        assert sweep.holds_up_to([light], goal)["scale"] == 1.0
        assert not heavy.stable
        both, alone = sweep.holds_up_to([heavy, light], goal), sweep.holds_up_to([heavy], goal)
        assert both["scale"] == 1.0
        assert "no longer works off what arrives beyond it" in both["reason"]
        assert alone["scale"] is None
        assert "at the lowest load" in alone["reason"]


def test_a_burst_adds_requests_and_the_fleet_recovers() -> None:
    w = log(6000)
    s, at, span = ready(w), load.at(w, 1.0, 0), load.whole(w)
    crowd, begin, end = burst.add(w, at, span, 0)
    assert len(crowd.row) - len(at.row) == pytest.approx(3 * 6.0 * (end - begin), rel=0.2)
    hit, calm = (sweep.play(s, x, None, NONE, "random") for x in (crowd, at))
    recovered = burst.recovery_s(hit, calm, end)
    assert recovered is not None
    assert recovered < 300


@pytest.mark.parametrize(
    ("unhedged", "hedged", "passed"),
    [
        (600.0, 600.0, True),
        (600.0, 900.0, True),
        (600.0, 930.0, False),
        (0.0, 60.0, True),
        (30.0, None, False),
        (None, None, True),
    ],
)
def test_recovering_as_fast(unhedged: float | None, hedged: float | None, passed: bool) -> None:
    assert burst.document(unhedged, hedged, 60.0)["recovers_as_fast"] is passed


# --- closed forms -----------------------------------------------------------------------------------------------------

CASES: list[dict[str, Any]] = [
    {"name": "mm1_mean_response", "params": {"lam": 0.5, "mu": 2}, "expected": 1 / 1.5, "rel_tol": 0.01},
    {"name": "mmc_erlangC_pwait", "params": {"c": 2, "lam": 1.0, "mu": 1}, "expected": 1 / 3, "rel_tol": 0.01},
    {"name": "md1_mean_wait", "params": {"lam": 0.5, "D": 1}, "expected": 0.5, "rel_tol": 0.01},
    {"name": "mg1_pk_lognormal", "params": {"lam": 0.5, "ES": 1, "scv": 1.0}, "expected": 1.0, "rel_tol": 0.02},
    {"name": "mg1_ps_lognormal", "params": {"lam": 0.5, "ES": 1, "scv": 2.0}, "expected": 2.0, "rel_tol": 0.02},
    {
        "name": "decode_batch_linear_step_exponential",
        "params": {"lam": 2.0, "mean_tokens": 100.0, "a": 0.02, "b": 0.001},
        "expected": 100 * 0.021 / (1 - 0.2),
        "rel_tol": 0.02,
    },
    {
        "name": "redundancy_d_n3_d3",
        "params": {"n": 3, "d": 3, "lam_per_server": 0.5, "mu": 1},
        "expected": 1 / (3 - 1.5),
        "rel_tol": 0.02,
    },
    {"name": "delayed_min_exponential_mean", "params": {"mu": 1, "d": 0.5}, "expected": 0.69673467, "rel_tol": 0.005},
    {
        "name": "delayed_min_exp_work_nocancel",
        "params": {"mu": 1, "d": 0.5, "cancel": "engine runs on"},
        "expected": 1.60653066,
        "rel_tol": 0.005,
    },
    {
        "name": "token_bucket_p1_beta0.2_cap1",
        "params": {"p_candidate": 1.0, "tokens_per_primary": 0.2, "cost": 1, "cap": 1, "start": "full"},
        "expected": 0.2,
        "rel_tol": 0.001,
    },
    {"name": "erlangB_reject_429", "params": {"c": 1, "offered": 1.0}, "expected": 0.5, "rel_tol": 0.01},
    {
        "name": "jsq2_mitzenmacher",
        "params": {"n": 200, "lam": 0.5, "mu": 1, "d": 2},
        "expected": 1.2656,
        "rel_tol": 0.02,
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_closed_forms_of_our_own(case: dict[str, Any]) -> None:
    first, second = judge(case, requests=100_000, seed=1), judge(case, requests=100_000, seed=2)
    assert first.passed, first
    if not case["name"].startswith("token_bucket"):
        assert first.measured != second.measured


def test_unknown_and_broken_cases() -> None:
    assert judge({"name": "no_such_queue", "params": {}, "expected": 1}).passed is None
    broken = judge({"name": "mm1_mean_response", "params": {}, "expected": 1.0, "rel_tol": 0.1}, requests=100)
    assert broken.passed is False
    assert "lam" in broken.why
    off = judge(
        {"name": "mm1_mean_response", "params": {"lam": 0.5, "mu": 1}, "expected": 9.0, "rel_tol": 0.01},
        requests=20_000,
    )
    assert off.passed is False


def test_a_fleet_at_the_brink_is_told_as_such() -> None:
    """The true engines themselves collapse or do not, depending on where the copies go: no replay could tell which."""
    world = World("brink", rho=0.6, spell=5.0)
    truth = run_world(world, 20_000, 1)
    delay_s = float(np.quantile(truth.log.ttft_s, 0.95))

    def told(ratio: float | None, cancel: Any) -> list[str]:
        point = sweep.Point("today", load.whole(truth.setting.workload), 1.0)
        spec = Spec("first_token", delay_s, ratio=ratio)
        ways = sweep.ways(cancel, "same")
        result = sweep.one_load(truth.setting, point, spec, ways, "random", ("e2e", 0.99))
        return [n["code"] for n in sweep.near_collapse(truth.setting, result, spec, "random", ("e2e", 0.99))]

    assert told(None, "engine_runs_on") == ["near_collapse"]
    assert told(0.05, "engine_runs_on") == []
    assert told(None, "frees_engine") == []


@pytest.mark.parametrize(
    ("op", "queue", "sent"),
    [(">", 2.0, True), (">=", 2.0, False), ("<", 2.0, True), ("<=", 2.0, False), (">", 1.9, False), ("<", 2.1, False)],
)
def test_a_condition_holds_at_its_limit_as_its_operator_says(op: str, queue: float, sent: bool) -> None:
    """Two engines that serve one at a time, two in each queue when the first asks for its copy."""
    w = Workload.of(np.arange(6) * 0.01, np.full(6, 10.0), np.full(6, 1000.0), replica=np.arange(6) % 2)
    engines = Fleet(Fact(2, "config"), Fact(1, "config"), Fact(120_000, "config"), confirmed=True)
    s = ready(w, service(SlowSeries.none(2)), engines)
    spec = Spec("response", 5.0, suppress=(("waiting_requests_per_replica", op, queue),))
    arm = sweep.play(s, load.at(w, 1.0, 0), spec, NONE, "as_logged", exact=True)
    assert (arm.hedges > 0) == sent
