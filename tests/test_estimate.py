"""The load-blind screen: donors, transplants, budgets and degenerate logs, against hand-made logs of known answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl.estimate import Budget, Screen, fit_law, grants
from hedgectl.model import ERROR, OK, Workload


def fleet(
    n: int = 4000, replicas: int = 4, slow: float = 0.0, seed: int = 1, *, shared: bool = False, spell_s: float = 5.0
) -> Workload:
    """One request every 50 ms, 0.1 s + 10 ms a token; in slow spells a replica (or all of them) takes 10 times as long."""
    rng = np.random.default_rng(seed)
    arrival = np.arange(n) * 0.05
    replica = rng.integers(0, replicas, n)
    tokens = rng.integers(50, 150, n)
    spell = (arrival // spell_s).astype(int)
    unlucky = rng.random((spell.max() + 1, replicas)) < slow
    if shared:
        unlucky[:] = unlucky[:, :1]
    factor = np.where(unlucky[spell, replica], 10.0, 1.0)
    ttft = 0.1 * factor
    return Workload.of(
        arrival, np.full(n, 100), tokens, ttft_s=ttft, e2e_s=ttft + 0.01 * (tokens - 1) * factor, replica=replica
    )


def p99(workload: Workload, screen: Screen, delay: float, length: str = "same") -> float:
    found = screen.project("response", delay, np.ones(len(workload), dtype=bool), length)  # type: ignore[arg-type]
    best = workload.e2e_s.copy()
    best[found.hedged] = (found.e2e_s * found.weight).sum(axis=1)
    return float(np.quantile(best, 0.99))


def test_one_slow_replica_is_escaped_and_a_slow_fleet_is_not() -> None:
    alone, together = fleet(slow=0.05), fleet(n=8000, slow=0.3, shared=True, spell_s=40.0)
    before = float(np.quantile(alone.e2e_s, 0.99))
    assert p99(alone, Screen(alone), 2.0) < 0.5 * before
    screen = Screen(together)
    found = screen.project("response", 2.0, np.ones(len(together), dtype=bool), "same")
    # Donors of the same moment are as slow, except where the delay crosses the end of a spell.
    assert found.win_rate is not None
    assert found.win_rate < 0.1


def test_a_copy_of_long_work_is_as_long_unless_lengths_are_drawn_anew() -> None:
    w = fleet()
    tokens = w.completion_tokens.copy()
    tokens[::50] = 3000
    long = Workload.of(
        w.arrival_s, w.prompt_tokens, tokens, ttft_s=w.ttft_s, e2e_s=0.1 + 0.01 * (tokens - 1), replica=w.replica
    )
    screen = Screen(long)
    everyone = np.ones(len(long), dtype=bool)
    same = screen.project("response", 2.0, everyone, "same")
    fresh = screen.project("response", 2.0, everyone, "independent")
    assert same.win_rate == 0.0
    assert fresh.win_rate is not None
    assert fresh.win_rate > 0.9


def test_a_copy_pays_the_prefill_that_the_primary_had_cached() -> None:
    n = 400
    arrival = np.arange(n) * 0.1
    prompt = np.where(np.arange(n) % 2 == 0, 1000, 4000)
    cached = np.where(prompt == 4000, 3500 - np.arange(n) % 500, 0)
    ttft = 0.05 + 0.001 * (prompt - cached)
    w = Workload.of(
        arrival, prompt, np.full(n, 2), cached_tokens=cached, ttft_s=ttft, e2e_s=ttft + 0.1, replica=np.arange(n) % 3
    )
    found = Screen(w).project("response", 0.5, prompt == 4000, "same")
    whole = np.median(found.copy_e2e_s)
    assert whole == pytest.approx(4.15, rel=0.02)  # 4,000 uncached tokens, not 500 to 1,000


def test_donors_are_never_on_the_same_replica_nor_the_request_itself() -> None:
    w = fleet(slow=0.1)
    screen = Screen(w)
    rows = np.arange(0, len(w), 7)
    donors, weight = screen._match(rows, 1.0)
    used = weight > 0
    assert np.all((w.replica[donors] != w.replica[rows][:, None])[used])
    assert np.allclose(weight.sum(axis=1), 1.0)
    bare = Workload.of(w.arrival_s, w.prompt_tokens, w.completion_tokens, e2e_s=w.e2e_s)
    donors, weight = Screen(bare)._match(rows, 0.0)
    assert np.all((donors != rows[:, None])[weight > 0])


def test_an_error_never_wins_and_a_failed_primary_can_be_rescued() -> None:
    w = fleet(n=400)
    status = np.where(w.replica == 0, ERROR, OK)
    half = Workload.of(
        w.arrival_s, w.prompt_tokens, w.completion_tokens, e2e_s=w.e2e_s, replica=w.replica, status=status
    )
    found = Screen(half).project("response", 0.2, np.ones(len(w), dtype=bool), "same")
    failed = half.status[found.hedged] == ERROR
    assert np.all(found.won[failed] == np.isfinite(found.copy_e2e_s[failed]))
    assert np.isinf(found.e2e_s[failed][~found.won[failed]]).all()
    assert not found.won[np.isinf(found.copy_e2e_s)].any()


def test_whole_answers_without_ids_or_first_token_are_screened_by_their_residual() -> None:
    w = fleet(slow=0.05)
    bare = Workload.of(w.arrival_s, w.prompt_tokens, w.completion_tokens, e2e_s=w.e2e_s)
    screen = Screen(bare)
    assert screen.first_law is None
    assert screen.whole_law.per_output_s == pytest.approx(0.01, rel=0.05)
    assert p99(bare, screen, 2.0) < 0.7 * float(np.quantile(bare.e2e_s, 0.99))


def test_law_is_that_of_ordinary_speed_and_degenerate_input_has_an_answer() -> None:
    rng = np.random.default_rng(3)
    uncached = rng.integers(100, 2000, 3000).astype(float)
    seconds = 0.03 + 0.0001 * uncached
    seconds[rng.random(3000) < 0.1] *= 6
    law = fit_law(uncached, np.zeros(3000), seconds, np.ones(3000, dtype=bool))
    assert law.base_s == pytest.approx(0.03, rel=0.02)
    assert law.per_uncached_s == pytest.approx(0.0001, rel=0.02)
    assert fit_law(np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, dtype=bool)).rows == 0
    equal = fit_law(np.ones(50), np.ones(50), np.full(50, 2.0), np.ones(50, dtype=bool))
    assert equal.seconds(np.ones(1), np.ones(1))[0] == pytest.approx(2.0)


@settings(max_examples=60, deadline=None)
@given(
    gaps=st.lists(st.floats(0.0, 2.0), min_size=1, max_size=60),
    ratio=st.floats(0.01, 1.0),
    burst=st.integers(1, 10),
    delay=st.floats(0.0, 5.0),
)
def test_budget_is_a_token_bucket(gaps: list[float], ratio: float, burst: int, delay: float) -> None:
    arrival = np.cumsum(gaps)
    due = np.arange(len(arrival))
    allowed = grants(arrival, due, delay, Budget(ratio, burst))
    # The same bucket, one event at a time.
    events = sorted([(t, 0, i) for i, t in enumerate(arrival)] + [(t + delay, 1, i) for i, t in enumerate(arrival)])
    tokens, expected = float(burst), np.zeros(len(arrival), dtype=bool)
    for _, kind, i in events:
        if kind == 0:
            tokens = min(burst, tokens + ratio)
        elif tokens >= 1:
            tokens -= 1
            expected[i] = True
    assert allowed.sum() <= ratio * len(arrival) + burst + 1e-9
    # Rounding of a sum of ratios may decide a token that is due exactly now.
    assert abs(int(allowed.sum()) - int(expected.sum())) <= 1


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), delay=st.floats(0.05, 20.0), length=st.sampled_from(["same", "independent"]))
def test_a_copy_never_makes_its_own_request_slower(seed: int, delay: float, length: str) -> None:
    w = fleet(n=300, slow=0.2, seed=seed)
    found = Screen(w).project("response", delay, np.ones(len(w), dtype=bool), length)  # type: ignore[arg-type]
    assert np.all(found.e2e_s <= w.e2e_s[found.hedged][:, None] + 1e-12)
    assert found.due == len(found.hedged) + found.refused_budget + found.no_donor
    assert np.all(w.e2e_s[found.hedged] > delay)


def test_empty_and_single_request_logs() -> None:
    empty = Workload.of([], [], [])
    found = Screen(empty).project("response", 1.0, np.zeros(0, dtype=bool), "same")
    assert found.win_rate is None
    assert len(found.hedged) == 0
    one = Workload.of([0.0], [10], [10], e2e_s=[5.0])
    found = Screen(one).project("response", 1.0, np.ones(1, dtype=bool), "same")
    assert found.no_donor == 1
    assert len(found.hedged) == 0
