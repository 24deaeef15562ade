"""Quantiles: interpolation, weights, censoring, log buckets, digests."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl import quantiles as q
from hedgectl.errors import InputError

values = st.lists(st.floats(0.1, 1e6, allow_nan=False), min_size=1, max_size=60)


def test_sizes_of_distribution_free_bounds() -> None:
    assert [q.needed(p) for p in (0.95, 0.99, 0.999)] == [59, 299, 2995]


@pytest.mark.parametrize(
    ("n", "p", "shown"), [(19, 0.95, False), (20, 0.95, True), (99, 0.99, False), (100, 0.99, True)]
)
def test_a_percentile_needs_one_value_beyond_it(n: int, p: float, shown: bool) -> None:
    assert q.printable(n, p) is shown
    assert (q.summary(np.arange(n), ps=[p])[q.name(p)] is not None) is shown


def test_twenty_rows_interpolate_and_are_called_unreliable() -> None:
    rows = [190, 195, 200, 205, 210, 215, 220, 225, 230, 235, 240, 245, 250, 255, 260, 265, 270, 275, 280, 4000]
    told = q.summary(rows)
    assert told == {
        "n": 20,
        "p50": 237.5,
        "p95": pytest.approx(466.0),
        "p99": None,
        "at_least": {},
        "unreliable": ["p95"],
    }


@given(values, st.floats(0, 1))
def test_unweighted_is_numpys_linear_quantile(xs: list[float], p: float) -> None:
    assert q.quantile(xs, p) == pytest.approx(float(np.quantile(xs, p)))


@given(st.lists(st.tuples(st.integers(1, 1000), st.integers(1, 5)), min_size=1, max_size=30), st.floats(0, 1))
def test_weights_are_repetitions(pairs: list[tuple[int, int]], p: float) -> None:
    x, w = [a for a, _ in pairs], [b for _, b in pairs]
    assert q.quantile(x, p, w) == pytest.approx(float(np.quantile(np.repeat(x, w), p)), abs=1e-6)


def test_timeouts_count_as_at_least() -> None:
    told = q.summary([800, 900, 1000, 1100, 1200, 950, 1050], censored=[30_000] * 3)
    assert told["n"] == 7
    assert told["p50"] == 1075.0
    assert told["p95"] is None
    assert told["at_least"] == {"p95": 30_000.0, "p99": 30_000.0}


def test_nothing_finished_gives_bounds_only() -> None:
    told = q.summary([], censored=[5.0, 7.0])
    assert told["p50"] is None
    assert told["at_least"]["p99"] == pytest.approx(6.98)


def test_nothing_at_all() -> None:
    assert q.summary([]) == {"n": 0, "p50": None, "p95": None, "p99": None, "at_least": {}, "unreliable": []}


def test_kaplan_meier_recovers_what_cancelling_hides() -> None:
    # 5 % are slow; each slow one is cancelled at a random moment with probability one half, independently.
    rng = np.random.default_rng(3)
    true = np.where(rng.random(40_000) < 0.05, 4 + rng.exponential(3, 40_000), rng.exponential(0.5, 40_000))
    cut = np.where(rng.random(40_000) < 0.5, rng.uniform(2, 12, 40_000), np.inf)
    seen = true <= cut
    told, bound = q.kaplan_meier(np.minimum(true, cut), seen, 0.98)
    assert bound is None
    assert told == pytest.approx(float(np.quantile(true, 0.98)), rel=0.04)
    dropped = float(np.quantile(true[seen], 0.98))
    assert dropped < 0.9 * float(np.quantile(true, 0.98))


def test_kaplan_meier_by_hand() -> None:
    # 1, 2+, 3, 4: the mass of the one cut at 2 goes to 3 and 4 in equal parts.
    events, mass, beyond = q.redistribute(
        np.array([3.0, 1.0, 2.0, 4.0]), np.ones(4), np.array([True, True, False, True])
    )
    assert events.tolist() == [1.0, 3.0, 4.0]
    assert mass == pytest.approx([1.0, 1.5, 1.5])
    assert beyond == 0.0


@given(st.lists(st.tuples(st.integers(1, 100), st.booleans()), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_censoring_never_lowers_a_quantile(rows: list[tuple[int, bool]], p: float) -> None:
    x = np.array([a for a, _ in rows], dtype=float)
    seen = np.array([b for _, b in rows])
    told, bound = q.kaplan_meier(x, seen, p)
    plain = float(np.quantile(x, p))
    assert (told is None) != (bound is None)
    assert (told if told is not None else bound) >= plain - 1e-9


@given(st.lists(st.floats(0.001, 1e7), min_size=1, max_size=50))
def test_a_bucket_is_one_percent_wide(xs: list[float]) -> None:
    middle = q.bucket_value(q.bucket(xs))
    assert np.all(np.abs(middle / np.array(xs) - 1) < 0.0051)


def test_buckets_add_up_to_the_whole() -> None:
    rng = np.random.default_rng(5)
    x = rng.lognormal(1, 1, 20_000)
    numbers, counts = np.unique(q.bucket(x), return_counts=True)
    told = q.bucket_summary(numbers, counts, np.zeros(len(counts)))
    assert told["n"] == 20_000
    for p in (0.5, 0.95, 0.99):
        assert told[q.name(p)] == pytest.approx(float(np.quantile(x, p)), rel=0.006)


def test_buckets_carry_censoring() -> None:
    numbers = q.bucket([100.0, 200.0, 30_000.0])
    told = q.bucket_summary(numbers, [60, 20, 0], [0, 0, 20])
    assert told["n"] == 80
    assert told["p50"] == pytest.approx(100, rel=0.006)
    assert told["p95"] is None
    assert told["at_least"]["p95"] == pytest.approx(30_000, rel=0.006)


@settings(max_examples=25)
@given(values)
def test_digests_keep_small_sets_exactly_and_travel_as_dicts(xs: list[float]) -> None:
    there = q.digest_to_dict(q.digest(xs))
    assert set(there) >= {"n", "delta", "K", "centroids"}
    assert there["n"] == len(xs)
    assert sum(c["c"] for c in there["centroids"]) == pytest.approx(len(xs))
    back = q.digest_from_dict(there)
    assert q.digest_quantile(back, 0.5) == pytest.approx(q.digest_quantile(q.digest(xs), 0.5), rel=1e-9)


def test_the_tdigest_packages_dict_is_read() -> None:
    form = {"n": 4, "delta": 0.01, "K": 25, "centroids": [{"c": 1, "m": 3.0}, {"c": 2, "m": 1.0}, {"c": 1, "m": 9.0}]}
    assert q.digest_from_dict(form).n_values == 4


def test_digests_merge() -> None:
    rng = np.random.default_rng(7)
    x = rng.lognormal(0, 1, 30_000)
    merged = q.merge_digests([q.digest(part) for part in np.split(x, 3)])
    assert q.digest_quantile(merged, 0.99) == pytest.approx(float(np.quantile(x, 0.99)), rel=0.02)
    assert q.digest_quantile(q.merge_digests([]), 0.5) is None


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"centroids": 3},
        {"centroids": [{"m": 1}]},
        {"centroids": [{"m": math.nan, "c": 1}]},
        {"centroids": [{"m": 1, "c": 0}]},
    ],
)
def test_what_is_no_digest_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(InputError):
        q.digest_from_dict(bad, where="state.json")
