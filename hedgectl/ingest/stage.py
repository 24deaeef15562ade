"""Pieces of files -> rows of their format, in tables beside the database; several threads, no lock on the database."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from hedgectl import sql
from hedgectl.formats.catalogue import Format
from hedgectl.ingest.counts import Counts, Piece
from hedgectl.ingest.worker import Worker
from hedgectl.store import Store

CHUNK_BYTES = 48 << 20
"""Text handed to DuckDB at once; small files are put together up to it. Planning a format's query costs as much as 5 MB of log."""


class Stage:
    """The stage of one ingest: tables ``stage.shaped_<k>``, one a format of the batch, and threads that fill them."""

    def __init__(self, store: Store, *, tz: str | None, threads: int = 2) -> None:
        self._store = store
        self._tz = tz
        self._lock = threading.Lock()
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="hedgectl-shape")
        self._room = threading.Semaphore(threads)
        self._jobs: list[Future[dict[int, Counts]]] = []
        self._pending: dict[str, list[Piece]] = {}
        self._pending_bytes: dict[str, int] = {}
        self.formats: dict[str, Format] = {}
        self.tables: dict[str, str] = {}
        store.con.execute(sql.text("ingest/attach"))

    def close(self) -> None:
        """Waits for the threads and drops the stage."""
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._store.con.execute("DETACH DATABASE IF EXISTS stage")

    def add(self, fmt: Format, piece: Piece) -> None:
        """Queues a piece; blocks while the threads are behind."""
        self.formats.setdefault(fmt.name, fmt)
        waiting = self._pending.setdefault(fmt.name, [])
        waiting.append(piece)
        total = self._pending_bytes.get(fmt.name, 0) + piece.size
        self._pending_bytes[fmt.name] = total
        if total >= CHUNK_BYTES * 7 // 8:
            self._submit(fmt)

    def _submit(self, fmt: Format) -> None:
        pieces = self._pending.pop(fmt.name, [])
        self._pending_bytes.pop(fmt.name, None)
        if not pieces:
            return
        self._room.acquire()
        job = self._pool.submit(self._shape, fmt, pieces)
        job.add_done_callback(lambda _: self._room.release())
        self._jobs.append(job)

    def finish(self) -> dict[int, Counts]:
        """Waits for all queued pieces; counts by slot. Raises what a thread raised."""
        for fmt in list(self.formats.values()):
            self._submit(fmt)
        total: dict[int, Counts] = {}
        jobs, self._jobs = self._jobs, []
        for job in jobs:
            for slot, counts in job.result().items():
                total.setdefault(slot, Counts()).add(counts)
        return total

    def clear(self) -> None:
        """Empties the stage after a merge."""
        for table in self.tables.values():
            self._store.con.execute(f"TRUNCATE stage.{table}")

    def _shape(self, fmt: Format, pieces: Sequence[Piece]) -> dict[int, Counts]:
        worker: Worker | None = getattr(self._local, "worker", None)
        if worker is None:
            with self._lock:
                worker = Worker(self._store, self._tz)
            self._local.worker = worker
        with self._lock:
            table = worker.use(fmt, self.tables)
        return worker.shape(fmt, table, pieces)
