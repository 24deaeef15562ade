"""What a figure of the report is made of: what it says, the rows it is drawn from, and its numbers as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Table:
    """The numbers of a figure as text with units. The first `left` columns are words."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: int = 1


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure. `says` is its finding in a sentence or two; a screen reader hears it instead of the picture.

    `missing` is set where the log cannot give the figure: then it says what to log, and nothing is drawn.
    """

    key: str
    title: str
    says: str
    n: int
    of: str = "requests"
    rows: Sequence[Mapping[str, Any]] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    table: Table | None = None
    missing: str | None = None
    draw: str = ""  # the kind of chart; the key if empty


def lacking(key: str, title: str, missing: str) -> Figure:
    """A figure that this log cannot give, with what would give it."""
    return Figure(key, title, "", 0, missing=missing)


def ms(value: float | None) -> str:
    """A duration with its unit; ``-`` for what was not observed."""
    if value is None:
        return "-"
    if abs(value) < 10:
        return f"{value:.3g} ms"
    if abs(value) < 1000:
        return f"{value:.0f} ms"
    if abs(value) < 120_000:
        return f"{value / 1000:.2f} s" if abs(value) < 99_950 else f"{value / 1000:.0f} s"
    return f"{value / 60_000:.1f} min"


def percent(ratio: float | None, digits: int = 1) -> str:
    """A share of 1 as percent."""
    return "-" if ratio is None else f"{100 * ratio:.{digits}f} %"


def count(value: float | None) -> str:
    """A count with thousands set apart."""
    return "-" if value is None else f"{value:,.0f}"
