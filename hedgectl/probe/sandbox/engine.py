"""One replica in real time: queue in order of arrival, one prefill at a time that pauses decode, decode in steps.

The same law as the replay's: a prefill takes ``a + b * tokens``, a step of n sequences ``a + b * n`` and gives each
one token; everything is ``slowness`` times longer on a slow replica. A sequence is admitted if the batch has a place
and the cache has room for its prompt and its whole answer; alone it always is. Nobody overtakes.
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

    async def run(self) -> None:
        """Works for ever. A clock of its own keeps the law exact: a timer that fires late does not slow the engine."""
        clock = time.monotonic()
        while True:
            if not self._queue and not self._batch:
                self._wake.clear()
                await self._wake.wait()
                clock = time.monotonic()
            job = self._admit()
            if job is not None:
                law = self._law
                clock += (law.prefill_base_s + law.prefill_per_token_s * job.prompt_tokens) * self._slowness
                done = await _until(clock, job.gone)
                self._prefilling = None
                if done:
                    self.prompt_tokens += job.prompt_tokens
                    self._batch.append(job)
                    self._token(job)
                else:
                    clock = time.monotonic()
            else:
                step = self._law.decode_base_s + self._law.decode_per_sequence_s * len(self._batch)
                clock += step * self._slowness
                stepping = list(self._batch)
                await _until(clock, None)
                for job in stepping:
                    if not job.gone.is_set():
                        self._token(job)

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
        self.generated_tokens += 1
        last = job.made >= job.answer_tokens
        if last:
            self._batch.remove(job)
            self.finished += 1
        job.on_token(job.made, last)


async def _until(moment: float, gone: asyncio.Event | None) -> bool:
    """Sleeps until ``moment`` (monotonic); False if the job went away before."""
    wait = moment - time.monotonic()
    if gone is None:
        await asyncio.sleep(max(wait, 0.0))
        return True
    if wait > 0:
        try:
            async with asyncio.timeout(wait):
                await gone.wait()
        except TimeoutError:
            pass
    else:
        await asyncio.sleep(0)
    return not gone.is_set()
