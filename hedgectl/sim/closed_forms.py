"""Closed-form queues stated as engines: each case is a law, a rule and jobs for the product's own kernel, and a quantity.

A single server is a batch of one; c servers are a batch of c whose steps do not slow down; processor sharing is a batch
without limit whose step is proportional to its size. Service times are lengths in tokens of one second each.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hedgectl.model import Floats
from hedgectl.sim import layout
from hedgectl.sim.arm import drains
from hedgectl.sim.inputs import OFF, Jobs, Law, Outcome, Rule
from hedgectl.sim.run import run

Params = Mapping[str, Any]
WARM_UP = 0.1  # of the requests, left out of every quantity
COPIES = Rule(delay=0.0, target=layout.RANDOM)
MIX = {"w": [0.95, 0.05], "median": [1.0, 6.0], "sigma": 0.3}  # the service law of cases that state none


@dataclass(frozen=True, slots=True, eq=False)
class Draw:
    """Random numbers of one replication."""

    rng: np.random.Generator
    n: int
    seed: int

    def arrivals(self, rate: float) -> Floats:
        """Poisson."""
        return np.cumsum(self.rng.exponential(1.0 / rate, self.n))

    def exponential(self, mean: float, attempts: int = 1) -> Floats:
        """(n, attempts)."""
        return self.rng.exponential(mean, (self.n, attempts))

    def lognormal(self, mean: float, scv: float, attempts: int = 1) -> Floats:
        """(n, attempts), by mean and squared coefficient of variation."""
        sigma2 = np.log1p(scv)
        return self.rng.lognormal(np.log(mean) - sigma2 / 2, np.sqrt(sigma2), (self.n, attempts))

    def mixture(self, p: Params, attempts: int) -> Floats:
        """Lognormals of given weights, medians and one sigma, independent for every attempt."""
        law = {**MIX, **p}
        which = self.rng.choice(len(law["w"]), size=(self.n, attempts), p=np.array(law["w"]) / np.sum(law["w"]))
        return np.array(law["median"])[which] * self.rng.lognormal(0.0, law["sigma"], (self.n, attempts))

    def jobs(self, arrival: Floats, tokens: Floats, **given: Any) -> Jobs:
        """Jobs of as many attempts as `tokens` has columns."""
        return Jobs.of(arrival, tokens, attempts=tokens.shape[1], seed=self.seed, **given)


def _kept(o: Outcome) -> slice:
    return slice(int(len(o.request) * WARM_UP), None)


def _times(o: Outcome) -> Floats:
    return np.asarray((o.request["end"] - o.jobs.arrival)[_kept(o)])


def _waits(o: Outcome) -> Floats:
    waits = o.attempt["admitted"][:, 0] - o.jobs.arrival
    return np.asarray(np.maximum(waits[_kept(o)], 0.0))


def _mean_time(o: Outcome) -> float:
    return float(_times(o).mean())


def _mean_wait(o: Outcome) -> float:
    return float(_waits(o).mean())


def _p99_time(o: Outcome) -> float:
    return float(np.quantile(_times(o), 0.99))


def _p99_wait(o: Outcome) -> float:
    return float(np.quantile(_waits(o), 0.99))


def _hedge_fraction(o: Outcome) -> float:
    return float(o.run["hedges"]) / len(o.request)


def _server_time(o: Outcome) -> float:
    return float(o.attempt["decoded"].sum()) / len(o.request)


# --- queues -----------------------------------------------------------------------------------------------------------


def servers(p: Params, d: Draw) -> Outcome:
    """M/M/c (c = 1 where not said)."""
    law = Law(1, 1.0, 0.0, cap=p.get("c", 1))
    return run(d.jobs(d.arrivals(p["lam"]), d.exponential(1.0 / p["mu"])), law, Rule())


def lindley(p: Params, d: Draw) -> Outcome:
    """Given arrivals and services."""
    tokens = np.asarray(p["service"], dtype=np.float64)[:, None]
    return run(Jobs.of(p["arrival"], tokens, attempts=1), Law(1, 1.0, 0.0, cap=p.get("servers", 1)), Rule())


def general_server(p: Params, d: Draw) -> Outcome:
    """M/G/1 with lognormal service; M/D/1 where D is given."""
    tokens = np.full((d.n, 1), float(p["D"])) if "D" in p else d.lognormal(p["ES"], p["scv"])
    return run(d.jobs(d.arrivals(p["lam"]), tokens), Law(1, 1.0, 0.0, cap=1), Rule())


def loss(p: Params, d: Draw) -> Outcome:
    """c places and no queue: what does not fit is answered 429. Offered load in Erlang, mean service as stated."""
    numbers = re.findall(r"(mean|scv)\s*([0-9.]+)", str(p.get("service", "")))
    law = {"mean": 1.0, "scv": 4.0} | {name: float(value) for name, value in numbers}
    tokens = d.lognormal(law["mean"], law["scv"])
    jobs = d.jobs(d.arrivals(p["offered"] / law["mean"]), tokens)
    return run(jobs, Law(1, 1.0, 0.0, cap=p["c"], queue_limit=0), Rule())


def sharing(p: Params, d: Draw) -> Outcome:
    """Processor sharing, lognormal work."""
    tokens = d.lognormal(p.get("ES", 1.0), p.get("scv", 4.0))
    return run(d.jobs(d.arrivals(p["lam"]), tokens), Law(1, 0.0, 1.0), Rule())


def _stretch(o: Outcome, p: Params) -> float:
    """E[T | S] / S for work in a narrow range."""
    found = [float(x) for x in re.findall(r"[0-9]+\.?[0-9]*", str(p["x"]))]
    low, high = (found[0], found[1]) if len(found) > 1 else (0.95 * found[0], 1.05 * found[0])
    work = o.jobs.tokens[:, 0][_kept(o)]
    inside = (work >= low) & (work <= high)
    return float(_times(o)[inside].mean() / work[inside].mean())


def decode_batch(p: Params, d: Draw) -> Outcome:
    """Steps of a + b n; a batch cap where given, lengths exponential unless a squared coefficient of variation is."""
    mean = p["mean_tokens"]
    tokens = d.lognormal(mean, p["scv_tokens"]) if "scv_tokens" in p else d.exponential(mean)
    return run(d.jobs(d.arrivals(p["lam"]), tokens), Law(1, p["a"], p["b"], cap=p.get("cap", OFF)), Rule())


def join_shortest(p: Params, d: Draw) -> Outcome:
    """The shorter of d queues drawn at random out of n."""
    choices = d.rng.random((d.n, p["d"]))
    jobs = d.jobs(d.arrivals(p["lam"] * p["n"]), d.exponential(1.0 / p["mu"]), choices=choices)
    return run(jobs, Law(p["n"], 1.0, 0.0, cap=1), Rule(routing=layout.LEAST_OUTSTANDING, choices=p["d"]))


# --- copies -----------------------------------------------------------------------------------------------------------


def redundancy(p: Params, d: Draw) -> Outcome:
    """d copies at once on d of n servers, the first one done cancels the others."""
    tokens = d.exponential(1.0 / p["mu"], p["d"])
    jobs = d.jobs(d.arrivals(p["lam_per_server"] * p["n"]), tokens)
    return run(jobs, Law(p["n"], 1.0, 0.0, cap=1), COPIES)


def replicate_all(p: Params, d: Draw, rate: float | None = None, copies: int | None = None) -> Outcome:
    """k copies of everything, none cancelled; service exp(1) or constant."""
    k = p.get("k", 2) if copies is None else copies
    constant = re.match(r"D\s*=\s*([0-9.]+)", str(p.get("service", "")))
    tokens = np.full((d.n, k), float(constant.group(1))) if constant else d.exponential(1.0, k)
    rho = p["rho_base"] if rate is None else rate
    jobs = d.jobs(d.arrivals(rho * p["n"] / float(tokens.mean() if constant else 1.0)), tokens)
    rule = Rule(delay=0.0, target=layout.RANDOM, cancel=layout.ENGINE_RUNS_ON)
    return run(jobs, Law(p["n"], 1.0, 0.0, cap=1), rule)


def _threshold(p: Params, d: Draw) -> float:
    """The load at which replicating everything stops helping the mean, by the zero of a line through five loads."""
    sized = {**p, "n": 200}
    loads = np.array([0.22, 0.245, 0.27, 0.295, 0.32])
    gains = []
    for i, rho in enumerate(loads):
        draw = Draw(np.random.default_rng([d.seed, i]), max(d.n // 3, 1000), d.seed)
        gains.append(_mean_time(replicate_all(sized, draw, rho)) - _mean_time(replicate_all(sized, draw, rho, 1)))
    a, b, c = np.polyfit(loads, gains, 2)
    return float((-b + np.sqrt(b * b - 4 * a * c)) / (2 * a))


def delayed(p: Params, d: Draw) -> Outcome:
    """No queueing at all: a copy after d, the first success wins. Service from the parameters."""
    if "mu" in p:
        tokens = d.exponential(1.0 / p["mu"], 2)
    elif "alpha" in p:
        tokens = p["xm"] * (1.0 + d.rng.pareto(p["alpha"], (d.n, 2)))
    else:
        tokens = d.mixture(p, 2)
    return _alone(p, d, tokens)


def frailty(p: Params, d: Draw) -> Outcome:
    """Both copies slow together with one probability, each on its own with another."""
    slow = (d.rng.random((d.n, 1)) < p["p_shared"]) | (d.rng.random((d.n, 2)) < p["p_indep"])
    return _alone(p, d, np.where(slow, p["slow_mult"], 1.0) * d.rng.lognormal(0.0, p["sigma"], (d.n, 2)))


def _alone(p: Params, d: Draw, tokens: Floats) -> Outcome:
    runs_on = "runs on" in str(p.get("cancel", ""))
    rule = Rule(delay=p.get("d", OFF), cancel=layout.ENGINE_RUNS_ON if runs_on else layout.FREES_ENGINE)
    eligible = (d.rng.random(d.n) < p.get("q", 1.0)).astype(np.int32)
    return run(d.jobs(d.arrivals(1.0), tokens, eligible=eligible), Law(2, 1.0, 0.0), rule)


def bucket(p: Params, d: Draw) -> Outcome:
    """Every request may want a copy with one probability; the budget's bucket says whether it gets one."""
    cost = p.get("cost", 1)
    eligible = (d.rng.random(d.n) < p["p_candidate"]).astype(np.int32)
    jobs = d.jobs(np.arange(d.n, dtype=np.float64), np.full((d.n, 2), 0.5), eligible=eligible)
    rule = Rule(delay=0.25, ratio=p["tokens_per_primary"] / cost, burst=p["cap"] / cost)
    return run(jobs, Law(2, 1.0, 0.0), rule)


