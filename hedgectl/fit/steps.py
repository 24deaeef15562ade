"""The step law of engines that mix prefill chunks into decode steps (chunked prefill).

A step of n sequences and m prompt tokens takes `base + per_sequence x n + per_token x m`. So the decode of a request
takes, at full speed, base x its tokens + per_sequence x integral of n + per_token x the prompt tokens that others had
computed meanwhile: linear in three numbers, and each row gives time = integral of the replica's speed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hedgectl.fit.edges import Period
from hedgectl.fit.robust import KEEP, dot, errors_of, thinned
from hedgectl.fit.slowness import SLOW_BELOW, Rows, solve, speed_integral
from hedgectl.fit.timeline import Bools, Timeline
from hedgectl.model import Floats

ROUNDS = 6
TRIMS = 15
QUEUED_S = 1e-3  # a measured queue below it is the scheduler's own time


@dataclass(frozen=True, slots=True, eq=False)
class StepLaw:
    """Seconds at full speed with 95 % intervals; `prompts` (n,) tokens computed beside each attempt's decode."""

    base_s: float
    per_sequence_s: float
    per_token_s: float
    half_widths: tuple[float, float, float]
    spread: float
    rows: int

    def interval(self, index: int) -> tuple[float, float]:
        """95 % interval of base (0), per sequence (1) or per token (2)."""
        value = (self.base_s, self.per_sequence_s, self.per_token_s)[index]
        half = self.half_widths[index]
        return max(value - half, 0.0), value + half


@dataclass(frozen=True, slots=True, eq=False)
class StepRows:
    """What each attempt's decode was made of: (n,) tokens, sequence-tokens, prompt tokens beside it."""

    tokens: Floats
    beside: Floats
    prompts: Floats

    def seconds(self, law: StepLaw) -> Floats:
        """Full-speed seconds of each decode."""
        return law.base_s * self.tokens + law.per_sequence_s * self.beside + law.per_token_s * self.prompts


def prompts_beside(line: Timeline) -> Floats:
    """Uncached prompt tokens whose first token came during each attempt's decode on its replica, shape (n,)."""
    a = line.attempts
    total = np.concatenate([[0.0], np.cumsum(a.uncached)])
    upto = np.searchsorted(a.first, a.end, side="right")
    since = np.searchsorted(a.first, a.first, side="right")
    beside: Floats = total[upto] - total[since]
    return beside


def fit_steps(line: Timeline, seconds: Floats, keep_share: float = KEEP, fleet: int = 1) -> tuple[StepLaw, StepRows]:
    """Trimmed regression of decode seconds (n,) on tokens, sequences beside and prompt tokens beside.

    `seconds` is the decode time, or the integral of the replica's speed over it once slow periods are known.
    `fleet` > 1: the line holds the requests of that many replicas that nobody told apart. Of the others each is beside
    a request with probability 1 / fleet, so expected values stand in.
    """
    a = line.attempts
    prompts = prompts_beside(line) / fleet
    tokens = np.where(np.isfinite(a.tokens), np.maximum(a.tokens - 1.0, 0.0), 0.0)
    rows = thinned(np.flatnonzero((tokens >= 1) & (seconds > 0)))
    running = 1.0 + (np.maximum(line.running, 1.0) - 1.0) / fleet
    if len(rows) < 3:
        empty = np.zeros(len(a))
        return StepLaw(0.0, 0.0, 0.0, (0.0, 0.0, 0.0), 0.0, len(rows)), StepRows(tokens, empty, prompts)
    law = np.array([float(np.median(seconds[rows] / tokens[rows])), 0.0, 0.0])
    beside = tokens.copy()
    relative = np.zeros(len(rows))
    design = np.zeros((len(rows), 3))
    for _ in range(ROUNDS):
        rate = 1.0 / (law[0] + law[1] * running)
        gained = line.over_decode(rate)
        beside = line.over_decode(rate * running) * tokens / np.maximum(gained, 1e-9)
        design = np.stack([tokens[rows], beside[rows], prompts[rows]], axis=1)
        keep = np.ones(len(rows), dtype=bool)
        for _ in range(TRIMS):
            scaled = design[keep] / seconds[rows][keep, None]
            law = _nonnegative(scaled)
            relative = seconds[rows] / np.maximum(design @ law, 1e-12) - 1.0
            off = np.abs(relative)
            was, keep = keep, off <= np.quantile(off, keep_share)
            if np.array_equal(was, keep):
                break
    spread = 1.4826 * float(np.median(np.abs(relative)))
    near = np.abs(relative) <= 3.0 * spread + 1e-9
    columns = [design[near, k] for k in range(3)]
    half = errors_of(columns, seconds[rows][near], [float(v) for v in law])
    base, per_sequence, per_token = (float(v) for v in law)
    found = StepLaw(base, per_sequence, per_token, (half[0], half[1], half[2]), spread, len(rows))
    return found, StepRows(tokens, beside, prompts)


