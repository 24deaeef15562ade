"""Numbers as people read them: units always, "-" for what was not observed, a mark for what is unreliable."""

from __future__ import annotations

from typing import Any

UNKNOWN = "-"


def ms(value: float | None) -> str:
    """A duration given in milliseconds: ``847 ms``, ``5.10 s``, ``1h02m``."""
    if value is None:
        return UNKNOWN
    size = abs(value)
    if size < 10 and value != 0 and not float(value).is_integer():
        return f"{value:z.2f} ms"
    if size < 1000:
        return f"{value:z.0f} ms"
    if size < 100_000:
        return f"{value / 1000:.2f} s"
    if size < 3_600_000:
        return f"{value / 1000:.0f} s"
    return f"{int(value // 3_600_000)}h{int(value % 3_600_000 // 60_000):02d}m"


def share(value: float | None, digits: int = 1) -> str:
    """A ratio as percent: ``4.5 %``."""
    return UNKNOWN if value is None else f"{100 * value:z.{digits}f} %"


def change(ratio: float | None) -> str:
    """A paired ratio as a signed change: 0.59 is ``-41.0 %``."""
    return UNKNOWN if ratio is None else f"{100 * (ratio - 1):+z.1f} %"


def delta(value: float | None) -> str:
    """A growth: 0.083 is ``+8.3 %``."""
    return UNKNOWN if value is None else f"{100 * value:+z.1f} %"


def count(value: float | None) -> str:
    """A count with thin thousands: ``32,001``."""
    return UNKNOWN if value is None else f"{value:,.0f}"


def money(value: float | None, currency: str | None) -> str:
    if value is None:
        return UNKNOWN
    digits = 2 if abs(value) >= 1 else 4
    return f"{value:,.{digits}f} {currency or '(no currency)'}"


def quantile(q: dict[str, Any] | None, p: str) -> str:
    """One percentile of a quantiles object; ``!`` marks an unreliable one, ``>=`` a lower bound beyond a timeout."""
    if not q:
        return UNKNOWN
    if q.get(p) is None:
        bound = (q.get("at_least") or {}).get(p)
        return f">= {ms(bound)}" if bound is not None else UNKNOWN
    return ms(q[p]) + ("!" if p in (q.get("unreliable") or []) else "")


def when(stamp: str | None) -> str:
    return UNKNOWN if not stamp else stamp.replace("T", " ").replace(":00Z", "Z").replace("Z", " UTC")


def window(doc: dict[str, Any]) -> str:
    """The window of a document in one line."""
    w = doc.get("window") or {}
    if not w:
        return ""
    return f"{when(w.get('from'))} to {when(w.get('to'))}: {count(w.get('requests'))} requests, {count(w.get('attempts'))} attempts"
