"""Bench `simulate`: requests a second of the replay against a heapq loop and a simpy model on the same M/M/8 path.

All start from the same arrivals and services and must end at the same times, else the row would compare different work.
Everything is in CPU seconds of one core, so that a busy machine does not choose the winner. The first start compiles; it
is timed apart, in a process and a cache folder of its own.
"""

from __future__ import annotations

import heapq
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from hedgectl.errors import HedgectlError
from hedgectl.model import Floats
from hedgectl.sim import jit, layout
from hedgectl.sim.inputs import Jobs, Law, Rule, build
from hedgectl.sim.kernel import drain
from hedgectl.sim.reference import Reference
from hedgectl.sim.run import prepare, run

SERVERS = 8
LOAD = 0.85
SIMPY_SHARE = 0.05  # of the requests: it is a hundred times slower
REFERENCE_REQUESTS = 200
_START = "import time; from hedgectl.sim.run import prepare; prepare(); print(time.process_time())"


def cases(requests: int = 1_000_000, runs: int = 3, seed: int = 1) -> list[dict[str, Any]]:
    """Rows of bench.v1: `ours` and `bare` in requests per CPU second (CPU seconds for starts), `ratio` = how many times faster ours is."""
    prepare()
    rng = np.random.default_rng([seed, 31])
    arrival = np.cumsum(rng.exponential(1.0 / (SERVERS * LOAD), requests))
    service = rng.exponential(1.0, requests)
    engine, ends = engine_queue(arrival, service, runs)
    loop, by_heapq = _best(lambda: heapq_loop(arrival, service, SERVERS), runs)
    _same("the heapq loop", by_heapq, ends)
    rows = [_row("simulate M/M/8, against heapq", requests / engine, requests / loop, runs, "one engine, batch of 8")]
    part = max(1000, int(requests * SIMPY_SHARE))
    simpy = simpy_times(arrival[:part], service[:part], SERVERS)
    if simpy is not None:
        seconds, by_simpy = simpy
        _same("the simpy model", by_simpy, ends[:part])
        rows.append(_row("simulate M/M/8, against simpy", requests / engine, part / seconds, 1, "the same path"))
    rows += [_engines(requests, runs, seed), _reference(seed), *_starts()]
    return rows


def _row(
    case: str, ours: float, bare: float | None, runs: int, text: str, unit: str = "requests/CPU s"
) -> dict[str, Any]:
    ratio = None if not bare else ours / bare
    return {
        "case": case,
        "unit": unit,
        "ours": float(f"{ours:.4g}"),
        "bare": None if bare is None else float(f"{bare:.4g}"),
        "ratio": None if ratio is None else float(f"{ratio:.3g}"),
        "runs": runs,
        "text": text,
    }


def _same(what: str, got: Floats, expected: Floats) -> None:
    if len(got) != len(expected) or float(np.max(np.abs(got - expected), initial=0.0)) > 1e-6:
        raise HedgectlError(f"{what} does not end at the same times as the replay", hint="this is a bug")


