"""One ingest into a folder: plan, hand out, commit batch by batch, find repetitions hour by hour, tell."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedgectl import store
from hedgectl.decompose import Selection
from hedgectl.errors import InputError, UsageError
from hedgectl.fleet import hours
from hedgectl.fleet.batch import Shaped, shape
from hedgectl.fleet.hours import Counted, covered
from hedgectl.fleet.load import load
from hedgectl.fleet.manifest import Manifest, check, shelf
from hedgectl.fleet.plan import LEAST_BYTES, ROUNDS, Batch, Reading, plan
from hedgectl.formats.catalogue import asked
from hedgectl.ingest import document, overlap
from hedgectl.ingest.document import File
from hedgectl.lines import STDIN, expand, shown
from hedgectl.place import Place, place
from hedgectl.tasks import Abreast, Done, Here, Tasks

_ROW_BYTES = 400  # of an attempt's keys in memory while an hour is searched for repetitions
_FLOOR_BYTES = 256 << 20
_EACH_BYTES = 512 << 20  # of the database that holds a batch

Progress = Callable[[str], None]


def ingest(
    folder: str,
    paths: Sequence[str],
    tasks: Tasks,
    *,
    format: str | None = None,
    map_file: Path | None = None,
    tz: str | None = None,
    max_reject: float | None = None,
    memory_limit: str | None = None,
    join: bool = False,
    unit: str | None = None,
    batch_bytes: int | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Reads ``paths`` into ``folder`` (a path or ``s3://``); returns an ingest.v1 document, as for a database.

    Each batch is committed when it is done, so a run that is broken off goes on where it was; with ``max_reject`` (a ratio)
    all are committed at the end. A file that cannot be used does not stop the others; a batch that fails is told in the reports of its
    files. Raises as :func:`hedgectl.ingest.ingest`.
    """
    files = expand(paths)
    if STDIN in files:
        raise UsageError("stdin cannot be read into a folder", hint="write it to a file first, or use --db")
    where = place(folder)
    if type(tasks) is Here:
        tasks = Abreast(_abreast(memory_limit))
    chosen = asked(format, map_file, unit=unit)
    reading = Reading(chosen, tz, memory_limit, join, unit)
    held_before = shelf(where)
    check(where, held_before)
    # another process would begin a small batch at once; a core of this one rather takes a few larger ones
    least = LEAST_BYTES if isinstance(tasks, Abreast) else 0
    batches, reports = plan(
        where, held_before, files, reading, batch_bytes=batch_bytes, least_bytes=least, workers=tasks.workers
    )
    run = _Run(where, batches, reports, max_reject=max_reject, progress=progress)
    run.shape(tasks)
    counted = run.count(tasks, memory_limit)
    order = {shown(path): i for i, path in enumerate(files)}
    run.reports.sort(key=lambda report: order[report.path])
    held = _joined(where, memory_limit) if join and run.overlapping() else _held(where, counted)
    doc = document.build(held, run.reports, run.notes, tz=tz)
    doc["notes"] += [{"code": "cluster", "level": "info", "share": None, "text": text} for text in tasks.summary()]
    return doc


