"""What a policy is worth: months, prices per second, GPU time and peaks, each against a count by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import recommend_logs as logs
from recommend_cases import given, only

from hedgectl.config import Config, Value
from hedgectl.model import Workload
from hedgectl.recommend import worth
from hedgectl.recommend.arms import Arm, Pool
from hedgectl.recommend.options import Options
from hedgectl.recommend.projecting import Paired


def test_requests_a_month_that_get_faster_and_slower() -> None:
    w = Workload.of(np.array([0.0, 86_400.0, 172_800.0, 259_200.0]), np.ones(4), np.ones(4))  # three days
    both = Paired(w.arrival_s, np.array([5.0, 1.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.5, 1.0]), np.ones(4))
    assert worth.faster(both, w) == {
        "faster_requests": 20,
        "faster_mean_ms": 2000.0,
        "slower_requests": 10,
        "slower_mean_ms": 500.0,
    }
    assert worth.faster(None, w) is None
    assert worth.faster(both, w.take(np.array([0]))) is None  # a log without length has no month


def test_a_month_is_not_told_from_a_moment() -> None:
    second, hour = (Workload.of(np.array([0.0, length]), np.ones(2), np.ones(2)) for length in (1.0, 3600.0))
    both = Paired(second.arrival_s, np.array([5.0, 1.0]), np.array([2.0, 1.0]), np.ones(2))
    bill = {"currency": "EUR", "before": 1.0, "delta_ratio": 0.05, "low_ratio": 0.01, "high_ratio": 0.06}
    assert worth.faster(both, second) is None
    assert worth.month(bill, arm(8.0), arm(5.0), second) is None
    said = worth.note(second)
    assert said is not None
    assert "spans 1 s" in said["text"]
    found = worth.faster(both, hour)
    assert found is not None
    assert found["faster_requests"] == 720
    assert worth.note(hour) is None


def arm(*seconds: float, gpu: tuple[float, float] | None = None) -> Arm:
    engine = (
        None
        if gpu is None
        else {
            "gpu_seconds": {"primary": gpu[0], "hedge": gpu[1], "wasted": gpu[1]},
            "kv_token_seconds": {"primary": 10.0, "hedge": gpu[1], "wasted": gpu[1]},
        }
    )
    values = np.array(seconds)
    return Arm(len(values), Pool.of(values), Pool.of(values), engine=engine)


def test_the_price_of_a_second_of_p99() -> None:
    w = Workload.of(np.array([0.0, 10 * 86_400.0]), np.ones(2), np.ones(2))
    bill = {"currency": "EUR", "before": 100.0, "delta_ratio": 0.05, "low_ratio": 0.01, "high_ratio": 0.06}
    found = worth.month(bill, arm(8.0, 8.0), arm(5.0, 5.0), w)
    assert found == {
        "currency": "EUR",
        "extra_cost": 15.0,
        "extra_cost_low": 3.0,
        "extra_cost_high": 18.0,
        "cost_per_p99_second": 5.0,
    }
    worse = worth.month(bill, arm(5.0), arm(8.0), w)
    assert worse is not None
    assert worse["cost_per_p99_second"] is None  # nothing was saved
    assert worth.month(None, arm(8.0), arm(5.0), w) is None


def test_gpu_time_and_cache_residency_in_money_only_where_an_hour_has_a_price() -> None:
    before, after = arm(1.0, gpu=(3600.0, 0.0)), arm(1.0, gpu=(3600.0, 360.0))
    priced = Config({"engine.gpu_hour_cost": Value(2.0, "flag"), "engine.gpus_per_replica": Value(4, "flag")})
    found = worth.gpu(before, after, Options(config=priced))
    assert found is not None
    assert (found["before"], found["after"], found["currency"]) == (8.0, pytest.approx(8.8), "USD")
    assert found["gpu_seconds_delta_ratio"] == pytest.approx(0.1)
    assert found["kv_token_seconds_delta_ratio"] == pytest.approx(36.0)
    unpriced = worth.gpu(before, after, Options())
    assert unpriced is not None
    assert unpriced["before"] is None
    assert worth.gpu(arm(1.0), arm(1.0), Options(config=priced)) is None  # the screen sees no engine


def test_peaks_count_the_copies_while_the_race_lasts() -> None:
    w = Workload.of(
        np.array([0.0, 1.0, 2.0]), np.full(3, 100), np.full(3, 10), e2e_s=np.array([10.0, 1.0, 9.0]), t0_ns=0
    )
    # the second ends exactly when the third begins: two at once, then the copies of the first and the third
    assert worth.in_flight_peak(w, np.zeros(0, dtype=np.int64), 3.0) == 2
    assert worth.in_flight_peak(w, np.array([0, 2]), 3.0) == 4
    assert worth.in_flight_peak(w, np.array([1]), 3.0) == 2  # was back before its copy was due
    found = worth.quota(w, np.array([0, 2]), 3.0)
    assert (found["requests_per_minute_peak_unhedged"], found["requests_per_minute_peak"]) == (3, 5)
    assert (found["tokens_per_minute_peak_unhedged"], found["tokens_per_minute_peak"]) == (330, 550)
    assert worth.quota(w.take(np.zeros(3, dtype=bool)), np.zeros(0, dtype=np.int64), 1.0)["in_flight_peak"] == 0


def test_a_recommendation_says_what_a_month_brings() -> None:
    prices = {"chat": {"input_per_mtok": 1.0, "output_per_mtok": 4.0}}
    w = logs.spells(slow=0.05, streamed=0, gap_s=0.7)
    told = only(w, replace(given(2000.0), prices=prices))["projection"]
    wins = told["hedged"]["win_rate"] * told["hedged"]["hedge_rate"] * len(w)
    months = worth.MONTH_S / float(np.ptp(w.arrival_s))
    assert told["month"]["requests"]["faster_requests"] == pytest.approx(wins * months, rel=0.1)
    assert told["month"]["cost"]["cost_per_p99_second"] > 0
    assert told["gpu"] is None
    assert told["quota"]["in_flight_peak"] > told["quota"]["in_flight_peak_unhedged"]
