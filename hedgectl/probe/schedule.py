"""When each request is due and in which arm: open loop, seeded, half of the requests in each arm."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hedgectl.probe.gauges import Gauges

# Of the target's load; above it arms stand in blocks, since coin-flipped arms would share each other's harm.
OWN_SHARE = 0.05
GUESSED_BASE_S, GUESSED_TOKEN_S = 0.5, 0.02  # of an answer, before any was timed
UNHEDGED, HEDGED = "unhedged", "hedged"


@dataclass(frozen=True, slots=True)
class Planned:
    """One logical request of the plan. ``pair`` numbers what is compared with each other: neighbours, or two blocks."""

    index: int
    offset_ns: int  # from the start of the run
    arm: str
    rate_per_s: float
    pair: int
    warm_up: bool = False


def own_share(rates: Sequence[float], answer_tokens: int, load: Gauges | None) -> float:
    """Our share of the target's load, guessed before the run; 0 if the load cannot be seen."""
    if load is None or load.running is None:
        return 0.0
    own = max(rates) * (GUESSED_BASE_S + answer_tokens * GUESSED_TOKEN_S)
    return own / (own + load.running + (load.waiting or 0.0))


def coin(seed: int, purpose: str, k: int) -> bool:
    """A fair coin that depends on nothing but its arguments."""
    return hashlib.sha256(f"{seed}:{purpose}:{k}".encode()).digest()[0] % 2 == 0


def make(
    *,
    requests: int,
    rates: Sequence[float],
    seed: int,
    blocks: bool,
    block_s: float,
    warm_up: int = 0,
    duration_s: float | None = None,
    uniform: bool = False,
) -> list[Planned]:
    """The whole plan, ascending in time.

    ``requests`` counts everything, warm-up included. With several ``rates`` each gets the same number of requests, one
    rate after the other. Gaps are exponential (Poisson arrivals) unless ``uniform``. ``duration_s`` cuts the plan, all
    rates together. Within a pair a coin says which comes first; an odd request more goes to the arm the coin names.
    """
    random_gaps = random.Random(f"{seed}:arrivals")
    plan: list[Planned] = []
    offset = 0.0
    pair = 0
    for phase, rate in enumerate(rates):
        share = requests - warm_up
        count = share // len(rates) + (phase < share % len(rates))
        extra = warm_up if phase == 0 else 0
        times: list[float] = []
        limit = None if duration_s is None else duration_s * (phase + 1) / len(rates)
        for _ in range(count + extra):
            offset += 1.0 / rate if uniform else random_gaps.expovariate(rate)
            if limit is not None and offset > limit:
                offset = limit
                break
            times.append(offset)
        for at in times[:extra]:
            plan.append(Planned(len(plan), round(at * 1e9), UNHEDGED, rate, -1, warm_up=True))
        rest = times[extra:]
        pairs = _pairs(len(rest), rate * block_s) if blocks else len(rest) // 2
        for at, (k, second) in zip(rest, _halves(len(rest), pairs), strict=True):
            arm = HEDGED if coin(seed, "arm", pair + k) != second else UNHEDGED
            plan.append(Planned(len(plan), round(at * 1e9), arm, rate, pair + k))
        pair += max(pairs, 1)
    return plan


def _halves(requests: int, pairs: int) -> list[tuple[int, bool]]:
    """(pair, whether in its second half) of each request; halves of a pair are equal, an odd one is added at the end."""
    half = requests // 2
    rows: list[tuple[int, bool]] = []
    for k in range(pairs):
        size = round((k + 1) * half / pairs) - round(k * half / pairs)
        rows += [(k, False)] * size + [(k, True)] * size
    return rows + [(max(pairs - 1, 0), True)] * (requests - len(rows))


def _pairs(requests: int, per_block: float) -> int:
    """Pairs of equal blocks that fit: at least one, of at least one request a block."""
    return max(1, min(round(requests / (2 * max(per_block, 1.0))), requests // 2))
