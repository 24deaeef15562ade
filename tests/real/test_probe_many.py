"""Ten thousand hedged calls: slower than the core suite may be."""

from __future__ import annotations

import pytest
from test_probe_accounting import calls_in_a_row

pytestmark = pytest.mark.real


def test_ten_thousand_calls_leave_no_task_and_no_socket_behind() -> None:
    outcome, *left = calls_in_a_row(10_000)
    assert left == [0, 0, 0]
    assert len(outcome.calls) == 10_000
    assert sum(c.status == "ok" for c in outcome.calls) == 10_000
