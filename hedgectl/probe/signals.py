"""Live conditions under which no copy is sent: the engines' load, our own errors and hedge rate, a server's Retry-After."""

from __future__ import annotations

import asyncio
import contextlib
import operator
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from hedgectl.policy import Suppress
from hedgectl.probe import gauges
from hedgectl.probe.gauges import Gauges

_OPS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FROM_ENGINE = {
    "running_requests_per_replica": "running",
    "waiting_requests_per_replica": "waiting",
    "kv_cache_usage_ratio": "kv",
}
_OWN = ("error_ratio", "hedge_rate")
# Where a signal of the policy cannot be seen: on average, a request waits for each engine.
STAND_IN = Suppress(
    "waiting_requests_per_replica", ">=", 1.0, "stands in for a signal that cannot be seen here", "probe"
)
WINDOW_S = 30.0  # of our own error ratio and hedge rate
LEAST = 20  # requests in that window below which neither is a ratio worth acting on
STALE_POLLS = 4  # missed polls after which a signal counts as gone: then no copy is sent

Get = Callable[[str], Awaitable[str | None]]


@dataclass(slots=True)
class Signals:
    """Watches what can be seen and answers ``suppressed``.

    ``get`` fetches a page (None = not there). After ``start``, ``enforced`` and ``not_enforced`` say which of the
    policy's conditions are live here.
    """

    rules: Sequence[Suppress]
    get: Get
    urls: Sequence[str]
    every_s: float = 0.5
    enforced: list[Suppress] = field(default_factory=list)
    not_enforced: list[Suppress] = field(default_factory=list)
    stand_in: bool = False
    latest: Gauges | None = None
    _read_ns: int = 0
    _seen: list[str] = field(default_factory=list)
    _own: deque[tuple[int, bool, bool, bool]] = field(default_factory=deque)
    _blocked_until_ns: int = 0
    _task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Finds out which pages exist, reads them once, and keeps reading in the background."""
        for url in self.urls:
            page = await self.get(url)
            found = None if page is None else gauges.read(page)
            if found is not None:
                self._seen.append(url)
                self._store(found if self.latest is None else self.latest.plus(found))
        for rule in self.rules:
            visible = rule.signal in _OWN or self._engine(rule.signal) is not None
            (self.enforced if visible else self.not_enforced).append(rule)
        waiting_seen = self._engine(STAND_IN.signal) is not None
        if self.not_enforced and waiting_seen and not any(r.signal == STAND_IN.signal for r in self.enforced):
            self.enforced.append(STAND_IN)
            self.stand_in = True
        if self._seen:
            self._task = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stops reading."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def read(self) -> Gauges | None:
        """Reads all pages now."""
        pages = await asyncio.gather(*(self.get(url) for url in self._seen))
        found = [g for page in pages if page is not None and (g := gauges.read(page)) is not None]
        if not found or len(found) < len(self._seen):
            return None
        whole = found[0]
        for more in found[1:]:
            whole = whole.plus(more)
        self._store(whole)
        return whole

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.every_s)
            await self.read()

    def _store(self, found: Gauges) -> None:
        self.latest, self._read_ns = found, time.monotonic_ns()

    @property
    def visible(self) -> bool:
        """Whether any engine page was found."""
        return bool(self._seen)

    def call_ended(self, *, hedged_arm: bool, copied: bool, failed: bool) -> None:
        """Feeds our own ratios."""
        self._own.append((time.monotonic_ns(), hedged_arm, copied, failed))

    def rate_limited(self, retry_after_s: float | None) -> None:
        """A 429 was seen: no copies until the server's own time has passed (1 s if it names none)."""
        until = time.monotonic_ns() + round((1.0 if retry_after_s is None else retry_after_s) * 1e9)
        self._blocked_until_ns = max(self._blocked_until_ns, until)

    def suppressed(self) -> str | None:
        """Name of the signal that forbids a copy now, or None."""
        now = time.monotonic_ns()
        if now < self._blocked_until_ns:
            return "retry_after"
        for rule in self.enforced:
            value = self._own_ratio(rule.signal, now) if rule.signal in _OWN else self._fresh(rule.signal, now)
            if value is None and rule.signal not in _OWN:
                return rule.signal  # it was there and is gone: nobody knows how loaded the engines are
            if value is not None and _OPS[rule.op](value, rule.value):
                return rule.signal
        return None

    def _fresh(self, signal: str, now: int) -> float | None:
        age_s = (now - self._read_ns) / 1e9
        return self._engine(signal) if age_s <= STALE_POLLS * self.every_s + 1.0 else None

    def _engine(self, signal: str) -> float | None:
        if self.latest is None or signal not in _FROM_ENGINE:
            return None
        value: float | None = getattr(self.latest, _FROM_ENGINE[signal])
        return value if signal == "kv_cache_usage_ratio" else self.latest.per_replica(value)

    def _own_ratio(self, signal: str, now: int) -> float | None:
        while self._own and now - self._own[0][0] > WINDOW_S * 1e9:
            self._own.popleft()
        rows = [row for row in self._own if row[1]] if signal == "hedge_rate" else list(self._own)
        if len(rows) < LEAST:
            return None
        return sum(row[2] if signal == "hedge_rate" else row[3] for row in rows) / len(rows)


def default_urls(target: str) -> tuple[str, ...]:
    """Where an engine behind ``target`` would show its load: ``/metrics``, and TensorRT-LLM's page."""
    parts = urlsplit(target)
    return tuple(urlunsplit((parts.scheme, parts.netloc, p, "", "")) for p in ("/metrics", "/prometheus/metrics"))


def describe(rule: Suppress) -> dict[str, Any]:
    """The condition as it stands in a document."""
    return {"signal": rule.signal, "op": rule.op, "value": rule.value}
