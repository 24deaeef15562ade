"""A log in which copies were sent already, replayed as it was sent: only that can be checked against what was seen.

The replay without copies answers what such a log does not show, and the engines that were seen carried the copies too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hedgectl.model import CENSORED, ERROR, OK, Fleet, Workload
from hedgectl.sim import scenario
from hedgectl.sim.scenario import Setting


def as_sent(s: Setting, attempts: Workload) -> Setting:
    """Every send as a job of its own: arrival is when it was sent, status and times are its own.

    A loser holds its place until it was cut (`e2e_s` of a censored row) and is then gone; where cancelling is known not
    to stop the engine it runs on to a length drawn from the answers. Only answered sends are compared with the log.
    """
    if s.fleet.cancel == "engine_runs_on":
        w = attempts
    else:
        cut = (attempts.status == CENSORED) & np.isfinite(attempts.e2e_s)
        whole = attempts.completion_tokens[(attempts.status == OK) & (attempts.completion_tokens > 0)]
        usual = int(np.median(whole)) if len(whole) else 1
        w = replace(
            attempts,
            status=np.where(cut, ERROR, attempts.status).astype(np.int8),
            # what it had written when it was cut says nothing about how much it would have
            completion_tokens=np.where(
                cut, np.maximum(attempts.completion_tokens, usual), attempts.completion_tokens
            ).astype(np.int64),
        )
    return scenario.setting(w, s.service, s.fleet, seed=s.seed, routing_seen=s.routing_seen)


def note(fleet: Fleet, hedges: int) -> list[dict[str, Any]]:
    """What rests on a guess where losers were sent and nobody says whether cancelling frees the engine."""
    if not hedges or fleet.cancel != "unknown":
        return []
    text = (
        f"{hedges} copies were sent already, and losers are taken to have left their engines when they were cancelled. If they "
        "ran on, the engines look slower than they are and a copy better than it is: say which ([engine] cancel)"
    )
    return [{"code": "losers_taken_as_gone", "level": "warning", "share": None, "text": text}]
