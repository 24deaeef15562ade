"""What is remembered of every attempt and every logical request: nanoseconds on one monotonic clock, outcomes, counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from hedgectl.probe.wire import NO_USAGE, Usage

Status = Literal["ok", "error", "censored"]
Cause = Literal["primary", "hedge", "retry"]


@dataclass(slots=True)
class AttemptRecord:
    """One send. Times are ``time.monotonic_ns`` values, None = did not happen.

    ``status`` is None while the attempt runs; ``settle`` is its only writer, so that nothing is accounted twice.
    """

    attempt_id: str
    number: int
    cause: Cause
    started_ns: int
    headers_ns: int | None = None
    first_byte_ns: int | None = None
    first_token_ns: int | None = None
    first_content_ns: int | None = None
    ended_ns: int | None = None
    status: Status | None = None
    error_kind: str | None = None
    http_status: int | None = None
    retry_after_s: float | None = None
    replica: str | None = None
    connected: bool = False  # had to open a connection first
    pieces: int = 0  # stream events that carried a token
    content_chars: int = 0
    usage: Usage = NO_USAGE
    request_bytes: int = 0
    response_bytes: int = 0
    cancelled_ns: int | None = None  # when we closed it
    cancel_kind: str = "loser"  # why a cancel of its task happens: loser | client_gone
    reserved_tokens: int = 0

    def settle(self, status: Status, kind: str | None, now_ns: int) -> bool:
        """Ends the attempt once; later calls change nothing and return False."""
        if self.status is not None:
            return False
        self.status, self.error_kind = status, kind
        if self.ended_ns is None:  # else the answer's end was seen before its connection was given back
            self.ended_ns = now_ns
        return True

    @property
    def completion_tokens(self) -> int | None:
        """As reported; else the number of pieces that carried a token; None if nothing came."""
        if self.usage.completion is not None:
            return self.usage.completion
        return self.pieces or None


@dataclass(slots=True)
class CallRecord:
    """One logical request: its plan, its attempts, and what the caller got."""

    index: int
    request_id: str
    arm: str  # unhedged | hedged
    rate_per_s: float
    planned_ns: int
    pair: int  # neighbours in the plan that are compared with each other
    warm_up: bool = False
    sent_ns: int | None = None
    attempts: list[AttemptRecord] = field(default_factory=list)
    winner: int | None = None  # index in attempts
    refused: str | None = None  # why a copy that was due was not sent
    status: Status | None = None
    error_kind: str | None = None
    ended_ns: int | None = None

    @property
    def winning(self) -> AttemptRecord | None:
        """The attempt whose answer the caller got."""
        return None if self.winner is None else self.attempts[self.winner]

    @property
    def hedges(self) -> int:
        """Copies sent."""
        return sum(a.cause == "hedge" for a in self.attempts)

    @property
    def hedge_won(self) -> bool:
        """Whether a copy's answer was delivered whole."""
        found = self.winning
        return found is not None and found.cause == "hedge" and self.status == "ok"

    def since_plan(self, moment_ns: int | None) -> int | None:
        """Nanoseconds from the planned start; None if it did not happen."""
        return None if moment_ns is None else moment_ns - self.planned_ns

    @property
    def lag_ns(self) -> int | None:
        """How much later than planned the first attempt was sent: the client's own fault."""
        return self.since_plan(self.sent_ns)