def _abreast(memory_limit: str | None) -> int:
    """How many batches this machine has in hand: one writes or compares while another reads, which no single one does."""
    return max(1, min(os.cpu_count() or 1, store.memory_bytes(memory_limit) // _EACH_BYTES))


class _Run:
    """Batches that go out and come back."""

    def __init__(
        self,
        where: Place,
        batches: Sequence[Batch],
        reports: list[File],
        *,
        max_reject: float | None,
        progress: Progress | None,
    ) -> None:
        self._where = where
        self._batches = batches
        self._max_reject = max_reject
        self._progress = progress
        self._formats: dict[str, tuple[str, int, int]] = {}
        self.reports = reports
        self.notes: Counter[str] = Counter()

    def shape(self, tasks: Tasks) -> None:
        """Hands the batches out and commits what comes back."""
        for earlier in shelf(self._where).manifests:
            self._widen(earlier)
        held: list[Manifest] = []
        told = _Told(self._batches, self._progress)
        # what a task may take: its text as rows, and as much again while it is written
        memory = [_FLOOR_BYTES + 4 * batch.bytes for batch in self._batches]
        for done in tasks.run(shape, self._batches, memory):
            batch = self._batches[done.index]
            told(batch, done)
            if done.result is None:
                self.reports += [File(shown(path), failure=done.error) for path in batch.paths]
                continue
            self.reports += done.result.files
            self.notes.update(done.result.notes)
            manifest = done.result.manifest
            if manifest is None:
                continue
            if not batch.reading.join:
                self._refuse_overlap(manifest)
            self._widen(manifest)
            if self._max_reject is None:
                manifest.commit(self._where)
            else:
                held.append(manifest)
        self._refuse_rejects()
        for manifest in held:
            manifest.commit(self._where)

    def count(self, tasks: Tasks, memory_limit: str | None) -> list[Counted]:
        """Finds repetitions in the hours that changed; the reports learn what turned out to be one."""
        every = hours.of(self._where, shelf(self._where), memory_limit)
        known = hours.kept(self._where, every)
        todo = [hour for hour in every if hour.hour not in known or known[hour.hour].key != hour.key]
        fresh = dict(known)
        shares = hours.shares(todo, ROUNDS * tasks.workers)
        memory = [_FLOOR_BYTES + _ROW_BYTES * max(hour.rows for hour in share) for share in shares]
        for done in tasks.run(hours.count, shares, memory):
            share = shares[done.index]
            if done.result is None:
                raise done.error or InputError("an hour could not be counted", where=share[0].hour)
            fresh.update(zip((hour.hour for hour in share), done.result, strict=True))
            if self._progress is not None:
                self._progress(f"{len(fresh)} of {len(every)} hours searched for repetitions")
        self._settle(known, fresh)
        return [fresh[hour.hour] for hour in every]

    def _settle(self, known: dict[str, Counted], fresh: dict[str, Counted]) -> None:
        found: Counter[int] = Counter()
        reused = 0
        for hour, counted in fresh.items():
            before = known.get(hour, Counted())
            found.update(counted.duplicates)
            found.subtract(before.duplicates)
            reused += counted.reused - before.reused
        # those within a batch were counted there already
        self.notes["id_reused"] = max(self.notes["id_reused"], reused)
        ids = {s.entry.path: s.entry.file_id for m in shelf(self._where).manifests for s in m.segments}
        for report in self.reports:
            again = min(max(found.pop(ids.get(report.path, 0), 0), 0), report.accepted)
            report.accepted -= again
            report.duplicates += again
            report.check()

    def _widen(self, manifest: Manifest) -> None:
        for name, (observer, low, high) in manifest.formats.items():
            was = self._formats.get(name, (observer, low, high))
            self._formats[name] = (was[0], min(was[1], low), max(was[2], high))

    def overlapping(self) -> bool:
        """Whether formats of the folder have seen the same time."""
        spans = [(low, high) for _, low, high in self._formats.values()]
        return any(a[0] <= b[1] and b[0] <= a[1] for i, a in enumerate(spans) for b in spans[i + 1 :])

    def _refuse_overlap(self, manifest: Manifest) -> None:
        for name, (observer, low, high) in manifest.formats.items():
            for other, (its_observer, its_low, its_high) in sorted(self._formats.items()):
                if other != name and low <= its_high and its_low <= high:
                    raise overlap((name, observer), (other, its_observer), max(low, its_low), min(high, its_high))

    def _refuse_rejects(self) -> None:
        rejected, lines = sum(f.rejected for f in self.reports), sum(f.lines for f in self.reports)
        if self._max_reject is not None and lines and rejected / lines > self._max_reject:
            raise document.too_many_rejects(self.reports, self._max_reject)


class _Told:
    """Progress in files, rows, bytes a second, tasks and retries."""

    def __init__(self, batches: Sequence[Batch], progress: Progress | None) -> None:
        self._progress = progress
        self._begin = time.perf_counter()
        self._of = len(batches), sum(len(b.paths) for b in batches)
        self._tasks = self._files = self._rows = self._bytes = self._retries = 0

    def __call__(self, batch: Batch, done: Done[Shaped]) -> None:
        self._tasks += 1
        self._files += len(batch.paths)
        self._rows += sum(f.accepted for f in done.result.files) if done.result is not None else 0
        self._bytes += sum(f.bytes for f in done.result.files) if done.result is not None else 0
        self._retries += done.retries
        if self._progress is not None:
            rate = self._bytes / 1e6 / max(time.perf_counter() - self._begin, 1e-9)
            retries = f", {self._retries} retries" if self._retries else ""
            self._progress(
                f"{self._files} of {self._of[1]} files, {self._rows:,} rows, {rate:.0f} MB/s, "
                f"{self._tasks} of {self._of[0]} tasks{retries}"
            )


def _joined(where: Place, memory_limit: str | None) -> document.Held:
    """What the folder holds once its observers are put together, as whoever reads it puts them together."""
    with store.connect(None, memory_limit=memory_limit) as memory:
        load(where.url, memory, Selection())
        return replace(document.held(memory), name=where.url)


def _held(where: Place, counted: Sequence[Counted]) -> document.Held:
    window = {
        "from": min((c.first_ns for c in counted if c.first_ns is not None), default=None),
        "to": max((c.last_ns for c in counted if c.last_ns is not None), default=None),
        "requests": sum(c.requests for c in counted),
        "attempts": sum(c.attempts for c in counted),
    }
    observers = sorted({name for c in counted for name in c.observers})
    return document.Held(where.url, window, observers, covered(counted))
