"""The hedging policy as frozen values (``hedgectl/policy.v1``): what they hold, their JSON, their identity.

Units: ``*_ms`` milliseconds as float, ``*_ratio`` shares of 1, times RFC 3339 UTC. ``None`` = not asked or not observed.
Reading and checking of JSON lives in :mod:`hedgectl.policy.reading`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Final

SCHEMA: Final = "hedgectl/policy.v1"

DECISIONS: Final = ("hedge", "do_not_hedge", "not_enough_data")
CONFIDENCES: Final = ("high", "medium", "low")
TRIGGERS: Final = ("first_token", "response", "response_headers")
CHOICES: Final = ("as_routed", "random", "least_outstanding")
LOSERS: Final = ("engine_abort", "close_stream", "none")
CANCELS: Final = ("frees_engine", "engine_runs_on", "unknown")
OPS: Final = ("=", "!=", "<", "<=", ">", ">=", "in", "not_in")
SIGNALS: Final = (
    "target_queue_age_ms",
    "running_requests_per_replica",
    "waiting_requests_per_replica",
    "kv_cache_usage_ratio",
    "reserved_kv_ratio",
    "slow_replicas_ratio",
    "error_ratio",
    "hedge_rate",
)
# Canonical columns of a request (and one derived ratio) that a rule of eligibility may name, with their kind.
ELIGIBLE_FIELDS: Final[Mapping[str, str]] = {
    "streamed": "boolean",
    "tools_offered": "boolean",
    "tool_names": "text",
    "cache_hit": "boolean",
    "stored_state": "boolean",
    "sticky_session": "boolean",
    "batch": "boolean",
    "n_choices": "number",
    "prompt_tokens": "number",
    "cached_tokens": "number",
    "cached_ratio": "number",
    "request_bytes": "number",
    "segment": "text",
    "route": "text",
    "provider": "text",
}
SWITCHBACK: Final = "switchback"


@dataclass(frozen=True, slots=True)
class Goal:
    """What was asked for: a percentile, and limits on it, on its price and on the gain worth having."""

    metric: str = "e2e_p99_ms"
    below_ms: float | None = None
    max_cost_delta_ratio: float | None = None
    min_gain_ratio: float = 0.05


@dataclass(frozen=True, slots=True)
class Scope:
    """The requests one decision speaks for; ``None`` = any."""

    model: str | None = None
    route: str | None = None
    size_class: str | None = None

    @property
    def name(self) -> str:
        """A short name for people: the parts that are set, or ``all requests``."""
        parts = [part for part in (self.model, self.route, self.size_class) if part is not None]
        return " ".join(parts) if parts else "all requests"


@dataclass(frozen=True, slots=True)
class Delay:
    """The delay on one clock. ``at_budget_ms``: where the budget's share of eligible requests would be hedged."""

    ms: float
    n: int | None = None
    quantile: float | None = None
    at_budget_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Delays:
    """One delay per clock; ``None`` = the log has no such clock."""

    first_token: Delay | None = None
    response: Delay | None = None
    response_headers: Delay | None = None

    def of(self, trigger: str) -> Delay | None:
        """The delay on the clock of ``trigger``."""
        found: Delay | None = getattr(self, trigger)
        return found


@dataclass(frozen=True, slots=True)
class DelayRule:
    """How the delay follows the log: quantile of a column plus a margin, clamped."""

    of: str
    quantile: float
    margin_ms: float
    floor_ms: float
    ceiling_ms: float


@dataclass(frozen=True, slots=True)
class Budget:
    """Cap on copies: share of requests, burst (copies), copies in flight."""

    ratio: float = 0.05
    burst: int = 100
    max_concurrent: int | None = None


@dataclass(frozen=True, slots=True)
class Deadline:
    """One clock for both copies; an attempt may take less."""

    total_ms: float
    attempt_ms: float | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """Where the copy goes."""

    different_replica: bool = True
    different_pool: bool = False
    healthy_only: bool = True
    choose: str = "as_routed"


@dataclass(frozen=True, slots=True)
class Cancel:
    """What is done to the loser, and what that was assumed to do to the engine."""

    loser: str = "engine_abort"
    assumed: str = "unknown"


@dataclass(frozen=True, slots=True)
class Hedge:
    """When a copy is sent, how many, where to, and what ends the race."""

    trigger: str
    delay_ms: float
    delays: Delays = Delays()
    delay_rule: DelayRule | None = None
    max_attempts: int = 2
    budget: Budget | None = Budget()  # None = no cap
    deadline: Deadline | None = None  # None = the caller's own
    target: Target = Target()
    cancel: Cancel = Cancel()
    commit: str = "first_token"


