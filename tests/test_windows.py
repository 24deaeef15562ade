"""Windows: found where slow requests recur, to the hour, in any zone; not found where they do not."""

from __future__ import annotations

import numpy as np
import pytest

from hedgectl.policy import Window
from hedgectl.recommend import windows

MONDAY = 1_790_553_600.0  # 2026-09-28T00:00:00Z


def log(
    seed: int,
    days: int = 14,
    hours: tuple[int, ...] = (),
    only: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7),
    n: int = 20_000,
) -> tuple[np.ndarray, np.ndarray]:
    """Arrivals with a busy and a quiet part of the day; 2 % slow, spells of 10 minutes, and slow `hours` (UTC) on `only` days."""
    rng = np.random.default_rng(seed)
    profile = 1.5 + np.sin(np.arange(24) / 24 * 2 * np.pi)
    hour = rng.choice(24, n, p=profile / profile.sum())
    day = rng.integers(0, days, n)
    at = np.sort(MONDAY + day * 86_400.0 + hour * 3600.0 + rng.random(n) * 3600.0)
    spell = np.floor((at - MONDAY) / 600.0).astype(int)
    bad = rng.random(spell.max() + 1) < 0.03
    chance = np.where(bad[spell], 0.6, 0.02)
    weekday = ((at - MONDAY) // 86_400).astype(int) % 7 + 1
    busy = np.isin((at % 86_400 // 3600).astype(int), hours) & np.isin(weekday, only)
    return at, rng.random(n) < np.where(busy, 0.15, chance)


@pytest.mark.parametrize("days", [7, 14, 30])
def test_a_log_without_periodicity_has_no_window_in_95_of_100(days: int) -> None:
    found = sum(bool(windows.find(*log(seed, days))) for seed in range(100))
    assert found <= 5


def test_two_windows_are_found_to_the_hour_and_no_other() -> None:
    exact = 0
    for seed in range(20):
        found = windows.find(*log(seed, hours=(13, 14, 21, 22), n=60_000))
        exact += [(f.window.start, f.window.end) for f in found] == [("13:00", "15:00"), ("21:00", "23:00")]
    assert exact >= 19
    first = windows.find(*log(1, hours=(13, 14, 21, 22), n=60_000))[0]
    assert first.window.days == (1, 2, 3, 4, 5, 6, 7)
    assert first.lift > 2
    assert "of 14 days" in first.window.why


def test_windows_are_chosen_in_local_time_and_given_in_utc() -> None:
    at, slow = log(1, hours=(22, 23))
    utc = windows.find(at, slow, "UTC")
    tokyo = windows.find(at, slow, "Asia/Tokyo")
    assert [(f.window.start, f.window.end) for f in utc] == [("22:00", "00:00")]
    assert [(f.window.start, f.window.end, f.local) for f in tokyo] == [("22:00", "00:00", "07:00-09:00")]
    assert "07:00-09:00 Asia/Tokyo" in tokyo[0].window.why
    half = windows.find(at + 1800.0, slow, "Asia/Kolkata")  # +05:30: local hours begin at half past in UTC
    assert [(f.window.start, f.window.end) for f in half] == [("22:30", "00:30")]


def test_a_run_past_midnight_is_one_window() -> None:
    found = windows.find(*log(3, hours=(23, 0)))
    assert [(f.window.start, f.window.end) for f in found] == [("23:00", "01:00")]
    assert found[0].window.wraps


def test_working_days_are_told_and_shift_with_the_zone() -> None:
    at, slow = log(5, days=28, hours=(10, 11), only=(1, 2, 3, 4, 5), n=80_000)
    (found,) = windows.find(at, slow)
    assert found.window.days == (1, 2, 3, 4, 5)
    at, slow = log(5, days=28, hours=(22, 23), only=(7, 1, 2, 3, 4), n=80_000)  # 07:00-09:00 Monday to Friday in Tokyo
    (tokyo,) = windows.find(at, slow, "Asia/Tokyo")
    assert tokyo.window.days == (1, 2, 3, 4, 7)
    assert tokyo.local == "07:00-09:00"


def test_what_happens_on_fewer_than_5_of_7_days_is_no_window() -> None:
    assert windows.find(*log(4, days=28, hours=(13, 14), only=(1, 2, 3), n=40_000)) == ()
    once_at, once = log(5, hours=())
    once |= (once_at >= MONDAY + 3 * 86_400) & (once_at < MONDAY + 3 * 86_400 + 7200)  # one bad night
    assert windows.find(once_at, once) == ()


def test_chosen_on_odd_days_and_refused_where_even_days_do_not_show_it() -> None:
    at, slow = log(6, days=28, hours=(), n=40_000)
    day = np.floor(at / 86_400).astype(int)
    inside = np.isin((at % 86_400 // 3600).astype(int), (13, 14)) & (day % 2 == 1)
    slow = slow | (inside & (np.arange(len(at)) % 5 == 0))
    assert windows.find(at, slow) == ()


def test_short_and_empty_logs_have_none() -> None:
    none = np.zeros(0)
    assert windows.find(none, none.astype(bool)) == ()
    at, slow = log(1, days=6, hours=(13, 14))
    assert windows.find(at, slow) == ()
    at, slow = log(1)
    assert windows.find(at, np.zeros(len(at), dtype=bool)) == ()
    assert windows.find(at, np.ones(len(at), dtype=bool)) == ()
    assert windows.find(*log(1, hours=tuple(range(4, 22)), n=60_000)) == ()  # most of the day is no window


def test_a_zone_whose_clocks_change_says_so() -> None:
    at, slow = log(1, hours=(13, 14))
    (found,) = windows.find(at, slow, "Europe/Berlin")
    assert found.window == Window(found.window.days, "13:00", "15:00", found.window.why)
    assert "clocks change" in found.window.why
    assert found.local == "15:00-17:00"
