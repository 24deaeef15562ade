"""A child process that keeps its user but obeys file modes: what a test of missing rights needs where tests run as root.

Changing to another user would do it too, but then the checkout itself, often in a folder only its owner may enter,
could not be read either.
"""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

WITH_TEST_MODULES = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
"""Environment of a child that imports this file."""


def obey_file_modes() -> None:
    """As root, give up every capability (Linux capset, version 3); root then owns its files like anybody. Else nothing."""
    if os.geteuid() != 0:
        return
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")