@dataclass(frozen=True, slots=True)
class Rule:
    """A request is eligible only if ``field op value`` holds; with what the rule keeps, costs and saves."""

    field: str
    op: str
    value: bool | float | str | tuple[str, ...]
    why: str = ""
    source: str = "default"
    keeps_ratio: float | None = None
    p99_cost_ms: float | None = None
    saves_cost_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """Hours (UTC) in which hedging is on. Days 1 (Monday) to 7; ``to`` not after ``from`` runs past midnight."""

    days: tuple[int, ...]
    start: str  # "from" in JSON
    end: str  # "to" in JSON
    why: str = ""

    @property
    def wraps(self) -> bool:
        """Whether the window ends on the day after the one it starts on."""
        return self.end <= self.start

    def within_days(self) -> tuple[Window, ...]:
        """The same hours as windows that each stay within one day; ``24:00`` stands for the end of a day."""
        if not self.wraps:
            return (self,)
        first = Window(self.days, self.start, "24:00", self.why)
        if self.end == "00:00":
            return (first,)
        return (first, Window(tuple(sorted(day % 7 + 1 for day in self.days)), "00:00", self.end, self.why))

    def holds(self, epoch_s: float) -> bool:
        """Whether a moment (UTC, seconds since 1970) lies within."""
        day, second = divmod(epoch_s, 86_400.0)
        weekday = (int(day) + 3) % 7 + 1  # 1970-01-01 was a Thursday, ISO day 4
        minute = f"{int(second) // 3600:02d}:{int(second) % 3600 // 60:02d}"
        return any(weekday in part.days and part.start <= minute < part.end for part in self.within_days())


@dataclass(frozen=True, slots=True)
class Suppress:
    """A live condition under which no copy is sent. ``source`` ``replay``: the stability rule needed it."""

    signal: str
    op: str
    value: float
    why: str = ""
    source: str = "default"


@dataclass(frozen=True, slots=True)
class Experiment:
    """Blocks of time with hedging on and off: block k is on if the first byte of sha256("seed:k") is even."""

    kind: str = SWITCHBACK
    block: str = "30m"
    seed: int = 1


@dataclass(frozen=True, slots=True)
class ScopePolicy:
    """The decision for one scope, with the argument for it. Open objects stay plain dicts."""

    scope: Scope
    decision: str
    confidence: str = "low"
    hedge: Hedge | None = None
    eligible: tuple[Rule, ...] = ()
    windows_utc: tuple[Window, ...] = ()
    suppress_when: tuple[Suppress, ...] = ()
    experiment: Experiment | None = None
    instead: tuple[dict[str, Any], ...] = ()
    reasons: tuple[dict[str, Any], ...] = ()
    projection: dict[str, Any] | None = None

    @property
    def is_on(self) -> bool:
        """Whether copies may be sent at all."""
        return self.decision == "hedge"

    def requires(self, name: str, value: bool) -> bool:
        """Whether the rules say ``name = value``."""
        return any(rule.field == name and rule.op == "=" and rule.value is value for rule in self.eligible)


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """A whole ``policy.v1`` document: one decision a scope, and the run that made it."""

    as_of: str
    policies: tuple[ScopePolicy, ...]
    ttl: str = "7d"
    goal: Goal = Goal()
    window: dict[str, Any] = field(default_factory=dict)
    coverage: dict[str, Any] = field(default_factory=dict)
    method: dict[str, Any] = field(default_factory=dict)
    notes: tuple[dict[str, Any], ...] = ()
    stated_id: str | None = None  # as read from a file; the identity itself is always computed

    def policy_id(self) -> str:
        """``sha256:`` and the hash of the canonical JSON of what a system would obey."""
        kept = ("scope", "decision", "hedge", "eligible", "windows_utc", "suppress_when", "experiment")
        policies = [{key: entry[key] for key in kept} for entry in map(scope_document, self.policies)]
        text = json.dumps(
            {"goal": _plain(self.goal), "policies": policies},
            sort_keys=True,
            separators=(",", ":"),
            ensure_ascii=False,
            allow_nan=False,
        )
        return "sha256:" + hashlib.sha256(text.encode()).hexdigest()

    @property
    def revision(self) -> str:
        """Twelve hexadecimal digits of the identity, for systems that want a short name."""
        return self.policy_id().removeprefix("sha256:")[:12]

    @property
    def edited(self) -> bool:
        """Whether the file's own ``policy_id`` is not that of its content."""
        return self.stated_id is not None and self.stated_id != self.policy_id()

    def to_document(self) -> dict[str, Any]:
        """The ``policy.v1`` document, keys in the order of the documentation."""
        return {
            "schema": SCHEMA,
            "policy_id": self.policy_id(),
            "as_of": self.as_of,
            "ttl": self.ttl,
            "window": self.window,
            "coverage": self.coverage,
            "goal": _plain(self.goal),
            "policies": [scope_document(policy) for policy in self.policies],
            "method": self.method,
            "notes": list(self.notes),
        }


def scope_document(policy: ScopePolicy) -> dict[str, Any]:
    """One entry of ``policies``, keys in the order of the documentation."""
    return {
        "scope": _plain(policy.scope),
        "decision": policy.decision,
        "confidence": policy.confidence,
        "instead": list(policy.instead),
        "reasons": list(policy.reasons),
        "hedge": _plain(policy.hedge),
        "eligible": _plain(policy.eligible),
        "windows_utc": [
            {"days": list(window.days), "from": window.start, "to": window.end, "why": window.why}
            for window in policy.windows_utc
        ],
        "suppress_when": _plain(policy.suppress_when),
        "experiment": _plain(policy.experiment),
        "projection": policy.projection,
    }


def _plain(value: Any) -> Any:
    """Frozen values as JSON: a dataclass becomes an object, a tuple a list, milliseconds and ratios floats."""
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _number(item.name, _plain(getattr(value, item.name))) for item in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


_FLOATS: Final = frozenset({"ms", "ratio", "quantile", "value"})


def _number(name: str, value: Any) -> Any:
    # 1840 and 1840.0 are the same policy, so they must have the same identity
    if isinstance(value, int) and not isinstance(value, bool) and name.rsplit("_", 1)[-1] in _FLOATS:
        return float(value)
    return value
