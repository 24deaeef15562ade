"""Hard caps on what a probe may send: requests, tokens, money, time. What is reserved is never exceeded."""

from __future__ import annotations

from dataclasses import dataclass

from hedgectl.probe.records import AttemptRecord
from hedgectl.probe.wire import Prompt


@dataclass(frozen=True, slots=True)
class Prices:
    """Money per million tokens; ``cached`` prompt tokens may cost less."""

    prompt: float
    completion: float
    cached: float | None = None
    currency: str = "USD"
    source: str = "flag"

    def of(self, prompt: int, completion: int, cached: int = 0) -> float:
        """Cost of one attempt; ``prompt`` includes ``cached``."""
        reduced = self.prompt if self.cached is None else self.cached
        return ((prompt - cached) * self.prompt + cached * reduced + completion * self.completion) / 1e6


@dataclass(frozen=True, slots=True)
class Caps:
    """Limits of one run; None = no limit. ``requests`` counts logical requests, warm-up included."""

    requests: int
    hedges: int
    tokens: int | None = None
    spend: float | None = None
    time_s: float | None = None


class Ledger:
    """Reserves the worst case of every attempt before it is sent and settles it when the usage is known.

    Worst case: every byte of the prompt is a token and the answer is as long as allowed. An attempt whose usage is
    never reported (a cancelled loser) keeps its worst case: it may be billed in full.
    """

    def __init__(self, caps: Caps, prices: Prices | None, answer_tokens: int) -> None:
        self._caps = caps
        self._prices = prices
        self._answer_tokens = answer_tokens
        self.requests = 0
        self.attempts = 0
        self.tokens = 0
        self.spend = 0.0
        self._held: dict[str, tuple[int, float]] = {}

    def admit(self, record: AttemptRecord, prompt: Prompt, *, logical: bool) -> str | None:
        """Books the attempt, or names the cap (``requests``, ``tokens``, ``spend``) that forbids it."""
        tokens = prompt.most_tokens + self._answer_tokens
        money = 0.0 if self._prices is None else self._prices.of(prompt.most_tokens, self._answer_tokens)
        if logical and self.requests >= self._caps.requests:
            return "requests"
        if self._caps.tokens is not None and self.tokens + tokens > self._caps.tokens:
            return "tokens"
        if self._caps.spend is not None and self.spend + money > self._caps.spend + 1e-12:
            return "spend"
        self.requests += logical
        self.attempts += 1
        self.tokens += tokens
        self.spend += money
        self._held[record.attempt_id] = (tokens, money)
        record.reserved_tokens = tokens
        return None

    def settle(self, record: AttemptRecord) -> None:
        """Replaces the reservation by what was really used, where the answer said so. Harmless if called twice."""
        held = self._held.pop(record.attempt_id, None)
        usage = record.usage
        if held is None or usage.prompt is None or usage.completion is None or record.status != "ok":
            return
        tokens, money = held
        self.tokens += usage.prompt + usage.completion - tokens
        if self._prices is not None:
            self.spend += self._prices.of(usage.prompt, usage.completion, usage.cached or 0) - money

    @property
    def open(self) -> int:
        """Attempts that are booked and not settled."""
        return len(self._held)
