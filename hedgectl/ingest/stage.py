"""Pieces of files -> rows of their format, in tables beside the database; several threads, no lock on the database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from hedgectl import sql, tasks
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.counts import Counts, Piece
from hedgectl.ingest.worker import Worker
from hedgectl.store import Store

CHUNK_BYTES = 48 << 20
"""Text handed to DuckDB at once; small files are put together up to it. Planning a format's query costs as much as 5 MB of log."""

WIDE_CHUNK_BYTES = 24 << 20
"""The same for a format that keeps its rows between two steps: they take many times the memory of the text."""

THREADS = 2
"""That shape, beside the one that reads, unless a piece of a cluster has fewer cores."""

WHOLE_BYTES = 128 << 20
"""A file whose rows are parts of requests is read as a whole up to this size; beyond, a request under way at such a place is cut."""


@dataclass(slots=True)
class Staged:
    """One batch in the stage: for each format a table ``stage.shaped_<k>``, and the jobs that fill it."""

    formats: dict[str, Format] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    jobs: list[Future[dict[int, Counts]]] = field(default_factory=list)
    cut: set[int] = field(default_factory=set)  # slots of files that were too long to be read as a whole

    def counts(self) -> dict[int, Counts]:
        """Waits for the jobs; counts by slot. Raises what a thread raised."""
        total: dict[int, Counts] = {}
        for job in self.jobs:
            for slot, counts in job.result().items():
                total.setdefault(slot, Counts()).add(counts)
        return total


class Stage:
    """The stage of one ingest: one batch is filled while the one before is merged."""

    def __init__(self, store: Store, *, tz: str | None) -> None:
        threads = tasks.threads() or THREADS
        self._store = store
        self._tz = tz
        self._lock = threading.Lock()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="hedgectl-shape")
        self._room = threading.Semaphore(threads)
        self._pending: dict[str, list[Piece]] = {}
        self._pending_bytes: dict[str, int] = {}
        self._last_cut: int | None = None  # the file that has gone to a thread while it may go on
        self._staged = Staged()
        self._made = 0
        self._free: dict[str, list[str]] = {}  # empty tables by format
        store.con.execute(sql.text("ingest/attach"))

    def close(self) -> None:
        """Waits for the threads and drops the stage."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._store.con.execute("DETACH DATABASE IF EXISTS stage")

    def add(self, fmt: Format, piece: Piece) -> None:
        """Queues a piece; blocks while the threads are behind."""
        self._staged.formats.setdefault(fmt.name, fmt)
        enough = WIDE_CHUNK_BYTES if "MATERIALIZED" in fmt.select_sql else CHUNK_BYTES * 7 // 8
        total = self._pending_bytes.get(fmt.name, 0)
        if fmt.one_row == "part":
            if piece.slot == self._last_cut and not total and piece.size:
                self._staged.cut.add(piece.slot)
            self._last_cut = None
            # a request may begin in one block and end in the next: the file stays together
            if total >= enough and self._pending[fmt.name][-1].slot != piece.slot:
                self._submit(fmt)
                total = 0
            enough = WHOLE_BYTES
            if total + piece.size >= enough:
                self._last_cut = piece.slot
        self._pending.setdefault(fmt.name, []).append(piece)
        self._pending_bytes[fmt.name] = total + piece.size
        if total + piece.size >= enough:
            self._submit(fmt)

    def _submit(self, fmt: Format) -> None:
        pieces = self._pending.pop(fmt.name, [])
        self._pending_bytes.pop(fmt.name, None)
        if not pieces:
            return
        self._room.acquire()
        job = self._pool.submit(self._shape, fmt, pieces, self._staged)
        job.add_done_callback(lambda _: self._room.release())
        self._staged.jobs.append(job)

    def take(self) -> Staged:
        """The batch so far, which the threads may still work on; what is added from now on is the next one."""
        for fmt in list(self._staged.formats.values()):
            self._submit(fmt)
        staged, self._staged, self._last_cut = self._staged, Staged(), None
        return staged

    def clear(self, staged: Staged) -> None:
        """Empties the tables of a batch after its merge."""
        for name, table in staged.tables.items():
            self._store.con.execute(f"TRUNCATE stage.{table}")
            with self._lock:
                self._free.setdefault(name, []).append(table)

    def _shape(self, fmt: Format, pieces: Sequence[Piece], staged: Staged) -> dict[int, Counts]:
        worker: Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            with self._lock:
                worker = Worker(self._store, self._tz)
            self._local.worker = worker
        with self._lock:
            worker.use(fmt)
            if fmt.name not in staged.tables:
                staged.tables[fmt.name] = self._table(fmt, worker)
            table = staged.tables[fmt.name]
            worker.fill(table, fmt)
        return worker.shape(fmt, table, pieces)

    def _table(self, fmt: Format, worker: Worker) -> str:
        if free := self._free.get(fmt.name):
            return free.pop()
        self._made += 1
        table = f"shaped_{self._made}"
        worker.create(table, fmt)
        return table
