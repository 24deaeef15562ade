"""What must hold in any fleet: conservation, causality, capacity, budget, Little's law; and no copies = infinite delay."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sim_cases import random_case

from hedgectl.sim import layout as c
from hedgectl.sim.inputs import OFF, Jobs, Law, Outcome, Rule
from hedgectl.sim.run import run

SEEDS = st.integers(min_value=0, max_value=2**32 - 1)


def finite(values: object) -> np.ndarray:
    array = np.asarray(values)
    return array[~np.isnan(array)]


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_invariants_on_random_configurations(seed: int) -> None:
    jobs, law, rule = random_case(seed)
    o = run(jobs, law, rule)
    x, q, r, g = o.attempt, o.request, o.replica, o.run
    sent = x["state"] != c.NONE

    # conservation: every request closes, every attempt that was sent ends, copies are what was sent beyond primaries
    assert set(np.unique(q["status"])) <= {c.ANSWERED, c.ERRORED, c.TIMED_OUT}
    assert set(np.unique(x["state"][sent])) <= {c.DONE, c.CANCELLED, c.FAILED}
    assert int(sent.sum()) == len(q) + int(g["hedges"]) == int(q["sent"].sum())
    assert np.all(q["alive"] == 0)
    assert int(g["in_flight"]) == 0
    assert np.all(r["outstanding"] == 0)
    assert np.all(r["queued"] == 0)
    assert np.all(r["running"] == 0)
    np.testing.assert_allclose(r["reserved"], 0, atol=1e-6)

    # causality and a clock that never runs backwards
    assert int(g["backwards"]) == 0
    for before, after in (("sent", "enqueued"), ("enqueued", "admitted"), ("admitted", "first"), ("first", "end")):
        both = ~np.isnan(x[before]) & ~np.isnan(x[after])
        assert np.all(x[after][both] >= x[before][both] - 1e-9), (before, after)
    assert np.all(x["sent"][sent] >= np.broadcast_to(jobs.arrival[:, None], sent.shape)[sent])
    assert np.all(q["end"] >= jobs.arrival)

    # capacity, and never idle while the head of the queue would fit; Little: the number inside adds up to the times
    for number in range(law.replicas):
        check_engine(o, law, number)

    # budget: burst at the start, then a share of the requests
    if rule.ratio < OFF and rule.burst < OFF:
        assert int(g["hedges"]) <= rule.burst + rule.ratio * len(q) + 1e-6

    # work: what engines decoded is the winners' tokens and the wasted ones, and GPU time is attributed without a rest
    won = np.zeros(sent.shape, dtype=bool)
    answered = np.flatnonzero(q["status"] == c.ANSWERED)
    won[answered, q["winner"][answered]] = True
    np.testing.assert_allclose(x["decoded"][won], jobs.tokens[won], rtol=1e-9, atol=1e-9)
    assert np.all((x["decoded"] >= 0) & (x["decoded"] <= jobs.tokens))
    np.testing.assert_allclose(r["busy"].sum(), x["gpu"].sum(), rtol=1e-6, atol=1e-6)


def check_engine(o: Outcome, law: Law, number: int) -> None:
    """What stood in the queue, in the prefill slot and in the batch of one engine between any two of its events."""
    here = (o.attempt["replica"] == number) & ~np.isnan(o.attempt["enqueued"])
    x = o.attempt[here]
    if not len(x):
        return
    reserve = np.minimum(o.jobs.prompt + o.jobs.tokens, law.kv_capacity)[here]
    begin, enqueued, end = x["admitted"], x["enqueued"], x["end"]
    written = np.where(np.isnan(x["first"]), end, x["first"])
    times = np.unique(finite(np.concatenate([begin, enqueued, end, written])))
    area = 0.0
    for t, until in itertools.pairwise(times):
        if until - t <= 1e-9:
            continue
        inside = (begin <= t) & (t < end)
        prefill = inside & (t < written)
        queued = (enqueued <= t) & ~(begin <= t) & (t < end)
        assert inside.sum() <= law.cap
        assert prefill.sum() <= 1
        assert inside.sum() == 1 or reserve[inside].sum() <= law.kv_capacity + 1e-6
        if queued.any() and not prefill.any():
            heads = reserve[queued & (enqueued == enqueued[queued].min())]
            room = law.kv_capacity - reserve[inside].sum()
            assert inside.sum() > 0
            assert inside.sum() >= law.cap or np.any(heads > room - 1e-6)
        area += (until - t) * (queued.sum() + inside.sum())
    np.testing.assert_allclose(area, (end - enqueued).sum(), rtol=1e-6, atol=1e-6)


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_no_hedging_is_an_infinite_delay_byte_for_byte(seed: int) -> None:
    jobs, law, rule = random_case(seed)
    never = run(jobs, law, dataclasses.replace(rule, delay=OFF))
    alone = dataclasses.replace(
        jobs,
        **{n: getattr(jobs, n)[:, :1].copy() for n in ("work", "tokens", "prompt", "gateway", "fails_after", "pick")},
    )
    single = run(alone, law, rule)
    assert never.request["end"].tobytes() == single.request["end"].tobytes()
    assert never.request["ttft"].tobytes() == single.request["ttft"].tobytes()
    assert never.attempt["gpu"][:, 0].tobytes() == single.attempt["gpu"][:, 0].tobytes()


def test_the_same_run_twice_gives_the_same_bytes() -> None:
    jobs, law, rule = random_case(7)
    first, second = run(jobs, law, rule), run(jobs, law, rule)
    assert first.attempt.tobytes() == second.attempt.tobytes()
    assert first.request.tobytes() == second.request.tobytes()


def test_nothing_arrives() -> None:
    o = run(Jobs.of([], []), Law(2, 0.01, 0.001), Rule(delay=1.0))
    assert len(o.request) == 0
    assert float(o.replica["busy"].sum()) == 0.0


def test_one_replica_has_nowhere_to_send_a_copy() -> None:
    o = run(Jobs.of([0.0], [100.0]), Law(1, 0.1, 0.0), Rule(delay=1.0))
    assert int(o.run["hedges"]) == 0
    assert int(o.run["refused_ineligible"]) == 1


@pytest.mark.parametrize(
    ("cancel", "end_state", "wasted"),
    [(c.FREES_ENGINE, c.CANCELLED, 6.0), (c.ENGINE_RUNS_ON, c.DONE, 10.0), (c.LEAVES_QUEUE, c.DONE, 10.0)],
)
def test_what_a_cancel_does_to_a_loser_that_decodes(cancel: int, end_state: int, wasted: float) -> None:
    # the primary takes 10 s, the copy sent after 2 s takes 4 s: at 6 s the primary has 6 tokens
    jobs = Jobs.of([0.0], [[10.0, 4.0]], logged=0)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0, cancel=cancel))
    assert o.request["end"][0] == pytest.approx(6.0)
    assert o.attempt["state"][0, 0] == end_state
    assert o.attempt["decoded"][0, 0] == pytest.approx(wasted)


def test_a_cancel_that_frees_with_lag() -> None:
    jobs = Jobs.of([0.0], [[10.0, 4.0]], logged=0)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0, cancel_lag=1.5))
    assert o.attempt["end"][0, 0] == pytest.approx(7.5)
    assert o.attempt["decoded"][0, 0] == pytest.approx(7.5)


def test_a_prefill_under_way_is_finished_before_a_cancel_counts() -> None:
    # the copy's first token comes at 3 s; the primary's prefill would last until 5 s and its engine is held until then
    jobs = Jobs.of([0.0], [[10.0, 10.0]], work=[[5.0, 1.0]], logged=0, clock=c.FIRST_TOKEN)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0))
    assert o.request["ttft"][0] == pytest.approx(3.0)
    assert o.attempt["state"][0, 0] == c.CANCELLED
    assert o.attempt["end"][0, 0] == pytest.approx(5.0)
    assert np.isnan(o.attempt["first"][0, 0])
    assert o.attempt["decoded"][0, 0] == 0.0


def test_an_error_never_wins() -> None:
    jobs = Jobs.of([0.0], [[10.0, 4.0]], fails_after=[[OFF, 1.0]], logged=0)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0))
    assert o.request["status"][0] == c.ANSWERED
    assert o.request["end"][0] == pytest.approx(10.0)
    assert o.request["winner"][0] == 0


def test_a_copy_saves_a_request_whose_primary_fails() -> None:
    jobs = Jobs.of([0.0], [[10.0, 4.0]], fails_after=[[3.0, OFF]], logged=0)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0))
    assert o.request["status"][0] == c.ANSWERED
    assert o.request["end"][0] == pytest.approx(6.0)


def test_one_deadline_for_both_copies() -> None:
    jobs = Jobs.of([0.0], [[10.0, 10.0]], logged=0)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0, deadline=5.0))
    assert o.request["status"][0] == c.TIMED_OUT
    assert o.request["end"][0] == pytest.approx(5.0)
    assert list(o.attempt["decoded"][0]) == pytest.approx([5.0, 3.0])


@pytest.mark.parametrize(("predicted", "hedges"), [(3.5, 0), (2.5, 1)])
def test_no_copy_that_cannot_end_in_time(predicted: float, hedges: int) -> None:
    jobs = Jobs.of([0.0], [[10.0, 10.0]], logged=0, predicted=predicted)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0, deadline=5.0))
    assert int(o.run["hedges"]) == hedges
    assert int(o.run["refused_deadline"]) == 1 - hedges


@pytest.mark.parametrize("signal", ["queue_age", "running", "waiting", "kv_usage", "reserved", "errors", "hedges"])
def test_each_signal_suppresses_above_its_limit_and_not_below(signal: str) -> None:
    # replica 0 and 1 are full and have queues; an early error and an early copy feed the ratios
    n = 12
    tokens = np.full((n, 2), 50.0)
    fails = np.full((n, 2), OFF)
    fails[0, 0] = 0.1
    jobs = Jobs.of(np.linspace(0, 1, n), tokens, prompt=10.0, fails_after=fails, logged=np.arange(n) % 2, seed=3)
    law = Law(2, 1.0, 0.0, cap=2, kv_capacity=130)
    counted = {}
    for limit in (0.0, 1e6):
        o = run(jobs, law, Rule(routing=c.AS_LOGGED, delay=3.0, suppress={signal: limit}))
        counted[limit] = (int(o.run["hedges"]), int(o.run["refused_suppressed"]))
    assert counted[1e6][1] == 0
    assert counted[1e6][0] > 0
    assert counted[0.0][1] > 0


def test_slow_replicas_elsewhere_suppress() -> None:
    # both others answer slower than the healthy limit, so a copy would go from bad to worse
    n = 30
    tokens = np.where((np.arange(n) % 3 > 0)[:, None], 9.0, 5.0) * np.ones((1, 2))
    jobs = Jobs.of(np.arange(n, dtype=float), tokens, logged=np.arange(n) % 3)
    law = Law(3, 1.0, 0.0)
    free = run(jobs, law, Rule(routing=c.AS_LOGGED, delay=4.0, healthy_limit=6.0))
    held = run(jobs, law, Rule(routing=c.AS_LOGGED, delay=4.0, healthy_limit=6.0, suppress={"slow": 0.9}))
    assert int(free.run["refused_suppressed"]) == 0
    assert int(held.run["refused_suppressed"]) > 0


def test_copies_in_flight_are_capped() -> None:
    jobs = Jobs.of([0.0, 0.1, 0.2], np.full((3, 2), 10.0), logged=0)
    o = run(jobs, Law(2, 1.0, 0.0), Rule(routing=c.AS_LOGGED, delay=2.0, max_in_flight=1))
    assert int(o.run["hedges"]) == 1
    assert int(o.run["refused_budget"]) == 2


def test_a_copy_goes_to_another_pool_if_asked() -> None:
    jobs = Jobs.of(np.arange(20.0), np.full((20, 2), 5.0), logged=0, seed=5)
    law = Law(4, 1.0, 0.0, pool=np.array([0, 0, 1, 1], dtype=np.int32))
    o = run(jobs, law, Rule(routing=c.AS_LOGGED, delay=1.0, other_pool=True))
    assert set(o.attempt["replica"][:, 1]) == {2, 3}


def test_a_prompt_larger_than_the_cache_is_served_alone() -> None:
    jobs = Jobs.of([0.0, 0.0, 0.0], [[5.0], [5.0], [5.0]], attempts=1, prompt=[[1.0], [500.0], [1.0]])
    o = run(jobs, Law(1, 1.0, 0.0, kv_capacity=100), Rule())
    assert np.all(o.request["status"] == c.ANSWERED)
    assert o.attempt["admitted"][1, 0] == pytest.approx(5.0)
    assert o.attempt["admitted"][2, 0] == pytest.approx(10.0)


def test_a_full_queue_answers_with_an_error() -> None:
    o = run(Jobs.of([0.0, 0.1, 0.2], np.ones((3, 1)), attempts=1), Law(1, 1.0, 0.0, cap=1, queue_limit=1), Rule())
    assert list(o.request["status"]) == [c.ANSWERED, c.ANSWERED, c.ERRORED]


def test_least_outstanding_beats_random_on_a_busy_fleet() -> None:
    rng = np.random.default_rng(5)
    jobs = Jobs.of(np.cumsum(rng.exponential(1 / 6.4, 20_000)), rng.exponential(1.0, (20_000, 1)), attempts=1)
    law = Law(8, 1.0, 0.0, cap=1)
    means = {}
    for routing in (c.RANDOM, c.LEAST_OUTSTANDING):
        o = run(jobs, law, Rule(routing=routing))
        means[routing] = float((o.request["end"] - jobs.arrival).mean())
    assert means[c.LEAST_OUTSTANDING] < 0.5 * means[c.RANDOM]
