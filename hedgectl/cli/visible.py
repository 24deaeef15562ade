"""Names out of a log made safe to show: what would move the cursor, colour, reorder or break a line is spelled out."""

from __future__ import annotations

import re

# C0 and C1 controls, DEL, marks that reorder or hide text, line separators, byte order mark, halves of surrogate pairs
_UNSEEN = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")
_UNSEEN_BUT_NEWLINE = re.compile(_UNSEEN.pattern.replace(r"\x00-\x1f", r"\x00-\x09\x0b-\x1f"))
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def one_line(text: str) -> str:
    """The text on one line: ``a\\tb`` for a tab, ``\\x1b`` for an escape, ``\\u202e`` for a mark that reorders."""
    return _UNSEEN.sub(_spelled, text)


def lines(text: str) -> str:
    """The same for a text of our own that may have several lines: newlines stay."""
    return _UNSEEN_BUT_NEWLINE.sub(_spelled, text)


def cell(value: object) -> object:
    """A CSV value that no spreadsheet runs: text that starts like a formula gets a ``'`` before it, numbers stay."""
    if not isinstance(value, str) or value[:1] not in ("=", "+", "-", "@", "\t", "\r") or len(value) < 2:
        return value
    try:
        float(value)
    except ValueError:
        return "'" + value
    return value


def _spelled(found: re.Match[str]) -> str:
    code = ord(found[0])
    return _SHORT.get(found[0]) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
