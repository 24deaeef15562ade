"""Opens what an analysis was asked about: log files or a database, one selection of it, copied into memory.

The database file is held only while its rows are copied: never while something is fitted, replayed or sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hedgectl import decompose, fleet, ingest, sql, store
from hedgectl.decompose import Prepared, Selection
from hedgectl.errors import InputError, NoRequests, UsageError
from hedgectl.tasks import Tasks

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Progress = Callable[[str], None]

_ROWS = ("ingested_file", "attempt", "tool_span")
_TASK_BYTES = 1 << 30  # a database in memory with the default limit; what is more goes to disk
_HISTORY = ("history_bucket", "history_day", "history_mark")


@dataclass(frozen=True, slots=True)
class Opened:
    """A prepared selection: ``con`` has the TEMP tables of decompose; ``ingested`` is None when a database was read."""

    con: DuckDBPyConnection
    prepared: Prepared
    ingested: dict[str, Any] | None

    @property
    def empty(self) -> bool:
        """Whether files were read and none held a request."""
        return self.ingested is not None and not self.ingested["totals"]["requests"]

    @property
    def rejected(self) -> int:
        """Rows that were rejected when what is analysed was read, now or at any time before."""
        return int(self.con.execute(sql.text("ingest/rejected")).fetchall()[0][0])


@dataclass(frozen=True, slots=True)
class Logs:
    """Where the rows come from: files (``paths``), a database, or a folder of parts, and how files are read."""

    paths: Sequence[str] = ()
    db: Path | None = None
    folder: str | None = None  # a path or s3://
    format: str | None = None
    map_file: Path | None = None
    tz: str | None = None
    unit: str | None = None
    max_reject: float | None = None
    memory_limit: str | None = None
    wait_s: float = 0.0
    join: bool = False  # logs of several observers are put together instead of refused


@contextmanager
def opened(
    logs: Logs,
    selection: Selection,
    progress: Progress | None = None,
    *,
    history: bool = False,
    empty: Callable[[NoRequests], None] | None = None,
) -> Iterator[Opened]:
    """Reads, selects and decomposes. Raises UsageError without a source, InputError without a request in it.

    ``empty`` is told of logs without a request instead; the selection then holds none.
    """
    if logs.folder is not None and (logs.paths or logs.db is not None):
        raise UsageError("--from is given beside another source", hint="analyse the folder, the database or the files")
    if logs.paths and logs.db is not None:
        raise UsageError(
            "log files and --db are both given",
            hint="hedgectl ingest adds files to a database; analyse the one or the other",
        )
    if not logs.paths and logs.db is None and logs.folder is None:
        raise UsageError(
            "no log is given", hint="hedgectl recommend YOUR-LOG.jsonl, or --db FILE after hedgectl ingest"
        )
    with store.connect(None, memory_limit=logs.memory_limit) as memory:
        document: dict[str, Any] | None = None
        if logs.folder is not None:
            if progress is not None:
                progress(f"reading {logs.folder}")
            fleet.load(logs.folder, memory, selection)
        elif logs.db is None:
            try:
                document = ingest.ingest(
                    memory,
                    logs.paths,
                    format=logs.format,
                    map_file=logs.map_file,
                    tz=logs.tz,
                    unit=logs.unit,
                    max_reject=logs.max_reject,
                    join=logs.join,
                    progress=told(progress),
                )
            except NoRequests as nothing:
                if empty is None or nothing.document is None:
                    raise
                document = nothing.document
                empty(nothing)
        else:
            if progress is not None:
                progress(f"reading {logs.db}")
            copy(logs.db, memory, wait_s=logs.wait_s, memory_limit=logs.memory_limit, history=history)
        if progress is not None:
            progress("putting requests together")
        with store.explained(memory.name):
            prepared = decompose.prepare(memory.con, selection)
            if document is not None:
                prepared = _left_out(prepared, document["totals"]["requests"])
        yield Opened(memory.con, prepared, document)


def _left_out(prepared: Prepared, read: int) -> Prepared:
    """With a note on the requests of the files that the selection leaves out: prepare looks at those beside a window only."""
    outside = read - prepared.requests
    if outside <= 0:
        return prepared
    said = [n for n in prepared.notes if n["code"] != "outside_selection"]
    share = outside / read
    text = f"{outside} of {read} requests lie outside of what was asked for"
    return replace(prepared, notes=(decompose.note("outside_selection", text, share=share), *said))


@dataclass(frozen=True, slots=True)
class Question:
    """What a task is asked: ``document(con, prepared, **options)`` of a selection. Everything in it can travel."""

    logs: Logs
    selection: Selection
    document: Callable[..., dict[str, Any]]
    options: dict[str, Any]


def ask(tasks: Tasks, question: Question) -> dict[str, Any]:
    """The document, made by one task. Raises what making it raises here."""
    (done,) = tasks.run(_answer, [question], [_TASK_BYTES])
    if done.result is None:
        raise done.error or InputError("the task gave no answer", where=question.logs.folder)
    return done.result


def _answer(question: Question) -> dict[str, Any]:
    with opened(question.logs, question.selection) as found:
        return question.document(found.con, found.prepared, **question.options)


def told(progress: Progress | None) -> Callable[[str, int, int | None], None] | None:
    """The reader's progress (path, bytes read, size) as one line of text."""
    if progress is None:
        return None

    def tell(path: str, done: int, size: int | None) -> None:
        of = f" of {size / 1e6:.0f}" if size else ""
        progress(f"reading {path}: {done / 1e6:.0f}{of} MB")

    return tell


