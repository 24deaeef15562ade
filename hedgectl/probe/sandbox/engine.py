"""One replica in real time: queue in order of arrival, one prefill at a time that pauses decode, decode in virtual time.

The same law as the replay's: a prefill takes ``a + b * tokens``, a step of n sequences ``a + b * n`` and gives each
one token; everything is ``slowness`` times longer on a slow replica. A sequence is admitted if the batch has a place
and the cache has room for its prompt and its whole answer; alone it always is. Nobody overtakes. As in the replay a
prefill pauses decode at once, not at the end of a step: virtual time counts steps, and each sequence gets its tokens
one step apart from its own start.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Law:
    """How fast an engine is. Seconds; tokens."""

    prefill_base_s: float = 0.12
    prefill_per_token_s: float = 0.0002
    decode_base_s: float = 0.015
    decode_per_sequence_s: float = 0.001
    max_running: int = 16
    kv_capacity_tokens: int = 100_000


@dataclass(slots=True, eq=False)
class Job:
    """One sequence. ``on_token(number, last)`` is called in the loop for every token, 1-based."""

    prompt_tokens: int
    answer_tokens: int
    on_token: Callable[[int, bool], None]
    made: int = 0
    due: float = 0.0  # virtual time of its next token
    gone: asyncio.Event = field(default_factory=asyncio.Event)  # the engine should stop working on it


class Engine:
    """One replica. Call ``submit``; ``run`` does the work until it is cancelled."""

    def __init__(self, law: Law, slowness: float = 1.0) -> None:
        self._law = law
        self._slowness = slowness
        self._queue: deque[Job] = deque()
        self._batch: list[Job] = []
        self._prefilling: Job | None = None
        self._wake = asyncio.Event()
        self._steps = 0.0  # virtual time
        self.prompt_tokens = 0  # totals since start
        self.generated_tokens = 0
        self.finished = 0
        self.aborted = 0

    @property
    def running(self) -> int:
        """Admitted sequences, the one in prefill included."""
        return len(self._batch) + (self._prefilling is not None)

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @property
    def outstanding(self) -> int:
        return self.running + self.waiting

    @property
    def kv_usage(self) -> float:
        """Share of the cache that holds tokens, 0..1."""
        held = sum(job.prompt_tokens + job.made for job in self._batch)
        if self._prefilling is not None:
            held += self._prefilling.prompt_tokens
        return min(1.0, held / self._law.kv_capacity_tokens)

    def submit(self, job: Job) -> None:
        """Puts the job at the end of the queue."""
        self._queue.append(job)
        self._wake.set()

    def abort(self, job: Job) -> None:
        """Stops work on the job wherever it stands; harmless when it has ended."""
        if job.gone.is_set() or job.made >= job.answer_tokens:
            return
        job.gone.set()
        self.aborted += 1
        if job in self._queue:
            self._queue.remove(job)
        elif job in self._batch:
            self._batch.remove(job)
        self._wake.set()

    async def run(self) -> None:
        """Works for ever. A clock of its own keeps the law exact: a timer that fires late does not slow the engine."""
        clock = time.monotonic()
        while True:
            if not self._queue and not self._batch:
                self._wake.clear()
                await self._wake.wait()
                clock = time.monotonic()
            job = self._admit()
            if job is None:
                clock = await self._decode(clock)
                continue
            law = self._law
            clock += (law.prefill_base_s + law.prefill_per_token_s * job.prompt_tokens) * self._slowness
            whole = not await _event_before(clock, job.gone)
            self._prefilling = None
            if whole:
                self.prompt_tokens += job.prompt_tokens
                self._batch.append(job)
                self._token(job)
            else:
                clock = time.monotonic()

    async def _decode(self, clock: float) -> float:
        """Decodes until the next token or until something changes; returns the moment reached."""
        if not self._batch:
            return clock
        step = (self._law.decode_base_s + self._law.decode_per_sequence_s * len(self._batch)) * self._slowness
        due = min(job.due for job in self._batch)
        end = clock + (due - self._steps) * step
        self._wake.clear()
        if await _event_before(end, self._wake):
            now = min(time.monotonic(), end)
            self._steps += max(0.0, now - clock) / step
            return max(now, clock)
        self._steps = due
        for job in [job for job in self._batch if job.due <= due + 1e-9]:
            self._token(job)
        return end

    def _admit(self) -> Job | None:
        if not self._queue or len(self._batch) >= self._law.max_running:
            return None
        head = self._queue[0]
        held = sum(job.prompt_tokens + job.answer_tokens for job in self._batch)
        if self._batch and held + head.prompt_tokens + head.answer_tokens > self._law.kv_capacity_tokens:
            return None
        self._prefilling = self._queue.popleft()
        return self._prefilling

    def _token(self, job: Job) -> None:
        job.made += 1
        job.due = self._steps + 1.0
        self.generated_tokens += 1
        last = job.made >= job.answer_tokens
        if last:
            self._batch.remove(job)
            self.finished += 1
        job.on_token(job.made, last)


async def _event_before(moment: float, event: asyncio.Event) -> bool:
    """Sleeps until ``moment`` (monotonic); True at once if the event happens before."""
    wait = moment - time.monotonic()
    if wait > 0:
        try:
            async with asyncio.timeout(wait):
                await event.wait()
        except TimeoutError:
            pass
    else:
        await asyncio.sleep(0)
    return event.is_set()