def copies_in_sharing(p: Params, d: Draw) -> Outcome:
    """d copies at once on processor-sharing servers; identical ones have one size."""
    n = int(p.get("requests", d.n))
    draw = Draw(d.rng, n, d.seed)
    k = p["d"]
    tokens = draw.exponential(1.0, k)
    if "identical" in str(p.get("copies", "")):
        tokens = np.repeat(tokens[:, :1], k, axis=1)
    return run(draw.jobs(draw.arrivals(p["rho_base"] * p["servers"]), tokens), Law(p["servers"], 0.0, 1.0), COPIES)


# --- by name ----------------------------------------------------------------------------------------------------------

Measure = Callable[[Params, Draw], Any]


def _case(play: Callable[[Params, Draw], Outcome], read: Callable[[Outcome], Any]) -> Measure:
    return lambda p, d: read(play(p, d))


EXACT: dict[str, Measure] = {
    "mm1_mean_response": _case(servers, _mean_time),
    "mm1_p99_response": _case(servers, _p99_time),
    "gg1_fcfs_lindley_vector": lambda p, d: (
        lindley(p, d).attempt["admitted"][:, 0] - np.asarray(p["arrival"])
    ).tolist(),
    "mmc_erlangC_pwait": _case(servers, lambda o: float(np.mean(_waits(o) > 1e-9))),
    "mmc_mean_wait": _case(servers, _mean_wait),
    "mmc_p99_wait": _case(servers, _p99_wait),
    "mg1_pk_lognormal": _case(general_server, _mean_wait),
    "md1_mean_wait": _case(general_server, _mean_wait),
    "erlangB_reject_429": _case(loss, lambda o: float(np.mean(o.request["status"][_kept(o)] == layout.ERRORED))),
    "mg1_ps_lognormal": _case(sharing, _mean_time),
    "mg1_ps_conditional": lambda p, d: _stretch(sharing(p, d), p),
    "delayed_min_exponential_mean": _case(delayed, _mean_time),
    "delayed_min_exponential_p99": _case(delayed, _p99_time),
    "delayed_min_exp_work_cancel": _case(delayed, _server_time),
    "delayed_min_exp_work_nocancel": lambda p, d: _server_time(delayed({"cancel": "engine runs on", **p}, d)),
    "delayed_min_pareto_p99": _case(delayed, _p99_time),
    "delayed_min_pareto_hedge_fraction": _case(delayed, _hedge_fraction),
    "delayed_min_lognormal_mix": _case(delayed, _p99_time),
    "unhedged_lognormal_mix": _case(delayed, _p99_time),
    "singleR_success_iid": lambda p, d: float(np.mean(_times(delayed(p, d)) <= p["t"])),
    "singleR_extra_load": _case(delayed, _hedge_fraction),
    "delayed_min_shared_frailty": _case(frailty, _p99_time),
    "vulimiri_replicate_all_at_third": _case(replicate_all, _mean_time),
    "vulimiri_threshold_deterministic": _case(replicate_all, _mean_time),
    "vulimiri_threshold_deterministic_value": _threshold,
    "jsq2_mitzenmacher": _case(join_shortest, _mean_time),
}
FAMILIES: dict[str, Measure] = {
    "decode_batch_": _case(decode_batch, _mean_time),
    "redundancy_d_": _case(redundancy, _mean_time),
    "redundancy2_": _case(copies_in_sharing, lambda o: drains(_all_times(o))),
    "token_bucket_": _case(bucket, _hedge_fraction),
}


def _all_times(o: Outcome) -> Floats:
    return np.asarray(o.request["end"] - o.jobs.arrival)


def measure_of(name: str) -> Measure | None:
    """How to measure a case, by its name (or its family's beginning); None for an unknown one."""
    if name in EXACT:
        return EXACT[name]
    return next((measure for start, measure in FAMILIES.items() if name.startswith(start)), None)
