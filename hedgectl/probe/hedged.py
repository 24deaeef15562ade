"""The hedged call: one deadline, a copy when the trigger is late, first success wins, the loser never reaches the output.

Model for its size: tower's hedge. The rules:
- the delay counts from the send, the deadline from the planned start;
- a copy is sent only if the primary is still silent: a fast failure is never hedged (it may be retried, if asked);
- whoever reaches the commit point first wins; from then on its output is delivered and it is never switched;
- a failure never wins; the call fails when every attempt has.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from hedgectl.probe.records import AttemptRecord, CallRecord, Cause
from hedgectl.probe.wire import Piece

Sink = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class HedgeRules:
    """How one call is made. Seconds."""

    trigger: str  # first_token | response | response_headers
    commit: str  # the same three: what an attempt must reach to win
    delay_s: float
    total_s: float  # from the planned start, for all attempts
    attempt_s: float  # from each attempt's own start
    max_attempts: int = 2
    retry: bool = False  # answer a fast failure with another attempt, out of the same budget
    cancel_losers: bool = True


class Launcher(Protocol):
    """What the call needs from the session that owns connections, caps, budget and signals."""

    def refuse_copy(self, call: CallRecord) -> str | None:
        """Takes a copy out of the budget, or names what forbids it: budget, suppressed, ineligible."""
        ...

    def copy_landed(self) -> None: ...

    def record(self, call: CallRecord, number: int, cause: Cause) -> AttemptRecord | None:
        """Books an attempt under the caps; None if a cap forbids it."""
        ...

    async def send(self, call: CallRecord, record: AttemptRecord, race: Race, until_ns: int) -> None:
        """Runs one attempt (``attempt.run``)."""
        ...

    def lost(self, call: CallRecord, record: AttemptRecord) -> None:
        """An attempt was cancelled because another won."""
        ...

    def keep(self, task: asyncio.Task[None]) -> None:
        """Takes over a loser that is allowed to run on."""
        ...


class Race:
    """Decides who wins; hears every attempt (``attempt.Listener``) and lets only the winner's text through."""

    __slots__ = ("_buffers", "_rules", "_sink", "changed", "running", "triggered", "winner")

    def __init__(self, rules: HedgeRules, sink: Sink | None) -> None:
        self._rules = rules
        self._sink = sink
        self._buffers: dict[str, list[str]] = {}
        self.changed = asyncio.Event()
        self.running: dict[str, tuple[AttemptRecord, asyncio.Task[None]]] = {}
        self.triggered = False
        self.winner: AttemptRecord | None = None

    def headers(self, record: AttemptRecord) -> bool:
        self._reached("response_headers")
        return self._go_on(record, self._rules.commit == "response_headers")

    def piece(self, record: AttemptRecord, piece: Piece) -> bool:
        self._reached("first_token")
        if not self._go_on(record, self._rules.commit == "first_token"):
            return False
        if self._sink is not None and piece.text:
            if self.winner is record:
                self._sink(piece.text)
            elif self.winner is None:
                self._buffers.setdefault(record.attempt_id, []).append(piece.text)
        return True

    def complete(self, record: AttemptRecord) -> bool:
        self._reached("response")
        return self._go_on(record, True)

    def _reached(self, milestone: str) -> None:
        if milestone == self._rules.trigger and not self.triggered:
            self.triggered = True
            self.changed.set()

    def _go_on(self, record: AttemptRecord, at_commit: bool) -> bool:
        if self.winner is None and at_commit:
            self.winner = record
            # Losers first: their connections are closed before the winner's next byte is read.
            if self._rules.cancel_losers:
                for other, task in self.running.values():
                    if other is not record:
                        task.cancel()
            if self._sink is not None:
                for text in self._buffers.pop(record.attempt_id, ()):
                    self._sink(text)
            self._buffers.clear()
            self.changed.set()
        return self.winner is None or self.winner is record or not self._rules.cancel_losers

    def ended(self, attempt_id: str) -> None:
        self.running.pop(attempt_id, None)
        self._buffers.pop(attempt_id, None)
        self.changed.set()


async def unhedged_call(call: CallRecord, rules: HedgeRules, launcher: Launcher, first: AttemptRecord) -> None:
    """One attempt without a copy, in the caller's own task."""
    race = Race(rules, None)
    call.sent_ns = first.started_ns = time.monotonic_ns()
    call.attempts.append(first)
    first.cancel_kind = "client_gone"
    try:
        await launcher.send(call, first, race, _until(call, first, rules))
    finally:
        _finish(call, race)


