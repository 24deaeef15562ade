"""Would a copy help, with which policy, at what price: search, judge, explain."""

from __future__ import annotations

from hedgectl.recommend.goal import parse_goal
from hedgectl.recommend.options import Options
from hedgectl.recommend.run import recommend

__all__ = ["Options", "parse_goal", "recommend"]
