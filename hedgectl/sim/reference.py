"""The same semantics as the kernel, written naively: the client's side on top of `naive`'s engines.

It shares no code with the kernel except the names of the codes, and is the yardstick the kernel is tested against
(agreement to 1e-6 s on random cases).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hedgectl.sim import layout as c
from hedgectl.sim.inputs import Jobs, Law, Rule
from hedgectl.sim.naive import EPSILON, Copy, NaiveFleet

HALF_WINDOW_S = 15.0
SLOW_SHARE = 0.25


@dataclass(slots=True)
class Call:
    """One logical request."""

    arrival: float
    predicted: float
    logged: int
    clock: int
    eligible: bool
    copies: list[Copy]
    choices: list[float]
    sent: int = 0
    winner: Copy | None = None
    status: int = c.OPEN
    ttft: float = math.nan
    end: float = math.nan


class Reference(NaiveFleet):
    """One run; `go()` plays it, then `calls`, `engines` and the counters tell what happened."""

    def __init__(self, jobs: Jobs, law: Law, rule: Rule) -> None:
        super().__init__(law)
        self.rule = rule
        self.calls = [self._call(jobs, i) for i in range(len(jobs.arrival))]
        self.timers: list[tuple[float, int, int, int]] = []  # time, kind, request, attempt
        self.tokens = rule.burst
        self.refused = {"ineligible": 0, "deadline": 0, "suppressed": 0, "budget": 0}
        self.hedges = 0
        self.errors: list[tuple[float, bool]] = []
        self.asked: list[float] = []
        self.hedged: list[float] = []

    def _call(self, jobs: Jobs, i: int) -> Call:
        copies = []
        for k in range(jobs.attempts):
            reserve = min(jobs.prompt[i, k] + jobs.tokens[i, k], self.law.kv_capacity)
            given = (getattr(jobs, name)[i, k] for name in ("gateway", "fails_after", "pick"))
            work, tokens, prompt = jobs.work[i, k], jobs.tokens[i, k], jobs.prompt[i, k]
            copies.append(Copy(i, k, work, tokens, prompt, reserve, *given))
        clock, eligible = int(jobs.clock[i]), bool(jobs.eligible[i])
        choices = list(jobs.choices[i])
        return Call(jobs.arrival[i], jobs.predicted[i], int(jobs.logged[i]), clock, eligible, copies, choices)

    def go(self) -> Reference:
        """Play to the end."""
        for i, call in enumerate(self.calls):
            self.timers.append((call.arrival, 99, i, 0))
        while True:
            at = min((x[0] for x in self.timers), default=math.inf)
            points = [self.next_point(e) for e in self.engines]
            soonest = min(points, default=math.inf)
            if min(at, soonest) == math.inf:
                return self
            if soonest <= at:
                self.advance(soonest)
                self.serve(points.index(soonest))
            else:
                self.advance(at)
                self._ring()

    def _ring(self) -> None:
        event = min(self.timers)
        self.timers.remove(event)
        _, kind, i, k = event
        call = self.calls[i]
        x = call.copies[k]
        if kind == 99:
            self._arrive(call)
        elif kind == c.T_ENQUEUE:
            self._enter(x)
        elif kind == c.T_CANCEL and c.GATEWAY <= x.state <= c.DECODE:
            self.take_out(x, c.CANCELLED)
        elif kind == c.T_ERROR:
            self._error(x)
        elif kind == c.T_ATTEMPT and x.waited_for():
            self.errors.append((self.t, True))
            self._abandon(x)
            if call.winner is x or not any(y.waited_for() for y in call.copies):
                self._close(call, c.TIMED_OUT)
        elif kind == c.T_DEADLINE and call.status == c.OPEN:
            self._close(call, c.TIMED_OUT)
        elif kind == c.T_HEDGE and call.status == c.OPEN and call.winner is None:
            self._hedge(call)

    def _arrive(self, call: Call) -> None:
        self.tokens = min(self.rule.burst, self.tokens + self.rule.ratio)
        self.asked.append(self.t)
        i = call.copies[0].request
        if self.rule.deadline < math.inf:
            self.timers.append((self.t + self.rule.deadline, c.T_DEADLINE, i, 0))
        if self.rule.delay < math.inf and len(call.copies) > 1:
            self.timers.append((self.t + self.rule.delay, c.T_HEDGE, i, 0))
        self._send(call, self._route(call))

    def _send(self, call: Call, r: int) -> None:
        x = call.copies[call.sent]
        call.sent += 1
        x.replica, x.state, x.sent = r, c.GATEWAY, self.t
        for due, kind in (
            (x.fails_after, c.T_ERROR),
            (self.rule.attempt_deadline, c.T_ATTEMPT),
            (x.gateway if x.gateway > 0 else math.inf, c.T_ENQUEUE),
        ):
            if due < math.inf:
                self.timers.append((self.t + due, kind, x.request, x.number))
        if x.gateway <= 0:
            self._enter(x)

    def _enter(self, x: Copy) -> None:
        if x.state != c.GATEWAY:
            return
        e = self.engines[x.replica]
        free = e.prefill is None and not e.queue and len(e.batch) < self.law.cap
        fits = free and (not e.batch or self.reserved(e) + x.reserve <= self.law.kv_capacity)
        if len(e.queue) >= self.law.queue_limit and not fits:
            if x.waited_for():
                self._error(x)
            else:
                self.out(x, c.FAILED)
            return
        x.state, x.enqueued = c.QUEUED, self.t
        e.queue.append(x)
        self.admit(x.replica)

    def first_token(self, x: Copy) -> None:
        """Commit the request to `x` if that is its clock."""
        call = self.calls[x.request]
        if call.clock == c.FIRST_TOKEN:
            self.engines[x.replica].answers.append((self.t, self.t - x.sent > self.rule.healthy_limit))
        if call.status != c.OPEN or not math.isnan(x.left):
            return
        if math.isnan(call.ttft):
            call.ttft = self.t - call.arrival
        if call.clock == c.FIRST_TOKEN and call.winner is None:
            call.winner = x
            self._abandon_others(call, x)

    def answer(self, x: Copy) -> None:
        """`x` wins if anybody still waits for it."""
        call = self.calls[x.request]
        if call.clock != c.FIRST_TOKEN:
            self.engines[x.replica].answers.append((self.t, self.t - x.sent > self.rule.healthy_limit))
        if math.isnan(x.left):
            self.errors.append((self.t, False))
            call.winner = x
            self._close(call, c.ANSWERED)

    def _close(self, call: Call, status: int) -> None:
        call.status, call.end = status, self.t
        self._abandon_others(call, None)

    def _abandon_others(self, call: Call, winner: Copy | None) -> None:
        for x in call.copies:
            if x is not winner and x.waited_for():
                self._abandon(x)

    def _abandon(self, x: Copy) -> None:
        x.left = self.t
        if self.rule.cancel == c.ENGINE_RUNS_ON:
            return
        if self.rule.cancel == c.LEAVES_QUEUE and x.state not in (c.GATEWAY, c.QUEUED):
            return
        if self.rule.cancel_lag > 0:
            self.timers.append((self.t + self.rule.cancel_lag, c.T_CANCEL, x.request, x.number))
        else:
            self.take_out(x, c.CANCELLED)

    def _error(self, x: Copy) -> None:
        if not x.waited_for():
            if x.state == c.GATEWAY:
                self.out(x, c.FAILED)
            return
        self.errors.append((self.t, True))
        call = self.calls[x.request]
        self.take_out(x, c.FAILED)
        x.left = self.t
        if call.status == c.OPEN and (call.winner is x or not any(y.waited_for() for y in call.copies)):
            self._close(call, c.ERRORED)

    # --- where to, and whether ------------------------------------------------------------------------------------

    def _outstanding(self, r: int) -> int:
        return sum(x.replica == r and c.GATEWAY <= x.state <= c.DECODE for call in self.calls for x in call.copies)

    def _allowed(self, call: Call) -> list[int]:
        used = [x.replica for x in call.copies[: call.sent]]
        pools = [self.engines[r].pool for r in used]
        return [
            r
            for r, e in enumerate(self.engines)
            if (self.rule.same_replica or r not in used) and not (self.rule.other_pool and e.pool in pools)
        ]

    def _least(self, among: list[int], pick: float) -> int:
        counts = [self._outstanding(r) for r in among]
        ties = [r for r, n in zip(among, counts, strict=True) if n == min(counts)]
        return ties[min(int(pick * len(ties)), len(ties) - 1)] if ties else -1

    def _route(self, call: Call) -> int:
        n, pick = len(self.engines), call.copies[0].pick
        if self.rule.routing == c.AS_LOGGED and call.logged >= 0:
            return call.logged
        if self.rule.routing != c.LEAST_OUTSTANDING:
            return min(int(pick * n), n - 1)
        if not self.rule.choices:
            return self._least(list(range(n)), pick)
        drawn = [min(int(u * n), n - 1) for u in call.choices[: self.rule.choices]]
        return min(drawn, key=self._outstanding)

    def _target(self, call: Call) -> int:
        among = self._allowed(call)
        pick = call.copies[call.sent].pick
        as_routed = self.rule.target == c.AS_LOGGED and self.rule.routing == c.LEAST_OUTSTANDING
        if self.rule.target == c.LEAST_OUTSTANDING or as_routed:
            return self._least(among, pick)
        return among[min(int(pick * len(among)), len(among) - 1)] if among else -1

    def _share(self, events: list[tuple[float, bool]]) -> float:
        """Share of hits in the current and the previous half window."""
        slot = self.t // HALF_WINDOW_S
        recent = [hit for at, hit in events if at // HALF_WINDOW_S in (slot, slot - 1)]
        return sum(recent) / len(recent) if recent else 0.0

    def _suppressed(self, call: Call, target: int) -> bool:
        engines, n = self.engines, len(self.engines)
        queue = engines[target].queue
        slot = self.t // HALF_WINDOW_S
        asked = sum(t // HALF_WINDOW_S in (slot, slot - 1) for t in self.asked)
        hedged = sum(t // HALF_WINDOW_S in (slot, slot - 1) for t in self.hedged)
        slow = [self._share(e.answers) > SLOW_SHARE for r, e in enumerate(engines) if r != call.copies[0].replica]
        used = sum(x.prompt + x.decoded for e in engines for x in e.batch) + sum(
            e.prefill.prompt for e in engines if e.prefill
        )
        live = {
            "queue_age": self.t - queue[0].enqueued if queue else 0.0,
            "running": sum(len(e.batch) + (e.prefill is not None) for e in engines) / n,
            "waiting": sum(len(e.queue) for e in engines) / n,
            "kv_usage": used / (n * min(self.law.kv_capacity, 1e300)),
            "reserved": sum(self.reserved(e) for e in engines) / (n * min(self.law.kv_capacity, 1e300)),
            "slow": sum(slow) / max(1, n - 1),
            "errors": self._share(self.errors),
            "hedges": hedged / asked if asked else 0.0,
        }
        above = any(live[name] > limit for name, limit in self.rule.suppress.items())
        return above or any(live[name] < limit for name, limit in self.rule.suppress_below.items())

    def _hedge(self, call: Call) -> None:
        target = self._target(call) if call.eligible else -1
        in_flight = sum(x.waited_for() for y in self.calls for x in y.copies[1:])
        if not call.eligible or target < 0:
            self.refused["ineligible"] += 1
        elif call.arrival + self.rule.deadline - self.t < call.predicted:
            self.refused["deadline"] += 1
        elif self._suppressed(call, target):
            self.refused["suppressed"] += 1
        elif self.tokens < 1.0 - EPSILON or in_flight >= self.rule.max_in_flight:
            self.refused["budget"] += 1
        else:
            self.tokens -= 1.0
            self.hedges += 1
            self.hedged.append(self.t)
            self._send(call, target)
            if call.sent < len(call.copies):
                self.timers.append((self.t + self.rule.delay, c.T_HEDGE, call.copies[0].request, 0))


def ends(jobs: Jobs, law: Law, rule: Rule) -> Reference:
    """Play `jobs` naively. For small cases only: the cost grows with tokens times attempts."""
    played = Reference(jobs, law, rule).go()
    assert all(call.status != c.OPEN for call in played.calls)
    assert not np.isnan(played.t)
    return played
