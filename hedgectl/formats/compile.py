"""TOML mapping -> one SELECT from raw records to canonical rows; the same for our flat formats and for a user's own log.

The SELECT reads ``raw(line, record, j)`` and needs the macros of ``queries/formats/_macros.sql``. All JSON paths of a record are
extracted in one pass. Only names of ``columns.py`` become identifiers; names from the mapping become quoted string literals.

How rows are judged (reason codes are stable):

- not a request: none of ts, end, e2e, ttft, status, request id is in it (``no_request_field``), or ``[skip]``/``[only]`` say so;
- rejected: ``no_time``, ``bad_time``, ``negative_duration``, ``bad_duration``, ``no_unit``, ``duration_out_of_range`` (over a day),
  ``unknown_status``;
- kept with a note: ``naive_time``, ``ttft_near_e2e`` (an upstream that holds its answer back), and with the doubtful value as NULL
  ``ttft_equals_e2e``, ``ttft_zero``, ``ttft_beyond_e2e``, ``ttft_unreadable``, ``clock_skew`` (first token before the start),
  ``cross_clock`` (first token timed by another machine), ``component_out_of_range``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hedgectl import sql
from hedgectl.errors import UsageError
from hedgectl.formats import columns
from hedgectl.formats.columns import Key

RULES = ("only", "skip")
STATUS_LISTS = ("status_ok", "status_error", "status_censored")
_SOURCE_KEYS = ("field", "sum", "unit", "scale")


def literal(text: str) -> str:
    """``text`` as an SQL string literal. DuckDB's plain literals have one special character, the quote."""
    if "\x00" in text:
        raise UsageError("a name in the mapping holds a NUL character")
    return "'" + text.replace("'", "''") + "'"


def pointer(name: str) -> str:
    """A field name as an RFC 6901 pointer; a name that starts with ``/`` already is one."""
    if name.startswith("/"):
        return name
    return "/" + name.replace("~", "~0").replace("/", "~1")


