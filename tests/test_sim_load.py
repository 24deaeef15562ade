"""From a log to what is played: loads, lengths, cached prefixes, errors, policies."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from sim_logs import FLEET, NONE, SICK, log, ready, service

from hedgectl.model import ERROR, Fact, Workload
from hedgectl.policy import Budget, Deadline, Hedge, Suppress, Target
from hedgectl.sim import load, scenario, sweep
from hedgectl.sim.scenario import Assumed, Spec

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
