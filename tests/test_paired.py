"""The paired ratio claims an interval only where enough independent episodes stand behind it, and then it covers."""

from __future__ import annotations

import numpy as np
import pytest

from hedgectl.paired import CLAIMED_FROM, episodes, paired_ratio


def log(count: int, seed: int, gap_s: float = 75.0, rate: float = 2.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Unhedged and hedged latency and arrivals: every `gap_s` one of 8 replicas is slow for about 20 s."""
    rng = np.random.default_rng(seed)
    span = count * gap_s
    n = rng.poisson(rate * span)
    t = np.sort(rng.uniform(0, span, n))
    base, copy, replica = rng.lognormal(1.4, 0.6, n), rng.lognormal(1.4, 0.6, n), rng.integers(0, 8, n)
    factor = np.ones(n)
    for begin in rng.uniform(0, span, rng.poisson(count)):
        low, high = np.searchsorted(t, [begin, begin + rng.exponential(20.0)])
        sick = replica[low:high] == rng.integers(0, 8)
        factor[low:high] = np.where(sick, 6.0, factor[low:high])
    slow = base * factor
    return slow, np.where(slow > 15.0, np.minimum(slow, 15.0 + copy), slow), t


def test_the_interval_is_claimed_and_covers_on_two_hundred_episodes() -> None:
    slow, hedged, _ = log(6000, 999)
    true = float(np.quantile(hedged, 0.99) / np.quantile(slow, 0.99))
    found = [paired_ratio(*log(200, seed), 0.99) for seed in range(20)]
    assert all(f["interval"] is not None for f in found)
    covering = sum(f["interval"][0] <= true <= f["interval"][1] for f in found)
    assert covering >= 0.85 * len(found)


def test_nothing_is_claimed_on_ten_episodes() -> None:
    for seed in range(8):
        found = paired_ratio(*log(10, seed), 0.99)
        assert found["episodes"] < CLAIMED_FROM
        assert found["interval"] is None
        assert found["ratio"] is not None


def test_arms_that_differ_by_a_factor_have_that_ratio() -> None:
    slow, _, t = log(200, 3)
    found = paired_ratio(slow, 0.5 * slow, t, 0.99)
    assert found["ratio"] == pytest.approx(0.5)
    assert found["interval"] == pytest.approx([0.5, 0.5])


def test_the_order_of_rows_does_not_matter_and_a_seed_repeats() -> None:
    slow, hedged, t = log(150, 4)
    shuffled = np.random.default_rng(0).permutation(len(t))
    one = paired_ratio(slow, hedged, t, 0.99)
    assert paired_ratio(slow, hedged, t, 0.99) == one
    other = paired_ratio(slow[shuffled], hedged[shuffled], t[shuffled], 0.99)
    assert other["episodes"] == one["episodes"]
    assert other["interval"] == pytest.approx(one["interval"])


@pytest.mark.parametrize(("values", "ratio"), [([], None), ([np.nan], None), ([0.0, 0.0], None), ([2.0, 2.0], 1.0)])
def test_hardly_anything(values: list[float], ratio: float | None) -> None:
    found = paired_ratio(values, values, np.arange(float(len(values))), 0.99)
    assert found["ratio"] == ratio
    assert found["interval"] is None


def test_one_long_outage_is_one_episode() -> None:
    t = np.arange(1000.0)
    assert episodes(np.where((t > 400) & (t < 450), 50.0, 1.0), t, 0.95).count == 1
