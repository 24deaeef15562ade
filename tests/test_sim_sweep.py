"""From loads to arms: the check against the log, frontiers, bursts, the document."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import jsonschema
import numpy as np
import pytest
from sim_logs import FLEET, NONE, SICK, log, observed, ready, service
from true_worlds import World, run_world

from hedgectl import schemas
from hedgectl.model import Fact, Fleet, SlowSeries, Workload
from hedgectl.sim import burst, check, load, scenario, sweep
from hedgectl.sim.document import document
from hedgectl.sim.scenario import Assumed, Spec


def test_the_replay_of_a_log_of_this_very_model_passes_the_check_exactly() -> None:
    law = service(SICK)
    w = observed(log(), law)
    found = sweep.sweep(ready(w, law), None, loads=[1.0])
    assert found.check["passed"] is True
    assert all(abs(row["error_ratio"]) < 1e-9 for row in found.check["e2e_ms"].values())


def test_the_check_fails_where_the_law_is_wrong_and_says_by_how_much() -> None:
    w = observed(log(), service(SICK))
    wrong = dataclasses.replace(service(SICK), decode_base_s=0.02)
    found = sweep.sweep(ready(w, wrong), None, loads=[1.0])
    assert found.check["passed"] is False
    row = found.check["e2e_ms"]["p50"]
    assert row["error_ratio"] > row["limit_ratio"] == 0.15


def test_a_log_without_times_cannot_pass_the_check() -> None:
    found = sweep.sweep(ready(log(200)), None, loads=[1.0])
    assert found.check["passed"] is False


def test_clustered_tails_widen_the_limit() -> None:
    rng = np.random.default_rng(0)
    spread = rng.exponential(1.0, 4000)
    clustered = np.sort(spread)
    assert check.standard_error(clustered, 0.95) > 3 * check.standard_error(spread, 0.95)


def test_hedging_cures_isolated_slow_spells_and_the_unknown_is_the_worse_way() -> None:
    law = service(SICK)
    w = observed(log(), law)
    found = sweep.sweep(ready(w, law), Spec("response", 4.0, ratio=0.05), loads=[1.0])
    result = found.results[0]
    assert set(result.ways) == {
        Assumed(cancel, length) for cancel in ("frees_engine", "engine_runs_on") for length in ("same", "independent")
    }
    p99 = {way: arm.quantile("e2e", 0.99) or 0.0 for way, arm in result.ways.items()}
    assert result.worst == max(p99, key=lambda way: p99[way])
    assert result.hedged is not None
    assert (result.hedged.quantile("e2e", 0.99) or 0.0) < 0.8 * (result.unhedged.quantile("e2e", 0.99) or 0.0)
    free, run_on = (result.ways[Assumed(cancel, "same")] for cancel in ("frees_engine", "engine_runs_on"))
    assert run_on.gpu_s["wasted"] > free.gpu_s["wasted"] > 0
    assert run_on.document(refused=True)["cancels_per_hedge"] == pytest.approx(1.0)


def test_a_log_routed_to_the_least_outstanding_is_replayed_by_that_discipline() -> None:
    s = ready(log(200), seen="least_outstanding")
    assert scenario.discipline(s, "as_logged", exact=True) == 0
    assert scenario.discipline(s, "as_logged", exact=False) == 2
    assert scenario.discipline(ready(log(200)), "as_logged", exact=False) == 0


def test_no_hedging_has_no_hedged_arm_and_given_loads_no_frontier() -> None:
    w = observed(log(400), service())
    found = sweep.sweep(ready(w), None, loads=[0.5, 2.0])
    assert [round(r.load.scale, 1) for r in found.results] == [0.5, 2.0]
    assert found.results[0].hedged is None
    assert found.holds_up_to is None
    assert found.burst is None


def test_a_frontier_with_a_burst_and_a_document_that_fits_its_schema() -> None:
    law = service(SICK)
    w = observed(log(), law)
    s = ready(w, law)
    said: list[str] = []
    found = sweep.sweep(
        s, Spec("response", 4.0, ratio=0.05), cancel="frees_engine", copy_length="same", progress=said.append
    )
    labels = [r.label for r in found.results]
    assert labels[:5] == ["low", "medium", "today", "busiest hour", "rho 0.9"]
    assert len(labels) > 5
    assert found.results[4].rho == pytest.approx(0.9, abs=0.03)
    assert found.holds_up_to is not None
    assert found.burst is not None
    assert any("today" in text for text in said)
    doc = document(
        found,
        s,
        as_of="2026-01-01T00:00:00Z",
        window={},
        scope={"model": "chat", "route": None},
        policy=None,
        cancel="frees_engine",
        copy_length="same",
        routing="as_logged",
    )
    jsonschema.validate(json.loads(json.dumps(doc)), schemas.load("simulation.v1"))
    assert doc["copy_length"]["independent"] is None
    again = sweep.sweep(s, Spec("response", 4.0, ratio=0.05), cancel="frees_engine", copy_length="same")
    assert again.results[2].hedged is not None
    assert json.dumps(again.results[2].hedged.document()) == json.dumps(found.results[2].hedged.document())  # type: ignore[union-attr]


def test_an_assumed_batch_cap_is_tried_lower_and_higher() -> None:
    w = observed(log(500), service())
    fleet = dataclasses.replace(FLEET, max_running_requests=Fact(16, "assumed"))
    found = sweep.sweep(
        ready(w, fleet=fleet), Spec("response", 2.0), cancel="frees_engine", copy_length="same", loads=[1.0]
    )
    assert [row["value"] for row in found.sensitivity] == [12, 32]
    assert all(row["hedged"] is not None for row in found.sensitivity)


def test_a_backlog_that_grows_is_not_stable() -> None:
    w = log(3000)
    s = ready(w)
    heavy = sweep.play(s, load.at(w, 8.0, 0), None, NONE, "random")
    light = sweep.play(s, load.at(w, 1.0, 0), None, NONE, "random")
    assert light.stable
    assert not heavy.stable


def test_a_load_that_is_not_worked_off_is_not_held() -> None:
    w, goal = log(3000), ("e2e", 0.99)
    s, every = ready(w), load.whole(w)
    for spec in (None, Spec("response", 500.0, ratio=0.05)):  # in light load nothing waits so long, so nothing is worse
        ways = [NONE] if spec is not None else []
        light, heavy = (
            sweep.one_load(s, sweep.Point(f"x{k:g}", every, k), spec, ways, "random", goal) for k in (1.0, 8.0)
        )
        assert sweep.holds_up_to([light], goal)["scale"] == 1.0
        assert not heavy.stable
        both, alone = sweep.holds_up_to([heavy, light], goal), sweep.holds_up_to([heavy], goal)
        assert both["scale"] == 1.0
        assert "no longer works off what arrives beyond it" in both["reason"]
        assert alone["scale"] is None
        assert "at the lowest load" in alone["reason"]


def test_a_burst_adds_requests_and_the_fleet_recovers() -> None:
    w = log(6000)
    s, at, span = ready(w), load.at(w, 1.0, 0), load.whole(w)
    crowd, begin, end = burst.add(w, at, span, 0)
    assert len(crowd.row) - len(at.row) == pytest.approx(3 * 6.0 * (end - begin), rel=0.2)
    hit, calm = (sweep.play(s, x, None, NONE, "random") for x in (crowd, at))
    recovered = burst.recovery_s(hit, calm, end)
    assert recovered is not None
    assert recovered < 300


@pytest.mark.parametrize(
    ("unhedged", "hedged", "passed"),
    [
        (600.0, 600.0, True),
        (600.0, 900.0, True),
        (600.0, 930.0, False),
        (0.0, 60.0, True),
        (30.0, None, False),
        (None, None, True),
    ],
)
def test_recovering_as_fast(unhedged: float | None, hedged: float | None, passed: bool) -> None:
    assert burst.document(unhedged, hedged, 60.0)["recovers_as_fast"] is passed


def test_a_fleet_at_the_brink_is_told_as_such() -> None:
    """The true engines themselves collapse or do not, depending on where the copies go: no replay could tell which."""
    world = World("brink", rho=0.6, spell=5.0)
    truth = run_world(world, 20_000, 1)
    delay_s = float(np.quantile(truth.log.ttft_s, 0.95))

    def told(ratio: float | None, cancel: Any) -> list[str]:
        point = sweep.Point("today", load.whole(truth.setting.workload), 1.0)
        spec = Spec("first_token", delay_s, ratio=ratio)
        ways = sweep.ways(cancel, "same")
        result = sweep.one_load(truth.setting, point, spec, ways, "random", ("e2e", 0.99))
        return [n["code"] for n in sweep.near_collapse(truth.setting, result, spec, "random", ("e2e", 0.99))]

    assert told(None, "engine_runs_on") == ["near_collapse"]
    assert told(0.05, "engine_runs_on") == []
    assert told(None, "frees_engine") == []


@pytest.mark.parametrize(
    ("op", "queue", "sent"),
    [(">", 2.0, True), (">=", 2.0, False), ("<", 2.0, True), ("<=", 2.0, False), (">", 1.9, False), ("<", 2.1, False)],
)
def test_a_condition_holds_at_its_limit_as_its_operator_says(op: str, queue: float, sent: bool) -> None:
    """Two engines that serve one at a time, two in each queue when the first asks for its copy."""
    w = Workload.of(np.arange(6) * 0.01, np.full(6, 10.0), np.full(6, 1000.0), replica=np.arange(6) % 2)
    engines = Fleet(Fact(2, "config"), Fact(1, "config"), Fact(120_000, "config"), confirmed=True)
    s = ready(w, service(SlowSeries.none(2)), engines)
    spec = Spec("response", 5.0, suppress=(("waiting_requests_per_replica", op, queue),))
    arm = sweep.play(s, load.at(w, 1.0, 0), spec, NONE, "as_logged", exact=True)
    assert (arm.hedges > 0) == sent
