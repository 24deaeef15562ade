"""What a mapping misses in a log: fields that it does not read, and fields of its own that no record has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hedgectl.formats.catalogue import Format
from hedgectl.formats.compile import pointers
from hedgectl.formats.sample import Record


@dataclass(frozen=True, slots=True)
class FieldReport:
    """Fields of a log that a format does not read: ``unknown``, and ``near`` = unknown field -> the field it may be.

    ``beside`` are those of ``near`` that never stand in for their field, because every record has that one too.
    ``absent`` are fields of a user's mapping that none of the ``looked`` records has: (our field, its name in the mapping).
    """

    unknown: tuple[str, ...]
    near: dict[str, str]
    beside: frozenset[str] = frozenset()
    absent: tuple[tuple[str, str], ...] = ()
    looked: int = 0


def field_report(fmt: Format, records: Iterable[Record]) -> FieldReport:
    """Top-level fields that a TOML format does not read, and which of them are one of its fields spelled otherwise."""
    if not fmt.keys:
        return FieldReport((), {})
    tops = {k.strip("/").split("/")[0] if k.startswith("/") else k for k in fmt.keys}
    listed = list(records)
    seen = list(dict.fromkeys(name for r in listed for name in r))
    unknown = tuple(n for n in seen if n not in tops)
    folded = {_folded(own): own for own in tops}
    near = {name: folded[_folded(name)] for name in unknown if _folded(name) in folded}
    beside = frozenset(name for name, own in near.items() if all(own in r for r in listed if name in r))
    absent = tuple(
        (ours, " or ".join(map(repr, names)))
        for ours, names in fmt.sought
        if listed and names and not any(_stands(r, name) for name in names for r in listed)
    )
    return FieldReport(tuple(n for n in unknown if n not in near), near, beside, absent, len(listed))


def _stands(record: Record, name: str) -> bool:
    """Whether a record has the field that a mapping calls ``name``, be it empty."""
    for path in pointers(name):
        value: Any = record
        for part in (p.replace("~1", "/").replace("~0", "~") for p in path[1:].split("/")):
            if isinstance(value, list) and part.isdigit() and int(part) < len(value):
                value = value[int(part)]
            elif isinstance(value, Mapping) and part in value:
                value = value[part]
            else:
                break
        else:
            return True
    return False


def _folded(name: str) -> str:
    """A field's name without case, blanks and marks: what people vary."""
    return re.sub(r"[\W_]", "", name.lower()) or name
