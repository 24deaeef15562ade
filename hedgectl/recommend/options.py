"""What a user may fix about a recommendation, and what a target can do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hedgectl import quantiles
from hedgectl.config import Config
from hedgectl.cost import Billing
from hedgectl.errors import UsageError
from hedgectl.model import CancelBehaviour
from hedgectl.policy import Budget, Goal, PolicyDocument
from hedgectl.recommend.delay import Limits
from hedgectl.recommend.goal import parts
from hedgectl.recommend.ready import Ready

CopyLengthChoice = Literal["same", "independent", "both"]
Progress = Callable[[str, float], None]  # stage in words, share of it that is done

# What each kind of target sees end: Envoy and gRPC stop the clock at response headers, and so does an HTTP handler chain
# such as Polly's; a client of our own sees whatever it reads.
TARGET_TRIGGERS: Mapping[str, tuple[str, ...]] = {
    "envoy": ("response_headers",),
    "grpc": ("response_headers",),
    "polly": ("response_headers",),
    "client": ("first_token", "response"),
}


@dataclass(frozen=True, slots=True)
class Options:
    """Everything `recommend` can be told. Ratios are shares of 1; times in seconds."""

    goal: Goal = field(default_factory=Goal)
    budget: Budget | None = field(default_factory=Budget)  # None = no cap asked for
    target: str | None = None  # --for
    policy: PolicyDocument | None = None  # price this one instead of searching
    by_route: bool = False  # one decision a model and route, else one a model
    by_size: bool = False  # one a class of prompt size, where the log has enough of each
    ready: Ready | None = None  # the time that a caller has anyway
    cancel: CancelBehaviour = "unknown"
    copy_length: CopyLengthChoice = "both"
    limits: Limits = field(default_factory=Limits)
    deadline_s: float | None = None
    min_requests: int | None = None  # None = what the goal's percentile needs
    prices: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    loser_billing: Billing = "full"
    config: Config | None = None  # says what the engines are; None = the screen decides
    segments: tuple[str, ...] = ()  # declared: only these may have a copy; empty = all
    allow_tools: tuple[str, ...] = ()  # names of tools that may run twice
    max_prompt_tokens: int | None = None
    quota_rpm: float | None = None  # requests a minute that the provider allows
    quota_tpm: float | None = None  # tokens a minute
    one_clock: bool = False  # first tokens are trusted although some stand before their start
    windows: bool = False  # hedge only in the hours in which slow requests recur
    tz: str | None = None  # in which those hours are looked for
    seed: int = 1
    progress: Progress | None = None

    def triggers(self) -> tuple[str, ...] | None:
        """The triggers that the target can wait for; None = any. Raises UsageError for an unknown target."""
        if self.target is None:
            return None
        found = TARGET_TRIGGERS.get(self.target)
        if found is None:
            raise UsageError(f"--for {self.target} is not known", hint=f"one of: {', '.join(TARGET_TRIGGERS)}")
        return found

    def can_watch(self, signal: str) -> bool:
        """Whether the target can hold a copy back on this live signal; without --for everything is assumed."""
        if self.target is None:
            return True
        from hedgectl import emitters

        return signal in emitters.target(self.target).traits.signals

    def needed(self) -> int:
        """Answered requests below which nothing is recommended."""
        return quantiles.needed(parts(self.goal)[1]) if self.min_requests is None else self.min_requests

    def say(self, stage: str, share: float) -> None:
        """Reports progress, if anybody listens."""
        if self.progress is not None:
            self.progress(stage, share)
