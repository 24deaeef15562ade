"""Reading into a folder: beside a plain database, and with --set workers=2 two Ray workers beside one.

Both sides read the same files on the same cores. ``--out`` and ``--db`` have the machine: the one takes several batches at once, the
other shapes in two threads and merges in a third. One Ray worker has one core, so the plain path beside it is confined to one as well.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgectl import fleet, tasks
from hedgectl.benchcases._logs import LOGS, write
from hedgectl.errors import HedgectlError, UsageError
from hedgectl.ingest import ingest
from hedgectl.store import connect


def cases(*, rows: int = 300_000, files: int = 6, runs: int = 3, workers: int = 0) -> list[dict[str, Any]]:
    """Rows of ``bench.v1``: seconds into a folder beside seconds into a database, alternating; ``ratio`` is the overhead.

    With ``workers`` the same through one Ray worker, with a core on both sides, and that many Ray workers beside one, where
    ``ratio`` is how many times longer the one takes; the last row is what the machine itself allows: the plain path, confined to a core,
    in so many processes at once beside one. The start of a cluster is told apart. Raises HedgectlError if a row is
    lost, UsageError without Ray.
    """
    if rows < files or files < 1 or runs < 1 or workers < 0:
        raise UsageError("rows, files and runs are at least 1, and no file is empty")
    with tempfile.TemporaryDirectory(prefix="hedgectl-bench-") as folder:
        root = Path(folder)
        logs = root / "logs"
        logs.mkdir()
        line = LOGS["litellm_payload"]
        for k in range(files):
            begin = k * (rows // files)
            write(logs / f"{k:03d}.jsonl", rows // files, _shifted(line, begin))
        reading = _Reading(root, logs, rows // files * files)
        reading.plain()  # whoever comes first finds the files cold
        parts, plain = [], []
        for _ in range(runs):
            parts.append(reading.into(tasks.Here()))
            plain.append(reading.plain())
        both = "all cores on both sides: several batches at once beside 2 shaping threads and a merging one"
        cpu = statistics.median(a.cpu / b.cpu for a, b in zip(parts, plain, strict=True))
        found = [_row("--out beside --db", parts, plain, reading.rows, both) | {"cpu_ratio": round(cpu, 3)}]
        if workers:
            found += _on_ray(reading, runs, workers)
    return found


def _on_ray(reading: _Reading, runs: int, workers: int) -> list[dict[str, Any]]:
    with _timed() as started, contextlib.ExitStack() as stack:
        who = stack.enter_context(tasks.on("ray", cores=1))
        kept = stack.pop_all()
    with kept:
        first = reading.into(who)  # the worker starts, and loads what it needs
        alone, plain = [], []
        for _ in range(runs):
            alone.append(reading.into(who))
            with tasks.confined(1):
                plain.append(reading.plain())
    with tasks.on("ray", cores=workers) as who:
        reading.into(who)
        many = [reading.into(who) for _ in range(runs)]
    one = "1 thread that shapes and merges on both sides"
    return [
        _row("--on ray, 1 worker, beside --db", alone, plain, reading.rows, one)
        | {"cluster_start_s": round(started.seconds, 2), "first_run_s": round(first.seconds, 2)},
        _row(f"--on ray, 1 worker beside {workers}", alone, many, reading.rows, "1 such thread a worker"),
        _row(f"--db, 1 process beside {workers}", *_processes(reading, runs, workers), reading.rows, _MACHINE),
    ]


_MACHINE = "what the cores allow: each process reads all the logs with 1 such thread"


def _processes(reading: _Reading, runs: int, workers: int) -> tuple[list[_Took], list[_Took]]:
    """Seconds for all the logs in one process, and as many times the logs in as many processes, by their number."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:

        def took(at_once: int) -> _Took:
            reading.done += at_once
            names = [str(reading.root / f"{reading.done - k}.duckdb") for k in range(at_once)]
            with _timed() as whole:
                for rows in pool.map(_confined, names, [str(reading.logs)] * at_once):
                    _check(rows, reading.rows)
            return _Took(whole.seconds / at_once)

        took(workers)  # the processes load what they need
        rounds = [(took(1), took(workers)) for _ in range(runs)]
    return [one for one, _ in rounds], [many for _, many in rounds]


def _confined(db: str, logs: str) -> dict[str, Any]:
    with tasks.confined(1), connect(Path(db)) as store:
        return ingest(store, [logs])


@dataclass(slots=True)
class _Reading:
    """The same logs, read again and again into places of their own: seconds, and CPU seconds of this process."""

    root: Path
    logs: Path
    rows: int
    done: int = 0

    def plain(self) -> _Took:
        """Into a database."""
        self.done += 1
        with _timed() as took, connect(self.root / f"{self.done}.duckdb") as store:
            _check(ingest(store, [str(self.logs)]), self.rows)
        return took

    def into(self, who: tasks.Tasks) -> _Took:
        """Into a folder."""
        self.done += 1
        with _timed() as took:
            _check(fleet.ingest(str(self.root / f"{self.done}"), [str(self.logs)], who), self.rows)
        return took


@dataclass(slots=True)
class _Took:
    seconds: float = 0.0
    cpu: float = 0.0


@contextlib.contextmanager
def _timed() -> Iterator[_Took]:
    took = _Took()
    begin, cpu = time.perf_counter(), time.process_time()
    yield took
    took.seconds, took.cpu = time.perf_counter() - begin, time.process_time() - cpu


def _shifted(line: Callable[[int], str], begin: int) -> Callable[[int], str]:
    return lambda n: line(begin + n)


def _check(document: dict[str, Any], rows: int) -> None:
    if document["totals"]["accepted"] != rows:
        raise HedgectlError(f"{document['totals']['accepted']} of {rows} rows were read")


def _row(name: str, ours: list[_Took], bare: list[_Took], rows: int, text: str) -> dict[str, Any]:
    return {
        "case": f"fleet {name}",
        "unit": "s",
        "ours": round(statistics.median(a.seconds for a in ours), 3),
        "bare": round(statistics.median(b.seconds for b in bare), 3),
        "ratio": round(statistics.median(a.seconds / b.seconds for a, b in zip(ours, bare, strict=True)), 3),
        "runs": len(ours),
        "text": text,
        "rows": rows,
    }
