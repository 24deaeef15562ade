"""What one run reads and forgets: new logs and the history in, old raw rows out, and an in-memory copy to decide on."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

from hedgectl import analysis, decompose, fleet, history, ingest, store
from hedgectl.daily import digests, state
from hedgectl.daily.job import Job
from hedgectl.errors import HedgectlError
from hedgectl.notes import note

_DAY_NS = 86_400_000_000_000


def take_in(job: Job, stack: ExitStack) -> tuple[dict[str, Any] | None, store.Store]:
    """Reads what is new and brings the history up to date; returns the ingest document and an in-memory copy."""
    if job.logs.folder is not None:
        return _from_folder(job, job.logs.folder, stack)
    if job.logs.db is None:
        memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
        if job.state_dir is not None:
            state.restore(memory.con, job.state_dir)
        alone = _ingest(job, memory)
        with memory.transaction() as con:
            history.record(con, tz=job.tz)
        return alone, memory
    read: dict[str, Any] | None = None
    if job.dry_run:
        # nothing may change: the file is copied, and what is new is read into the copy
        memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
        read = None
        if job.logs.db.exists():
            analysis.copy(job.logs.db, memory, wait_s=job.logs.wait_s, memory_limit=job.logs.memory_limit, history=True)
        if job.logs.paths:
            read = _ingest(job, memory)
        with memory.transaction() as con:
            history.record(con, tz=job.tz)
        return read, memory
    with store.connect(job.logs.db, memory_limit=job.logs.memory_limit, wait_s=job.logs.wait_s) as opened:
        if job.logs.paths:
            read = _ingest(job, opened)
        with opened.transaction() as con:
            history.record(con, tz=job.tz)
        if job.digests is not None:
            digests.export(opened.con, job.digests, job.host)
    memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
    analysis.copy(job.logs.db, memory, wait_s=job.logs.wait_s, memory_limit=job.logs.memory_limit, history=True)
    return read, memory


def _from_folder(job: Job, folder: str, stack: ExitStack) -> tuple[dict[str, Any] | None, store.Store]:
    """As :func:`take_in` where the rows are kept in a folder; the history is made from them."""
    read: dict[str, Any] | None = None
    if job.logs.paths and not job.dry_run:
        read = fleet.ingest(
            folder,
            job.logs.paths,
            job.tasks,
            format=job.logs.format,
            map_file=job.logs.map_file,
            tz=job.logs.tz,
            max_reject=job.logs.max_reject,
            memory_limit=job.logs.memory_limit,
            join=job.logs.join,
            progress=job.progress,
        )
    memory = stack.enter_context(store.connect(None, memory_limit=job.logs.memory_limit))
    fleet.load(folder, memory, decompose.Selection(since_ns=_keep_from_ns(job)))
    if job.logs.paths and job.dry_run:
        read = _ingest(job, memory)
    with memory.transaction() as con:
        history.record(con, tz=job.tz)
    return read, memory


def _keep_from_ns(job: Job) -> int:
    """Rows before this moment are in no window that is still to come; a day more for what arrives late."""
    return job.as_of_ns - round(job.window_s * 1e9) - _DAY_NS


def pruned(job: Job, db: Path) -> list[dict[str, Any]]:
    """Lets go of raw rows that no later window needs, and says what went. Only a run that wrote a policy may."""
    try:
        with (
            store.connect(db, memory_limit=job.logs.memory_limit, wait_s=job.logs.wait_s) as opened,
            opened.transaction() as con,
        ):
            gone = history.prune(con, keep_from_ns=_keep_from_ns(job), tz=job.tz)
    except HedgectlError as error:
        # the policy stands by now, and these rows can go tomorrow as well
        return [note("not_pruned", f"old raw rows stay in {db} for now: {error.what}", level="warning")]
    if gone is None:
        return []
    text = (
        f"{gone.rows} raw rows of days before {gone.before} ({job.tz}) were removed from {db}: the window and a day before "
        "it are kept, and the daily figures of all days (hedgectl stats)"
    )
    return [note("rows_pruned", text)]


def _ingest(job: Job, into: store.Store) -> dict[str, Any]:
    return ingest.ingest(
        into,
        job.logs.paths,
        format=job.logs.format,
        map_file=job.logs.map_file,
        tz=job.logs.tz,
        max_reject=job.logs.max_reject,
        join=job.logs.join,
        progress=analysis.told(job.progress),
    )
