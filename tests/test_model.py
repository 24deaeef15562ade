"""The shared arrays: what is refused, what unknown means, how slow periods become a series."""

from __future__ import annotations

import numpy as np
import pytest

from hedgectl.model import SlowSeries, Workload


def test_unknown_is_marked_and_never_zero() -> None:
    w = Workload.of([0.0, 1.0], [10, 20], [5, 6])
    assert np.isnan(w.ttft_s).all()
    assert np.isnan(w.cost).all()
    assert list(w.cached_tokens) == [-1, -1]
    assert list(w.replica) == [-1, -1]
    assert w.replicas == ()
    assert list(w.weight) == [1.0, 1.0]


def test_unknown_cache_share_counts_as_none() -> None:
    w = Workload.of([0.0, 1.0, 2.0], [10, -1, 30], [1, 1, 1], cached_tokens=[-1, -1, 100])
    assert list(w.uncached_tokens) == [10, 0, 0]


def test_rows_out_of_order_are_refused() -> None:
    with pytest.raises(ValueError, match="order of arrival"):
        Workload.of([1.0, 0.0], [1, 1], [1, 1])


def test_a_short_column_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"Workload\.e2e_s has 1 rows"):
        Workload.of([0.0, 1.0], [1, 1], [1, 1], e2e_s=[1.0])


def test_pools_need_one_entry_a_replica() -> None:
    with pytest.raises(ValueError, match="pool_of_replica"):
        Workload.of([0.0], [1], [1], replicas=("a", "b"), pool_of_replica=np.zeros(1, np.int32))


def test_take_keeps_the_clock_and_the_names() -> None:
    w = Workload.of([0.0, 1.0, 2.0], [1, 2, 3], [4, 5, 6], replica=[0, 1, 0], t0_ns=7)
    part = w.take(np.array([True, False, True]))
    assert (len(part), part.t0_ns, part.replicas) == (2, 7, ("r0", "r1"))
    assert list(part.prompt_tokens) == [1, 3]
    assert len(w.take(np.zeros(3, dtype=bool))) == 0


def test_periods_become_a_series_that_returns_to_full_speed() -> None:
    slow = SlowSeries.of({1: [(10.0, 20.0, 6.0), (20.0, 25.0, 2.0)]}, 3)
    assert list(slow.offsets) == [0, 0, 3, 3]
    assert list(slow.start_s) == [10.0, 20.0, 25.0]
    assert list(slow.factor) == [6.0, 2.0, 1.0]
    assert list(SlowSeries.none(2).static_factor) == [1.0, 1.0]
