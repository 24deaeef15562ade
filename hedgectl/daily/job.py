"""What one run of the cron job is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hedgectl import analysis, decompose
from hedgectl.daily import gates
from hedgectl.recommend.options import Options
from hedgectl.tasks import Here, Tasks


@dataclass(frozen=True, slots=True)
class Job:
    """What one run is told. ``db`` or ``state_dir`` holds the history; times in ns (UTC) and seconds."""

    logs: analysis.Logs
    policy: Path
    options: Options
    as_of_ns: int
    window_s: float = 7 * 86_400.0
    emit: Mapping[str, Path] = field(default_factory=dict)  # target -> file
    emit_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    state_dir: Path | None = None
    digests: Path | None = None
    host: str = "host"
    selection: decompose.Selection = field(default_factory=decompose.Selection)
    max_delay_change: float = gates.DELAY_CHANGE
    hysteresis: float = 0.05
    dry_run: bool = False
    strict: bool = False  # a warning about the data is a gate that says no
    progress: Callable[[str], None] | None = None
    tasks: Tasks = field(default_factory=Here)  # who reads into a folder and decides scope by scope

    @property
    def tz(self) -> str:
        return self.logs.tz or "UTC"
