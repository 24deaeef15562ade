"""After a loser's stream is closed: abort it in the engine where the engine can, and look whether work really stopped."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hedgectl.probe.records import AttemptRecord
from hedgectl.probe.signals import Signals

POLL_S = 0.1
WATCH_S = 3.0
LEAST_REMAINING_S = 0.3  # a loser that would have ended sooner anyway proves nothing
FALLEN_POLLS = 2  # in a row, so that one request between client and engine is not taken for a fall

Post = Callable[[str, dict[str, Any]], Awaitable[int | None]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """One cancel that was watched. ``stopped`` None = it would have ended by itself, or the gauge said nothing."""

    stopped: bool | None
    after_s: float | None  # from the cancel to the fall of the gauge
    tokens_after: float | None  # generated while nothing of ours was running


@dataclass(slots=True)
class Canceller:
    """Handles losers. ``own`` returns how many attempts of ours are in flight now.

    ``engine`` (vllm, sglang) selects the abort call; ids are whole and of one length, so none is a prefix of another
    (SGLang aborts by prefix), and the list sent to vLLM is never empty (an empty one aborts everything).
    """

    signals: Signals
    post: Post
    target: str
    own: Callable[[], int]
    engine: str | None = None
    chat: bool = True
    abort: bool = True
    aborts_sent: int = 0
    abort_missing: bool = False
    evidence: list[Evidence] = field(default_factory=list)
    others: float = 0.0  # requests of other clients on the engines, as last seen
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _watching: bool = False
    _quiet: float | None = None

    def lost(self, record: AttemptRecord, remaining_s: float | None) -> None:
        """A loser has been closed; ``remaining_s`` is how long it would probably have gone on."""
        task = asyncio.create_task(self._follow(record, remaining_s))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Waits until every cancel has been followed up."""
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def note_others(self) -> None:
        """Remembers how much of the engines' load is not ours; called while no loser is being followed."""
        load = self._load()
        if load is not None and not self._watching:
            self.others = max(0.0, load - self.own())

    async def quiet(self, patience_s: float) -> bool:
        """Whether the engines are as they were before the first check: an earlier loser that runs on would end in this one.

        Waits at most ``patience_s``; False also if there is nothing to see.
        """
        until = time.monotonic() + patience_s
        while True:
            load = self._load() if await self.signals.read() is not None else None
            if load is None:
                return False
            if self._quiet is None or load <= self._quiet + 0.5:
                self._quiet = self.others = load
                return True
            if time.monotonic() >= until:
                return False
            await asyncio.sleep(POLL_S)

    def _load(self) -> float | None:
        found = self.signals.latest
        if found is None or found.running is None:
            return None
        return found.running + (found.waiting or 0.0)

    async def _follow(self, record: AttemptRecord, remaining_s: float | None) -> None:
        if self.abort and not self.abort_missing:
            await self._abort(record)
        # Two losers at once cannot be told apart on a gauge: the second is not watched.
        if not self.signals.visible or self._watching:
            return
        self._watching = True
        try:
            self.evidence.append(await self.watch(record, remaining_s))
        finally:
            self._watching = False

    async def _abort(self, record: AttemptRecord) -> None:
        if self.engine == "sglang":
            path, body = "/abort_request", {"rid": record.attempt_id}
        elif self.engine == "vllm":
            name = f"chatcmpl-{record.attempt_id}" if self.chat else f"cmpl-{record.attempt_id}-0"
            path, body = "/abort_requests", {"request_ids": [name]}  # type: ignore[dict-item]
        else:
            return
        parts = urlsplit(self.target)
        status = await self.post(urlunsplit((parts.scheme, parts.netloc, path, "", "")), body)
        if status is not None and 200 <= status < 300:
            self.aborts_sent += 1
        else:
            self.abort_missing = True

    async def watch(self, record: AttemptRecord, remaining_s: float | None) -> Evidence:
        """Polls the gauges until the loser's share of them is gone or it is plain that it stays."""
        began = record.cancelled_ns or time.monotonic_ns()
        if remaining_s is None or remaining_s < LEAST_REMAINING_S:
            return Evidence(None, None, None)
        # A fall in the last half may be the natural end.
        patience = min(WATCH_S, remaining_s / 2)
        low = 0
        fell_at: float | None = None
        polls = 0
        idle_tokens: float | None = None
        last_tokens: float | None = None
        while (passed := (time.monotonic_ns() - began) / 1e9) < patience:
            before = self.own()
            found = await self.signals.read()
            own = max(before, self.own())
            if found is not None and found.running is not None:
                polls += 1
                load = found.running + (found.waiting or 0.0)
                if load - own - self.others < 0.5:
                    low += 1
                    fell_at = fell_at if fell_at is not None else passed
                    if low >= FALLEN_POLLS:
                        return Evidence(True, fell_at, idle_tokens)
                else:
                    low, fell_at = 0, None
                if own == 0 and self.others < 0.5 and found.tokens is not None:
                    if last_tokens is not None:
                        idle_tokens = (idle_tokens or 0.0) + max(0.0, found.tokens - last_tokens)
                    last_tokens = found.tokens
                else:
                    last_tokens = None
            await asyncio.sleep(POLL_S)
        return Evidence(False if polls >= FALLEN_POLLS else None, None, idle_tokens)

    def verdict(self) -> dict[str, Any]:
        """``engine_stopped`` with the evidence in words."""
        known = [e for e in self.evidence if e.stopped is not None]
        stopped = [e for e in known if e.stopped]
        if not known:
            why = "no loser was cancelled" if not self.evidence else "the losers would have ended by themselves"
            if not self.signals.visible:
                why = "no engine metrics can be seen from here"
            return {"engine_stopped": "unknown", "assume": "unknown", "evidence": why, "watched": 0, "stopped": 0}
        falls = [e.after_s for e in stopped if e.after_s is not None]
        if len(stopped) == len(known):
            answer = "yes"
            within = max(falls, default=0.0)
            shown = f"{within:.1f} s" if within >= 1 else f"{max(1, round(within * 1000))} ms"
            text = f"running requests fell within {shown} of the cancel"
            text += f" in {len(stopped)} of {len(known)}"
        elif not stopped:
            answer = "no"
            text = f"running requests did not fall after the cancel in {len(known)} of {len(known)}"
            made = [e.tokens_after for e in known if e.tokens_after]
            if made:
                text += (
                    f"; the engines went on to make {statistics.fmean(made):.0f} tokens with nothing of ours running"
                )
        else:
            answer = "unknown"
            text = f"running requests fell after the cancel in {len(stopped)} of {len(known)}"
        return {
            "engine_stopped": answer,
            "assume": {"yes": "frees_engine", "no": "engine_runs_on"}.get(answer, "unknown"),  # for --cancel
            "evidence": text,
            "watched": len(known),
            "stopped": len(stopped),
        }
