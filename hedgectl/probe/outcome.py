"""Everything a run leaves behind, for the document and the database."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgectl.probe.records import CallRecord
from hedgectl.probe.schedule import Planned
from hedgectl.probe.settings import ProbeSettings


@dataclass(slots=True)
class Outcome:
    """One run."""

    settings: ProbeSettings
    run_id: str
    model: str
    epoch_ns: int  # UTC of monotonic 0 of the records
    plan: Sequence[Planned]
    blocks: bool
    calls: list[CallRecord] = field(default_factory=list)
    checks: list[CallRecord] = field(default_factory=list)  # sent only to watch a cancel
    stopped: str | None = None
    interrupted: str | None = None  # SIGINT | SIGTERM
    cancel: dict[str, Any] = field(default_factory=dict)
    enforced: list[dict[str, Any]] = field(default_factory=list)
    not_enforced: list[str] = field(default_factory=list)
    stand_in: bool = False
    engine: str | None = None
    metrics_seen: bool = False
    aborts_sent: int = 0
    abort_missing: bool = False
    tokens_booked: int = 0
    spend_booked: float = 0.0
    opened_connections: int = 0
    suppressed_by: dict[str, int] = field(default_factory=dict)

    @property
    def everything(self) -> list[CallRecord]:
        """All logical requests that were sent, in the order of the plan."""
        return [*self.calls, *self.checks]
