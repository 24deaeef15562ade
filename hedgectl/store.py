"""The DuckDB database: opened, migrated, locked and closed here; the only module that imports duckdb."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hedgectl import sql, tasks
from hedgectl.errors import BusyError, HedgectlError, InputError, UsageError

if TYPE_CHECKING:
    import duckdb

_RETRY_S = 0.2
_AMOUNT = re.compile(r"\s*(?P<number>\d+(\.\d+)?)\s*(?P<unit>[kmgt](i?b)?|b)\s*", re.IGNORECASE)
_in_memory = itertools.count()  # several databases of one process must not spill into the same files
_HOLDER = re.compile(r"held in (?P<program>.*?)\s*\(PID (?P<pid>\d+)\)(?: by user (?P<user>\S+?))?[.\s]", re.DOTALL)
_DAMAGED = ("Could not read enough bytes", "Corrupt database", "Serialization Error", "Failed to load metadata")
_CREATES = re.compile(r"^CREATE TABLE (\w+)", re.MULTILINE)
_NO_SPACE = ("No space left", "File too large", "Disk quota", "Could not write", "ENOSPC", "disk full")


@dataclass(slots=True)
class Store:
    """An open database. ``con`` is the connection; ``path`` is None for one in memory. Use as a context manager."""

    con: duckdb.DuckDBPyConnection
    path: Path | None
    read_only: bool

    def close(self) -> None:
        """Closes the connection; a transaction that is still open is rolled back."""
        self.con.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The path for messages, ``:memory:`` for none."""
        return str(self.path) if self.path is not None else ":memory:"

    @contextlib.contextmanager
    def transaction(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """BEGIN ... COMMIT; whatever goes wrong rolls back, and DuckDB's failures become HedgectlError."""
        with explained(self.name):
            self.con.execute("BEGIN TRANSACTION")
            try:
                yield self.con
                self.con.execute("COMMIT")
            except BaseException:
                with contextlib.suppress(Exception):
                    self.con.execute("ROLLBACK")
                raise


def connect(
    db: Path | None,
    *,
    read_only: bool = False,
    memory_limit: str | None = None,
    wait_s: float = 0,
) -> Store:
    """Opens (creating it unless ``read_only``) and migrates a database; ``None`` is one in memory.

    ``memory_limit`` like ``"1GB"``; default half of the machine, at most 1 GiB. ``wait_s`` seconds are spent waiting for another
    process to let go. Raises BusyError (naming the holder), InputError (read-only and not there, or not a database),
    UsageError (memory limit), HedgectlError (permissions, disk full, written by a newer hedgectl).
    """
    import duckdb

    path = None if db is None else Path(db)
    if path is not None:
        _check_place(path, read_only=read_only)
    config: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": f"{memory_bytes(memory_limit) // tasks.sharers()}B",
        "temp_directory": _spill_folder(path),
        # nothing is ever fetched from a network behind the user's back
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
    }
    if tasks.threads() is not None:
        config["threads"] = tasks.threads() or 1
    target = ":memory:" if path is None else str(path)
    until = time.monotonic() + wait_s
    while True:
        try:
            con = duckdb.connect(target, read_only=read_only and path is not None, config=config)
            break
        except duckdb.Error as error:
            failure = _open_failure(error, target, memory_limit)
            if not isinstance(failure, BusyError) or time.monotonic() >= until:
                raise failure from None
            time.sleep(min(_RETRY_S, max(0.0, until - time.monotonic())))
    store = Store(con, path, read_only)
    try:
        # times are UTC inside, whatever zone the machine is in; order is kept in columns, not in row order
        con.execute("SET TimeZone = 'UTC'")
        con.execute("SET preserve_insertion_order = false")
        con.execute("SET enable_progress_bar = false")
        _migrate(store)
    except BaseException:
        con.close()
        raise
    return store


def _check_place(path: Path, *, read_only: bool) -> None:
    if path.is_dir():
        raise UsageError("the database is a directory", where=str(path), hint="give a file: --db DIR/hedgectl.duckdb")
    if path.exists():
        _check_magic(path, read_only=read_only)
        return
    if read_only:
        raise InputError(
            "no database there", where=str(path), hint="write one first: hedgectl ingest --db FILE PATH..."
        )
    if not path.parent.is_dir():
        raise UsageError(
            "the folder of the database does not exist", where=str(path.parent), hint="create it, or give another --db"
        )


def memory_bytes(text: str | None) -> int:
    """What DuckDB may take of the memory: an amount like ``"1GB"``, for None half of the machine, at most 1 GiB. Raises UsageError."""
    if text is not None:
        found = _AMOUNT.fullmatch(text)
        if not found:
            raise UsageError(f"not an amount of memory: {text!r}", hint="for example --memory-limit 2GB")
        unit = found["unit"].lower()
        return int(float(found["number"]) * (1024 if "i" in unit else 1000) ** "bkmgt".index(unit[0]))
    total = 4 << 30
    with contextlib.suppress(ValueError, OSError, AttributeError):
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    # More is rarely faster, since rows spill in order, and a replay beside the database needs memory of its own.
    return min(1 << 30, max(256 << 20, total // 2))


def _spill_folder(path: Path | None) -> str:
    """Beside the database if that folder is writable (it is the disk with room), else the system's temporary folder."""
    if path is not None and os.access(path.parent, os.W_OK):
        return f"{path}.tmp"
    return str(Path(tempfile.gettempdir()) / f"hedgectl-{os.getpid()}-{next(_in_memory)}.tmp")


def _check_magic(path: Path, *, read_only: bool) -> None:
    """DuckDB opens logs and tables of other programs too, and then says something else of them than that they are no database."""
    try:
        with open(path, "rb") as file:
            head = file.read(12)
    except OSError:
        return  # DuckDB says why
    # an empty file is a new database to whoever may write
    if path.is_file() and (head or read_only) and head[8:] != b"DUCK":
        raise _no_database(str(path))


def _no_database(target: str) -> InputError:
    hint = "give the file that hedgectl ingest wrote, or a new name; a log is given without --db"
    return InputError("not a DuckDB database", where=target, hint=hint)


def _open_failure(error: Exception, target: str, memory_limit: str | None) -> HedgectlError:
    text = str(error)
    if "lock" in text and ("held" in text or "Conflicting" in text or "Could not set lock" in text):
        return BusyError(
            f"the database is in use{_holder(text)}", where=target, hint="try again later, or wait for it: --wait 30s"
        )
    if "used by another process" in text:  # Windows
        return BusyError(
            "the database is in use by another process",
            where=target,
            hint="try again later, or wait for it: --wait 30s",
        )
    if "different configuration" in text:
        return BusyError("the database is already open in this process with other settings", where=target)
    if "not a valid DuckDB database" in text or "magic bytes" in text or "Serialization Error" in text:
        return _no_database(target)
    if "newer version" in text or "version number" in text:
        return InputError(
            "written by a newer DuckDB", where=target, hint="update hedgectl, or ingest the logs into a new file"
        )
    if "Permission denied" in text or "Read-only file system" in text:
        return HedgectlError(
            "the database cannot be opened for writing: permission denied", where=target, hint=_PLACE_HINT
        )
    if "memory_limit" in text or "Unknown unit for memory" in text:
        return UsageError(f"not an amount of memory: {memory_limit!r}", hint="for example --memory-limit 2GB")
    return _explain(error, target)


_PLACE_HINT = "check the rights of the file and its folder, or give another --db"


def _holder(text: str) -> str:
    found = _HOLDER.search(text + " ")
    if not found:
        return ""
    pid = int(found["pid"])
    program = found["program"].strip()
    with contextlib.suppress(OSError):
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
        program = command[:120] or program
    user = f", user {found['user']}" if found["user"] else ""
    return f" by process {pid} ({program}{user})"


@contextlib.contextmanager
def explained(where: str) -> Iterator[None]:
    """Turns DuckDB's failures in the block into HedgectlError with a hint; others pass."""
    import duckdb

    try:
        yield
    except duckdb.InterruptException:
        raise KeyboardInterrupt from None
    except duckdb.Error as error:
        raise _explain(error, where) from error


def _explain(error: Exception, where: str) -> HedgectlError:
    text = str(error)
    first = text.splitlines()[0] if text else type(error).__name__
    if any(sign in text for sign in _NO_SPACE):
        return HedgectlError(
            "no space left for the database; nothing of this batch was written",
            where=where,
            hint="free some disk space and run the same command again: what is in the database is not read twice",
        )
    if "Out of Memory" in text or "could not allocate" in text:
        return HedgectlError("out of memory", where=where, hint="raise --memory-limit, or give fewer files at once")
    if "read-only" in text:
        return HedgectlError("the database is open for reading only", where=where, hint=_PLACE_HINT)
    if "Permission denied" in text:
        return HedgectlError("permission denied", where=where, hint=_PLACE_HINT)
    if any(sign in text for sign in _DAMAGED):
        return _damaged("the database is damaged: a part of the file is missing or overwritten", where)
    return HedgectlError(f"the database says: {first}", where=where)


def _damaged(what: str, where: str) -> InputError:
    hint = "restore the file from a copy, or ingest the logs into a new one: hedgectl ingest LOG... --db FILE"
    return InputError(what, where=where, hint=hint)


def _migrate(store: Store) -> None:
    """Runs the schema files that this database has not seen; all or nothing."""
    con = store.con
    known = sorted(sql.names("schema"))
    with explained(store.name):
        tables = {name for (name,) in con.execute(sql.text("ingest/tables")).fetchall()}
        if "schema_version" in tables:
            done = {name for (name,) in con.execute("SELECT name FROM schema_version").fetchall()}
        else:
            done = set()
            if tables and store.path is not None:
                raise InputError(
                    "a DuckDB database of something else",
                    where=store.name,
                    hint="give the file that hedgectl ingest wrote, or a new name",
                )
    newer = sorted(done - set(known))
    if newer:
        raise InputError(
            f"written by a newer hedgectl (schema {newer[-1]})",
            where=store.name,
            hint="update hedgectl, or ingest the logs into a new file",
        )
    made = {table for name in done for table in _CREATES.findall(sql.text(f"schema/{name}"))}
    if missing := sorted(made - tables):
        raise _damaged(f"the database is damaged: it has no table {', '.join(missing)}", store.name)
    todo = [name for name in known if name not in done]
    if not todo:
        return
    if store.read_only:
        if not done:
            raise InputError(
                "an empty database", where=store.name, hint="write one first: hedgectl ingest --db FILE PATH..."
            )
        raise HedgectlError(
            "an older hedgectl wrote this database and it is open for reading only",
            where=store.name,
            hint="open it once for writing: hedgectl ingest --db FILE PATH...",
        )
    with store.transaction():
        con.execute("CREATE TABLE IF NOT EXISTS schema_version (name VARCHAR PRIMARY KEY)")
        for name in todo:
            con.execute(sql.text(f"schema/{name}"))
            con.execute("INSERT INTO schema_version VALUES ($1)", [name])


def bare_connection(db: str, memory_limit: str) -> duckdb.DuckDBPyConnection:
    """A DuckDB database with nothing of ours in it, to compare with."""
    import duckdb

    return duckdb.connect(db, config={"memory_limit": memory_limit})


def sql_error() -> type[Exception]:
    """DuckDB's base exception, for those who run statements but do not import duckdb."""
    import duckdb

    return duckdb.Error
