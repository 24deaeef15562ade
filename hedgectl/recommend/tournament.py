"""Which of many candidates is best: screened, halved on growing parts of the log, and the last few replayed in full."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar, cast

from hedgectl import tasks
from hedgectl.policy import Budget, Goal, Suppress
from hedgectl.recommend.gates import Judged, judge, ratio_of
from hedgectl.recommend.goal import parts
from hedgectl.recommend.projecting import Assumption, Candidate, Projection
from hedgectl.recommend.replaying import ReplayProjector

BLOCKS = 4
FINALISTS = 12
SCREENED = 10  # (trigger, delay, budget) that go on to the replay
BLOCK_REQUESTS = 75_000  # at most, of one block: enough to tell candidates apart
REPLAYED_REQUESTS = 12_000_000  # in the last round; bounds the time that a long log takes

_FLOOR_BYTES = 256 << 20
_REQUEST_BYTES = 1500  # of a request of the scope while it is replayed

Piece = TypeVar("Piece")
R = TypeVar("R")

Bill = Callable[[Sequence[Projection]], dict[str, object] | None]
Say = Callable[[str, float], None]


def spread(candidates: Sequence[Candidate], queue_age_ms: float | None) -> list[Candidate]:
    """Each candidate with both targets, with and without a limit on the age of the target's queue."""
    found = []
    for candidate in candidates:
        for choose in ("as_routed", "least_outstanding"):
            aimed = replace(candidate, target=replace(candidate.target, choose=choose))
            found.append(aimed)
            if queue_age_ms is not None:
                limit = Suppress("target_queue_age_ms", ">", queue_age_ms, source="replay")
                found.append(replace(aimed, suppress=(*candidate.suppress, limit)))
    return found


def with_smaller_budget(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates, and each with half its budget: what is too much at the top may be right with less."""
    found = list(candidates)
    for candidate in candidates:
        if candidate.budget is not None:
            half = Budget(candidate.budget.ratio / 2, candidate.budget.burst, candidate.budget.max_concurrent)
            found.append(replace(candidate, budget=half))
    return found


def pessimistic(assumptions: Sequence[Assumption]) -> Assumption:
    """The one that is usually worst: the engine runs on and the copy is as long."""
    return max(assumptions, key=lambda a: (a.cancel == "engine_runs_on", a.copy_length == "same"))


def halve(
    projector: ReplayProjector,
    candidates: Sequence[Candidate],
    assumptions: Sequence[Assumption],
    goal: Goal,
    keep: int,
    say: Say,
) -> list[Candidate]:
    """Rounds on one more contiguous block each; the worse half goes, until `keep` are left or the blocks are used up."""
    metric, p = parts(goal)
    way = pessimistic(assumptions)
    left = list(candidates)
    blocks = _order([projector.block(k, BLOCKS, BLOCK_REQUESTS) for k in range(BLOCKS)], metric, p)
    scores: dict[int, list[float]] = {id(c): [] for c in left}
    for k, block in enumerate(blocks):
        if len(left) <= keep:
            break
        told = _portion(say, "halving", k / BLOCKS, (k + 1) / BLOCKS)
        found = _each(partial(_scored, block, way, metric, p), block, left, told)
        for candidate, score in zip(left, found, strict=True):
            scores[id(candidate)].append(score)
        left.sort(key=lambda c: sum(scores[id(c)]) / len(scores[id(c)]))
        left = left[: max(keep, len(left) // 2)]
    return left[:keep]


def _each(
    function: Callable[[Piece], R], projector: ReplayProjector, pieces: Sequence[Piece], told: Callable[[float], None]
) -> list[R]:
    """What the function says of each piece, in their order; where there are helpers, they do their part."""
    projector.unhedged()  # played once, and carried along
    memory = [_FLOOR_BYTES + _REQUEST_BYTES * len(projector.setting.workload)] * len(pieces)
    found: dict[int, R] = {}
    for done in tasks.helpers().run(function, pieces, memory):
        if done.error is not None:
            raise done.error
        found[done.index] = cast("R", done.result)
        told(len(found) / len(pieces))
    return [found[k] for k in range(len(pieces))]


def _portion(say: Say, stage: str, low: float, high: float) -> Callable[[float], None]:
    """Tells a share of a part of a stage as one of the stage."""
    return lambda share: say(stage, low + share * (high - low))


def _order(blocks: list[ReplayProjector], metric: str, p: float) -> list[ReplayProjector]:
    """The block with the worst tail first: there the candidates differ."""

    def tail(block: ReplayProjector) -> float:
        value = block.unhedged().pool(metric).at(p)
        return float("inf") if value is None else value

    return sorted(blocks, key=tail, reverse=True)


def _scored(block: ReplayProjector, way: Assumption, metric: str, p: float, candidate: Candidate) -> float:
    return _score(block.project(candidate, way), metric, p)


def _projected(projector: ReplayProjector, piece: tuple[Candidate, Assumption]) -> Projection:
    return projector.project(*piece)


def _score(projection: Projection, metric: str, p: float) -> float:
    """The goal's ratio; a rise of p50 or p95 beyond what is allowed counts against it."""
    ratio = ratio_of(projection, metric, p)
    rises = [ratio_of(projection, "e2e", q) or 1.0 for q in (0.5, 0.95)]
    return (float("inf") if ratio is None else ratio) + max(0.0, max(rises) - 1.03)


def final(
    projector: ReplayProjector,
    candidates: Sequence[Candidate],
    assumptions: Sequence[Assumption],
    goal: Goal,
    bill: Bill,
    say: Say,
) -> list[Judged]:
    """Full replays under every assumption. A candidate that already fails under the worst one is not run further."""
    first = pessimistic(assumptions)
    others = [a for a in assumptions if a != first]
    project = partial(_projected, projector)

    told = partial(_portion, say, "replaying finalists")
    firsts = [[one] for one in _each(project, projector, [(c, first) for c in candidates], told(0.0, 0.5))]
    passed = [judge(c, found, goal, bill(found)).passed for c, found in zip(candidates, firsts, strict=True)]
    more = [(c, a) for c, ok in zip(candidates, passed, strict=True) if ok for a in others]
    rest = _each(project, projector, more, told(0.5, 1.0))
    judged = []
    for candidate, found, ok in zip(candidates, firsts, passed, strict=True):
        if ok:
            found, rest = [*found, *rest[: len(others)]], rest[len(others) :]
        judged.append(judge(candidate, found, goal, bill(found)))
    return judged


def complete(
    projector: ReplayProjector, judged: Judged, assumptions: Sequence[Assumption], goal: Goal, bill: Bill
) -> Judged:
    """The same candidate under the assumptions that were not run yet."""
    done = [each.assumption for each in judged.projections]
    projections = [*judged.projections]
    projections += [projector.project(judged.candidate, each) for each in assumptions if each not in done]
    return judge(judged.candidate, projections, goal, bill(projections))


def finalists(requests: int, ways: int) -> int:
    """How many candidates are replayed in full: at most 12, fewer on long logs."""
    return max(4, min(FINALISTS, REPLAYED_REQUESTS // max(requests * ways, 1)))