def copy(
    db: Path, into: store.Store, *, wait_s: float = 0.0, memory_limit: str | None = None, history: bool = False
) -> None:
    """Copies the canonical rows of a database file into ``into`` and lets go of the file.

    ``history`` copies the daily figures too; then a database without raw rows is no error.
    """
    if not db.exists():
        raise UsageError(f"there is no database {db}", where=str(db), hint=f"hedgectl ingest LOG... --db {db}")
    # opened once the ordinary way: it waits for the lock, names its holder and refuses what is no database of ours
    store.connect(db, read_only=True, wait_s=wait_s, memory_limit=memory_limit).close()
    with store.explained(str(db)):
        into.con.execute("ATTACH ? AS held (READ_ONLY)", [str(db)])
        try:
            for name in (*_ROWS, *(_HISTORY if history else ())):
                into.con.execute(sql.text(f"store/copy_{name}"))
            marked = into.con.execute(sql.text("store/held_mark")).fetchall()
        finally:
            into.con.execute("DETACH held")
    if not history and into.con.execute("SELECT count(*) FROM attempt").fetchall()[0][0] == 0:
        if not marked:
            raise InputError("the database holds no request", where=str(db), hint=f"hedgectl ingest LOG... --db {db}")
        raise InputError(
            f"the database holds no raw request: hedgectl daily has removed those of days before {marked[0][0]}",
            where=str(db),
            hint="read the logs into another database: hedgectl ingest LOG... --db FILE; hedgectl stats shows the daily figures",
        )


def moment_ns(text: str, tz: str | None = None, *, flag: str = "--since") -> int:
    """UTC ns of ``2026-11-22`` or ``2026-11-22T04:15:00Z``; without a zone it is in ``tz`` (default UTC)."""
    try:
        parsed = datetime.fromisoformat(
            text.strip().replace("Z", "+00:00") if text.strip().endswith("Z") else text.strip()
        )
    except ValueError:
        raise UsageError(f"{flag} {text} is not a time", hint="e.g. 2026-11-22 or 2026-11-22T04:15:00Z") from None
    if parsed.tzinfo is None:
        parsed = parsed.replace(tzinfo=zone(tz))
    delta = parsed.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (delta.days * 86_400_000_000 + delta.seconds * 1_000_000 + delta.microseconds) * 1000


def zone(tz: str | None) -> ZoneInfo:
    """The zone named ``tz``, UTC for None. Raises UsageError for a name that does not exist."""
    try:
        return ZoneInfo(tz or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            f"there is no time zone {tz}", hint="a name such as Asia/Tokyo, Europe/Berlin or UTC"
        ) from None