def _nonnegative(scaled: Floats) -> Floats:
    """Least squares of 1 = scaled @ law with law >= 0: columns that would be negative are left out."""
    columns = [np.ascontiguousarray(scaled[:, k]) for k in range(3)]
    active = [0, 1, 2]
    while active:
        normal = np.array([[dot(columns[i], columns[j]) for j in active] for i in active])
        solved = np.linalg.pinv(normal) @ np.array([float(columns[i].sum()) for i in active])
        if np.all(solved >= 0):
            law = np.zeros(3)
            law[active] = solved
            return law
        active = [column for column, value in zip(active, solved, strict=True) if value > 0]
    return np.zeros(3)


@dataclass(frozen=True, slots=True, eq=False)
class StepFit:
    """The step law with slow periods, the constant before the engine's queue, and what of TTFT is left over."""

    law: StepLaw
    periods: list[Period]
    gateway_s: float
    residual_s: Floats  # TTFT of the attempts that did not queue, minus everything known; sorted
    idle: int


def fit_step_engine(line: Timeline, start: Floats, queued: Bools, static: Floats) -> StepFit:
    """Law and slow periods in turn, twice: the second law uses only rows that were served at (nearly) full speed.

    `start` (n,) composite time at which each prefill began at the earliest; `queued` those that waited for room;
    `static` (R,) divides each replica's times.
    """
    a = line.attempts
    seconds = (a.end - a.first) / static[a.replica]
    law, parts = fit_steps(line, seconds)
    spread = law.spread
    periods = _periods(line, law, parts, start, static)
    at_speed = speed_integral(periods, a.end) - speed_integral(periods, a.first)
    normal = np.where(at_speed > (a.end - a.first) * SLOW_BELOW, at_speed / static[a.replica], 0.0)
    law, parts = fit_steps(line, normal, 0.9)
    periods = _periods(line, replace(law, spread=spread), parts, start, static)
    idle = np.flatnonzero(~queued)
    waited = speed_integral(periods, a.first) - speed_integral(periods, a.arrival)
    beside = np.maximum(line.running[line.at_first] - 1.0, 0.0)
    under_way = np.where(beside > 0, 0.5 * (law.base_s + law.per_sequence_s * beside), 0.0)
    known = (_prefill_seconds(line, law) + under_way) * static[a.replica]
    residual = np.sort((waited - known)[idle])
    gateway = max(float(np.median(residual)), 0.0) if len(residual) else 0.0
    return StepFit(law, periods, gateway, residual - gateway, len(idle))


def _prefill_seconds(line: Timeline, law: StepLaw) -> Floats:
    """Full-speed seconds of the step that computes each prompt, beside the sequences that ran then, shape (n,)."""
    beside = np.maximum(line.running[line.at_first] - 1.0, 0.0)
    return law.base_s + law.per_sequence_s * beside + law.per_token_s * line.attempts.uncached


def _periods(line: Timeline, law: StepLaw, parts: StepRows, start: Floats, static: Floats) -> list[Period]:
    a = line.attempts
    decode = parts.seconds(law) * static[a.replica]
    prefill = _prefill_seconds(line, law) * static[a.replica]
    some = decode > 0
    # prompts that shared a step with the one before have no step of their own
    own = a.first - start > 0.5 * (law.base_s + law.per_sequence_s)
    one = float(np.mean(law.base_s + law.per_sequence_s * np.maximum(line.running[line.at_first], 1.0)))
    work = np.concatenate([decode[some], prefill[own]])
    count = len(work)
    rows = Rows(
        np.concatenate([a.first[some], start[own]]),
        np.concatenate([a.end[some], a.first[own]]),
        work,
        np.zeros(count),
        np.ones(count),
        0.5 * one + law.spread * work,
        np.concatenate([a.replica[some], a.replica[own]]),
    )
    nothing, always = np.zeros(len(line.times)), np.ones(len(line.times))
    return solve(line, rows, nothing, always, always > 0, one, least=1.0 / SLOW_BELOW - 1.0)


def fit_unnamed_engines(line: Timeline, fleet: int) -> StepFit:
    """One law for `fleet` replicas whose requests nobody told apart: no slow periods, no static factors.

    TTFT at rest (nobody else waits for a first token anywhere) minus the expected rest of a step under way and the
    prompt's own step is the constant before the engine.
    """
    a = line.attempts
    law, _ = fit_steps(line, a.end - a.first, 0.9, fleet)
    order = np.argsort(a.arrival, kind="stable")
    waiting = np.empty(len(a))
    waiting[order] = np.arange(len(a)) - np.searchsorted(np.sort(a.first), a.arrival[order], side="right")
    running = np.searchsorted(np.sort(a.first), a.arrival, side="right") - np.searchsorted(
        np.sort(a.end), a.arrival, side="right"
    )
    idle = np.flatnonzero(waiting == 0)
    if len(idle) < 20:
        idle = np.arange(len(a))
    beside = running[idle] / fleet
    busy = 1.0 - (1.0 - 1.0 / fleet) ** running[idle]  # share of replicas at which a step is under way
    step = law.base_s + law.per_sequence_s * beside
    known = step * (1.0 + 0.5 * busy) + law.per_token_s * a.uncached[idle]
    residual = (a.first - a.arrival)[idle] - known
    gateway = max(float(np.median(residual)), 0.0) if len(residual) else 0.0
    return StepFit(law, [], gateway, np.sort(residual - gateway), len(idle))
