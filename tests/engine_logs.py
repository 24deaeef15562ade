"""Logs of engines of known law, made with the product's own kernel: what a replay should find again."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgectl.config import Config, Value
from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.sim import load, scenario
from hedgectl.sim.arm import Arm
from hedgectl.sim.run import run
from hedgectl.sim.scenario import Assumed

REPLICAS, CAP, CACHE = 4, 32, 120_000


def config(**changes: Any) -> Config:
    """What an operator would write under [engine]; None leaves a fact out."""
    known: dict[str, Any] = {
        "confirmed": True,
        "replicas": REPLICAS,
        "max_running_requests": CAP,
        "kv_capacity_tokens": CACHE,
    }
    known |= changes
    return Config({f"engine.{k}": Value(v, "test") for k, v in known.items() if v is not None})


def log(
    n: int = 8000,
    *,
    rho: float = 0.4,
    slow: float = 0.0,
    outlier: float = 1.0,
    long_sigma: float = 0.6,
    routing: str = "random",
    seed: int = 1,
) -> Workload:
    """Streams on four engines. `slow`: factor of 20 s spells, one per replica every 700 s or so; `outlier`: factor of replica 2."""
    rng = np.random.default_rng([seed, 5])
    prompt = np.minimum(rng.lognormal(np.log(800), 0.7, n), 20_000).astype(int) + 1
    tokens = np.minimum(rng.lognormal(np.log(200), long_sigma, n), 6000).astype(int) + 1
    law = ServiceModel(0.03, 0.00012, 0.012, 0.0004, SlowSeries.none(REPLICAS))
    work = 0.03 + 0.00012 * prompt.mean() + tokens.mean() * (0.012 / CAP + 0.0004)
    arrival = np.cumsum(rng.exponential(work / rho / REPLICAS, n))
    periods: dict[int, list[tuple[float, float, float]]] = {}
    if slow > 1.0:
        for r in range(REPLICAS):
            at = float(rng.uniform(0, 700))
            while at < arrival[-1]:
                periods.setdefault(r, []).append((at, at + 20.0, slow))
                at += 20.0 + float(rng.exponential(700))
    series = SlowSeries.of(periods, REPLICAS)
    static = np.ones(REPLICAS)
    static[2] = outlier
    service = ServiceModel(
        law.prefill_base_s,
        law.prefill_per_token_s,
        law.decode_base_s,
        law.decode_per_sequence_s,
        SlowSeries(series.offsets, series.start_s, series.factor, static),
    )
    fleet = Fleet(Fact(REPLICAS, "config"), Fact(CAP, "config"), Fact(CACHE, "config"), confirmed=True)
    asked = Workload.of(arrival, prompt, tokens, streamed=np.ones(n))
    setting = scenario.setting(asked, service, fleet, seed=seed)
    at_load = load.at(setting.workload, 1.0, seed)
    code = scenario._CODES[routing]
    outcome = run(
        scenario.jobs_of(setting, at_load, None, Assumed()),
        scenario.law_of(setting),
        scenario.rule_of(setting, None, Assumed(), code),
    )
    arm = Arm.of(outcome, at_load.row)
    return Workload.of(
        arrival,
        prompt,
        tokens,
        t0_ns=1_790_000_000_000_000_000,
        ttft_s=np.round(arm.ttft_s, 6),
        e2e_s=np.round(arm.e2e_s, 6),
        replica=outcome.attempt["replica"][:, 0],
        streamed=np.ones(n),
        cache_hit=np.zeros(n),
    )
