"""The fit finds the law of fleets whose law is known, and does not take one trouble for another."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import fit_logs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgectl.config import Config, Value
from hedgectl.fit import LogFacts, fit_service, fleet_of, refusals
from hedgectl.fit.edges import Period
from hedgectl.fit.engine import assumed_batch, most_running
from hedgectl.fit.robust import solve_nonnegative, trimmed_line
from hedgectl.fit.routing import routing_seen
from hedgectl.fit.slowness import speed_integral
from hedgectl.fit.timeline import attempts_of, earliest_starts
from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload


def assert_law(found: ServiceModel, within: float = 0.01) -> None:
    for name, true in fit_logs.TRUE.items():
        assert getattr(found, name) == pytest.approx(true, rel=within), name


def test_a_healthy_fleet_gives_its_law_and_no_slow_period() -> None:
    engines = fit_logs.fleet()
    fit = fit_service(fit_logs.played(fit_logs.service(), engines), engines)
    assert_law(fit.service, 0.001)
    assert len(fit.service.slow.start_s) == 0
    assert fit.service.hiccup_probability == 0
    assert fit.fleet.chunk_tokens == Fact(0, "assumed")
    assert fit.routing.seen == "random"
    low, high = fit.service.intervals["decode_base_s"]
    assert low <= fit.service.decode_base_s <= high


def test_slow_periods_are_found_with_sharp_edges_and_their_level() -> None:
    engines = fit_logs.fleet()
    true = {1: [(60.4, 85.2, 6.0), (300.0, 312.7, 3.0)], 2: [(500.5, 540.1, 4.0)]}
    log = fit_logs.played(fit_logs.service(slow=SlowSeries.of(true, 4)), engines)
    found = fit_service(log, engines).service
    assert_law(found)
    for r, periods in {0: [], 3: [], **true}.items():
        rows = slice(found.slow.offsets[r], found.slow.offsets[r + 1])
        start, factor = found.slow.start_s[rows], found.slow.factor[rows]
        long = [(s, e, f) for s, e, f in zip(start[::2], start[1::2], factor[::2], strict=True) if e - s > 2]
        assert len(long) == len(periods)
        for (s, e, f), (true_s, true_e, true_f) in zip(long, periods, strict=True):
            assert s == pytest.approx(true_s, abs=1.0)
            assert e == pytest.approx(true_e, abs=1.0)
            assert f == pytest.approx(true_f, rel=0.1)


def test_waiting_for_a_place_in_the_batch_is_no_slowness() -> None:
    engines = fit_logs.fleet(cap=4)
    log = fit_logs.played(fit_logs.service(), engines)
    assert float(np.quantile(log.ttft_s, 0.99)) > 1.0  # there is a queue
    found = fit_service(log, engines).service
    assert_law(found)
    assert len(found.slow.start_s) == 0


def test_a_replica_that_is_always_slow_has_a_static_factor() -> None:
    engines = fit_logs.fleet()
    slow = replace(SlowSeries.none(4), static_factor=np.array([1.0, 1.0, 2.0, 1.0]))
    found = fit_service(fit_logs.played(fit_logs.service(slow=slow), engines), engines).service
    assert found.slow.static_factor == pytest.approx([1, 1, 2, 1], rel=0.02)
    assert len(found.slow.start_s) == 0
    assert_law(found)


def test_delays_before_the_engine_are_hiccups_and_not_slow_engines() -> None:
    engines = fit_logs.fleet()
    law = fit_logs.service(hiccup_s=np.linspace(3.0, 9.0, 50), hiccup_probability=0.04)
    found = fit_service(fit_logs.played(law, engines), engines).service
    assert found.hiccup_probability == pytest.approx(0.04, abs=0.012)
    assert float(np.mean(found.hiccup_s)) == pytest.approx(6.0, abs=0.8)
    slow_s = float(np.sum(np.diff(found.slow.start_s)[::2])) if len(found.slow.start_s) else 0.0
    assert slow_s < 5.0
    assert_law(found)


def test_prompts_that_share_steps_with_decode_are_recognised() -> None:
    engines = fit_logs.fleet()
    law = fit_logs.service(prefill_base_s=0.0, prefill_per_token_s=0.0002, chunk_tokens=2048)
    fit = fit_service(fit_logs.played(law, engines), engines)
    assert fit.fleet.chunk_tokens.source == "log"
    assert fit.service.chunk_tokens > 0
    assert fit.service.decode_base_s == pytest.approx(0.012, rel=0.05)
    assert fit.service.decode_per_sequence_s == pytest.approx(0.0004, rel=0.2)
    assert fit.service.prefill_per_token_s == pytest.approx(0.0002, rel=0.1)


def test_a_stated_pausing_engine_is_not_second_guessed() -> None:
    engines = fit_logs.fleet(chunk_tokens=Fact(0, "config"))
    law = fit_logs.service(prefill_base_s=0.0, prefill_per_token_s=0.0002, chunk_tokens=2048)
    assert fit_service(fit_logs.played(law, engines), engines).service.chunk_tokens == 0


def test_without_replica_ids_one_law_is_assumed_for_all() -> None:
    engines = fit_logs.fleet()
    log = fit_logs.played(fit_logs.service(), engines)
    unnamed = replace(
        log, replica=np.full(len(log), -1, dtype=np.int32), replicas=(), pool_of_replica=np.zeros(0, np.int32)
    )
    fit = fit_service(unnamed, engines)
    assert fit.assumed
    assert [n["code"] for n in fit.notes] == ["replicas_unnamed"]
    assert len(fit.service.slow.static_factor) == 4
    assert fit.service.decode_base_s == pytest.approx(0.012, rel=0.2)


def test_copies_of_an_already_hedged_log_count_as_load_but_cut_ones_teach_nothing() -> None:
    engines = fit_logs.fleet()
    log = fit_logs.played(fit_logs.service(), engines)
    cut = np.arange(len(log)) % 10 == 0
    seen = replace(
        log,
        status=np.where(cut, 2, 0).astype(np.int8),
        completion_tokens=np.where(cut, -1, log.completion_tokens),
    )
    assert_law(fit_service(log.take(~cut), engines, seen).service)


def test_fits_are_the_same_byte_for_byte() -> None:
    engines = fit_logs.fleet()
    log = fit_logs.played(fit_logs.service(slow=SlowSeries.of({0: [(50.0, 70.0, 5.0)]}, 4)), engines, n=1500)
    one, two = (fit_service(log, engines).service for _ in range(2))
    assert one.slow.start_s.tobytes() == two.slow.start_s.tobytes()
    assert one.decode_base_s == two.decode_base_s


# --- parts ------------------------------------------------------------------------------------------------------------


@given(st.floats(0.001, 1.0), st.floats(1e-6, 1e-2), st.integers(0, 10_000))
def test_a_line_survives_a_third_of_slow_rows(base: float, slope: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.integers(1, 5000, 300).astype(float)
    slow = np.where(rng.random(300) < 0.33, rng.uniform(2, 9, 300), 1.0)
    line = trimmed_line(x, (base + slope * x) * slow)
    assert line.base + line.slope * 2500 == pytest.approx(base + slope * 2500, rel=0.02)


@pytest.mark.parametrize(
    ("x", "y", "base", "slope"), [([], [], 0, 0), ([5.0], [2.0], 2, 0), ([5.0] * 4, [1, 1, 1, 9.0], 1, 0)]
)
def test_a_line_through_hardly_anything(x: list[float], y: list[float], base: float, slope: float) -> None:
    line = trimmed_line(np.array(x), np.array(y))
    assert (line.base, line.slope) == (base, slope)


@given(st.lists(st.tuples(st.floats(0.1, 9), st.floats(0.1, 9), st.floats(0.1, 9)), min_size=1, max_size=20))
def test_coefficients_are_never_negative(rows: list[tuple[float, float, float]]) -> None:
    u, v, y = (np.array(c) for c in zip(*rows, strict=True))
    assert min(solve_nonnegative(u, v, y)) >= 0


def test_a_prefill_cannot_begin_before_there_is_room() -> None:
    # one replica, one place: the second waits for the first's end, not for its first token
    a = attempts_of(
        np.array([0.0, 0.1]), np.array([1.0, 5.9]), np.array([5.0, 8.0]), np.array([10.0, 10.0]), np.array([10.0, 10.0]),
        np.array([50.0, 50.0]), np.array([0, 0]), 1,
    )  # fmt: skip
    assert earliest_starts(a, 1, None) == pytest.approx([0.0, 5.0])
    assert earliest_starts(a, 2, None) == pytest.approx([0.0, 1.0])
    assert earliest_starts(a, 2, 100) == pytest.approx([0.0, 5.0])  # 60 + 60 tokens do not fit
    assert earliest_starts(a, None, None) == pytest.approx([0.0, 1.0])


def test_time_at_speed() -> None:
    periods = [Period(10.0, 20.0, 0.5), Period(20.0, 30.0, 0.1)]
    assert speed_integral(periods, np.array([0.0, 10.0, 20.0, 30.0, 40.0])) == pytest.approx([0, 10, 15, 16, 26])
    assert speed_integral([], np.array([3.0])) == pytest.approx([3.0])


def routed(kind: str) -> Workload:
    engines = fit_logs.fleet()
    if kind == "round_robin":
        log = fit_logs.played(fit_logs.service(), engines, n=800)
        return replace(log, replica=(np.arange(800) % 4).astype(np.int32))
    how = "least_outstanding" if kind == "least_outstanding" else "as_logged"
    return fit_logs.played(fit_logs.service(), engines, n=800, routing=how)


@pytest.mark.parametrize("kind", ["random", "least_outstanding", "round_robin"])
def test_the_routing_is_seen(kind: str) -> None:
    assert routing_seen(routed(kind)).seen == kind


def test_routing_is_unknown_where_there_is_nothing_to_choose() -> None:
    one = Workload.of(np.arange(500.0), np.ones(500), np.ones(500), e2e_s=np.full(500, 0.5), replica=np.zeros(500))
    assert routing_seen(one).seen == "unknown"


# --- when not to replay -----------------------------------------------------------------------------------------------


def config(**engine: Any) -> Config:
    return Config({f"engine.{k}": Value(v, "test") for k, v in engine.items()})


def log_of(n: int = 100, **known: Any) -> Workload:
    fields: dict[str, Any] = {"ttft_s": np.full(n, 0.1), "e2e_s": np.full(n, 2.0), "replica": np.arange(n) % 2}
    return Workload.of(np.arange(float(n)), np.full(n, 10), np.full(n, 5), **(fields | known))


@pytest.mark.parametrize(
    ("code", "engine", "known", "facts"),
    [
        ("engine_not_confirmed", {}, {}, {}),
        ("hosted_provider", {"confirmed": True}, {}, {"providers": ("openai",)}),
        ("sampled_log", {"confirmed": True}, {"weight": np.full(100, 10.0)}, {}),
        ("load_below_gauge", {"confirmed": True}, {}, {"mean_running_gauge": 20.0}),
        ("no_first_token", {"confirmed": True}, {"ttft_s": np.full(100, np.nan)}, {}),
        ("replicas_unknown", {"confirmed": True}, {"replica": np.full(100, -1), "replicas": ()}, {}),
    ],
)
def test_no_replay_and_why(code: str, engine: Any, known: Any, facts: Any) -> None:
    log = log_of(**known)
    assert [r.code for r in refusals(fleet_of(config(**engine), log), log, LogFacts(**facts))] == [code]


def test_nothing_stands_against_a_confirmed_fleet() -> None:
    log = log_of()
    assert (
        refusals(fleet_of(config(confirmed=True), log), log, LogFacts(("hosted_vllm",), mean_running_gauge=1.1)) == []
    )


def test_each_fact_says_where_it_comes_from() -> None:
    log = log_of()
    found: Fleet = fleet_of(config(confirmed=True, kv_capacity_tokens=9000), log)
    assert found.replicas == Fact(2, "log")
    assert found.kv_capacity_tokens == Fact(9000, "config")
    assert found.max_running_requests.source == "assumed"
    assert fleet_of(config(chunked_prefill=True, step_token_budget=512), log).chunk_tokens == Fact(512, "config")
    assert fleet_of(config(), log, cancel="frees_engine").cancel == "frees_engine"


def test_a_batch_cap_is_guessed_from_a_plateau_only() -> None:
    assert assumed_batch(log_of()) == 256
    engines = fit_logs.fleet(cap=4)
    full = fit_logs.played(fit_logs.service(), engines, rate=5.0)
    assert most_running(full) == 4
    assert assumed_batch(full) == 4
