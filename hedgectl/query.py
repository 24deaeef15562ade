"""Read-only SQL over a prepared analysis: a query of ours by name, or a user's own statement."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from types import FrameType
from typing import TYPE_CHECKING, Any

from hedgectl import sql, store
from hedgectl.errors import UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_HINT = "one SELECT over request, component, selected_attempt; hedgectl sql --list names the queries that ship"


def run(con: DuckDBPyConnection, text: str, *, tz: str | None = None) -> tuple[list[str], list[list[Any]]]:
    """(column names, rows) of one SELECT, with values as JSON can hold them.

    The connection is cut off from files and the network first: nothing can be written or fetched, and the
    database it was copied from is not open. Raises UsageError for anything but one statement that returns rows.
    """
    statement = sql.text(f"report/{text}") if text in sql.names("report") else text
    con.execute("SET enable_external_access = false")
    con.execute("SET lock_configuration = true")
    try:
        parsed = con.extract_statements(statement)
        if len(parsed) != 1:
            raise UsageError(f"{len(parsed)} statements are given, one is run", hint=_HINT)
        if parsed[0].type.name not in ("SELECT", "EXPLAIN"):
            raise UsageError(f"only SELECT is run here, not {parsed[0].type.name}", hint=_HINT)
        names: dict[str, str | None] = {
            name: (tz or "UTC") if name == "tz" else None for name in parsed[0].named_parameters
        }
        with _interruptible(con):
            found = con.execute(statement, names or None)
    except store.sql_error() as error:
        raise UsageError(f"the query fails: {str(error).splitlines()[0]}", hint=_HINT) from None
    columns = [d[0] for d in found.description or []]
    return columns, [[_plain(v) for v in row] for row in found.fetchall()]


@contextlib.contextmanager
def _interruptible(con: DuckDBPyConnection) -> Iterator[None]:
    """Lets a signal end the query too: DuckDB waits for its threads first, and one in a large product looks up only when interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    given = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in given.items() if callable(handler)}

    def heard(number: int, frame: FrameType | None) -> None:
        con.interrupt()
        before[signal.Signals(number)](number, frame)

    for number in before:
        signal.signal(number, heard)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, float) and value != value:
        return None
    if isinstance(value, bytes):
        return value.hex()
    return value
