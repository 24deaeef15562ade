"""The terms of a ``detect`` line, which all must hold for a record (grammar in ``catalogue.py``)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from hedgectl.errors import UsageError
from hedgectl.formats.sample import Record


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on a record or on its text."""

    kind: str  # present | absent | equals | matches | text | no_text
    names: tuple[str, ...]
    value: str = ""

    def holds(self, record: Record, text: str) -> bool:
        if self.kind in ("text", "no_text"):
            return (re.search(self.value, text) is not None) == (self.kind == "text")
        values = [_lookup(record, name) for name in self.names]
        if self.kind == "present":
            return any(v is not _ABSENT for v in values)
        if self.kind == "absent":
            return all(v is _ABSENT for v in values)
        texts = [_plain(v) for v in values if v is not _ABSENT]
        if self.kind == "equals":
            return self.value in texts
        return any(re.search(self.value, t) for t in texts)


_ABSENT = object()


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _lookup(record: Any, name: str) -> Any:
    if isinstance(record, Mapping) and name in record:
        return record[name]
    value = record
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return _ABSENT
        value = value[part]
    return value


@cache
def terms(detect: str) -> tuple[Term, ...]:
    """The parsed terms of a ``detect`` line. Raises UsageError for one that is not understood."""
    found = []
    for raw in _split(detect):
        if raw.startswith("/") and raw.endswith("/") and len(raw) > 2:
            found.append(Term("text", (), raw[1:-1]))
            continue
        if raw.startswith("!/") and raw.endswith("/") and len(raw) > 3:
            found.append(Term("no_text", (), raw[2:-1]))
            continue
        negated = raw.startswith("!")
        body = raw[1:] if negated else raw
        match = re.fullmatch(r'((?:"[^"]+"|[^"=~|]+)(?:\|(?:"[^"]+"|[^"=~|]+))*)(?:([=~])(.*))?', body)
        if match is None or (negated and match.group(2)):
            raise UsageError(f"detect term {raw!r} is not understood")
        names = tuple(n.strip().strip('"') for n in re.findall(r'"[^"]+"|[^|]+', match.group(1)))
        kind = "absent" if negated else {"=": "equals", "~": "matches", None: "present"}[match.group(2)]
        found.append(Term(kind, names, match.group(3) or ""))
    return tuple(found)


def _split(detect: str) -> list[str]:
    if detect.startswith("/") and detect.endswith("/"):
        return [detect]
    parts = re.findall(r'\s*(!?/(?:[^/\\]|\\.)+/(?=\s*(?:,|$))|(?:"[^"]*"|[^,"])+)', detect)
    return [p.strip() for p in parts if p.strip()]


def in_words(detect: str) -> str:
    """What the terms ask for, as evidence for people."""
    present = [" or ".join(t.names) for t in terms(detect) if t.kind == "present"]
    valued = [
        f"{t.names[0]} {'=' if t.kind == 'equals' else '~'} {t.value}"
        for t in terms(detect)
        if t.kind in ("equals", "matches")
    ]
    texts = ["the shape of this format" for t in terms(detect) if t.kind == "text"]
    return ", ".join(present + valued + texts[:1]) or "the shape of this format"
