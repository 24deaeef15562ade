"""What grows with what, each at three sizes: reading with rows, a decision with its scope's rows, scopes and candidates."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hedgectl import analysis, fleet
from hedgectl.benchcases._logs import litellm_line, write
from hedgectl.decompose import Selection
from hedgectl.errors import UsageError
from hedgectl.model import Fact, Fleet, ServiceModel, SlowSeries, Workload
from hedgectl.policy import Budget
from hedgectl.recommend import Options, spread
from hedgectl.recommend.projecting import Assumption, Candidate
from hedgectl.recommend.replaying import ReplayProjector
from hedgectl.sim import scenario
from hedgectl.tasks import Here

_FILES = 4
_SCOPE_ROWS = 1000  # of each of many scopes


def cases(
    *, rows: int = 250_000, scope_rows: int = 25_000, scopes: int = 10, requests: int = 50_000, candidates: int = 8
) -> list[dict[str, Any]]:
    """Rows of ``bench.v1``: CPU seconds of this process for one more of each, from the smallest size to the largest.

    Each size is taken once, twice and four times. ``rows`` are read from a log into a folder; ``scope_rows`` those of one scope that is
    decided by the screen, ``scopes`` such scopes of a thousand rows each; ``candidates`` policies are played on an engine log of
    ``requests``. Raises UsageError for a size below 1.
    """
    if min(rows, scope_rows, scopes, requests, candidates) < 1:
        raise UsageError("every size is at least 1")
    with tempfile.TemporaryDirectory(prefix="hedgectl-bench-") as name:
        root = Path(name)
        play = _player(requests)
        play(1)  # compiles
        return [
            _row(
                "reading, for a row", rows, "us", lambda n: _read(root / f"rows-{n}", n, 1), "of 1.3 kB, into a folder"
            ),
            _row("decision, for a row of the scope", scope_rows, "us", _decide(root, "scope", 1), "by the screen"),
            _row("decision, for a scope", scopes, "ms", _decide(root, "scopes", _SCOPE_ROWS), f"of {_SCOPE_ROWS} rows"),
            _row(
                "decision, for a candidate", candidates, "ms", play, f"played on {requests} requests of an engine log"
            ),
        ]


def _row(name: str, least: int, unit: str, work: Callable[[int], float], text: str) -> dict[str, Any]:
    sizes = [least, 2 * least, 4 * least]
    seconds = [work(size) for size in sizes]
    each = (seconds[2] - seconds[0]) / (sizes[2] - sizes[0])
    took = "; ".join(f"{size}: {s:.2f} s" for size, s in zip(sizes, seconds, strict=True))
    return {
        "case": f"growth {name}",
        "unit": f"CPU {unit}",
        "ours": float(f"{each * {'us': 1e6, 'ms': 1e3}[unit]:.3g}") if each > 0 else None,  # too small a size to tell
        "bare": None,
        "ratio": None,
        "runs": 1,
        "text": f"{text}; {took}",
    }


def _cpu(work: Callable[[], object]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _read(root: Path, rows: int, scopes: int) -> float:
    """Writes a log of so many rows and reads it into ``root/out``: CPU seconds of the reading."""
    (root / "logs").mkdir(parents=True)
    for k in range(_FILES):
        first = k * rows // _FILES
        write(root / "logs" / f"{k}.jsonl", (k + 1) * rows // _FILES - first, _of_scopes(first, scopes))
    return _cpu(lambda: fleet.ingest(str(root / "out"), [str(root / "logs")], Here()))


def _of_scopes(first: int, scopes: int) -> Callable[[int], str]:
    def line(n: int) -> str:
        return litellm_line(first + n).replace('"chat-fast"', f'"chat-{(first + n) % scopes}"', 1)

    return line


def _decide(root: Path, name: str, rows: int) -> Callable[[int], float]:
    """size -> CPU seconds for deciding: so many scopes of ``rows``, or with ``rows`` 1 one scope of so many rows."""

    def decided(size: int) -> float:
        at = root / f"{name}-{size}"
        _read(at, size * rows, 1 if rows == 1 else size)
        out = str(at / "out")

        def decide() -> None:
            with analysis.opened(analysis.Logs(folder=out), Selection()) as found:
                spread.recommended(found.con, found.prepared, Options(), Here(), out)

        return _cpu(decide)

    return decided


def _player(requests: int) -> Callable[[int], float]:
    """Number of candidates -> CPU seconds for playing them on the same log: four engines, 40 % busy."""
    rng = np.random.default_rng([1, 5])
    prompt = np.minimum(rng.lognormal(np.log(800), 0.7, requests), 20_000).astype(int) + 1
    tokens = np.minimum(rng.lognormal(np.log(200), 0.6, requests), 6000).astype(int) + 1
    service = ServiceModel(0.03, 0.00012, 0.012, 0.0004, SlowSeries.none(4))
    work = 0.03 + 0.00012 * prompt.mean() + tokens.mean() * (0.012 / 32 + 0.0004)
    arrival = np.cumsum(rng.exponential(work / 0.4 / 4, requests))
    engines = Fleet(Fact(4, "config"), Fact(32, "config"), Fact(120_000, "config"), confirmed=True)
    setting = scenario.setting(
        Workload.of(arrival, prompt, tokens, streamed=np.ones(requests)), service, engines, seed=1
    )
    projector = ReplayProjector.today(setting, (0.99,))
    way = Assumption("frees_engine", "same")

    def play(candidates: int) -> float:
        delays: Sequence[float] = np.linspace(0.3, 1.5, candidates).tolist()
        every = np.ones(requests, bool)
        tried = [Candidate("first_token", delay, 0.95, Budget(0.05, 100), every) for delay in delays]
        return _cpu(lambda: [projector.project(one, way) for one in tried])

    return play
