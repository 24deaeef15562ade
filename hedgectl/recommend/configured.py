"""From settings to `Options`: what a user may fix in hedgectl.toml, the environment or by flag."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hedgectl.config import Config
from hedgectl.errors import UsageError
from hedgectl.policy import Budget, PolicyDocument
from hedgectl.recommend.delay import Limits
from hedgectl.recommend.goal import parse_goal
from hedgectl.recommend.options import Options, Progress
from hedgectl.recommend.ready import Ready


def _check(cfg: Config) -> None:
    """Raises UsageError for times that no policy can keep."""
    floor, ceiling = cfg.get("recommend.floor"), cfg.get("recommend.ceiling")
    if floor is not None and ceiling is not None and floor > ceiling:
        where = cfg.origin("recommend.floor")
        raise UsageError(f"the shortest delay, {floor:g} s, is above the longest, {ceiling:g} s", where=where)
    if cfg.get("recommend.deadline") == 0:
        where = cfg.origin("recommend.deadline")
        raise UsageError("a deadline of 0 s leaves no time to answer", where=where, hint="for example --deadline 20s")


def options(
    cfg: Config,
    *,
    target: str | None = None,
    policy: PolicyDocument | None = None,
    by_route: bool = False,
    by_size: bool = False,
    ready: Ready | None = None,
    progress: Progress | None = None,
) -> Options:
    """The options that the settings fix; the rest keeps its defaults. Raises UsageError for a bad goal."""
    asked: Any = cfg.get("recommend.budget", 0.05)
    _check(cfg)
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
        by_size=by_size,
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
        quota_rpm=cfg.get("recommend.quota_rpm"),
        quota_tpm=cfg.get("recommend.quota_tpm"),
        one_clock=bool(cfg.get("recommend.one_clock", False)),
        windows=cfg.get("recommend.windows", "none") == "auto",
        tz=cfg.get("tz"),
        seed=cfg.get("seed", 1),
        progress=progress,
    )
    if ready is not None:
        chosen = _in_time(chosen, ready)
    chosen.triggers()  # an unknown --for is refused before any work is done
    return chosen


def _in_time(chosen: Options, ready: Ready) -> Options:
    """The goal is the time less the safety, and no delay takes more than half of it."""
    if chosen.goal.below_ms is not None:
        raise UsageError("--goal with a limit and --ready-in both set the goal", hint="give one of them")
    if not chosen.goal.metric.startswith("e2e"):
        raise UsageError("--ready-in asks for the whole answer, the goal for its first token", hint="--goal e2e_p99")
    limits, half = chosen.limits, ready.ceiling_s
    ceiling = half if limits.ceiling_s is None else min(limits.ceiling_s, half)
    return replace(
        chosen,
        goal=replace(chosen.goal, below_ms=round(ready.goal_s * 1e3, 3)),
        limits=replace(limits, ceiling_s=ceiling),
        ready=ready,
    )
