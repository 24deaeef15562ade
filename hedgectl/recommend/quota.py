"""What a rate limit leaves for copies: hedged requests and their tokens count against the same quota."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgectl.cost import quota_peak
from hedgectl.model import Workload
from hedgectl.policy import Budget
from hedgectl.recommend.gates import reason
from hedgectl.recommend.options import Options

Note = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Room:
    """Of one limit: `peak` and `limit` a minute. `share`: copies for each request that the busiest minute has room for."""

    what: str  # requests | tokens
    peak: float
    limit: float

    @property
    def share(self) -> float:
        return max(self.limit / self.peak - 1.0, 0.0) if self.peak else float("inf")


def tightest(workload: Workload, options: Options) -> Room | None:
    """The limit that leaves least room, of those that the user gave and the log can be held against; else None."""
    if options.quota_rpm is None and options.quota_tpm is None:
        return None
    peak = quota_peak(workload, np.zeros(0, dtype=np.int64), 0.0)
    given = (
        ("requests", peak["requests_per_minute_peak"], options.quota_rpm),
        ("tokens", peak["tokens_per_minute_peak"], options.quota_tpm),
    )
    rooms = [Room(what, float(seen), limit) for what, seen, limit in given if seen and limit is not None]
    return min(rooms, key=lambda room: room.share, default=None)


def full(room: Room) -> dict[str, Any] | None:
    """The reason against any copy: the busiest minute uses the quota up alone."""
    if room.share > 0:
        return None
    text = f"the busiest minute has {room.peak:,.0f} {room.what}, the quota is {room.limit:,.0f}: copies would be refused, or take the place of others"
    return reason("quota_full", text, room.peak, room.limit)


def lowered(options: Options, room: Room) -> tuple[Options, list[Note]]:
    """The options with a budget that fits into the room, and a note if that changed it."""
    budget = options.budget
    ratio = min(1.0 if budget is None else budget.ratio, room.share)
    if budget is not None and ratio == budget.ratio:
        return options, []
    ratio = max(np.floor(ratio * 1e4) / 1e4, 1e-4)
    burst = 100 if budget is None else budget.burst
    burst = max(1, min(burst, int(room.limit - room.peak))) if room.what == "requests" else burst
    text = (
        f"a quota of {room.limit:,.0f} {room.what} a minute leaves room for {room.share:.1%} more in the busiest minute "
        f"({room.peak:,.0f}), so the budget is {ratio:.2%}"
    )
    limit = None if budget is None else budget.max_concurrent
    note = {"code": "quota_lowers_budget", "level": "info", "share": round(ratio, 6), "text": text}
    return replace(options, budget=Budget(float(ratio), burst, limit)), [note]
