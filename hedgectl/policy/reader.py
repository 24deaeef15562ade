"""One JSON object of a policy on its way in: keys taken one by one in their kinds, complaints that name the path to the key."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

from hedgectl.errors import UsageError

T = TypeVar("T")

_DURATION: Final = re.compile(r"[1-9]\d*(?:ms|[smhdw])")
_UNITS: Final[Mapping[str, timedelta]] = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_YEAR_S: Final = 366 * 86_400


def seconds(duration: str) -> int:
    """A duration such as ``30m`` or ``7d`` in whole seconds."""
    number = duration.rstrip("mshdw")
    return int(_UNITS[duration[len(number) :]].total_seconds() * int(number))


class Reader:
    """One JSON object on its way in: takes keys one by one and complains about what is left."""

    def __init__(self, value: Any, path: str) -> None:
        self.path = path
        self.taken: set[str] = set()
        if not isinstance(value, dict):
            raise UsageError(f"{_shown(value)} is not a JSON object", where=path or "policy", hint="expected {...}")
        self.value: dict[str, Any] = value

    def at(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def wrong(self, key: str, what: str, hint: str | None = None) -> UsageError:
        shown = f" {_shown(self.value[key])}" if key in self.value else ""
        return UsageError(f"policy key {key}{shown} {what}", where=self.at(key), hint=hint)

    def take(self, key: str) -> Any:
        self.taken.add(key)
        if key not in self.value:
            unknown = difflib.get_close_matches(key, self.value.keys() - self.taken, 1)
            hint = f"did you mean {key} where it says {unknown[0]}?" if unknown else None
            raise UsageError(f"policy key {key} is missing", where=self.at(key), hint=hint)
        return self.value[key]

    def has(self, key: str) -> bool:
        self.taken.add(key)
        return self.value.get(key) is not None

    def text(self, key: str, choices: Sequence[str] | None = None, default: Any = ...) -> Any:
        if default is not ... and not self.has(key):
            return default
        found = self.take(key)
        if not isinstance(found, str):
            raise self.wrong(key, "is not a text")
        if not found.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in found):
            raise self.wrong(key, "holds half a surrogate pair, which no file can carry")
        if choices is not None and found not in choices:
            near = difflib.get_close_matches(found, choices, 1)
            hint = (f"did you mean {near[0]}? " if near else "") + "one of " + ", ".join(choices)
            raise self.wrong(key, "is not known", hint)
        return found

    def flag(self, key: str, default: bool) -> bool:
        if key not in self.value:
            self.taken.add(key)
            return default
        found = self.take(key)
        if not isinstance(found, bool):
            raise self.wrong(key, "is not true or false")
        return found

    def number(self, key: str, low: float, high: float = math.inf, default: Any = ..., *, above: bool = False) -> Any:
        if default is not ... and not self.has(key):
            return default
        found = self.take(key)
        if isinstance(found, bool) or not isinstance(found, int | float) or not abs(found) < math.inf:
            raise self.wrong(key, "is not a number")
        if found < low or found > high or (above and found == low):
            least = f"more than {low:g}" if above else f"at least {low:g}"
            raise self.wrong(key, "is out of range", least + ("" if high == math.inf else f", at most {high:g}"))
        try:
            return float(found)
        except OverflowError:
            raise self.wrong(key, "is not a number") from None

    def whole(self, key: str, low: int, high: float = math.inf, default: Any = ...) -> Any:
        found = self.number(key, low, high, default)
        if isinstance(found, float):
            if found != int(found):
                raise self.wrong(key, "is not a whole number")
            return int(found)
        return found

    def part(self, key: str, read: Callable[[Reader], T], default: T | Any = ...) -> Any:
        if default is not ... and not self.has(key):
            return default
        return read(Reader(self.take(key), self.at(key)))

    def items(self, key: str, read: Callable[[Reader], T], default: Any = ...) -> tuple[T, ...]:
        if default is not ... and not self.has(key):
            return ()
        found = self.take(key)
        if not isinstance(found, list):
            raise self.wrong(key, "is not a list")
        return tuple(read(Reader(item, f"{self.at(key)}[{index}]")) for index, item in enumerate(found))

    def open(self, key: str) -> dict[str, Any]:
        if not self.has(key):
            return {}
        return Reader(self.value[key], self.at(key)).value

    def opens(self, key: str) -> tuple[dict[str, Any], ...]:
        return self.items(key, lambda item: item.value, ())

    def done(self) -> None:
        for key in self.value:
            if key not in self.taken:
                near = difflib.get_close_matches(key, self.taken, 1)
                raise UsageError(
                    f"policy key {key} is not known",
                    where=self.at(key),
                    hint=f"did you mean {near[0]}?" if near else "one of " + ", ".join(sorted(self.taken)),
                )


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else text[:57] + "..."


def instant(reader: Reader, key: str) -> str:
    """The time in UTC at ``key``, as it is written. Raises UsageError for any other."""
    found: str = reader.text(key)
    hint = "RFC 3339 in UTC, for example 2026-11-29T04:15:00Z"
    if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", found):
        raise reader.wrong(key, "is not a time in UTC", hint)
    try:
        datetime.fromisoformat(found) + timedelta(seconds=_YEAR_S)  # the latest end of its life
    except (ValueError, OverflowError):
        raise reader.wrong(key, "is not a time in UTC", hint) from None
    return found


def duration(reader: Reader, key: str, default: Any = ...) -> str:
    """The duration at ``key``, as it is written (see :func:`seconds`). Raises UsageError for one beyond a leap year."""
    found: str = reader.text(key, default=default)
    if not _DURATION.fullmatch(found):
        raise reader.wrong(key, "is not a duration", "a whole number and a unit: 30m, 12h, 7d")
    if len(found) > 12 or seconds(found) > _YEAR_S:
        raise reader.wrong(key, "is too long", "at most 366d")
    return found
