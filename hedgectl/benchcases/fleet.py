"""Reading into a folder: beside a plain database, and with --set workers=2 two Ray workers beside one."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgectl import fleet, tasks
from hedgectl.benchcases._logs import LOGS, write
from hedgectl.errors import HedgectlError, UsageError
from hedgectl.ingest import ingest
from hedgectl.store import connect


def cases(*, rows: int = 300_000, files: int = 6, runs: int = 3, workers: int = 0) -> list[dict[str, Any]]:
    """Rows of ``bench.v1``: seconds into a folder beside seconds into a database, alternating; ``ratio`` is the overhead.

    With ``workers`` also that many Ray workers beside one, where ``ratio`` is how many times longer the one takes. Raises
    HedgectlError if a row is lost, UsageError without Ray.
    """
    if rows < files or files < 1 or runs < 1 or workers < 0:
        raise UsageError("rows, files and runs are at least 1, and no file is empty")
    found = []
    with tempfile.TemporaryDirectory(prefix="hedgectl-bench-") as folder:
        root = Path(folder)
        logs = root / "logs"
        logs.mkdir()
        line = LOGS["litellm_payload"]
        for k in range(files):
            begin = k * (rows // files)
            write(logs / f"{k:03d}.jsonl", rows // files, _shifted(line, begin))
        expected = rows // files * files

        def plain(run: int) -> float:
            begun = time.perf_counter()
            with connect(root / f"{run}.duckdb") as store:
                _check(ingest(store, [str(logs)]), expected)
            return time.perf_counter() - begun

        def into(name: str, who: tasks.Tasks) -> float:
            begun = time.perf_counter()
            _check(fleet.ingest(str(root / name), [str(logs)], who), expected)
            return time.perf_counter() - begun

        pairs = [(into(f"here-{run}", tasks.Here()), plain(run)) for run in range(runs)]
        found.append(_row("--out beside --db", pairs, expected))
        if workers:
            times = []
            for count in (1, workers):
                with tasks.on("ray", cores=count) as who:
                    into(f"warm-{count}", who)
                    times.append([into(f"ray-{count}-{run}", who) for run in range(runs)])
            found.append(_row(f"one worker beside {workers}", list(zip(times[0], times[1], strict=True)), expected))
    return found


def _shifted(line: Callable[[int], str], begin: int) -> Callable[[int], str]:
    return lambda n: line(begin + n)


def _check(document: dict[str, Any], rows: int) -> None:
    if document["totals"]["accepted"] != rows:
        raise HedgectlError(f"{document['totals']['accepted']} of {rows} rows were read")


def _row(name: str, pairs: list[tuple[float, float]], rows: int) -> dict[str, Any]:
    return {
        "case": f"fleet {name}",
        "unit": "s",
        "ours": round(statistics.median(a for a, _ in pairs), 3),
        "bare": round(statistics.median(b for _, b in pairs), 3),
        "ratio": round(statistics.median(a / b for a, b in pairs), 3),
        "runs": len(pairs),
        "rows": rows,
    }
