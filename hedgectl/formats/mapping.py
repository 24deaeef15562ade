"""A TOML mapping of a flat log to a format: every key checked, every complaint with its line and the nearest name."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedgectl.errors import UsageError
from hedgectl.formats import columns
from hedgectl.formats.compile import PARAMETERS, RULES, STATUS_LISTS, FieldMap, Source, compile_map, source
from hedgectl.formats.format import BASES, HEADER, OBSERVERS, ROWS, Format, from_header, one_of, read_text, resolution

_MAP_KEYS = (
    *HEADER,
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


def load(path: Path, *, own: bool, unit: str | None = None) -> Format:
    """The mapping in ``path`` as a format; the user's ``own`` needs no header, and ``unit`` is that of durations that name none."""
    text = read_text(path)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise UsageError(f"not valid TOML: {fault}", where=str(path)) from fault
    for key in document:
        if key not in _MAP_KEYS:
            raise UsageError(f"unknown key {key!r} in the mapping", where=_at(path, text, key), hint=_key_hint(key))
    fmap = replace(_field_map(document, path, text), unit=unit)
    head = {k: _header_text(document[k], k, path) for k in (*HEADER, "one_row") if k in document}
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
    made = from_header(head, path, select_sql=compile_map(fmap, where=str(path)), keys=names, own=own)
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
        observer=one_of(document.get("observer", "client"), OBSERVERS, "observer", path),
        resolution_ns=resolution(document.get("resolution", "1ms"), str(path)),
        ttft_basis=one_of(document.get("ttft_basis", "first_token"), BASES, "ttft_basis", path),
        tz=_zone(document.get("tz"), path),
        one_row=one_of(document.get("one_row", "attempt"), ROWS[:2], "one_row", path),
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
