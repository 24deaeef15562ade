"""YAML out (small, block style, every doubtful text quoted) and in (PyYAML, loaded on use)."""

from __future__ import annotations

import re
from typing import Any, Final

from hedgectl.emitters._seam import Unreadable
from hedgectl.emitters._text import quoted

# A text that every YAML reader takes as the same text. No digits first (durations, times, sexagesimals), no words
# that YAML 1.1 reads as booleans or null.
_BARE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(?:/[A-Za-z0-9_.-]+)*")
_WORDS: Final = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null", "inf", "nan"})


def dump(value: Any, indent: int = 0) -> str:
    """Dicts, lists, texts, booleans and numbers as block YAML, two spaces a level, ending with a newline."""
    pad = "  " * indent
    if isinstance(value, dict) and value:
        return "".join(pad + _key(key) + ":" + _after_colon(item, indent) for key, item in value.items())
    if isinstance(value, list) and value:
        return "".join(pad + "- " + dump(item, indent + 1).lstrip(" ") for item in value)
    return pad + _scalar(value) + "\n"


def _after_colon(value: Any, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + dump(value, indent + 1)
    return " " + _scalar(value) + "\n"


def _key(key: str) -> str:
    return _scalar(key)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    text = str(value)
    return text if _BARE.fullmatch(text) and text.lower() not in _WORDS else quoted(text)


def load(text: str) -> list[Any]:
    """The documents of a YAML (or JSON) text. Raises Unreadable with line and column."""
    import yaml

    try:
        return [each for each in yaml.safe_load_all(text) if each is not None]
    except yaml.YAMLError as error:
        raise Unreadable(" ".join(str(error).split())) from None
    except RecursionError:
        raise Unreadable("nested too deep") from None
