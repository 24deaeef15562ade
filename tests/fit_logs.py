"""Logs of a fleet whose law is known, for the tests of fit and replay: played by the replay itself, rounded to 1 us."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.sim import load, scenario, sweep
from hedgectl.sim.scenario import Assumed

TRUE = {"prefill_base_s": 0.03, "prefill_per_token_s": 0.00012, "decode_base_s": 0.012, "decode_per_sequence_s": 0.0004}


def fleet(replicas: int = 4, cap: int = 32, **more: Any) -> Fleet:
    """A confirmed fleet whose operator knows everything."""
    return Fleet(Fact(replicas, "config"), Fact(cap, "config"), Fact(120_000, "config"), confirmed=True, **more)


def service(replicas: int = 4, slow: SlowSeries | None = None, **more: Any) -> ServiceModel:
    """The true law."""
    return ServiceModel(**(TRUE | {"slow": slow or SlowSeries.none(replicas)} | more))


def played(
    law: ServiceModel, engines: Fleet, n: int = 3000, rate: float = 4.0, seed: int = 1, routing: str = "as_logged"
) -> Workload:
    """n requests at `rate` per second, Poisson, routed at random (or to the least outstanding), as a log shows them."""
    rng = np.random.default_rng(seed)
    replicas = engines.replicas.value or 1
    arrival = np.cumsum(rng.exponential(1.0 / rate, n)).round(6)
    prompt = np.maximum(rng.lognormal(np.log(600), 0.7, n).round(), 5)
    tokens = np.maximum(rng.lognormal(np.log(120), 0.6, n).round(), 2)
    asked = Workload.of(arrival, prompt, tokens, replica=rng.integers(0, replicas, n))
    seen = "least_outstanding" if routing == "least_outstanding" else "random"
    world = scenario.setting(asked, law, engines, seed=seed, routing_seen=seen)
    arm = sweep.play(world, load.at(asked, 1.0, seed), None, Assumed(), routing)  # type: ignore[arg-type]
    replica = asked.replica if routing == "as_logged" else arm_replicas(world, asked, seed)
    return replace(
        asked, ttft_s=(arm.ttft_s + arrival).round(6) - arrival, e2e_s=(arm.e2e_s + arrival).round(6) - arrival,
        replica=replica,
    )  # fmt: skip


def arm_replicas(world: scenario.Setting, asked: Workload, seed: int) -> Any:
    """Where each primary of the same run went."""
    from hedgectl.sim.run import run

    kind = scenario.discipline(world, "least_outstanding", exact=False)
    jobs = scenario.jobs_of(world, load.at(asked, 1.0, seed), None, Assumed())
    return run(jobs, scenario.law_of(world), scenario.rule_of(world, None, Assumed(), kind)).attempt["replica"][:, 0]
