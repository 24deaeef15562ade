"""Services whose law, troubles and other futures are known: their logs, and what any policy would truly have done there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.sim import layout, load, scenario
from hedgectl.sim.arm import Arm
from hedgectl.sim.inputs import Outcome
from hedgectl.sim.load import Load
from hedgectl.sim.run import run
from hedgectl.sim.scenario import Assumed, Setting, Spec

T0_NS = 1_790_000_000_000_000_000
LAW = {"prefill_base_s": 0.03, "prefill_per_token_s": 0.00012, "decode_base_s": 0.012, "decode_per_sequence_s": 0.0004}
RIVAL_DELAYS = (0.7, 0.85, 0.9, 0.93, 0.95, 0.965, 0.98, 0.99)  # quantiles of the clock
MAX_RISE = 1.03  # of p50 and p95


@dataclass(frozen=True, slots=True)
class World:
    """What is wrong with a service. The default is healthy: eight engines, streams, routed at random."""

    name: str
    replicas: int = 8
    cap: int = 32
    cache: int = 120_000
    rho: float = 0.4  # seconds of full-batch work that arrive in a second, per engine
    routing: str = "random"
    prompt: float = 800.0  # median tokens
    tokens: float = 180.0
    sigma: float = 0.75  # of the answers' lengths
    spell: float = 1.0  # factor of slow spells, each replica for itself
    spell_s: float = 20.0
    every_s: float = 700.0
    together: bool = False  # the spells hit all replicas at once
    outlier: float = 1.0  # factor of replica 1, all the time
    hiccup: float = 0.0  # probability of 3 to 9 s before the engine, each attempt
    burst: float = 1.0  # factor of the arrival rate for 20 s, now and then
    chunked: bool = False  # prompts share steps with decode


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """A world that was run: its log, and the engines as they were."""

    world: World
    log: Workload
    setting: Setting
    at: Load

    def play(self, spec: Spec | None, cancel: str = "frees_engine") -> Arm:
        """What truly happens under a policy; copies are as long as the original."""
        return _played(self.setting, self.at, spec, cancel, self.world.routing)[0]

    def engine(self) -> dict[str, Any]:
        """What its operator writes under [engine]."""
        w = self.world
        return {
            "confirmed": True,
            "replicas": w.replicas,
            "max_running_requests": w.cap,
            "kv_capacity_tokens": w.cache,
        }

    def hedged_log(self, spec: Spec, cancel: str = "frees_engine") -> tuple[Workload, dict[str, Any]]:
        """The log of the same service with copies on: its sends, and the columns that say which belong together."""
        _, outcome = _run(self.setting, self.at, spec, cancel, self.world.routing)
        x, n = outcome.attempt, len(self.log)
        row, no = np.nonzero(x["state"] != layout.NONE)
        sends = x[row, no]
        won = outcome.request["winner"][row] == no
        seen_s = np.where(won, sends["end"], np.fmin(sends["end"], sends["left"])) - sends["sent"]
        first_s = np.where(sends["first"] - sends["sent"] <= seen_s, sends["first"] - sends["sent"], np.nan)
        order = np.argsort(sends["sent"], kind="stable")
        w = Workload.of(
            sends["sent"][order],
            self.log.prompt_tokens[row][order],
            np.where(won, self.log.completion_tokens[row], -1)[order],
            t0_ns=T0_NS,
            ttft_s=np.round(first_s, 6)[order],
            e2e_s=np.round(seen_s, 6)[order],
            replica=sends["replica"][order],
            streamed=np.ones(len(row)),
        )
        raced = np.bincount(row, minlength=n)[row] > 1
        columns = {
            "request_id": [f"q{k}" for k in row[order]],
            "attempt_no": no[order],
            "cause": np.where(no == 0, "primary", "hedge")[order],
            "status": np.where(won, "ok", "censored")[order],
            "won": [bool(good) if many else None for good, many in zip(won[order], raced[order], strict=True)],
            "ttft_ns": [None if np.isnan(t) else round(t * 1e9) for t in w.ttft_s],
            "ttft_basis": [None if np.isnan(t) else "first_token" for t in w.ttft_s],
        }
        return w, columns

    def rivals(
        self, cancel: str, ratio: float | None = 0.05, burst: float = 100.0
    ) -> Iterator[tuple[Spec | None, Arm]]:
        """Doing nothing, then every policy on the first token that keeps p50 and p95 and has no larger budget."""
        none = self.play(None, cancel)
        yield None, none
        ratios: Sequence[float | None] = (None, 0.05) if ratio is None else (ratio, ratio / 2.5)
        for delay in np.unique(np.quantile(none.ttft_s, RIVAL_DELAYS)):
            for share in ratios:
                for choose in ("as_routed", "least_outstanding"):
                    spec = Spec("first_token", float(delay), ratio=share, burst=burst, choose=choose)
                    arm = self.play(spec, cancel)
                    if obeys(arm, none):
                        yield spec, arm


def obeys(arm: Arm, none: Arm) -> bool:
    """p50 and p95 up by at most what is allowed."""
    return all(_q(arm, p) <= MAX_RISE * _q(none, p) for p in (0.5, 0.95))


def _q(arm: Arm, p: float) -> float:
    found = arm.quantile("e2e", p)
    assert found is not None
    return found


def run_world(world: World, n: int = 20_000, seed: int = 1) -> Truth:
    """The log of `n` requests, times rounded to 1 us."""
    rng = np.random.default_rng([seed, 5])
    prompt = np.minimum(rng.lognormal(np.log(world.prompt), 0.7, n), 20_000).astype(int) + 1
    tokens = np.minimum(rng.lognormal(np.log(world.tokens), world.sigma, n), 6000).astype(int) + 1
    work = 0.03 + 0.00012 * prompt.mean() + tokens.mean() * (0.012 / world.cap + 0.0004)
    arrival = _arrivals(world, n, work / world.rho / world.replicas, rng)
    service = ServiceModel(
        **LAW,
        slow=_slow(world, float(arrival[-1]), rng),
        hiccup_s=np.linspace(3.0, 9.0, 61) if world.hiccup else np.zeros(0),
        hiccup_probability=world.hiccup,
    )
    if world.chunked:
        service = replace(service, prefill_base_s=0.0, chunk_tokens=2048)
    fleet = Fleet(
        Fact(world.replicas, "config"), Fact(world.cap, "config"), Fact(world.cache, "config"), confirmed=True
    )
    asked = Workload.of(arrival, prompt, tokens, streamed=np.ones(n), t0_ns=T0_NS)
    setting = scenario.setting(asked, service, fleet, seed=7000 + seed, routing_seen=world.routing)
    at = load.at(setting.workload, 1.0, setting.seed)
    arm, replica = _played(setting, at, None, "frees_engine", world.routing)
    log = Workload.of(
        arrival,
        prompt,
        tokens,
        t0_ns=T0_NS,
        ttft_s=np.round(arm.ttft_s, 6),
        e2e_s=np.round(arm.e2e_s, 6),
        replica=replica,
        streamed=np.ones(n),
        cache_hit=np.zeros(n),
    )
    return Truth(world, log, setting, at)


def _played(s: Setting, at: Load, spec: Spec | None, cancel: str, routing: str) -> tuple[Arm, Any]:
    arm, outcome = _run(s, at, spec, cancel, routing)
    return arm, outcome.attempt["replica"][:, 0]


def _run(s: Setting, at: Load, spec: Spec | None, cancel: str, routing: str) -> tuple[Arm, Outcome]:
    assumed = Assumed(cancel)  # type: ignore[arg-type]
    code = scenario._CODES[routing]
    outcome = run(scenario.jobs_of(s, at, spec, assumed), scenario.law_of(s), scenario.rule_of(s, spec, assumed, code))
    return Arm.of(outcome, at.row), outcome


def _arrivals(world: World, n: int, gap_s: float, rng: Any) -> Any:
    """Poisson; with bursts the rate is `burst` times the usual for 20 s every five minutes or so."""
    unit = np.cumsum(rng.exponential(gap_s, n))
    if world.burst == 1.0:
        return np.round(unit, 6)
    edges, pace, at = [0.0], [], 0.0
    while at < 2.0 * unit[-1]:
        calm = float(rng.exponential(280.0))
        edges += [at + calm, at + calm + 20.0]
        pace += [1.0, world.burst]
        at += calm + 20.0
    amount = np.concatenate(([0.0], np.cumsum(np.diff(edges) * pace)))
    amount *= unit[-1] / np.interp(unit[-1], edges, amount)  # the mean rate stays
    return np.round(np.interp(unit, amount, edges), 6)


def _slow(world: World, end_s: float, rng: Any) -> SlowSeries:
    periods: dict[int, list[tuple[float, float, float]]] = {}
    if world.spell > 1.0:
        for r in range(1 if world.together else world.replicas):
            at = float(rng.uniform(0, world.every_s))
            while at < end_s:
                length = world.spell_s * float(rng.uniform(0.6, 1.4))
                periods.setdefault(r, []).append((at, at + length, world.spell))
                at += length + float(rng.exponential(world.every_s))
    if world.together:
        periods = dict.fromkeys(range(world.replicas), periods.get(0, []))
    found = SlowSeries.of(periods, world.replicas)
    static = np.ones(world.replicas)
    static[1 % world.replicas] = world.outlier
    return replace(found, static_factor=static)
