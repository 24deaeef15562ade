"""Forty kills of the daily job: slower than the core suite may be. HEDGECTL_KILLS says another number."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from test_daily import killed, week

pytestmark = pytest.mark.real

__all__ = ["week"]  # the fixture


def test_forty_kills_leave_a_valid_policy_and_a_consistent_database(week: Path) -> None:
    killed(week, int(os.environ.get("HEDGECTL_KILLS", "40")))
