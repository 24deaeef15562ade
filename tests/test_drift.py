"""The delay recomputed day by day from logs that its own copies have cut short must stay where unhedged logs put it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_recommend import only

from hedgectl import analysis, decompose
from hedgectl.model import CENSORED, OK, Workload
from hedgectl.recommend import Options, delay, identified, recommend

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


MAPPING = """
one_row = "request"
[fields]
ts = "t"
request_id = "id"
e2e_ms = "d"
hedged = "h"
hedge_delay_ms = "wait"
hedge_won = "won"
completion_tokens = "n"
[constants]
streamed = false
model = "chat"
"""


def decided(folder: Path, day: Day, after_s: float | None) -> dict[str, Any]:
    """The decision from a file in which a row is a whole request: who lost, and how long it would have taken, is not there."""
    n = 6000
    primary, copy = day.primary[:n], day.copy[:n]
    late = np.zeros(n, dtype=bool) if after_s is None else primary > after_s
    won = late & ((after_s or 0.0) + copy < primary)
    e2e = np.where(won, (after_s or 0.0) + copy, primary)
    rows = [
        {"t": f"2026-11-{1 + k // 1000:02d}T10:{k % 1000 // 20:02d}:{k % 20 * 3:02d}Z", "id": f"r{k}"}
        | {"d": round(float(e2e[k]) * 1e3, 3), "n": 100, "h": bool(late[k]), "won": bool(won[k])}
        | ({"wait": (after_s or 0.0) * 1e3} if late[k] else {})
        for k in range(n)
    ]
    log, mapping = folder / f"log-{after_s}.jsonl", folder / "mine.toml"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mapping.write_text(MAPPING)
    options = Options(limits=delay.Limits(margin_s=0.1), copy_length="independent")
    with analysis.opened(analysis.Logs([str(log)], map_file=mapping), decompose.Selection()) as found:
        document = recommend(found.con, found.prepared, options)
    (entry,) = document["policies"]
    return entry | {"notes": document["notes"]}


def test_a_log_of_whole_requests_with_invisible_losers_gives_the_same_delays(tmp_path: Path) -> None:
    day = isolated(np.random.default_rng(8))
    before, after = decided(tmp_path, day, None), decided(tmp_path, day, 2.0)
    at_budget = [e["hedge"]["delays"]["response"]["at_budget_ms"] for e in (before, after)]
    assert at_budget[1] == pytest.approx(at_budget[0], rel=0.02)
    rule = [e["hedge"]["delay_rule"] for e in (before, after)]
    assert rule[1]["floor_ms"] == pytest.approx(rule[0]["floor_ms"], rel=0.02)
    assert rule[1]["ceiling_ms"] == pytest.approx(rule[0]["ceiling_ms"], rel=0.02)
    shown = [e["projection"]["unhedged"]["e2e_ms"] for e in (before, after)]
    assert shown[1]["p95"] == pytest.approx(shown[0]["p95"], rel=0.02)
    # Nearly every slow primary was cut: its p99 is a bound here, and never the time at which it was cut.
    assert shown[1]["p99"] is None
    assert shown[1]["at_least"]["p99"] >= 2000.0
    codes = {n["code"] for n in after["notes"]}
    assert {"already_hedged", "not_identified"} <= codes
