"""The registry of log formats: the folder ``queries/formats`` is the list, a file is an entry, nothing else is edited.

How to add a format
-------------------
1. ``queries/formats/<name>.toml`` for flat records (one record = one attempt or one request), or ``queries/formats/<name>.sql`` for
   nested and text logs. Same header keys in both: ``format`` (the file's name), ``title``, ``spec`` (where the format is specified),
   ``source`` (how to switch it on), ``input``, ``detect``, ``clock``, ``resolution``, ``observer``, ``observes``, ``hint``, ``traps``
   (`` ; `` between them), ``join_ids`` (only in SQL: by which of its ids a row may be found in another observer's log: columns, or
   ``column~regex`` whose group 1 is the id; a comma and a blank between them; default ``request_id, attempt_id``) and ``notes``
   (``code = words ; code = words``, for the codes that the SELECT returns in ``note``). In SQL they are ``-- key: value`` lines that
   open the file; a line ``--   more`` continues the value above it.
2. ``sample_logs/<name>/`` with one or more small files of your own making, real in shape, that show every column of ``observes``.
3. ``tests/golden/formats/<name>.json``, written by ``python tests/make_format_goldens.py <name>`` and then read by you, and one
   invariant in ``tests/test_formats_<name>.py``.

``input``: ``json`` = records of named fields, whatever the container (JSON lines, an array, ``{"data": [...]}``, CSV with a header,
Parquet); ``csv`` or ``parquet`` = only that container; ``text`` = lines.

The SELECT reads ``raw(line BIGINT, record INTEGER, j JSON)``, or ``raw(line, record, text VARCHAR)`` for text, and returns ``line``,
``record`` and any of the columns of ``attempt`` by name (``columns.CANONICAL``), and if needed ``kind`` (``attempt`` by default, ``tool``,
``not_request``, ``reject``), ``reason`` (a stable code for the last two) and ``note`` (stable codes, comma-separated, for doubts about a
row that is kept). ``request_id`` may be NULL: ingest makes one from file and line. A ``tool`` row needs ``turn_id``, ``tool_names``,
``arrival_ns``, ``e2e_ns``. Every record must come back at least once; one record may give several rows. No window functions: ``raw`` is a
block of the file, not the file, unless ``one_row`` is ``part``: several records together are one request, and the file is not cut. Extract all paths of a record in one ``json_extract_string(j, ['/a', '/b/c', ...]) AS v``.

``detect`` (must be distinctive, see ``detect.py``): comma-separated terms, all of which must hold for a record: ``a`` key present
(``a.b`` nested, ``a|b`` either), ``!a`` absent, ``a=x`` value equals, ``a~re`` value matches, ``/regex/`` the text of the record (of the
line, for a text format) matches, ``!/regex/`` it does not. A key that itself holds a dot, comma, ``|``, ``=`` or ``~`` is written in
double quotes: ``"gen_ai.latency.e2e"``.

Macros (``queries/formats/_macros.sql``, loaded by ingest; NULL for what they cannot read)
-----------------------------------------------------------------------------------------
- text: ``present(s)`` ('' and '-' are NULL), ``to_text(s)`` (no JSON containers), ``to_count(s)``, ``to_bool(s)``, ``to_money(s)``
- decimal text -> ns: ``s_ns ms_ns us_ns ns_ns min_ns (s)``; ``duration_ns(s)`` for text with a unit ('1.2s', '1m2s', '0:00:00.25')
- time text -> ns UTC: ``iso_ns(s)``, ``iso_in_ns(s, tz)``, ``time_ns(s)``, ``time_in_ns(s, tz)`` (ISO, or epoch told apart by size),
  ``epoch_by_size_ns(s)``, ``clf_ns(s)``, ``wall_ns(s)``, ``naive_ns(wall, tz)``, ``zone_of(s)``, ``is_naive(s)``;
  ``exact_digits(j, pattern, s)`` for JSON numbers with more digits than a double has
- status: ``http_class(code)``, ``http_kind(code)``, ``word_class(w)``, ``word_kind(w)``
- lists: ``tool_list(s)`` -> sorted comma-separated names
- OTLP: ``otlp_attrs(json)`` then ``otlp_attr(attrs, key)``; ``otlp_text(value)``; ``otlp_id(s)`` (hex, lower case, from base64 too)

The session variable ``hedgectl_tz`` holds ``--tz`` for naive times (NULL = UTC); a mapping's own ``tz`` wins over it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from hedgectl import sql
from hedgectl.errors import InputError, UsageError
from hedgectl.formats import columns
from hedgectl.formats.compile import PARAMETERS, RULES, STATUS_LISTS, FieldMap, Source, compile_map, source

INPUTS = ("json", "csv", "text", "parquet")
OBSERVERS = ("client", "edge", "gateway", "engine")
ROWS = ("attempt", "request", "part")
BASES = ("first_token", "first_byte", "engine")
_HEADER = (
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
_MAP_KEYS = (
    *_HEADER,
    "one_row",
    "tz",
    "ttft_basis",
    "prompt_excludes_cached",
    "other_clock",
    *STATUS_LISTS,
    *RULES,
    "fields",
    "constants",
    "left_out",
)
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


@cache
def load_all() -> dict[str, Format]:
    """Every format on disk, by name, sorted. Raises UsageError naming file and line of a faulty entry."""
    folder = sql.queries_dir() / "formats"
    found: dict[str, Format] = {}
    for path in sorted(folder.iterdir()):
        if path.name.startswith("_") or path.suffix not in (".toml", ".sql"):
            continue
        if path.stem in found:
            raise UsageError(f"two files define the format {path.stem}", where=str(path))
        found[path.stem] = _load_sql(path) if path.suffix == ".sql" else _load_toml(path, own=False)
    return found


def get(name: str) -> Format:
    """The format called ``name``. Raises UsageError with the nearest name."""
    formats = load_all()
    if name in formats:
        return formats[name]
    near = columns.nearest(name, list(formats))
    raise UsageError(
        f"no format is called {name}",
        hint=f"did you mean {near}?"
        if near
        else f"there are: {', '.join(formats)}; --map FILE reads a log of your own",
    )


def load_user_map(path: Path | str, *, unit: str | None = None) -> Format:
    """A user's own TOML mapping as a Format. Raises UsageError for one that is not understood, with file and nearest name.

    ``unit`` is that of durations for which neither the mapping nor the value names one.
    """
    return _load_toml(Path(path), own=True, unit=unit)


def asked(name: str | None, map_file: Path | None, *, unit: str | None = None) -> Format | None:
    """The format that --format or --map names; None for neither. Raises UsageError if they name two."""
    if map_file is None:
        return None if name is None else get(name)
    own = load_user_map(map_file, unit=unit)
    if name is not None and name != own.name:
        raise UsageError(
            f"--map is the format {own.name}, --format says {name}",
            where=str(map_file),
            hint="give one of them: a mapping is a format of its own",
        )
    return own


@cache
def with_unit(fmt: Format, unit: str) -> Format:
    """The same format with a unit for durations that name none. Only mappings have such durations."""
    if fmt.path is None or fmt.path.suffix != ".toml":
        return fmt
    return _load_toml(fmt.path, own=False, unit=unit)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as fault:
        raise UsageError("the mapping is not UTF-8 text", where=str(path)) from fault
    except OSError as fault:
        hint = "hedgectl formats --detect LOG writes one to start from"
        raise InputError(f"cannot read the mapping: {fault.strerror or fault}", where=str(path), hint=hint) from fault


def _load_sql(path: Path) -> Format:
    text = _read(path)
    head: dict[str, str] = {}
    last = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("--"):
            break
        body = line[2:]
        if body.startswith("   ") and last:
            head[last] += " " + body.strip()
            continue
        key, colon, value = body.strip().partition(":")
        if not colon or key not in (*_HEADER, "one_row", "join_ids"):
            near = columns.nearest(key, list(_HEADER))
            raise UsageError(
                f"{key!r} is no header key of a format",
                where=f"{path}:{number}",
                hint=f"did you mean {near}?" if near else None,
            )
        if key in head:
            raise UsageError(f"header key {key} stands twice", where=f"{path}:{number}")
        head[key] = value.strip()
        last = key
    return _format(head, path, select_sql=text, keys=())


def _load_toml(path: Path, *, own: bool, unit: str | None = None) -> Format:
    text = _read(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise UsageError(f"not valid TOML: {fault}", where=str(path)) from fault
    for key in document:
        if key not in _MAP_KEYS:
            raise UsageError(f"unknown key {key!r} in the mapping", where=_at(path, text, key), hint=_key_hint(key))
    fmap = replace(_field_map(document, path, text), unit=unit)
    head = {k: _header_text(document[k], k, path) for k in (*_HEADER, "one_row") if k in document}
    if own:
        head.setdefault("format", path.stem)
        head.setdefault("title", f"user mapping {path.name}")
        head.setdefault("spec", "user mapping")
        head.setdefault("source", "user mapping")
        head.setdefault("input", "json")
        head.setdefault("detect", "")
        head.setdefault("clock", "wall clock of the log")
        head.setdefault("resolution", "1ms")
        head.setdefault("observer", "client")
        head.setdefault("observes", ", ".join(_observed(fmap)))
    names = tuple(
        dict.fromkeys(n for s in fmap.fields.values() for n in (*s.names, *(x for group in s.sums for x in group)))
    )
    made = _format(head, path, select_sql=compile_map(fmap, where=str(path)), keys=names, own=own)
    if not own:
        return made  # ours name what one version or another of a product writes
    return replace(
        made, sought=tuple((fmap.keys[k].name, (*s.names, *sum(s.sums, ()))) for k, s in fmap.fields.items())
    )


def _key_hint(key: str) -> str:
    if key in columns.KEYS:
        return "names of fields stand under [fields]"
    near = columns.nearest(key, list(_MAP_KEYS))
    return f"did you mean {near}?" if near else f"there are: {', '.join(_MAP_KEYS)}"


def _at(path: Path, text: str, key: str) -> str:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf'\s*\[?"?{re.escape(key)}"?\s*[\]=]', line):
            return f"{path}:{number}"
    return str(path)


def _header_text(value: Any, key: str, path: Path) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(v, str) for v in value):
        return (" ; " if key in ("traps", "notes") else ", ").join(value)
    raise UsageError(f"{key} is text, or a list of texts", where=str(path))


def _field_map(document: Mapping[str, Any], path: Path, text: str) -> FieldMap:
    fields = document.get("fields")
    if not isinstance(fields, dict) or not fields:
        raise UsageError(
            "the mapping has no [fields]",
            where=str(path),
            hint='add [fields] with e.g. ts = "time", e2e_ms = "latencyMs"',
        )
    sources: dict[str, Source] = {}
    keys = {}
    for name, value in fields.items():
        where = _at(path, text, name)
        keys[name] = columns.key(name, where=where)
        sources[name] = source(value, where=where)
    return FieldMap(
        fields=sources,
        keys=keys,
        constants=_fixed(document, "constants", path, text),
        left_out=_left_out(document, fields, path, text),
        only=_rules(document, "only", path),
        skip=_rules(document, "skip", path),
        words={name: _words(document.get(name, []), name, path) for name in STATUS_LISTS},
        observer=_one_of(document.get("observer", "client"), OBSERVERS, "observer", path),
        resolution_ns=_resolution(document.get("resolution", "1ms"), str(path)),
        ttft_basis=_one_of(document.get("ttft_basis", "first_token"), BASES, "ttft_basis", path),
        tz=_zone(document.get("tz"), path),
        one_row=_one_of(document.get("one_row", "attempt"), ROWS[:2], "one_row", path),
        other_clock=_words(document.get("other_clock", []), "other_clock", path),
        prompt_excludes_cached=_flag(document.get("prompt_excludes_cached", False), "prompt_excludes_cached", path),
    )


def _fixed(document: Mapping[str, Any], table: str, path: Path, text: str) -> dict[str, Any]:
    """A table of values that stand in the mapping itself, by the names of ``[fields]``."""
    found = document.get(table, {})
    if not isinstance(found, dict):
        raise UsageError(f"[{table}] is a table", where=str(path))
    for name in found:
        if columns.key(name, where=_at(path, text, name)).kind in ("time", "duration", "money"):
            raise UsageError(f"{name} cannot be a constant", where=_at(path, text, name))
    return dict(found)


def _left_out(document: Mapping[str, Any], fields: Mapping[str, Any], path: Path, text: str) -> dict[str, Any]:
    """What a parameter means in rows that name another one. Raises UsageError where no row could say so."""
    found = _fixed(document, "left_out", path, text)
    for name in found:
        where = _at(path, text, name)
        if name not in fields:
            hint = f'add {name} = "its name in the log" to [fields]; what no row ever says belongs to [constants]'
            raise UsageError(f"[left_out] speaks of {name}, which [fields] does not read", where=where, hint=hint)
        if not (set(PARAMETERS) & fields.keys()) - {name}:
            hint = f"it holds in rows that name another parameter: add one of {', '.join(PARAMETERS)} to [fields]"
            raise UsageError(f"[left_out] can never hold for {name}", where=where, hint=hint)
    return found


def _flag(value: Any, key: str, path: Path) -> bool:
    if not isinstance(value, bool):
        raise UsageError(f"{key} is true or false", where=str(path))
    return value


def _words(value: Any, key: str, path: Path) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list) and all(isinstance(v, str | int) and not isinstance(v, bool) for v in value):
        return tuple(str(v) for v in value)
    raise UsageError(f"{key} is a list of texts", where=str(path))


def _rules(document: Mapping[str, Any], key: str, path: Path) -> dict[str, tuple[str, ...]]:
    table = document.get(key, {})
    if not isinstance(table, dict):
        raise UsageError(f'[{key}] is a table: kind = ["request"]', where=str(path))
    return {name: _words(values, f"{key}.{name}", path) for name, values in table.items()}


def _one_of(value: Any, allowed: tuple[str, ...], key: str, path: Path) -> str:
    if value in allowed:
        return str(value)
    near = columns.nearest(str(value), list(allowed))
    raise UsageError(
        f"{key} = {value!r} is not known",
        where=str(path),
        hint=f"did you mean {near}?" if near else f"one of {', '.join(allowed)}",
    )


def _zone(value: Any, path: Path) -> str | None:
    if value is None:
        return None
    import zoneinfo

    if isinstance(value, str):
        known = zoneinfo.available_timezones()
        if value in known or not known:
            return value
        near = columns.nearest(value, sorted(known))
        raise UsageError(
            f"no time zone is called {value!r}",
            where=str(path),
            hint=f"did you mean {near}?" if near else "e.g. Europe/Berlin",
        )
    raise UsageError("tz is the name of a time zone", where=str(path), hint="e.g. Europe/Berlin")


def _resolution(text: Any, where: str) -> int:
    found = re.fullmatch(r"(\d+)\s*(ns|us|ms|s)", text) if isinstance(text, str) else None
    if found is None:
        raise UsageError(f"resolution {text!r} is not a duration", where=where, hint="e.g. 1ms, 1us, 1ns")
    return int(found.group(1)) * _UNIT_NS[found.group(2)]


def _observed(fmap: FieldMap) -> list[str]:
    keys = {k.name for k in fmap.keys.values()} | set(fmap.constants)
    plain = [c for c in columns.CANONICAL if c in keys]
    times = [f"{d}_ns" for d in ("e2e", "ttft", "headers", "queue", "prefill", "decode", "tool_wait") if d in keys]
    if "ts" in keys or {"end", "e2e"} <= keys:
        times.append("arrival_ns")
    if "end" in keys and "e2e_ns" not in times:
        times.append("e2e_ns")
    if "first_token" in keys and "ttft_ns" not in times:
        times.append("ttft_ns")
    return plain + times + (["status"] if "status" not in plain else [])


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


@cache
def note_texts() -> dict[str, str]:
    """Note code -> words, from the headers of all formats; words hold no count."""
    return {code: words for fmt in load_all().values() for code, words in fmt.notes}


def _format(
    head: Mapping[str, str], path: Path, *, select_sql: str, keys: tuple[str, ...], own: bool = False
) -> Format:
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
        resolution_ns=_resolution(head["resolution"], where),
        observer=_one_of(head["observer"], OBSERVERS, "observer", path),
        observes=observes,
        select_sql=select_sql,
        one_row=_one_of(head.get("one_row", "attempt"), ROWS, "one_row", path),
        hint=head.get("hint", ""),
        traps=tuple(t.strip() for t in head.get("traps", "").split(" ; ") if t.strip()),
        notes=tuple(_note(n, where) for n in head.get("notes", "").split(" ; ") if n.strip()),
        path=path,
        join_ids=parse_join_ids(head.get("join_ids", ""), where=where),
        keys=keys,
    )