def pointers(name: str) -> list[str]:
    """Where ``name`` may stand: the key as it is spelled, then, if it has dots, the nested path."""
    first = [pointer(name)]
    if not name.startswith("/") and "." in name.strip("."):
        first.append("/" + "/".join(pointer(part)[1:] for part in name.split(".")))
    return first


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: the first of ``names`` that is there, or the sum of them, in ``unit``, times ``scale``."""

    names: tuple[str, ...] = ()
    sums: tuple[tuple[str, ...], ...] = ()
    unit: str | None = None
    scale: str | None = None


@dataclass(frozen=True, slots=True)
class FieldMap:
    """A parsed mapping: what the compiler needs to know, checked, in the order of the file."""

    fields: dict[str, Source]
    keys: dict[str, Key]
    constants: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, Any] = field(default_factory=dict)  # meaning of a request's parameter that is left out
    only: dict[str, tuple[str, ...]] = field(default_factory=dict)
    skip: dict[str, tuple[str, ...]] = field(default_factory=dict)
    words: dict[str, tuple[str, ...]] = field(default_factory=dict)
    observer: str = "client"
    resolution_ns: int = 1_000_000
    ttft_basis: str = "first_token"
    tz: str | None = None
    one_row: str = "attempt"
    other_clock: tuple[str, ...] = ()
    prompt_excludes_cached: bool = False
    unit: str | None = None  # of durations that name none: the user's word, never a guess


def source(value: Any, *, where: str) -> Source:
    """A value of ``[fields]`` as a Source: ``"name"``, ``["first", "else"]`` or ``{field=, sum=, unit=, scale=}``."""
    if isinstance(value, str) and value:
        if "\x00" in value:
            raise UsageError("the name of a field holds a NUL character", where=where)
        return Source(names=(value,))
    if isinstance(value, list) and value:
        names: list[str] = []
        sums: list[tuple[str, ...]] = []
        for item in value:
            one = source(item, where=where)
            names.extend(one.names)
            sums.extend(one.sums)
        return Source(tuple(names), tuple(sums))
    if isinstance(value, dict):
        for name in value:
            if name not in _SOURCE_KEYS:
                near = columns.nearest(name, list(_SOURCE_KEYS))
                raise UsageError(
                    f"unknown key {name!r} of a field",
                    where=where,
                    hint=f"did you mean {near}?" if near else f"a field has {', '.join(_SOURCE_KEYS)}",
                )
        unit = value.get("unit")
        if unit is not None and unit not in columns.UNITS and unit not in columns.CURRENCIES and unit != "text":
            raise UsageError(f"unknown unit {unit!r}", where=where, hint=f"units are {', '.join(columns.UNITS)}, text")
        scale = value.get("scale")
        if scale is not None and not _is_decimal(str(scale)):
            raise UsageError(f"scale {scale!r} is not a number", where=where)
        if "sum" in value:
            names_of_sum = value["sum"]
            if not isinstance(names_of_sum, list) or not all(isinstance(n, str) and n for n in names_of_sum):
                raise UsageError("sum is a list of field names", where=where)
            return Source(sums=(tuple(names_of_sum),), unit=unit, scale=None if scale is None else str(scale))
        inner = source(value.get("field", ""), where=where)
        return Source(inner.names, inner.sums, unit, None if scale is None else str(scale))
    raise UsageError(
        f"{value!r} is not the name of a field", where=where, hint='write e2e_ms = "latencyMs", or a list of names'
    )


def _is_decimal(text: str) -> bool:
    head, _, tail = text.partition(".")
    return (head.isdigit() or (head == "" and tail != "")) and (tail == "" or tail.isdigit())


class _Paths:
    """Collects the JSON paths of a mapping so that a record is walked once, as one ``from_json`` struct.

    What a struct cannot say (a key that is both a value and a parent, names that differ in case only, list positions) is
    extracted by path in a second pass.
    """

    def __init__(self) -> None:
        self._tree: dict[str, Any] = {}
        self._rest: dict[str, int] = {}

    def at(self, path: str) -> str:
        """SQL for the text at an RFC 6901 pointer."""
        parts = [p.replace("~1", "/").replace("~0", "~") for p in path[1:].split("/")]
        if not self._place(self._tree, parts):
            return f"w[{self._rest.setdefault(path, len(self._rest) + 1)}]"
        value = "v"
        for part in parts:
            value = f"struct_extract({value}, {literal(part)})"
        return value

    def _place(self, node: dict[str, Any], parts: list[str]) -> bool:
        head, *tail = parts
        if head == "" or head.isdigit() or any(k != head and k.lower() == head.lower() for k in node):
            return False
        if not tail:
            return bool(node.setdefault(head, "VARCHAR") == "VARCHAR")
        below = node.get(head, {})
        if not isinstance(below, dict) or not self._place(below, tail):
            return False
        node[head] = below
        return True

    def extraction(self) -> str:
        """SQL of the columns ``v`` (struct) and ``w`` (list) of a record ``j``."""
        structure = json.dumps(self._tree or {"-": "VARCHAR"}, ensure_ascii=False)
        rest = ", ".join(literal(path) for path in self._rest)
        listed = f"json_extract_string(j, [{rest}])" if rest else "CAST(NULL AS VARCHAR[])"
        return f"from_json(j, {literal(structure)}) AS v, {listed} AS w"


def _first(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"coalesce({', '.join(parts)})"


def _text_of(src: Source, paths: _Paths, *, exact: bool = False) -> str:
    """SQL for the text of a source, empty strings and '-' as NULL; ``exact`` keeps blanks at the ends of names."""
    wrap = "to_text" if exact else "present"
    parts = [f"{wrap}({paths.at(p)})" for name in src.names for p in pointers(name)]
    for names in src.sums:
        terms = [_first([f"TRY_CAST({paths.at(p)} AS DECIMAL(28, 9))" for p in pointers(n)]) for n in names]
        total = " + ".join(f"coalesce({t}, 0)" for t in terms)
        # the first term must be there: a sum of absent parts is not zero
        parts.append(f"CASE WHEN {terms[0]} IS NOT NULL THEN CAST({total} AS VARCHAR) END")
    return _first(parts)


def _time_text(src: Source, paths: _Paths) -> str:
    text = _text_of(src, paths)
    if len(src.names) == 1 and not src.sums and not src.names[0].startswith("/"):
        # a JSON number comes through a double; a time with more digits is read from the record's own text
        pattern = f'"{_escape_pattern(src.names[0])}"' + r"\s*:\s*(-?[0-9.]+)"
        return f"exact_digits(j, {literal(pattern)}, {text})"
    return text


def _escape_pattern(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c == "_") else f"\\x{{{ord(c):x}}}" for c in name)


def _convert(name: str, src: Source | None, key: Key | None, tz: str, where: str, unit_of_rest: str | None) -> str:
    """SQL that turns ``<name>_s`` into integer nanoseconds."""
    if src is None or key is None:
        return "CAST(NULL AS BIGINT)"
    unit = src.unit or key.unit
    if unit not in (None, "text") and unit not in columns.UNITS:
        raise UsageError(f"{unit!r} is no unit of time", where=where)
    if key.kind == "time":
        return f"time_in_ns({name}_s, {tz})" if unit in (None, "text") else f"{columns.UNITS[str(unit)]}({name}_s)"
    if unit in (None, "text"):
        stated = f"duration_ns({name}_s)"
        return stated if unit_of_rest is None else f"coalesce({stated}, {columns.UNITS[unit_of_rest]}({name}_s))"
    return f"coalesce({columns.UNITS[str(unit)]}({name}_s), duration_ns({name}_s))"


def _constant(name: str, value: Any, where: str) -> str:
    kind = columns.KEYS[name].kind
    if kind in ("text", "special") and isinstance(value, str):
        return literal(value)
    if kind == "flag" and isinstance(value, bool):
        return literal(str(value).lower())
    if kind == "count" and isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return literal(str(value))
    raise UsageError(f"the constant {name} = {value!r} has the wrong type", where=where)


def _rule(name: str, values: tuple[str, ...], paths: _Paths, *, wanted: bool) -> str:
    text = _first([paths.at(p) for p in pointers(name)])
    listed = ", ".join(literal(v) for v in values)
    return f"coalesce({text}, '') {'NOT IN' if wanted else 'IN'} ({listed})"


def _check(by_name: Mapping[str, Any], fmap: FieldMap, where: str) -> None:
    have = by_name.keys()
    if not ({"e2e", "ttft"} & have or {"end", "ts"} <= have):
        raise UsageError(
            "the mapping names no latency",
            where=where,
            hint='name a duration (e2e_ms = "...") or a start and an end (ts = "...", end = "...")',
        )
    if fmap.one_row == "request" and not {"hedged", "hedge_delay"} & have:
        raise UsageError(
            'one_row = "request" needs to know which rows were hedged',
            where=where,
            hint='add hedged = "..." to [fields]',
        )


def compile_map(fmap: FieldMap, *, where: str) -> str:
    """The SELECT of a mapping. ``where`` names the file for messages. Raises UsageError for a mapping that says too little."""
    by_name: dict[str, tuple[str, Source, Key]] = {}
    for spelled, src in fmap.fields.items():
        key = fmap.keys[spelled]
        if key.name in by_name:
            raise UsageError(f"{by_name[key.name][0]} and {spelled} both give {key.name}", where=where)
        by_name[key.name] = (spelled, src, key)
    _check(by_name, fmap, where)
    paths = _Paths()
    tz = literal(fmap.tz) if fmap.tz else "CAST(getvariable('hedgectl_tz') AS VARCHAR)"
    texts: list[str] = []
    for name in _TEXT_NAMES:
        if name in by_name:
            _, src, key = by_name[name]
            text = _time_text(src, paths) if name in columns.TIMES else _text_of(src, paths, exact=key.kind == "text")
            if name in fmap.left_out:
                others = [_text_of(by_name[o][1], paths) for o in PARAMETERS if o in by_name and o != name]
                text = _left_out(text, others, _constant(name, fmap.left_out[name], where))
        elif name in fmap.constants:
            text = _constant(name, fmap.constants[name], where)
        else:
            text = "CAST(NULL AS VARCHAR)"
        texts.append(f"{text} AS {name}_s")
    rules = [_rule(name, values, paths, wanted=True) for name, values in fmap.only.items()]
    rules += [_rule(name, values, paths, wanted=False) for name, values in fmap.skip.items()]
    naive = [f"is_naive({t}_s)" for t in columns.TIMES if t in by_name and fmap.tz is None]
    holes = {
        "extraction": paths.extraction(),
        "texts": ",\n           ".join(texts),
        "skipped": f"({' OR '.join(rules)})" if rules else "false",
        "naive": f"coalesce({' OR '.join(naive)}, false)" if naive else "false",
        "cost": _cost(by_name.get("cost")),
        "currency": literal(_currency(by_name.get("cost"))),
        "cross_clock": _sql_bool("first_token" in fmap.other_clock),
        "timed": _sql_bool(bool({"ts", "end"} & by_name.keys())),
        "unitless": _sql_bool(_unitless(by_name.get("e2e"))),
        "prompt_excludes_cached": _sql_bool(fmap.prompt_excludes_cached),
        "resolution_ns": str(int(fmap.resolution_ns)),
        "observer": literal(fmap.observer),
        "ttft_basis": literal(fmap.ttft_basis),
    }
    for name in (*columns.TIMES, *columns.DURATIONS):
        spelled, duration, of = by_name.get(name, (name, None, None))
        holes[name] = _convert(name, duration, of, tz, f"{where}: {spelled}", fmap.unit)
    for name in STATUS_LISTS:
        holes[name] = ", ".join(literal(w) for w in fmap.words.get(name, ())) or "NULL"
    end = "_flat_request" if fmap.one_row == "request" else "_flat_attempt"
    return _fill(sql.text("formats/_flat") + sql.text(f"formats/{end}"), holes)


_TEXT_NAMES = (
    *columns.TIMES, *columns.DURATIONS, *columns.TEXTS, *columns.COUNTS, *columns.FLAGS, *columns.SPECIALS, "cost",
)  # fmt: skip


PARAMETERS = ("tools", "tools_offered", "stored_state", "n_choices", "batch")


def _left_out(text: str, others: Sequence[str], default: str) -> str:
    """The default, in rows that name another parameter of the request: a log without any of them says nothing by silence."""
    named = " OR ".join(f"{other} IS NOT NULL" for other in others) or "false"
    return f"coalesce({text}, CASE WHEN {named} THEN {default} END)"


def _sql_bool(value: bool) -> str:
    return "true" if value else "false"


def _unitless(entry: tuple[str, Source, Key] | None) -> bool:
    return entry is not None and (entry[1].unit or entry[2].unit) in (None, "text")


def _cost(entry: tuple[str, Source, Key] | None) -> str:
    if entry is None or entry[1].scale is None:
        return "to_money(cost_s)"
    return f"CAST(TRY_CAST(cost_s AS DECIMAL(24, 9)) * CAST({literal(entry[1].scale)} AS DECIMAL(14, 12)) AS DECIMAL(24, 12))"


def _currency(entry: tuple[str, Source, Key] | None) -> str:
    unit = entry and (entry[1].unit or entry[2].unit)
    return (unit or "usd").upper()


def _fill(template: str, holes: Mapping[str, str]) -> str:
    """The template with every ``{{name}}`` replaced once; text that a hole brings in is not looked at again."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: holes[found.group(1)], template)