async def hedged_call(
    call: CallRecord, rules: HedgeRules, launcher: Launcher, first: AttemptRecord, sink: Sink | None = None
) -> None:
    """Runs one logical request; ``call`` holds the outcome. Raises only CancelledError, with everything settled.

    ``sink`` gets the winner's text, piece by piece, and never a byte of a loser.
    """
    race = Race(rules, sink)
    call.sent_ns = time.monotonic_ns()
    _start(call, first, race, launcher, rules)
    loop = asyncio.get_running_loop()
    due: float | None = loop.time() + rules.delay_s if rules.max_attempts > 1 else None
    try:
        while race.running and race.winner is None:
            race.changed.clear()
            if race.triggered:
                due = None
            try:
                async with asyncio.timeout_at(due):
                    await race.changed.wait()
            except TimeoutError:
                due = None
                if race.winner is None and not race.triggered and race.running:
                    sent = _copy(call, race, launcher, rules, "hedge")
                    if sent and len(call.attempts) < rules.max_attempts:
                        due = loop.time() + rules.delay_s
                continue
            if not race.running and race.winner is None and rules.retry and _may_retry(call, rules):
                _copy(call, race, launcher, rules, "retry")
        await _rest(race, rules, launcher)
    except asyncio.CancelledError:
        await _abandon(race)
        raise
    finally:
        _finish(call, race)
        for record in call.attempts:
            if record.error_kind == "loser":
                launcher.lost(call, record)


def _until(call: CallRecord, record: AttemptRecord, rules: HedgeRules) -> int:
    return min(record.started_ns + round(rules.attempt_s * 1e9), call.planned_ns + round(rules.total_s * 1e9))


def _start(call: CallRecord, record: AttemptRecord, race: Race, launcher: Launcher, rules: HedgeRules) -> None:
    record.started_ns = time.monotonic_ns()
    call.attempts.append(record)
    task = asyncio.create_task(launcher.send(call, record, race, _until(call, record, rules)))
    race.running[record.attempt_id] = (record, task)
    is_copy = record.cause != "primary"

    def ended(done: asyncio.Task[None]) -> None:
        if not done.cancelled():
            done.exception()  # attempts settle their own failures; a bug must not turn into a warning at exit
        if is_copy:
            launcher.copy_landed()
        if record.status is None:
            # Cancelled before its first step: the request never left.
            record.settle("censored", record.cancel_kind, time.monotonic_ns())
        race.ended(record.attempt_id)

    task.add_done_callback(ended)


def _copy(call: CallRecord, race: Race, launcher: Launcher, rules: HedgeRules, cause: Cause) -> bool:
    now = time.monotonic_ns()
    if now >= call.planned_ns + round(rules.total_s * 1e9):
        call.refused = "deadline"
        return False
    call.refused = launcher.refuse_copy(call)
    if call.refused is not None:
        return False
    record = launcher.record(call, len(call.attempts), cause)
    if record is None:
        launcher.copy_landed()
        call.refused = "budget"
        return False
    _start(call, record, race, launcher, rules)
    return True


def _may_retry(call: CallRecord, rules: HedgeRules) -> bool:
    last = call.attempts[-1]
    return len(call.attempts) < rules.max_attempts and last.status == "error" and last.error_kind != "rate_limited"


async def _rest(race: Race, rules: HedgeRules, launcher: Launcher) -> None:
    """Waits for the winner to finish and for cancelled losers to be gone."""
    tasks = []
    for record, task in list(race.running.values()):
        if rules.cancel_losers or record is race.winner:
            tasks.append(task)
        else:
            launcher.keep(task)
    if tasks:
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # let the done callbacks settle


async def _abandon(race: Race) -> None:
    """The caller goes away: every attempt is cancelled and accounted for before that goes on."""
    running = list(race.running.values())
    for record, task in running:
        record.cancel_kind = "client_gone"
        task.cancel()
    if running:
        await asyncio.wait([task for _, task in running])
        await asyncio.sleep(0)


def _finish(call: CallRecord, race: Race) -> None:
    """Derives the caller's outcome from the attempts."""
    call.ended_ns = time.monotonic_ns()
    if race.winner is not None:
        call.winner = call.attempts.index(race.winner)
        call.status, call.error_kind = race.winner.status, race.winner.error_kind
        call.ended_ns = race.winner.ended_ns or call.ended_ns
        return
    settled = [a for a in call.attempts if a.status is not None]
    timed_out = next((a for a in settled if a.status == "censored"), None)
    # One attempt that ran into the deadline makes the call a lower bound; else the first failure is the caller's error.
    worst = timed_out or (settled[0] if settled else None)
    call.status = worst.status if worst else "censored"
    call.error_kind = worst.error_kind if worst else "client_gone"
