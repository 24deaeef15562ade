"""Logs of engines whose law is known, ready to be played."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.sim import load, scenario, sweep
from hedgectl.sim.scenario import Assumed, Setting

FLEET = Fleet(Fact(4, "config"), Fact(16, "config"), Fact(60_000, "config"), confirmed=True)
NONE = Assumed()


def service(slow: SlowSeries | None = None, **more: Any) -> ServiceModel:
    return ServiceModel(0.02, 1e-4, 0.01, 0.0005, slow or SlowSeries.none(4), **more)


def log(n: int = 3000, seed: int = 1, rate: float = 6.0) -> Workload:
    rng = np.random.default_rng(seed)
    return Workload.of(
        np.cumsum(rng.exponential(1 / rate, n)),
        rng.lognormal(6, 0.5, n).astype(int),
        rng.lognormal(4.5, 0.6, n).astype(int),
        replica=rng.integers(0, 4, n),
    )


def observed(w: Workload, law: ServiceModel) -> Workload:
    """The log that these engines would have written."""
    s = scenario.setting(w, law, FLEET, routing_seen="random")
    arm = sweep.play(s, load.at(w, 1.0, 0), None, NONE, "as_logged", exact=True)
    return dataclasses.replace(w, ttft_s=arm.ttft_s, e2e_s=arm.e2e_s)


def ready(w: Workload, law: ServiceModel | None = None, fleet: Fleet = FLEET, seen: str = "random") -> Setting:
    return scenario.setting(w, law or service(), fleet, seed=3, routing_seen=seen)


SICK = SlowSeries.of({0: [(100.0, 130.0, 6.0), (300.0, 330.0, 6.0)], 2: [(200.0, 230.0, 6.0)]}, 4)
