"""The delay recomputed day by day from logs that its own copies have cut short must stay where unhedged logs put it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from test_recommend import only

from hedgectl.model import CENSORED, OK, Workload
from hedgectl.recommend import delay, identified

DAYS = 14
PER_DAY = 20_000


@dataclass(frozen=True)
class Day:
    """One day's requests: what primaries and copies would take alone, seconds."""

    primary: np.ndarray
    copy: np.ndarray


def healthy(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(rng.normal(0.0, 0.35, n))


def isolated(rng: np.random.Generator, scale: float = 1.0) -> Day:
    """3 % of the attempts are six times slower, primaries and copies apart."""
    slow = [np.where(rng.random(PER_DAY) < 0.03, 6.0, 1.0) for _ in range(2)]
    return Day(scale * healthy(rng, PER_DAY) * slow[0], scale * healthy(rng, PER_DAY) * slow[1])


def long_work(rng: np.random.Generator, scale: float = 1.0) -> Day:
    """Half of the variance belongs to the request: a slow one is slow on its copy too."""
    common = np.exp(rng.normal(0.0, 0.5, PER_DAY))
    return Day(scale * common * healthy(rng, PER_DAY), scale * common * healthy(rng, PER_DAY))


def many_slow(rng: np.random.Generator, scale: float = 1.0) -> Day:
    """9 % of the attempts are slow, so the plain p95 lies inside the slow mode."""
    slow = [np.where(rng.random(PER_DAY) < 0.09, 8.0, 1.0) for _ in range(2)]
    return Day(scale * healthy(rng, PER_DAY) * slow[0], scale * healthy(rng, PER_DAY) * slow[1])


WORLDS: dict[str, Callable[..., Day]] = {"isolated": isolated, "long_work": long_work, "many_slow": many_slow}


def logged(day: Day, after_s: float | None, *, losers: bool = True) -> Workload:
    """What the gateway writes: primaries that lost to their copy are cut at its end (or, wrongly, left out)."""
    n = len(day.primary)
    e2e, status = day.primary, np.full(n, OK, dtype=np.int8)
    if after_s is not None:
        lost = after_s + day.copy < day.primary
        e2e = np.where(lost, after_s + day.copy, day.primary)
        status = np.where(lost, CENSORED, OK).astype(np.int8)
    keep = np.ones(n, dtype=bool) if losers else status == OK
    w = Workload.of(
        np.arange(n) * 4.0, np.full(n, 100), np.full(n, 100), e2e_s=e2e, status=status, streamed=np.zeros(n)
    )
    return w.take(keep)


def chosen(w: Workload, quantile: float = 0.95) -> float:
    found = delay.clock(w, "response", np.ones(len(w), dtype=bool))
    assert found is not None
    return delay.rule_delay_s(found, delay.rule_for(found, quantile, delay.Limits(margin_s=0.1)))


def course(
    world: Callable[..., Day], *, losers: bool = True, feedback: float = 0.0, quantile: float = 0.95
) -> list[tuple[float, float]]:
    """(delay from the hedged log, delay from the same day unhedged), each day's policy ruling the next."""
    found: list[tuple[float, float]] = []
    now: float | None = None
    scale = 1.0
    for number in range(DAYS):
        day = world(np.random.default_rng(number), scale)
        hedged = chosen(logged(day, now, losers=losers), quantile)
        found.append((hedged, chosen(logged(day, None), quantile)))
        # copies are load: the more of them, the slower everybody is tomorrow
        copies = 0.0 if now is None else float(np.mean(day.primary > now))
        scale = 1.0 + feedback * copies
        now = hedged
    return found


@pytest.mark.parametrize("quantile", [0.9, 0.95])
@pytest.mark.parametrize("world", WORLDS)
def test_the_delay_from_hedged_logs_is_that_of_unhedged_ones(world: str, quantile: float) -> None:
    for hedged, unhedged in course(WORLDS[world], quantile=quantile):
        assert hedged == pytest.approx(unhedged, rel=0.02)


def test_leaving_the_losers_out_makes_the_delay_wander_off() -> None:
    days = course(isolated, losers=False)
    assert all(hedged < 0.98 * unhedged for hedged, unhedged in days[1:])


@pytest.mark.parametrize("world", WORLDS)
def test_with_feedback_the_last_day_is_as_far_from_the_second_as_without_copies(world: str) -> None:
    days = course(WORLDS[world], feedback=1.0)
    hedged, unhedged = days[-1][0] / days[1][0], days[-1][1] / days[1][1]
    assert hedged == pytest.approx(unhedged, rel=0.10)


def p99(w: Workload) -> dict[str, Any]:
    found = identified.bounds(w, "e2e", 0.99)
    assert found is not None
    return found


def test_kaplan_meier_finds_the_unhedged_p99_and_leaving_losers_out_does_not() -> None:
    parts = [isolated(np.random.default_rng(seed)) for seed in range(5)]
    day = Day(np.concatenate([p.primary for p in parts]), np.concatenate([p.copy for p in parts]))
    truth = float(np.quantile(day.primary, 0.99))
    found = p99(logged(day, 2.0))
    assert found["kaplan_meier_ms"] / 1e3 == pytest.approx(truth, rel=0.05)
    dropped = logged(day, 2.0, losers=False)
    assert float(np.quantile(dropped.e2e_s, 0.99)) < 0.9 * truth


def test_the_bounds_hold_the_truth_and_say_when_it_is_not_identified() -> None:
    day = isolated(np.random.default_rng(6))
    truth = float(np.quantile(day.primary, 0.99)) * 1e3
    wide = p99(logged(day, 2.0))
    assert wide["low_ms"] <= truth
    assert wide["high_ms"] is None or wide["high_ms"] >= truth
    assert wide["identified"] is False
    late = p99(logged(day, 9.0))  # hardly any primary is cut
    assert 0.999 * late["low_ms"] <= truth <= 1.001 * late["high_ms"]
    assert late["identified"] is True
    assert identified.bounds(logged(day, None), "e2e", 0.99) is None  # nothing is censored: nothing to bound


def test_a_recommendation_on_a_hedged_log_says_how_far_its_p99_is_known() -> None:
    entry = only(logged(isolated(np.random.default_rng(7)), 2.0))
    told = entry["projection"]["identified"]
    assert told["metric"] == "e2e_p99_ms"
    assert told["kaplan_meier_ms"] == entry["projection"]["unhedged"]["e2e_ms"]["p99"]
    assert told["low_ms"] < told["kaplan_meier_ms"]
    assert any(n["code"] == "not_identified" for n in entry["notes"])
    clean = only(logged(isolated(np.random.default_rng(7)), None))
    assert "identified" not in clean["projection"]
    assert not any(n["code"] == "not_identified" for n in clean["notes"])