def _best(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """(seconds of the fastest of `runs`, its result)."""
    found = []
    for _ in range(max(1, runs)):
        begin = time.process_time()
        result = work()
        found.append((time.process_time() - begin, result))
    return min(found, key=lambda pair: pair[0])


def heapq_loop(arrival: Floats, service: Floats, servers: int) -> Floats:
    """The same queue with Python's heapq, as an event loop; ends of service, (n,)."""
    busy: list[tuple[float, int]] = []
    waiting: list[int] = []
    head = 0
    end = [0.0] * len(arrival)
    services = service.tolist()
    for i, now in enumerate(arrival.tolist()):
        while busy and busy[0][0] <= now:
            done, _ = heapq.heappop(busy)
            if head < len(waiting):
                j = waiting[head]
                head += 1
                end[j] = done + services[j]
                heapq.heappush(busy, (end[j], j))
        if len(busy) < servers:
            end[i] = now + services[i]
            heapq.heappush(busy, (end[i], i))
        else:
            waiting.append(i)
    while head < len(waiting):
        done, _ = heapq.heappop(busy)
        j = waiting[head]
        head += 1
        end[j] = done + services[j]
        heapq.heappush(busy, (end[j], j))
    return np.array(end)


def simpy_times(arrival: Floats, service: Floats, servers: int) -> tuple[float, Floats] | None:
    """(seconds, ends of service) of the same queue in simpy; None where simpy is not installed."""
    try:
        import simpy
    except ImportError:
        return None
    end = np.zeros(len(arrival))

    def customer(i: int, resource: Any) -> Any:
        with resource.request() as place:
            yield place
            yield env.timeout(service[i])
            end[i] = env.now

    def source(resource: Any) -> Any:
        for i in range(len(arrival)):
            yield env.timeout(arrival[i] - env.now)
            env.process(customer(i, resource))

    env = simpy.Environment()
    env.process(source(simpy.Resource(env, capacity=servers)))
    begin = time.process_time()
    env.run()
    return time.process_time() - begin, end


def engine_queue(arrival: Floats, service: Floats, runs: int) -> tuple[float, Floats]:
    """(seconds, ends) of the replay's own kernel on M/M/8: a batch of 8 whose steps do not slow down."""
    jobs = Jobs.of(arrival, service, attempts=1)
    return _drain(jobs, Law(1, 1.0, 0.0, cap=SERVERS), Rule(), runs)


def _drain(jobs: Jobs, law: Law, rule: Rule, runs: int) -> tuple[float, Floats]:
    if not jit.COMPILED:
        begin = time.process_time()
        outcome = run(jobs, law, rule)
        return time.process_time() - begin, outcome.request["end"]
    found = []
    for _ in range(max(1, runs)):
        state = build(jobs, law, rule)
        begin = time.process_time()
        drain(state.run)
        found.append((time.process_time() - begin, state.requests["end"]))
    return min(found, key=lambda pair: pair[0])


def fleet(requests: int, seed: int) -> tuple[Jobs, Law, Rule]:
    """Eight engines at half load with hedging on: the model a recommendation replays."""
    rng = np.random.default_rng([seed, 32])
    prompt = rng.lognormal(np.log(800), 0.7, requests)
    tokens = np.ceil(rng.lognormal(np.log(200), 0.6, requests))
    arrival = np.cumsum(rng.exponential(1.0 / 17.0, requests))
    jobs = Jobs.of(arrival, tokens, seed=seed, work=0.03 + 0.00012 * prompt, prompt=prompt)
    law = Law(8, 0.012, 0.0004, cap=32, kv_capacity=120_000)
    return jobs, law, Rule(delay=10.0, ratio=0.05, burst=100.0, target=layout.RANDOM)


def _engines(requests: int, runs: int, seed: int) -> dict[str, Any]:
    jobs, law, rule = fleet(requests, seed)
    hedged, _ = _drain(jobs, law, rule, runs)
    return _row(
        "simulate 8 engines, hedged", requests / hedged, None, runs, "batch of 32, copies after 10 s, budget 5 %"
    )


def _reference(seed: int) -> dict[str, Any]:
    jobs, law, rule = fleet(REFERENCE_REQUESTS, seed)
    begin = time.process_time()
    naive = Reference(jobs, law, rule).go()
    seconds = time.process_time() - begin
    ours, ends = _drain(jobs, law, rule, 3)
    _same("the naive reference", np.array([call.end for call in naive.calls]), ends)
    text = "the same hedged engines, token by token, 200 requests"
    return _row(
        "simulate 8 engines, against reference", REFERENCE_REQUESTS / ours, REFERENCE_REQUESTS / seconds, 1, text
    )


def _starts() -> list[dict[str, Any]]:
    """CPU seconds until the first replay can run, Python's own start among them: with nothing compiled, and with the compiled code in the cache."""
    if not jit.COMPILED:
        return []
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "NUMBA_CACHE_DIR": folder}
        found = [
            float(
                subprocess.run(
                    [sys.executable, "-c", _START], env=env, capture_output=True, check=True, text=True
                ).stdout
            )
            for _ in range(2)
        ]
    return [
        _row("simulate first start", found[0], None, 1, "imports and compiles", "CPU s"),
        _row("simulate later start", found[1], None, 1, "imports and loads compiled code", "CPU s"),
    ]
