"""What one log format is, and its making from the keys of its header, each checked."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hedgectl.errors import InputError, UsageError
from hedgectl.formats import columns

INPUTS = ("json", "csv", "text", "parquet")
OBSERVERS = ("client", "edge", "gateway", "engine")
ROWS = ("attempt", "request", "part")
BASES = ("first_token", "first_byte", "engine")
HEADER = (
    "format",
    "title",
    "spec",
    "source",
    "input",
    "detect",
    "clock",
    "resolution",
    "observer",
    "observes",
    "hint",
    "traps",
    "notes",
)
_NEEDED = ("format", "title", "spec", "source", "input", "detect", "clock", "resolution", "observer", "observes")
_JOIN_IDS = "request_id, attempt_id"
_UNIT_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


@dataclass(frozen=True, slots=True)
class Format:
    """One log format: what it is, how it is recognised, what it can observe, and the SELECT that reads it."""

    name: str
    title: str
    spec: str
    source: str
    input: str
    detect: str
    clock: str
    resolution_ns: int
    observer: str
    observes: tuple[str, ...]
    select_sql: str
    one_row: str = "attempt"
    hint: str = ""
    traps: tuple[str, ...] = ()
    notes: tuple[tuple[str, str], ...] = ()
    """(code, words) of the notes that this format puts on rows and no other format explains."""
    path: Path | None = None
    join_ids: tuple[tuple[str, str], ...] = ()
    """(column, pattern) of the ids by which a row may be found in another log; group 1 of the pattern is the id, '' takes all of it."""
    keys: tuple[str, ...] = ()
    """Names of the log's own fields that a TOML mapping reads, in order; empty for SQL formats."""
    sought: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """(our field, the names it is read from) of a user's own mapping: one that no record has is a slip of the pen."""


def read_text(path: Path) -> str:
    """The file of a format. Raises InputError if it cannot be read, UsageError if it is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as fault:
        raise UsageError("the mapping is not UTF-8 text", where=str(path)) from fault
    except OSError as fault:
        hint = "hedgectl formats --detect LOG writes one to start from"
        raise InputError(f"cannot read the mapping: {fault.strerror or fault}", where=str(path), hint=hint) from fault


def one_of(value: Any, allowed: tuple[str, ...], key: str, path: Path) -> str:
    """``value``, if it is one of ``allowed``. Raises UsageError with the nearest of them."""
    if value in allowed:
        return str(value)
    near = columns.nearest(str(value), list(allowed))
    raise UsageError(
        f"{key} = {value!r} is not known",
        where=str(path),
        hint=f"did you mean {near}?" if near else f"one of {', '.join(allowed)}",
    )


def resolution(text: Any, where: str) -> int:
    """``1ms`` -> ns. Raises UsageError."""
    found = re.fullmatch(r"(\d+)\s*(ns|us|ms|s)", text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(f"resolution {text!r} is not a duration", where=where, hint="e.g. 1ms, 1us, 1ns")
    return int(found.group(1)) * _UNIT_NS[found.group(2)]


def _note(text: str, where: str) -> tuple[str, str]:
    code, equals, words = text.partition("=")
    if not equals or not re.fullmatch(r"[a-z0-9_]+", code.strip()) or not words.strip():
        raise UsageError(f"notes: {text.strip()!r} is not code = words", where=where)
    return code.strip(), words.strip()


def parse_join_ids(text: str, *, where: str = "") -> tuple[tuple[str, str], ...]:
    """The header key ``join_ids`` -> (column, pattern) each. Raises UsageError for a column that is no id, or a faulty pattern."""
    found = []
    for term in re.split(r",\s+", text.strip() or _JOIN_IDS):
        column, _, pattern = term.partition("~")
        if column not in ("request_id", "attempt_id", "parent_id"):
            raise UsageError(f"join_ids: {column!r} is no id", where=where, hint="request_id, attempt_id or parent_id")
        try:
            groups = re.compile(pattern).groups
        except re.error as fault:
            raise UsageError(f"join_ids: {pattern!r} is no pattern: {fault}", where=where) from fault
        if pattern and groups != 1:
            raise UsageError(f"join_ids: {pattern!r} has {groups} groups, not one", where=where)
        found.append((column, pattern))
    return tuple(found)


def from_header(
    head: Mapping[str, str], path: Path, *, select_sql: str, keys: tuple[str, ...], own: bool = False
) -> Format:
    """The format whose header is ``head``; a mapping of the user's ``own`` may leave keys empty. Raises UsageError naming the key."""
    where = str(path)
    missing = [k for k in _NEEDED if k not in head or (not head[k] and not own)]
    if missing:
        raise UsageError(f"the header has no {', '.join(missing)}", where=where)
    if head["format"] != path.stem and not own:
        raise UsageError(f"format is {head['format']} but the file is called {path.name}", where=where)
    if head["input"] not in INPUTS:
        raise UsageError(f"input {head['input']!r} is not one of {', '.join(INPUTS)}", where=where)
    observes = tuple(name.strip() for name in head["observes"].split(",") if name.strip())
    unknown = [name for name in observes if name not in columns.CANONICAL]
    if unknown:
        near = columns.nearest(unknown[0], list(columns.CANONICAL))
        raise UsageError(
            f"observes names {unknown[0]}, which is no column",
            where=where,
            hint=f"did you mean {near}?" if near else None,
        )
    return Format(
        name=head["format"],
        title=head["title"],
        spec=head["spec"],
        source=head["source"],
        input=head["input"],
        detect=head["detect"],
        clock=head["clock"],
        resolution_ns=resolution(head["resolution"], where),
        observer=one_of(head["observer"], OBSERVERS, "observer", path),
        observes=observes,
        select_sql=select_sql,
        one_row=one_of(head.get("one_row", "attempt"), ROWS, "one_row", path),
        hint=head.get("hint", ""),
        traps=tuple(t.strip() for t in head.get("traps", "").split(" ; ") if t.strip()),
        notes=tuple(_note(n, where) for n in head.get("notes", "").split(" ; ") if n.strip()),
        path=path,
        join_ids=parse_join_ids(head.get("join_ids", ""), where=where),
        keys=keys,
    )
