"""The macros that a format's SQL calls: creating all of them would take a thread longer than the format itself."""

from __future__ import annotations

import re
from functools import cache

from hedgectl import sql

_BEGIN = re.compile(r"^CREATE OR REPLACE TEMP MACRO (\w+)", re.MULTILINE)
_WORD = re.compile(r"\w+")


def needed(select: str) -> str:
    """The statements of ``queries/formats/_macros.sql`` that ``select`` needs, and those that these need, in the order of the file."""
    every = _every()
    found: set[str] = set()
    open_ = [select]
    while open_:
        new = every.keys() & set(_WORD.findall(open_.pop())) - found
        found |= new
        open_ += [every[name] for name in new]
    return "".join(text for name, text in every.items() if name in found)


@cache
def _every() -> dict[str, str]:
    """The macros by name, in the order of the file."""
    text = sql.text("formats/_macros")
    begins = list(_BEGIN.finditer(text))
    ends = [each.start() for each in begins[1:]] + [len(text)]
    return {each[1]: text[each.start() : end] for each, end in zip(begins, ends, strict=True)}
