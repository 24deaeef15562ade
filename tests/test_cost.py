"""What copies cost: lost caches, losers' bills, prices from three places, quotas."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hedgectl import cost
from hedgectl.cost import Copies, Prices
from hedgectl.model import Workload

TABLE = {"m": {"input_per_mtok": 1.0, "cached_input_per_mtok": 0.1, "output_per_mtok": 4.0, "currency": "EUR"}}


def copies(rows: list[int], won: list[bool], output: list[float], written: float = 0.5) -> Copies:
    shape = (len(rows), 1)
    return Copies(
        np.array(rows),
        np.ones(shape),
        np.array(won).reshape(shape),
        np.array(output).reshape(shape),
        np.full(shape, written),
    )


def cached_calls(n: int = 3) -> Workload:
    """Each call has 8,000 prompt tokens, 7,800 of them cached, and 50 output tokens."""
    return Workload.of(
        np.arange(n) * 1.0, np.full(n, 8000), np.full(n, 50), cached_tokens=np.full(n, 7800), e2e_s=np.full(n, 3.0)
    )


def test_a_copy_without_the_cache_costs_seven_times_its_primary() -> None:
    w = cached_calls()
    prices = cost.prices_for(w, "m", TABLE)
    assert prices is not None
    assert prices.source == "config"
    own = cost.request_costs(w, prices)
    assert own is not None
    assert own == pytest.approx([0.00118] * 3)
    bill = cost.growth(w, prices, copies([0, 1, 2], [False] * 3, [50.0] * 3))
    assert bill is not None
    assert bill["delta_ratio"] == pytest.approx(0.0082 / 0.00118, rel=1e-4)
    assert (bill["currency"], bill["price_source"], bill["loser_billing"]) == ("EUR", "config", "full")


def test_bills_of_losers_are_ordered_and_the_range_holds_them() -> None:
    w = Workload.of(np.arange(4.0), np.full(4, 1000), np.full(4, 100), e2e_s=np.full(4, 3.0))
    prices = cost.prices_for(w, "m", TABLE)
    sent = copies([0, 1], [True, False], [100.0, 100.0])
    found = {}
    for kind in ("none", "prompt_only", "until_cancel", "full"):
        bill = cost.growth(w, prices, sent, kind)  # type: ignore[arg-type]
        assert bill is not None
        found[kind] = bill["delta_ratio"]
        assert bill["low_ratio"] <= bill["delta_ratio"] <= bill["high_ratio"]
    assert found["none"] < found["prompt_only"] < found["until_cancel"] < found["full"]
    assert found["full"] == pytest.approx(2 / 4)  # two of four requests are paid twice
    assert found["none"] == pytest.approx(0.0)  # the copy that won replaces its primary's bill


def test_logged_costs_are_the_bill_and_tell_the_prices() -> None:
    rng = np.random.default_rng(1)
    n = 500
    prompt, output = rng.integers(100, 5000, n), rng.integers(10, 900, n)
    cached = np.where(rng.random(n) < 0.5, prompt // 2, 0)
    logged = (prompt - cached) * 3e-6 + cached * 0.3e-6 + output * 15e-6
    w = Workload.of(
        np.arange(n) * 1.0, prompt, output, cached_tokens=cached, cost=logged, currency="USD", e2e_s=np.ones(n)
    )
    prices = cost.prices_for(w, "m", {})
    assert prices is not None
    assert prices.source == "log"
    assert (prices.input, prices.cached_input, prices.output) == pytest.approx((3e-6, 0.3e-6, 15e-6), rel=1e-6)
    k = int(np.flatnonzero(cached > 0)[0])
    bill = cost.growth(w, prices, copies([k], [False], [float(output[k])]))
    assert bill is not None
    assert bill["after"] - bill["before"] == pytest.approx(prompt[k] * 3e-6 + output[k] * 15e-6, abs=2e-6)


def test_bills_that_no_price_explains_are_copied_as_they_are() -> None:
    n = 100
    w = Workload.of(
        np.arange(n) * 1.0, np.full(n, 10), np.full(n, 10), cost=np.arange(1.0, n + 1), currency="USD", e2e_s=np.ones(n)
    )
    assert cost.prices_for(w, None, {}) is None
    bill = cost.growth(w, None, copies([0, 99], [False, True], [10.0, 10.0]))
    assert bill is not None
    assert bill["delta_ratio"] == pytest.approx(101 / w.cost.sum())


def test_unknown_cost_is_none_and_public_prices_fill_in() -> None:
    w = Workload.of([0.0], [1000], [100], e2e_s=[1.0])
    assert cost.growth(w, None, copies([0], [False], [100.0])) is None
    assert cost.public_prices("no-such-model-anywhere") is None
    found = cost.public_prices("gpt-4o-mini")
    assert found is not None
    assert 0 < found.cached_input <= found.input < found.output
    assert isinstance(found, Prices)
    assert found.source == "public"


def test_peak_minute_counts_the_copies() -> None:
    w = Workload.of([0.0, 1.0, 70.0], [10, 10, 10], [5, 5, 5], e2e_s=[9.0, 9.0, 9.0])
    alone = cost.quota_peak(w, np.array([], dtype=np.int64), 2.0)
    assert alone == {"requests_per_minute_peak": 2, "tokens_per_minute_peak": 30}
    assert cost.quota_peak(w, np.array([0, 1]), 2.0)["requests_per_minute_peak"] == 4
    unlogged = replace(
        w, prompt_tokens=np.full_like(w.prompt_tokens, -1), completion_tokens=np.full_like(w.completion_tokens, -1)
    )
    assert cost.quota_peak(unlogged, np.array([0, 1]), 2.0) == {
        "requests_per_minute_peak": 4,
        "tokens_per_minute_peak": None,
    }
