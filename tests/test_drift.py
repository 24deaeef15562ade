"""The delay recomputed day by day from logs that its own copies have cut short must stay where unhedged logs put it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recommend_cases import only

from hedgectl import analysis, decompose
from hedgectl.model import CENSORED, OK, SlowSeries, Workload
from hedgectl.recommend import Options, delay, identified, recommend
from hedgectl.sim import layout
from hedgectl.sim.inputs import Jobs, Law, Rule
from hedgectl.sim.run import run as simulate

DAYS = 14
PER_DAY = 20_000


@dataclass(frozen=True)
class Day:
    """One day's requests: what primaries and copies would take alone, seconds."""

    primary: np.ndarray
    copy: np.ndarray


def healthy(rng: np.random.Generator, n: int) -> np.ndarray:
    return np.exp(rng.normal(0.0, 0.35, n))


def isolated(rng: np.random.Generator) -> Day:
    """3 % of the attempts are six times slower, primaries and copies apart."""
    slow = [np.where(rng.random(PER_DAY) < 0.03, 6.0, 1.0) for _ in range(2)]
    return Day(healthy(rng, PER_DAY) * slow[0], healthy(rng, PER_DAY) * slow[1])


def long_work(rng: np.random.Generator) -> Day:
    """Half of the variance belongs to the request: a slow one is slow on its copy too."""
    common = np.exp(rng.normal(0.0, 0.5, PER_DAY))
    return Day(common * healthy(rng, PER_DAY), common * healthy(rng, PER_DAY))


def many_slow(rng: np.random.Generator) -> Day:
    """9 % of the attempts are slow, so the plain p95 lies inside the slow mode."""
    slow = [np.where(rng.random(PER_DAY) < 0.09, 8.0, 1.0) for _ in range(2)]
    return Day(healthy(rng, PER_DAY) * slow[0], healthy(rng, PER_DAY) * slow[1])


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


Logged = Callable[[int, float | None], Workload]  # (day, delay in force, None = no copies) -> that day's log


def course(log: Logged, quantile: float = 0.95) -> list[tuple[float, float]]:
    """(delay from the hedged log, delay from the same day unhedged), each day's policy ruling the next."""
    found: list[tuple[float, float]] = []
    now: float | None = None
    for number in range(DAYS):
        found.append((chosen(log(number, now), quantile), chosen(log(number, None), quantile)))
        now = found[-1][0]
    return found


def free_of_feedback(world: Callable[..., Day], *, losers: bool = True) -> Logged:
    """Copies cost nobody anything."""
    return lambda number, after_s: logged(world(np.random.default_rng(number)), after_s, losers=losers)


def fleet(cancel: int, *, losers: bool = True) -> Logged:
    """A simulated fleet: copies are load, load is latency, and latency moves the delay. Load grows by 1 % a day.

    Eight replicas at half load; one after the other is six times slower for 14 s. Up to a fifth of the requests may be
    copied: a small budget would hide a delay that runs away.
    """
    replicas, requests, base_s, each_s, most, prefill_s = 8, 10_000, 0.012, 0.0004, 16, 0.1

    def log(number: int, after_s: float | None) -> Workload:
        rng = np.random.default_rng([7, number])
        tokens = np.maximum(np.round(np.exp(rng.normal(np.log(100), 0.6, requests))), 1)
        service_s = prefill_s + tokens.mean() * (base_s + each_s * most) / most
        arrival = np.cumsum(rng.exponential(service_s / (replicas * 0.5 * (1 + 0.01 * number)), requests))
        slow = {
            r: [(s, s + 14.0, 6.0) for s in np.arange(20.0 * (r + 1), arrival[-1], 20.0 * replicas)]
            for r in range(replicas)
        }
        law = Law(replicas, base_s, each_s, cap=most, slow=SlowSeries.of(slow, replicas))
        rule = Rule(delay=np.inf if after_s is None else after_s, ratio=0.2, burst=100, cancel=cancel)
        done = simulate(Jobs.of(arrival, tokens, work=prefill_s, seed=number), law, rule).request
        lost = done["winner"] == 1  # the copy answered: the primary is only known to be longer
        w = Workload.of(
            arrival,
            np.full(requests, 100),
            tokens,
            e2e_s=done["end"] - arrival,
            status=np.where(lost, CENSORED, OK),
            streamed=np.zeros(requests),
        )
        return w if losers else w.take(~lost)

    return log


@pytest.mark.parametrize("quantile", [0.9, 0.95])
@pytest.mark.parametrize("world", WORLDS)
def test_the_delay_from_hedged_logs_is_that_of_unhedged_ones(world: str, quantile: float) -> None:
    for hedged, unhedged in course(free_of_feedback(WORLDS[world]), quantile):
        assert hedged == pytest.approx(unhedged, rel=0.02)


def test_leaving_the_losers_out_makes_the_delay_wander_off() -> None:
    days = course(free_of_feedback(isolated, losers=False))
    assert all(hedged < 0.98 * unhedged for hedged, unhedged in days[1:])


def change(days: list[tuple[float, float]]) -> tuple[float, float]:
    """The last day against the second, (hedged, unhedged)."""
    return days[-1][0] / days[1][0], days[-1][1] / days[1][1]


@pytest.mark.parametrize("cancel", [layout.FREES_ENGINE, layout.ENGINE_RUNS_ON], ids=["frees", "runs_on"])
def test_in_a_fleet_that_feels_its_copies_the_delay_does_not_drift(cancel: int) -> None:
    days = course(fleet(cancel))
    hedged, unhedged = change(days)
    assert hedged == pytest.approx(unhedged, rel=0.10)
    assert all(ours == pytest.approx(alone, rel=0.10) for ours, alone in days)


def test_in_a_fleet_that_feels_its_copies_leaving_the_losers_out_drifts() -> None:
    hedged, unhedged = change(course(fleet(layout.FREES_ENGINE, losers=False)))
    assert hedged < 0.85 * unhedged


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
