"""Tests of real systems run only where ``.ci/real`` has installed them; elsewhere they are skipped with a reason and counted."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import settings

settings.register_profile("any_machine", deadline=None)  # a busy machine is no failure
settings.load_profile("any_machine")

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    # a job in the background of a shell ignores Ctrl-C and hands that on, also to the processes that tests interrupt
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if os.environ.get("HEDGECTL_REAL") == "1":
        return
    reason = pytest.mark.skip(reason="needs a real system: .ci/real installs them and runs this")
    for item in items:
        if item.get_closest_marker("real") is not None:
            item.add_marker(reason)
