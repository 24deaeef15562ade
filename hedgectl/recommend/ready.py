"""Ready in time: a goal from the time that a caller has anyway, and the share of answers that make it."""

from __future__ import annotations

import csv
import itertools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hedgectl import config
from hedgectl.errors import UsageError
from hedgectl.recommend.arms import Arm

# Percentiles of the latencies from which shares are read, finer where the tail is.
GRID: tuple[float, ...] = (*(k / 100 for k in range(1, 100)), 0.992, 0.994, 0.996, 0.998, 0.999)
_DELAY_SHARE = 0.5  # a copy needs the other half


@dataclass(frozen=True, slots=True)
class Ready:
    """The time a caller has: one average, or quantiles (ascending shares of 1 and seconds), less a safety margin."""

    time_s: tuple[tuple[float, float], ...]  # (share, seconds); one pair of share 0.5 for an average
    safety_s: float = 0.0

    def __post_init__(self) -> None:
        if self.goal_s <= 0:
            raise UsageError(
                f"a safety of {self.safety_s:g} s leaves no time", hint="--safety below --ready-in, e.g. 4.8s and 1s"
            )

    @property
    def middle_s(self) -> float:
        """The average, or the median of the quantiles."""
        shares, seconds = zip(*self.time_s, strict=True)
        return float(np.interp(0.5, shares, seconds))

    @property
    def goal_s(self) -> float:
        """Time less safety: what the goal's percentile has to stay below."""
        return self.middle_s - self.safety_s

    @property
    def ceiling_s(self) -> float:
        """The longest delay: a copy sent later than halfway would seldom be back in time."""
        return _DELAY_SHARE * self.goal_s

    def share(self, arm: Arm) -> float | None:
        """P(answered within the time less safety), failures counted as late; None where the latencies are not known.

        Over quantiles: the mean of that share over the times, each part between two quantiles taken as even.
        """
        points = [(p, value) for p in GRID if (value := arm.e2e.at(p)) is not None]
        if not points:
            return None
        shares, values = (np.array(column) for column in zip(*points, strict=True))
        known, seconds = (np.array(column) for column in zip(*self.time_s, strict=True))
        at = np.array([0.5]) if len(known) == 1 else (np.arange(200) + 0.5) / 200
        limits = np.interp(at, known, seconds) - self.safety_s
        # below the 1st percentile nobody is counted as ready, above the last known one not more than that
        found = np.interp(limits, values, shares, left=0.0)
        if shares[-1] >= GRID[-1]:
            found = np.where(limits > values[-1], 1.0, found)
        answered = 1.0 - arm.errors / max(arm.logical_requests, 1)
        return round(float(found.mean()) * answered, 4)

    def document(self, unhedged: Arm, hedged: Arm) -> dict[str, Any]:
        """The ``ready`` object of a projection."""
        return {
            "time_ms": round(self.middle_s * 1e3, 3),
            "safety_ms": round(self.safety_s * 1e3, 3),
            "source": "average" if len(self.time_s) == 1 else "quantiles",
            "unhedged_ratio": self.share(unhedged),
            "hedged_ratio": self.share(hedged),
        }


def average(seconds: float, safety_s: float = 0.0) -> Ready:
    """Only an average is known. Raises UsageError if the safety leaves no time."""
    return Ready(((0.5, seconds),), safety_s)


def from_file(path: Path, safety_s: float = 0.0) -> Ready:
    """Quantiles from JSON ``{"p10": "2.1s", "p50": "4.8s"}`` or from CSV lines ``p10,2.1s``. Raises UsageError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}", where=str(path), hint=str(error)) from None
    pairs: list[tuple[str, Any]]
    if text.lstrip().startswith("{"):
        try:
            pairs = list(json.loads(text).items())
        except json.JSONDecodeError as error:
            raise UsageError(f"{path} is no JSON: {error}", where=str(path)) from None
    else:
        rows = [row for row in csv.reader(text.splitlines()) if row and row[0].strip().lower().startswith("p")]
        pairs = [(row[0], row[1] if len(row) > 1 else "") for row in rows]
    found = sorted(_pair(name, raw, path) for name, raw in pairs)
    if len(found) < 2:
        raise UsageError(f"{path} has fewer than two quantiles", where=str(path), hint='{"p10": "2.1s", "p90": "7s"}')
    if any(b[1] < a[1] for a, b in itertools.pairwise(found)) or len({p for p, _ in found}) < len(found):
        raise UsageError(f"the quantiles in {path} do not rise", where=str(path))
    return Ready(tuple(found), safety_s)


def _pair(name: str, raw: Any, path: Path) -> tuple[float, float]:
    match = re.fullmatch(r"\s*p(\d{1,2}(?:\.\d+)?)\s*", name.lower())
    try:
        if match is None or not isinstance(raw, str):
            raise ValueError(name)
        return float(match[1]) / 100.0, config.seconds(raw)
    except ValueError:
        raise UsageError(
            f"{name}: {raw!r} is not a quantile with a duration", where=str(path), hint='for example "p50": "4.8s"'
        ) from None
