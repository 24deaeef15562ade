"""Copies count against a provider's rate limit: it lowers the budget, and used up alone it leaves no room for any."""

from __future__ import annotations

import numpy as np
import pytest
import recommend_logs as logs
from recommend_cases import codes, only

from hedgectl.cost import quota_peak
from hedgectl.recommend import Options


def test_a_quota_lowers_the_budget_to_what_the_busiest_minute_leaves() -> None:
    w = logs.spells(slow=0.05)
    peak = quota_peak(w, np.zeros(0, dtype=np.int64), 0.0)["requests_per_minute_peak"]
    assert peak == 1200
    entry = only(w, Options(quota_rpm=1224))
    assert entry["hedge"]["budget"]["ratio"] == pytest.approx(0.02)
    assert entry["hedge"]["budget"]["burst"] == 24
    assert "quota_lowers_budget" in codes(entry, "notes")
    assert entry["projection"]["quota"]["requests_per_minute_peak"] <= 1224 + 24


def test_a_wide_quota_changes_nothing() -> None:
    w = logs.spells(slow=0.05)
    assert only(w, Options(quota_rpm=5000, quota_tpm=10**9)) == only(w)


@pytest.mark.parametrize("limit", [{"quota_rpm": 1200}, {"quota_tpm": 1000}])
def test_a_quota_that_is_used_up_leaves_no_room_for_copies(limit: dict[str, float]) -> None:
    entry = only(logs.spells(slow=0.05), Options(**limit))
    assert entry["decision"] == "do_not_hedge"
    assert codes(entry) == ["quota_full"]


def test_no_budget_asked_for_is_still_held_to_the_quota() -> None:
    entry = only(logs.spells(slow=0.05), Options(budget=None, quota_rpm=1500))
    assert entry["hedge"]["budget"]["ratio"] == pytest.approx(0.25)
