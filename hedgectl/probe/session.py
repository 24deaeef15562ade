"""One probe run: owns connections, caps, budget, signals and every record; sends the plan and accounts for all of it."""

from __future__ import annotations

import asyncio
import secrets as random_bytes
import ssl
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hedgectl.probe import attempt, hedged, schedule
from hedgectl.probe.budget import HedgeBudget
from hedgectl.probe.cancel import Canceller
from hedgectl.probe.caps import Ledger
from hedgectl.probe.eligibility import eligible, in_hours
from hedgectl.probe.lanes import LanePool
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.records import AttemptRecord, CallRecord, Cause
from hedgectl.probe.schedule import HEDGED, Planned
from hedgectl.probe.settings import ProbeSettings
from hedgectl.probe.signals import Signals, default_urls
from hedgectl.probe.wire import Ask, Prompt

RECENT = 20  # requests whose share of failures may stop the run


class Session:
    """Runs one plan. Also the ``Launcher`` of its hedged calls. Use ``run`` once."""

    def __init__(
        self,
        settings: ProbeSettings,
        *,
        on_progress: Callable[[str], None] | None = None,
        sink: Callable[[CallRecord, str], None] | None = None,
    ) -> None:
        self.settings = settings
        self._progress = on_progress
        self._sink = sink
        self._url = settings.provider.resolve(settings.url)
        self._hedge_url = settings.provider.resolve(settings.hedge_url) if settings.hedge_url else self._url
        # Copies never share a pool with primaries: a stalled connection must not hold up its own rescue.
        urls = (self._url, self._hedge_url, *(settings.metrics or ()))
        # One context for all: loading the certificates costs more than a request. None is needed on plain http.
        secure = any(url.startswith("https:") for url in urls)
        self._context: ssl.SSLContext | bool = ssl.create_default_context(cafile=settings.ca_file) if secure else False
        self._lanes, self._hedge_lanes = (LanePool(self._context, http2=settings.http2) for _ in range(2))
        self.ledger = Ledger(settings.caps, settings.prices, settings.answer_tokens)
        self.budget = HedgeBudget(
            settings.budget_ratio, settings.budget_burst, settings.hedges_in_flight, settings.caps.hedges
        )
        self._run_id = random_bytes.token_hex(5)
        self._serial = 0
        self._stop = asyncio.Event()
        self._at_once = asyncio.Event()
        self._stopped: str | None = None
        self._flying: dict[str, AttemptRecord] = {}
        self._kept: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._errors_in_a_row = 0
        self._recent: deque[bool] = deque(maxlen=RECENT)  # failed or not
        self._rate_limited = 0
        self._failure: BaseException | None = None
        self._suppressed_by: dict[str, int] = {}
        self._decode_s: list[float] = []
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._model = settings.model or ""
        self._engine_id = False
        self._epoch_ns = time.time_ns() - time.monotonic_ns()
        self.outcome: Outcome | None = None

    # --- the run ------------------------------------------------------------------------------------------------------

    async def run(self) -> Outcome:
        """Sends the plan and returns when every attempt is accounted for. Raises UnreachableError if nothing answers."""
        from hedgectl.probe.control import Control  # imports httpx

        s = self.settings
        control = Control(self._context)
        signals = Signals(
            s.suppress,
            control.get,
            default_urls(self._url) if s.metrics is None else s.metrics,
            every_s=s.metrics_every_s,
        )
        canceller = Canceller(
            signals,
            control.post,
            self._url,
            own=lambda: len(self._flying),
            chat=s.provider.name == "openai",
            abort=s.abort and s.rules.cancel_losers,
        )
        self.signals, self.canceller = signals, canceller
        try:
            await signals.start()
            canceller.engine = s.engine or (signals.latest.engine if signals.latest else None)
            self._engine_id = canceller.engine == "sglang"
            if not self._model:
                found = await control.first_model(s.provider, s.url, s.secrets)
                self._model = s.secrets.clean(found) or ""
            blocks = s.arms == "blocks" or (
                s.arms == "auto" and schedule.own_share(s.rates, s.answer_tokens, signals.latest) > schedule.OWN_SHARE
            )
            plan = self.plan(blocks)
            outcome = Outcome(s, self._run_id, self._model, self._epoch_ns, plan, blocks)
            self.outcome = outcome
            s.provider.request(self._ask(self._url, s.prompts[0], "-", s.secrets.key))  # a wrong setting fails here
            await self._send(plan, outcome)
            if self._failure is not None:
                raise self._failure
            for _ in range(s.check_cancel):
                if self._stop.is_set():
                    break
                await self._check_cancel(outcome)
            await canceller.close()
            return self._close_books(outcome, signals, canceller)
        finally:
            await self._abandon()
            await canceller.close()
            await signals.close()
            await self._lanes.close()
            await self._hedge_lanes.close()
            await control.close()

    def plan(self, blocks: bool) -> list[Planned]:
        """The schedule of this run."""
        s = self.settings
        return schedule.make(
            requests=max(0, min(s.requests, s.caps.requests) - s.check_cancel),
            rates=s.rates,
            seed=s.seed,
            blocks=blocks,
            block_s=s.block_s,
            warm_up=s.warm_up,
            duration_s=s.duration_s,
            uniform=s.uniform,
        )

    def stop(self, reason: str, *, at_once: bool = False) -> None:
        """Sends nothing more. What is in flight ends by itself, or ``at_once``: closed and accounted for as censored."""
        if not self._stop.is_set():
            self._stopped = reason
            self._stop.set()
        if at_once:
            self._at_once.set()

    async def _send(self, plan: Sequence[Planned], outcome: Outcome) -> None:
        start = time.monotonic_ns() + 50_000_000  # room for the first timer
        until = None if self.settings.caps.time_s is None else start + round(self.settings.caps.time_s * 1e9)
        for planned in plan:
            due = start + planned.offset_ns
            if until is not None and due >= until:
                self.stop("time")
            if not await self._sleep_until(min(due, until or due)):
                break
            if not await self._slot():
                break
            call = CallRecord(
                planned.index,
                self._request_id(planned.index),
                planned.arm,
                planned.rate_per_s,
                due,
                planned.pair,
                planned.warm_up,
            )
            if not self._launch(call, outcome):
                self._slots.release()
                break
        await self._wait_for_all(until)

    async def _sleep_until(self, due_ns: int) -> bool:
        """Waits for a planned start; False if the run was stopped meanwhile."""
        wait = (due_ns - time.monotonic_ns()) / 1e9
        if wait > 0:
            try:
                async with asyncio.timeout(wait):
                    await self._stop.wait()
            except TimeoutError:
                pass
        return not self._stop.is_set()

    async def _slot(self) -> bool:
        """A place among the calls in flight; False if the run was stopped while all were taken."""
        while not self._stop.is_set():
            try:
                async with asyncio.timeout(0.05):
                    await self._slots.acquire()
                return True
            except TimeoutError:
                continue
        return False

    def _launch(self, call: CallRecord, outcome: Outcome) -> bool:
        first = self._new_record(0, "primary")
        refused = self.ledger.admit(first, self._prompt(call), logical=True)
        if refused is not None:
            self.stop(f"cap_{refused}")
            return False
        outcome.calls.append(call)
        task = asyncio.create_task(self._call(call, first))
        self._tasks.add(task)
        task.add_done_callback(self._call_done)
        return True

    def _call_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (failure := task.exception()) is not None:
            self._failure = failure  # ours, not the target's: raised once everything is closed
            self.stop("internal", at_once=True)

    async def _call(self, call: CallRecord, first: AttemptRecord) -> None:
        rules = self.settings.rules
        try:
            if call.arm == HEDGED:
                self.budget.arrived()
                sink = None if self._sink is None else (lambda text: self._sink(call, text))  # type: ignore[misc]
                await hedged.hedged_call(call, rules, self, first, sink)
            else:
                await hedged.unhedged_call(call, rules, self, first)
        finally:
            self._slots.release()
            for record in call.attempts:
                if record.status is not None:
                    self.ledger.settle(record)
            if first.attempt_id not in {a.attempt_id for a in call.attempts}:
                # Cancelled before its first step: nothing was sent, and it is accounted for as such.
                first.settle("censored", "client_gone", time.monotonic_ns())
                call.attempts.append(first)
                call.status, call.error_kind, call.ended_ns = "censored", "client_gone", first.ended_ns
                self.ledger.settle(first)
            self._ended(call)

    def _ended(self, call: CallRecord) -> None:
        failed = call.status != "ok"
        self.signals.call_ended(hedged_arm=call.arm == HEDGED, copied=call.hedges > 0, failed=failed)
        self.canceller.note_others()
        if call.error_kind == "client_gone":
            return
        for record in call.attempts:
            if record.error_kind == "rate_limited":
                self._rate_limited += 1
        self._errors_in_a_row = self._errors_in_a_row + 1 if failed else 0
        self._recent.append(failed)
        many = len(self._recent) == RECENT and sum(self._recent) > RECENT * self.settings.stop_error_share
        if self._rate_limited >= self.settings.stop_after_429:
            self.stop("rate_limited")
        elif self._errors_in_a_row >= self.settings.stop_after_errors or many:
            self.stop("errors")
        won = call.winning
        if won is not None and won.status == "ok" and won.first_token_ns is not None and won.ended_ns is not None:
            self._decode_s.append((won.ended_ns - won.first_token_ns) / 1e9)
        if self._progress is not None and self.outcome is not None:
            done = sum(c.status is not None for c in self.outcome.calls)
            self._progress(f"{done} of {len(self.outcome.plan)} requests, {self.budget.sent} copies")

    async def _wait_for_all(self, until: int | None) -> None:
        """Until every call has ended, or the time is up, or somebody wants it to end at once."""
        at_once = asyncio.create_task(self._at_once.wait())
        try:
            while self._tasks or self._kept:
                left = None if until is None else max(0.0, (until - time.monotonic_ns()) / 1e9)
                waiting: list[asyncio.Task[Any]] = [*self._tasks, *self._kept, at_once]
                done, _ = await asyncio.wait(waiting, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    self.stop("time", at_once=True)
                if self._at_once.is_set():
                    await self._abandon()
        finally:
            at_once.cancel()

    async def _abandon(self) -> None:
        """Closes whatever is in flight and waits until it is settled."""
        for task in [*self._tasks, *self._kept]:
            task.cancel()
        if self._tasks or self._kept:
            await asyncio.wait([*self._tasks, *self._kept])

    def _close_books(self, outcome: Outcome, signals: Signals, canceller: Canceller) -> Outcome:
        outcome.stopped = self._stopped
        outcome.cancel = canceller.verdict()
        outcome.enforced = [
            {"signal": r.signal, "op": r.op, "value": r.value, "stand_in": r.source == "probe"}
            for r in signals.enforced
        ]
        outcome.not_enforced = [r.signal for r in signals.not_enforced]
        outcome.stand_in = signals.stand_in
        outcome.engine = canceller.engine
        outcome.metrics_seen = signals.visible
        outcome.aborts_sent, outcome.abort_missing = canceller.aborts_sent, canceller.abort_missing
        outcome.tokens_booked, outcome.spend_booked = self.ledger.tokens, self.ledger.spend
        outcome.opened_connections = self._lanes.opened + self._hedge_lanes.opened
        outcome.suppressed_by = dict(self._suppressed_by)
        return outcome

    # --- what a hedged call needs (hedged.Launcher) -------------------------------------------------------------------

    def refuse_copy(self, call: CallRecord) -> str | None:
        if self._stop.is_set():
            return "budget"
        if not self._eligible(call):
            return "ineligible"
        signal = self.signals.suppressed()
        if signal is not None:
            self._suppressed_by[signal] = self._suppressed_by.get(signal, 0) + 1
            return "suppressed"
        return "budget" if self.budget.take() is not None else None

    def copy_landed(self) -> None:
        self.budget.landed()

    def record(self, call: CallRecord, number: int, cause: Cause) -> AttemptRecord | None:
        record = self._new_record(number, cause)
        return record if self.ledger.admit(record, self._prompt(call), logical=False) is None else None

    async def send(self, call: CallRecord, record: AttemptRecord, race: hedged.Race, until_ns: int) -> None:
        copy = record.cause == "hedge"
        url = self._hedge_url if copy else self._url
        secrets = self.settings.hedge_secrets if copy else self.settings.secrets
        wire = self.settings.provider.request(self._ask(url, self._prompt(call), record.attempt_id, secrets.key))
        extra = secrets.headers
        if record.number > 0:
            # For gateways that keep copies apart; others pass it over.
            extra = (*extra, ("x-hedge-of", call.attempts[0].attempt_id))
        if extra:
            wire = replace(wire, headers=(*wire.headers, *extra))
        self._flying[record.attempt_id] = record
        try:
            pool = self._hedge_lanes if copy else self._lanes
            await attempt.run(
                self.settings.provider, wire, pool, record, race, stream=self.settings.stream, until_ns=until_ns
            )
        finally:
            self._flying.pop(record.attempt_id, None)
            record.replica = secrets.clean(record.replica)
            self.ledger.settle(record)
            if record.error_kind == "rate_limited":
                self.signals.rate_limited(record.retry_after_s)

    def lost(self, call: CallRecord, record: AttemptRecord) -> None:
        if self._decode_s:
            typical = sorted(self._decode_s)[len(self._decode_s) // 2]
            shown = record.first_token_ns
            passed = 0.0 if shown is None or record.cancelled_ns is None else (record.cancelled_ns - shown) / 1e9
            self.canceller.lost(record, max(0.0, typical - passed))
        else:
            self.canceller.lost(record, None)

    def keep(self, task: asyncio.Task[None]) -> None:
        self._kept.add(task)
        task.add_done_callback(self._kept.discard)

    # --- small parts --------------------------------------------------------------------------------------------------

    def _ask(self, url: str, prompt: Prompt, attempt_id: str, key: str | None) -> Ask:
        s = self.settings
        return Ask(url, self._model, prompt, s.stream, s.answer_tokens, attempt_id, key, self._engine_id)

    def _prompt(self, call: CallRecord) -> Prompt:
        return self.settings.prompts[call.index % len(self.settings.prompts)]

    def _eligible(self, call: CallRecord) -> bool:
        s = self.settings
        if s.windows and not in_hours(call, s.windows, self._epoch_ns):
            return False
        return eligible(self._prompt(call), s.eligible, streamed=s.stream)

    def _new_record(self, number: int, cause: Cause) -> AttemptRecord:
        # Ids of one length: SGLang aborts by prefix, so none may be a prefix of another.
        self._serial += 1
        return AttemptRecord(f"hpa-{self._run_id}-{self._serial:08d}", number, cause, time.monotonic_ns())

    async def _check_cancel(self, outcome: Outcome) -> None:
        """Sends one long request into the quiet, closes it after its second token and watches the engines."""
        if not await self.canceller.quiet(self.settings.rules.attempt_s):
            return
        number = len(outcome.plan) + len(outcome.checks)
        call = CallRecord(
            number, self._request_id(number), schedule.UNHEDGED, self.settings.rates[-1], time.monotonic_ns(), -1, True
        )
        first = self._new_record(0, "primary")
        if self.ledger.admit(first, self._prompt(call), logical=True) is not None:
            return
        outcome.checks.append(call)
        task = asyncio.create_task(hedged.unhedged_call(call, self.settings.rules, self, first))
        while not task.done() and first.pieces < 2:  # the attempt's own deadline ends it
            await asyncio.wait([task], timeout=0.005)
        seen = time.monotonic_ns()
        task.cancel()
        await asyncio.wait([task])
        if first.error_kind == "client_gone" and first.first_token_ns is not None:
            gap_s = (seen - first.first_token_ns) / 1e9 / max(first.pieces - 1, 1)
            self.canceller.lost(first, gap_s * (self.settings.answer_tokens - first.pieces))
            await self.canceller.close()

    def _request_id(self, number: int) -> str:
        return f"hp-{self._run_id}-{number:07d}"
