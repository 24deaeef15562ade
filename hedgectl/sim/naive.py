"""The engines of the naive reference: plain objects, every token a step, everything looked up anew.

Between two events time advances token by token: the next point is where any running sequence has its next whole token,
any prefill ends, or any slowness changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hedgectl.sim import layout as c
from hedgectl.sim.inputs import Law

EPSILON = 1e-9


@dataclass(slots=True)
class Copy:
    """One attempt."""

    request: int
    number: int
    work: float
    tokens: float
    prompt: float
    reserve: float
    gateway: float
    fails_after: float
    pick: float
    replica: int = -1
    state: int = c.NONE
    sent: float = math.nan
    enqueued: float = math.nan
    admitted: float = math.nan
    first: float = math.nan
    end: float = math.nan
    left: float = math.nan
    gpu: float = 0.0
    kv: float = 0.0
    decoded: float = 0.0
    work_left: float = 0.0
    doomed: int = -1

    def waited_for(self) -> bool:
        """Does the client still listen?"""
        return c.GATEWAY <= self.state <= c.DECODE and math.isnan(self.left)


@dataclass(slots=True)
class Engine:
    """One replica."""

    changes: list[tuple[float, float]]
    static: float
    pool: int
    queue: list[Copy] = field(default_factory=list)
    prefill: Copy | None = None
    batch: list[Copy] = field(default_factory=list)
    answers: list[tuple[float, bool]] = field(default_factory=list)
    steps: float = 0.0  # since the batch was last empty
    under_way: float = 0.0  # share of a step to go when the prefill was admitted

    def factor(self, t: float) -> float:
        """Slowness at `t`."""
        now = 1.0
        for start, value in self.changes:
            if start <= t:
                now = value
        return now


class NaiveFleet:
    """The engines at time `t`. What an attempt brings about is told to `first_token` and `answer`."""

    def __init__(self, law: Law) -> None:
        if law.decode_base + law.decode_per_sequence <= 0:
            raise ValueError("a step that takes no time cannot be played token by token")
        self.law = law
        self.engines = [self._engine(r) for r in range(law.replicas)]
        self.t = 0.0

    def first_token(self, x: Copy) -> None:
        """`x` has its first token."""
        raise NotImplementedError

    def answer(self, x: Copy) -> None:
        """`x` is done and out of its engine."""
        raise NotImplementedError

    def _engine(self, r: int) -> Engine:
        pool = int(self.law.pool[r]) if self.law.pool is not None else 0
        slow = self.law.slow
        if slow is None:
            return Engine([], 1.0, pool)
        rows = range(slow.offsets[r], slow.offsets[r + 1])
        return Engine([(slow.start_s[x], slow.factor[x]) for x in rows], slow.static_factor[r], pool)

    def _rates(self, e: Engine) -> tuple[float, float]:
        """(tokens per second of each running sequence, prefill seconds per second)."""
        n, slow, law = len(e.batch), e.factor(self.t), self.law
        step: float = (law.decode_base + law.decode_per_sequence * n) * e.static
        chunked = law.chunk > 0 and law.prefill_per_token > 0
        if e.prefill is not None and (not chunked or e.prefill.work <= 0):
            return 0.0, 1.0 / slow
        if e.prefill is not None:
            pieces: float = max(1, math.ceil(e.prefill.work / (law.prefill_per_token * max(1, law.chunk - n)) - 1e-9))
            pieces += e.under_way
            piece = e.prefill.work / pieces * e.static
            return (1.0 / (slow * (step + piece)) if n else 0.0), piece / (slow * (step + piece))
        return (1.0 / (slow * step) if step > 0 else 1e18) if n else 0.0, 0.0

    def next_point(self, e: Engine) -> float:
        """The next time at which something changes on `e`, or a sequence has its next whole token."""
        tokens, work = self._rates(e)
        points = []
        if work > 0 and e.prefill is not None:
            points.append(self.t + max(0.0, e.prefill.work_left) / work)
        if tokens > 0:
            for x in e.batch:
                whole = min(math.floor(x.decoded + EPSILON) + 1.0, x.tokens)
                points.append(self.t + max(0.0, whole - x.decoded) / tokens)
        if points:
            points += [start for start, _ in e.changes if start > self.t][:1]
        return min(points, default=math.inf)

    def advance(self, t: float) -> None:
        """All engines work until `t`."""
        for e in self.engines:
            tokens, work = self._rates(e)
            dt = t - self.t
            share = 0.0
            if e.prefill is not None:
                n = len(e.batch)
                step = (self.law.decode_base + self.law.decode_per_sequence * n) * e.static
                share = 1.0 if tokens == 0 else 1.0 - tokens * e.factor(self.t) * step
                e.prefill.work_left -= dt * work
                e.prefill.gpu += dt * share
            e.steps = e.steps + dt * tokens if e.batch else 0.0
            for x in e.batch:
                x.decoded += dt * tokens
                if tokens > 0:
                    x.gpu += dt * (1.0 - share) / len(e.batch)
        self.t = t

    def serve(self, r: int) -> None:
        """Let happen what is due at engine `r` now."""
        e = self.engines[r]
        if e.prefill is not None and e.prefill.work_left <= EPSILON and self._rates(e)[1] > 0:
            x, e.prefill = e.prefill, None
            if x.doomed >= 0:
                self.out(x, x.doomed)
            else:
                x.first, x.state = self.t, c.DECODE
                if x.tokens > 0:
                    e.batch.append(x)
                self.admit(r)
                self.first_token(x)
                if x.tokens <= 0:
                    self._done(x)
        else:
            over = [x for x in e.batch if x.tokens - x.decoded <= EPSILON]
            if over:
                x = min(over, key=lambda y: (y.tokens - y.decoded, y.request, y.number))
                e.batch.remove(x)
                x.decoded = x.tokens
                self._done(x)
        self.admit(r)

    def _done(self, x: Copy) -> None:
        self.out(x, c.DONE)
        self.admit(x.replica)
        self.answer(x)

    def reserved(self, e: Engine) -> float:
        """Key-value tokens held on `e`."""
        return sum(x.reserve for x in e.batch) + (e.prefill.reserve if e.prefill else 0.0)

    def admit(self, r: int) -> None:
        """Start the prefill of the queue's head if it fits."""
        e = self.engines[r]
        if e.prefill is not None or not e.queue or len(e.batch) >= self.law.cap:
            return
        if e.batch and self.reserved(e) + e.queue[0].reserve > self.law.kv_capacity:
            return
        x = e.queue.pop(0)
        x.state, x.admitted, x.work_left = c.PREFILL, self.t, x.work * e.static
        e.prefill = x
        e.under_way = max(0.0, math.ceil(e.steps - 1e-6) - e.steps) if e.batch else 0.0

    def out(self, x: Copy, state: int) -> None:
        """`x` ends as `state`."""
        x.state, x.end = state, self.t
        if not math.isnan(x.admitted):
            x.kv = x.reserve * (self.t - x.admitted)

    def take_out(self, x: Copy, state: int) -> None:
        """Remove `x` from its engine, wherever it stands."""
        if x.state == c.PREFILL and not (self.law.chunk > 0 and self.law.prefill_per_token > 0):
            x.doomed = state
            return
        e = self.engines[x.replica]
        if x.state == c.QUEUED:
            e.queue.remove(x)
        elif x.state == c.PREFILL:
            e.prefill = None
        elif x.state == c.DECODE:
            e.batch.remove(x)
        self.out(x, state)
        self.admit(x.replica)
