"""What hedging did to the provider's own bill: difference in differences against the days before, as a range.

Reads daily costs from Google Cloud Billing's BigQuery export (JSON, JSON lines or CSV) or, with a mapping, from any table.
Nothing here changes a policy or a price: the range is evidence for a person.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from hedgectl import sql
from hedgectl.errors import InputError, UsageError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MIN_DAYS = 14  # a side
ZONE = "America/Los_Angeles"  # Google bills days of Pacific time
RESAMPLES = 2000
_BLOCK = 7  # days resampled together: a week's days are unlike
_T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.2, 2.18, 2.16, 2.14, 2.13)

# Columns of the standard and the detailed export; nested ones by path, as in JSON, or flattened with "_" or "." in CSV.
GOOGLE = {"time": "usage_start_time", "cost": "cost", "currency": "currency", "service": "service.description"}


@dataclass(frozen=True, slots=True)
class Bill:
    """Cost a day: `days` ascending, `cost` (n,) in `currency`; `control` the cost of services that hedging cannot touch."""

    days: tuple[date, ...]
    cost: NDArray[np.float64]
    control: NDArray[np.float64]
    currency: str
    rows: int
    left_out: int  # rows without a day or a cost


def read(path: Path, *, services: Iterable[str] = (), columns: Mapping[str, str] | None = None, tz: str = ZONE) -> Bill:
    """Daily costs of the `services` named (by part of the name, any case; none = all), the others as control.

    `columns` maps time, cost, currency, service to the table's own names. Credits of a row are added to its cost.
    Raises InputError for a file without such rows or with two currencies.
    """
    names = dict(GOOGLE) | dict(columns or {})
    wanted = [s.lower() for s in services]
    cost: dict[date, float] = defaultdict(float)
    control: dict[date, float] = defaultdict(float)
    currencies: set[str] = set()
    rows = left_out = 0
    zone = ZoneInfo(tz)
    for record in _records(path):
        rows += 1
        day = _day(_get(record, names["time"]), zone)
        amount = _number(_get(record, names["cost"]))
        if day is None or amount is None:
            left_out += 1
            continue
        amount += sum(_number(c.get("amount")) or 0.0 for c in _credits(record))
        currencies.add(str(_get(record, names["currency"]) or "USD"))
        service = str(_get(record, names["service"]) or "").lower()
        hit = not wanted or any(part in service for part in wanted)
        (cost if hit else control)[day] += amount
    if not cost:
        needed = ", ".join(f"{key} ({names[key]})" for key in ("time", "cost"))
        hint = f"a Google Cloud Billing export, or name its columns; needed: {needed}"
        raise InputError("no row with a day and a cost", where=str(path), hint=hint)
    if len(currencies) > 1:
        raise InputError(
            f"two currencies: {', '.join(sorted(currencies))}", where=str(path), hint="one file a currency"
        )
    days = tuple(sorted({*cost, *control}))
    return Bill(
        days,
        np.array([cost.get(d, 0.0) for d in days]),
        np.array([control.get(d, 0.0) for d in days]),
        currencies.pop(),
        rows,
        left_out,
    )


def effect(bill: Bill, since: date, requests: Mapping[date, float] | None = None, *, seed: int = 1) -> dict[str, Any]:
    """How much the bill grew from `since` on, beyond what explains itself: a ratio with its 95 % range.

    Growth of cost after / before, divided by the growth of the control: requests a day where they are known, else the
    other services' cost; else undivided, and then said so. `since` itself is left out: it is only partly hedged. The range
    comes from whole weeks drawn again. ``enough`` is False below 14 days a side, and then there is no estimate.
    """
    usable = np.array([d != since for d in bill.days])
    kind, control = _control(bill, requests)
    if control is not None:
        usable &= control > 0
    before = np.flatnonzero(usable & np.array([d < since for d in bill.days]))
    after = np.flatnonzero(usable & np.array([d > since for d in bill.days]))
    found: dict[str, Any] = {
        "since": since.isoformat(),
        "currency": bill.currency,
        "days_before": len(before),
        "days_after": len(after),
        "needed_a_side": MIN_DAYS,
        "control": kind,
        "enough": bool(min(len(before), len(after)) >= MIN_DAYS and bill.cost[before].sum() > 0),
        "growth_ratio": None,
        "interval": None,
        "cost_per_day_before": None,
        "cost_per_day_after": None,
        "applied": False,
        "notes": [],
    }
    if not found["enough"]:
        text = (
            f"{len(before)} days before and {len(after)} after {since.isoformat()}; {MIN_DAYS} of each are needed, "
            "with a cost before"
        )
        found["notes"].append({"code": "not_enough_days", "level": "warning", "text": text})
        return found
    rng = np.random.default_rng(seed)
    point = _ratio(bill.cost, control, before[None, :], after[None, :])[0]
    drawn = _ratio(bill.cost, control, _weeks(before, rng), _weeks(after, rng))
    # A handful of weeks says little about how much weeks differ: Student's t in place of the normal law.
    freedom = max(len(before) // _BLOCK + len(after) // _BLOCK - 2, 1)
    reach = _T95[min(freedom, len(_T95)) - 1] * float(np.std(np.log(drawn), ddof=1))
    low, high = float(point * np.exp(-reach)), float(point * np.exp(reach))
    found |= {
        "growth_ratio": round(float(point) - 1.0, 6),
        "interval": [round(float(low) - 1.0, 6), round(float(high) - 1.0, 6)],
        "cost_per_day_before": round(float(bill.cost[before].mean()), 6),
        "cost_per_day_after": round(float(bill.cost[after].mean()), 6),
    }
    if control is None:
        text = (
            "nothing to compare with: growth of traffic or of prices counts as hedging's; give a log or other services"
        )
        found["notes"].append({"code": "no_control", "level": "warning", "text": text})
    if bill.left_out:
        text = f"{bill.left_out} of {bill.rows} rows have no day or no cost and are left out"
        found["notes"].append({"code": "rows_left_out", "level": "warning", "text": text})
    return found


def traffic(con: DuckDBPyConnection, tz: str = ZONE) -> tuple[dict[date, float], date | None]:
    """(requests by the provider's whole days, day of the first copy) of the prepared selection; None without copies.

    The first and the last day of the log are left out: they are seldom whole.
    """
    zone = ZoneInfo(tz)
    found: dict[date, float] = defaultdict(float)
    first: date | None = None
    for quarter, requests, copy_ns in con.execute(sql.text("report/billing_hours")).fetchall():
        found[datetime.fromtimestamp(int(quarter) * 900, zone).date()] += float(requests)
        if copy_ns is not None and first is None:
            first = datetime.fromtimestamp(int(copy_ns) / 1e9, zone).date()
    whole = sorted(found)[1:-1]
    return {day: found[day] for day in whole}, first


def compare(
    con: DuckDBPyConnection,
    path: Path,
    *,
    since: date | None = None,
    services: Iterable[str] = (),
    columns: Mapping[str, str] | None = None,
    tz: str = ZONE,
    seed: int = 1,
) -> dict[str, Any]:
    """The ``billing`` object of ``verify.v1``: the bill against the log's own traffic, where that spans the days.

    `since` None: the day of the log's first copy. Raises UsageError where the log has none either.
    """
    bill = read(path, services=services, columns=columns, tz=tz)
    requests, first = traffic(con, tz)
    start = since or first
    if start is None:
        raise UsageError(
            "the log has no copy, so it is not known when hedging began", hint="--billing-since 2026-11-01"
        )
    spans = min(sum(d < start for d in requests), sum(d > start for d in requests)) >= MIN_DAYS
    return effect(bill, start, requests if spans else None, seed=seed) | {"tz": tz}


def _control(bill: Bill, requests: Mapping[date, float] | None) -> tuple[str | None, NDArray[np.float64] | None]:
    if requests:
        return "requests", np.array([float(requests.get(d, 0.0)) for d in bill.days])
    if bool(np.any(bill.control > 0)):
        return "other_services", bill.control
    return None, None


def _ratio(
    cost: NDArray[np.float64], control: NDArray[np.float64] | None, before: NDArray[Any], after: NDArray[Any]
) -> NDArray[np.float64]:
    """(cost after / before) / (control after / before) of each row of day indices, (k,)."""
    grown = cost[after].mean(axis=1) / np.maximum(cost[before].mean(axis=1), 1e-12)
    if control is None:
        return np.asarray(grown)
    expected = control[after].mean(axis=1) / np.maximum(control[before].mean(axis=1), 1e-12)
    return np.asarray(grown / np.maximum(expected, 1e-12))


def _weeks(days: NDArray[Any], rng: np.random.Generator) -> NDArray[Any]:
    """RESAMPLES draws of the same number of days, in runs of a week that start anywhere and go around."""
    n = len(days)
    blocks = -(-n // _BLOCK)
    starts = rng.integers(0, n, (RESAMPLES, blocks, 1))
    return np.asarray(days[((starts + np.arange(_BLOCK)) % n).reshape(RESAMPLES, -1)[:, :n]])


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of JSON (an array), JSON lines or CSV, told by the first character."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read {path}", where=str(path), hint=str(error)) from None
    head = text.lstrip()[:1]
    if head not in ("[", "{"):
        yield from csv.DictReader(text.splitlines())
        return
    try:
        rows = json.loads(text) if head == "[" else [json.loads(line) for line in text.splitlines() if line.strip()]
    except json.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}", where=str(path), hint="an array, or one object a line") from None
    for row in rows:
        if isinstance(row, dict):
            yield row


def _get(record: Mapping[str, Any], name: str) -> Any:
    for flat in (name, name.replace(".", "_")):
        if flat in record:
            return record[flat]
    found: Any = record
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _credits(record: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    raw = record.get("credits")
    if isinstance(raw, str) and raw.lstrip().startswith("["):
        try:
            raw = json.loads(raw)
        except json.JSONDecodeError:
            return []
    return [c for c in raw if isinstance(c, Mapping)] if isinstance(raw, list) else []


def _number(raw: Any) -> float | None:
    try:
        value = float(raw)
    except (TypeError, ValueError):
        return None
    return value if np.isfinite(value) and not isinstance(raw, bool) else None


def _day(raw: Any, zone: ZoneInfo) -> date | None:
    """The billing day: a plain date as it is, a moment in the provider's zone; moments without a zone are UTC."""
    if not isinstance(raw, str):
        return None
    text = raw.strip()
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return _parsed(text)
    text = re.sub(r"\s*(UTC|Z)$", "+00:00", text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo("UTC"))
    return moment.astimezone(zone).date()


def _parsed(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
