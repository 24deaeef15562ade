"""Bench `simulate`: requests a second of the replay against a heapq loop and a simpy model on the same M/M/8 path.

All start from the same arrivals and services and must end at the same times, else the row would compare different work.
Everything is in CPU seconds of one core, so that a busy machine does not choose the winner. The first start compiles; it
is timed apart, in a process and a cache folder of its own.
"""

from __future__ import annotations

import functools
import heapq
import math
import os
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hedgectl.errors import HedgectlError
from hedgectl.model import Floats
from hedgectl.sim import jit, layout
from hedgectl.sim.inputs import Jobs, Law, Outcome, Rule, build, outcome
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
    engine, loop, merged, played, by_loop, by_merging = _in_turn(
        (
            lambda: engine_queue(arrival, service),
            lambda: _timed(lambda: heapq_loop(arrival, service, SERVERS)),
            lambda: _timed(lambda: merged_loop(arrival, service, SERVERS)),
        ),
        runs,
    )
    ends = played[1]
    for what, found in (("the heapq loop", by_loop), ("the merging loop", by_merging)):
        for got, expected in zip(found, played, strict=True):
            _same(what, got, expected)
    ours = requests / engine
    rows = [
        _row("simulate M/M/8, against heapq", ours, requests / loop, runs, "an event loop; one engine, batch of 8"),
        _row("simulate M/M/8, against heapq merge", ours, requests / merged, runs, "a loop for sorted arrivals only"),
    ]
    part = max(1000, int(requests * SIMPY_SHARE))
    simpy = simpy_times(arrival[:part], service[:part], SERVERS)
    if simpy is not None:
        seconds, by_simpy = simpy
        _same("the simpy model", by_simpy, ends[:part])
        rows.append(_row("simulate M/M/8, against simpy", ours, part / seconds, 1, "the same path"))
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


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """(CPU seconds, result)."""
    begin = time.process_time()
    result = work()
    return time.process_time() - begin, result


def _in_turn(works: Sequence[Callable[[], tuple[float, Any]]], runs: int) -> list[Any]:
    """Fastest seconds of each, then results of each: run in turn, so that a machine of changing speed favours nobody."""
    rounds = [[work() for work in works] for _ in range(max(1, runs))]
    best = [min(column, key=lambda pair: pair[0]) for column in zip(*rounds, strict=True)]
    return [seconds for seconds, _ in best] + [result for _, result in best]


def heapq_loop(arrival: Floats, service: Floats, servers: int) -> tuple[Floats, Floats]:
    """The same queue as an event loop on Python's heapq: (begin, end) of service, (n,) each."""
    arrivals, services = arrival.tolist(), service.tolist()
    begin, end = [0.0] * len(arrivals), [0.0] * len(arrivals)
    events: list[tuple[float, int, int]] = [(now, 1, i) for i, now in enumerate(arrivals[:1])]  # time, arrives, who
    waiting: deque[int] = deque()
    free = servers
    while events:
        now, arrives, i = heapq.heappop(events)
        if arrives:
            if i + 1 < len(arrivals):
                heapq.heappush(events, (arrivals[i + 1], 1, i + 1))
            if not free:
                waiting.append(i)
                continue
            free -= 1
        else:
            end[i] = now
            if not waiting:
                free += 1
                continue
            i = waiting.popleft()
        begin[i] = now
        heapq.heappush(events, (now + services[i], 0, i))
    return np.array(begin), np.array(end)


def merged_loop(arrival: Floats, service: Floats, servers: int) -> tuple[Floats, Floats]:
    """The same, less general: the sorted arrivals are merged in, past the heap, and only ends of service are events."""
    arrivals, services = arrival.tolist(), service.tolist()
    begin, end = [0.0] * len(arrivals), [0.0] * len(arrivals)
    busy: list[tuple[float, int]] = []
    waiting: deque[int] = deque()
    for i, now in enumerate([*arrivals, math.inf]):
        while busy and busy[0][0] <= now:
            done, _ = heapq.heappop(busy)
            if waiting:
                j = waiting.popleft()
                begin[j], end[j] = done, done + services[j]
                heapq.heappush(busy, (end[j], j))
        if i == len(arrivals):
            break
        if len(busy) < servers:
            begin[i], end[i] = now, now + services[i]
            heapq.heappush(busy, (end[i], i))
        else:
            waiting.append(i)
    return np.array(begin), np.array(end)


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


def engine_queue(arrival: Floats, service: Floats) -> tuple[float, tuple[Floats, Floats]]:
    """(seconds, (begin, end)) of the replay's own kernel on M/M/8: a batch of 8 whose steps do not slow down."""
    jobs = Jobs.of(arrival, service, attempts=1)
    seconds, outcome = _drain(jobs, Law(1, 1.0, 0.0, cap=SERVERS), Rule(), 1)
    return seconds, (outcome.attempt["admitted"][:, 0], outcome.request["end"])


def _drain(jobs: Jobs, law: Law, rule: Rule, runs: int) -> tuple[float, Outcome]:
    """(seconds of the fastest run of the event loop alone, what it gave)."""
    if not jit.COMPILED:
        return _timed(lambda: run(jobs, law, rule))
    found = []
    for _ in range(max(1, runs)):
        state = build(jobs, law, rule)
        seconds, _ = _timed(functools.partial(drain, state.run))
        found.append((seconds, outcome(state, jobs)))
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
    ours, found = _drain(jobs, law, rule, 3)
    _same("the naive reference", np.array([call.end for call in naive.calls]), found.request["end"])
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
