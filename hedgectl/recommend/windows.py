"""Hours of the day in which slow requests come again and again: found in local time on odd days, priced on even ones."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from hedgectl.model import ERROR, Floats, Workload
from hedgectl.policy import Window

Bools = NDArray[np.bool_]

MIN_DAYS = 7
RECURS = 5.0 / 7.0  # of the days
LIFT = 1.25  # times the share of slow requests at other hours of the same day
MAX_HOURS = 12  # what lasts half of the day, or holds half of the requests, is no window
MAX_TRAFFIC = 0.5
_MIN_CELL = 10  # requests below which an hour of a day says nothing
_Z_CHOSEN = 3.0  # standard errors on odd days; 24 hours are looked at
_Z_PRICED = 2.0  # on even days; only what was chosen is looked at


@dataclass(frozen=True, slots=True)
class Recurring:
    """One window with what it is worth on the even days, which had no part in choosing it."""

    window: Window  # UTC
    local: str  # "22:00-24:00"
    slow_share: float  # of the slow requests that are in it
    keeps_ratio: float  # of all requests that are in it
    lift: float  # share of slow requests inside / at other hours of the same days
    days_with: int  # days, odd and even, on which it shows
    days: int


@dataclass(frozen=True, slots=True, eq=False)
class _Cells:
    """Counts by local day and hour, shape (days, 24); `first_day` is the ISO weekday of row 0."""

    count: Floats
    slow: Floats
    odd: Bools  # (days,)
    weekday: NDArray[np.int64]  # (days,) 1 = Monday
    offset_min: int  # local minus UTC at the end of the log

    @property
    def known(self) -> Bools:
        return self.count >= _MIN_CELL

    def base(self, windows: Bools) -> Floats:
        """Share of slow requests a day outside `windows` (24,), with the hour looked at left out too: (days, 24)."""
        outside = np.where(windows, 0.0, 1.0)
        slow, count = self.slow * outside, self.count * outside
        rest_slow = slow.sum(axis=1, keepdims=True) - slow
        rest = count.sum(axis=1, keepdims=True) - count
        # half a slow request more keeps a day without any from making every other one infinitely worse
        return np.asarray((rest_slow + 0.5) / np.maximum(rest + 1.0, 1.0))


def find(at_s: Floats, slow: Bools, tz: str | None = None, weight: Floats | None = None) -> tuple[Recurring, ...]:
    """Windows of whole local hours in which a request is slow at least 1.25 times as often as at other hours of its day.

    `at_s` (n,): UTC seconds since the epoch; `slow` (n,). An hour must show on 5 of 7 odd days, and there by more than
    requests that are slow together in single spells explain; then on 5 of 7 of all days and on the even days alone.
    Empty below 7 days.
    """
    cells = _cells(at_s, slow, tz or "UTC", weight)
    if cells is None or int(cells.known.any(axis=1).sum()) < MIN_DAYS:
        return ()
    chosen = np.zeros(24, dtype=bool)
    for _ in range(4):  # each round compares with the hours that the round before left outside
        now = _stands_out(cells, cells.odd, chosen, _Z_CHOSEN)
        if bool(np.array_equal(now, chosen)):
            break
        chosen = now
    if not chosen.any() or int(chosen.sum()) > MAX_HOURS:
        return ()
    priced = [_priced(cells, first, hours, chosen, tz or "UTC", at_s) for first, hours in _runs(chosen)]
    found = [f for f in priced if f is not None]
    if sum(f.keeps_ratio for f in found) > MAX_TRAFFIC:
        return ()
    return tuple(sorted(found, key=lambda f: (f.window.start, f.window.days)))


def of(workload: Workload, eligible: Bools, seconds: Floats, delay_s: float, tz: str | None) -> tuple[Recurring, ...]:
    """Windows of a scope: slow is an eligible request that outlasts the delay on its clock `seconds` (n,)."""
    rows = eligible & (workload.status != ERROR) & np.isfinite(seconds)
    at = workload.t0_ns / 1e9 + workload.arrival_s[rows]
    return find(at, seconds[rows] > delay_s, tz, workload.weight[rows])


def _cells(at_s: Floats, slow: Bools, tz: str, weight: Floats | None) -> _Cells | None:
    if not len(at_s):
        return None
    zone = ZoneInfo(tz)
    hour = np.floor(at_s / 900.0).astype(np.int64)  # zones differ from UTC by whole quarters of an hour
    quarters, where = np.unique(hour, return_inverse=True)
    ends = np.flatnonzero(np.diff(quarters // 24, prepend=-1, append=-1))  # a new offset is looked up every 6 hours
    offset = np.zeros(len(quarters))
    for a, b in itertools.pairwise(ends):
        offset[a:b] = _offset_s(int(quarters[a]) * 900, zone)
    local = at_s + offset[where]
    day = np.floor(local / 86_400.0).astype(np.int64)
    first = int(day.min())
    days = int(day.max()) - first + 1
    cell = (day - first) * 24 + ((local % 86_400.0) // 3600.0).astype(np.int64)
    w: Floats = np.ones(len(at_s)) if weight is None else weight
    number = np.arange(days) + first
    return _Cells(
        np.asarray(np.bincount(cell, w, days * 24).reshape(days, 24), dtype=np.float64),
        np.asarray(np.bincount(cell, w * slow, days * 24).reshape(days, 24), dtype=np.float64),
        number % 2 == 1,
        (number + 3) % 7 + 1,  # 1970-01-01 was a Thursday
        round(_offset_s(int(at_s.max()), zone) / 60),
    )


def _offset_s(at_s: int, zone: ZoneInfo) -> float:
    delta = datetime.fromtimestamp(at_s, UTC).astimezone(zone).utcoffset()
    return 0.0 if delta is None else delta.total_seconds()


def _stands_out(cells: _Cells, days: Bools, windows: Bools, least: float) -> Bools:
    """Hours (24,) that recur on these days and differ by more than `least` standard errors, spells allowed for."""
    count, slow, known = cells.count[days], cells.slow[days], cells.known[days]
    base = cells.base(windows)[days]
    seen = known.sum(axis=0)
    high = known & (slow >= LIFT * base * count) & (slow > 0)
    z = np.where(known, (slow - base * count) / np.sqrt(np.maximum(base * (1 - base) * count, 1e-12)), 0.0)
    mean = z.sum(axis=0) / np.maximum(seen, 1)
    # Slow requests come in spells, so counts vary more than by chance: by how much is read off the same hours' own days.
    residual = np.where(known, z - mean, 0.0)
    spread = max(1.0, float((residual**2).sum() / max(float(np.maximum(seen - 1, 0).sum()), 1.0)))
    error = np.sqrt(spread / np.maximum(seen, 1))
    return np.asarray((seen > 0) & (high.sum(axis=0) >= np.ceil(RECURS * seen - 1e-9)) & (mean > least * error))


def _runs(chosen: Bools) -> list[tuple[int, int]]:
    """(first hour, hours) of each run around the clock; at least one hour is free."""
    starts = np.flatnonzero(chosen & ~np.roll(chosen, 1))
    found = []
    for first in starts:
        length = 1
        while chosen[(first + length) % 24]:
            length += 1
        found.append((int(first), length))
    return found


def _priced(cells: _Cells, first: int, length: int, chosen: Bools, tz: str, at_s: Floats) -> Recurring | None:
    """One run of hours looked at on the even days; None if it does not hold there."""
    hours = (first + np.arange(length)) % 24
    inside = np.zeros(24, dtype=bool)
    inside[hours] = True
    count, slow = cells.count * inside, cells.slow * inside
    outside = np.where(chosen, 0.0, 1.0)
    rest = (cells.slow * outside).sum(axis=1) / np.maximum((cells.count * outside).sum(axis=1), 1.0)
    n, s = count.sum(axis=1), slow.sum(axis=1)
    known = n >= _MIN_CELL
    high = known & (s >= LIFT * rest * n) & (s > 0)
    even = known & ~cells.odd
    if not even.any() or int(high.sum()) < np.ceil(RECURS * int(known.sum()) - 1e-9):
        return None
    expected = float((rest * n)[even].sum())
    lift = float(s[even].sum()) / max(expected, 0.5)
    z = (s - rest * n)[even] / np.sqrt(np.maximum((rest * (1 - rest) * n)[even], 1e-12))
    spread = max(1.0, float(np.var(z, ddof=1))) if len(z) > 2 else 1.0
    if lift < LIFT or float(z.mean()) < _Z_PRICED * float(np.sqrt(spread / len(z))):
        return None
    days = _weekdays(cells, s / np.maximum(n, 1.0) - rest, known, high)
    if len(days) < 5:
        return None
    whole = even & np.isin(cells.weekday, days)
    total_slow, total = float(cells.slow[~cells.odd].sum()), float(cells.count[~cells.odd].sum())
    share, keeps = float(s[whole].sum()) / max(total_slow, 1.0), float(n[whole].sum()) / max(total, 1.0)
    end = (first + length) % 24 or 24
    local = f"{first:02d}:00-{end:02d}:00"
    why = f"{share:.0%} of slow requests in {keeps:.0%} of the traffic, on {int(high.sum())} of {int(known.sum())} days"
    if tz != "UTC":
        why += f"; {local} {tz}" + ("" if _fixed(tz, at_s) else ", whose clocks change: renew the policy then")
    start = first * 60 - cells.offset_min
    shift = start // 1440
    stop = start + length * 60
    window = Window(tuple(sorted((d - 1 + shift) % 7 + 1 for d in days)), _clock(start), _clock(stop), why)
    return Recurring(window, local, share, keeps, lift, int(high.sum()), int(known.sum()))


def _weekdays(cells: _Cells, excess: Floats, known: Bools, high: Bools) -> tuple[int, ...]:
    """ISO days whose own median excess of slow requests is at least a third of what it is where the window shows."""
    usual = float(np.median(excess[high]))
    found = []
    for day in range(1, 8):
        rows = known & (cells.weekday == day)
        # a day of the week that was never seen is taken to be like the others
        if not rows.any() or float(np.median(excess[rows])) >= usual / 3.0:
            found.append(day)
    return tuple(found)


def _fixed(tz: str, at_s: Floats) -> bool:
    """Whether the zone keeps one offset all year."""
    zone, year = ZoneInfo(tz), 31_557_600
    offsets = {_offset_s(int(at_s.max()) + k * year // 12, zone) for k in range(12)}
    return len(offsets) == 1


def _clock(minutes: int) -> str:
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}"
