"""Log files -> accepted rows and counted rejects in the database: the one door for every log."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hedgectl import join as observers
from hedgectl.formats.catalogue import Format, asked
from hedgectl.ingest import document
from hedgectl.ingest.overlapping import overlap
from hedgectl.ingest.run import Progress, Run
from hedgectl.lines import expand
from hedgectl.store import Store, explained


def ingest(
    store: Store,
    paths: Sequence[str],
    *,
    format: str | None = None,
    map_file: Path | None = None,
    tz: str | None = None,
    max_reject: float | None = None,
    join: bool = False,
    unit: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Reads ``paths`` (files, globs, directories, ``-``) into ``store``; returns an ingest.v1 document.

    ``format`` names a format, ``map_file`` a mapping of the user's; without either each file is recognised (both must agree). ``tz`` is the zone of
    times without one (default UTC), ``unit`` that of durations without one (default: their rows are rejected). A file that cannot be used is told in the document and does not stop the others. What was
    read before is not counted again. Formats that overlap in time may have seen the same requests: they are refused, or with
    ``join`` put together (hedgectl/join.py). A database that was joined once needs no flag for the same formats again.

    Raises NoRequests if there is no request in any file; InputError if the share of rejects is over ``max_reject`` (a ratio; nothing is
    committed then); UsageError for a faulty mapping and for formats that overlap in time; HedgectlError for the database.
    """
    files, notes = read(
        store,
        expand(paths),
        chosen=asked(format, map_file, unit=unit),
        tz=tz,
        max_reject=max_reject,
        join=join,
        unit=unit,
        progress=progress,
    )
    with explained(store.name):
        found = document.build(document.held(store), files, notes, tz=tz)
        found["notes"] += document.of_pruned(store, files)
    return found


def read(
    store: Store,
    files: Sequence[str],
    *,
    chosen: Format | None = None,
    tz: str | None = None,
    max_reject: float | None = None,
    join: bool = False,
    unit: str | None = None,
    progress: Progress | None = None,
    file_ids: Mapping[str, int] | None = None,
) -> tuple[list[document.File], Counter[str]]:
    """Reads single files into ``store``: what became of each, and the codes of notes with how often.

    As :func:`ingest`, which tells it in a document. ``file_ids`` are the numbers of files that the ledger does not know, where
    somebody else gives them out.
    """
    with explained(store.name):
        observers.forget(store.con)
        run = Run(
            store,
            chosen=chosen,
            tz=tz,
            max_reject=max_reject,
            join=join,
            unit=unit,
            progress=progress,
            file_ids=file_ids or {},
        )
        try:
            for path in files:
                run.read(path)
            run.flush()
            run.settle()
            for report in run.files:
                if report.same_as is not None:
                    report.repeat(report.same_as)
        finally:
            run.close()
    return run.files, run.notes


__all__ = ["ingest", "overlap", "read"]
