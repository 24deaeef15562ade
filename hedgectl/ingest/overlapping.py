"""Which logs of a database speak of the same time, so that their requests would be counted twice."""

from __future__ import annotations

from typing import Any

from hedgectl import join as observers
from hedgectl.errors import UsageError
from hedgectl.ingest import document


def overlap(one: tuple[str, str], other: tuple[str, str], low: int | None, high: int | None) -> UsageError:
    """What to say of two (format, observer) that speak of the same time, ``low`` to ``high`` in ns; None where neither has one."""
    (a, a_observer), (b, b_observer) = sorted((one, other))
    return UsageError(
        f"{a} ({a_observer}) and {b} ({b_observer}) overlap in time, so the same requests would be counted twice",
        where=None if low is None else f"{document.rfc3339(low)} to {document.rfc3339(high)}",
        hint="--join puts the views of one request together; or give one of the two logs, or put them into two databases",
    )


def overlaps(con: Any) -> dict[frozenset[str], tuple[observers.Seen, observers.Seen]]:
    """Pairs of formats that cover the same time, by their names."""
    return {frozenset((a.format, b.format)): (a, b) for a, b in observers.overlapping(observers.seen(con))}
