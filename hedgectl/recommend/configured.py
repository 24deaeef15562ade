"""From settings to `Options`: what a user may fix in hedgectl.toml, the environment or by flag."""

from __future__ import annotations

from typing import Any

from hedgectl.config import Config
from hedgectl.policy import Budget, PolicyDocument
from hedgectl.recommend.delay import Limits
from hedgectl.recommend.goal import parse_goal
from hedgectl.recommend.options import Options, Progress


def options(
    cfg: Config,
    *,
    target: str | None = None,
    policy: PolicyDocument | None = None,
    by_route: bool = False,
    progress: Progress | None = None,
) -> Options:
    """The options that the settings fix; the rest keeps its defaults. Raises UsageError for a bad goal."""
    asked: Any = cfg.get("recommend.budget", 0.05)
    chosen = Options(
        goal=parse_goal(
            cfg.get("recommend.goal"),
            max_cost_delta_ratio=cfg.get("recommend.max_cost"),
            min_gain_ratio=cfg.get("recommend.min_gain"),
        ),
        budget=None if asked == "none" else Budget(ratio=asked, burst=cfg.get("recommend.burst", 100)),
        target=target,
        policy=policy,
        by_route=by_route,
        cancel=cfg.get("engine.cancel", "unknown"),
        copy_length=cfg.get("recommend.copy_length", "both"),
        limits=Limits(
            margin_s=cfg.get("recommend.margin"),
            floor_s=cfg.get("recommend.floor"),
            ceiling_s=cfg.get("recommend.ceiling"),
        ),
        deadline_s=cfg.get("recommend.deadline"),
        min_requests=cfg.get("recommend.min_requests"),
        prices=cfg.prices,
        loser_billing=cfg.get("recommend.loser_billing", "full"),
        config=cfg,
        segments=tuple(cfg.get("recommend.segments") or ()),
        allow_tools=tuple(cfg.get("recommend.idempotent_tools") or ()),
        max_prompt_tokens=cfg.get("recommend.max_prompt_tokens"),
        windows=cfg.get("recommend.windows", "none") == "auto",
        tz=cfg.get("tz"),
        seed=cfg.get("seed", 1),
        progress=progress,
    )
    chosen.triggers()  # an unknown --for is refused before any work is done
    return chosen
