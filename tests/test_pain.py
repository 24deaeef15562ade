"""The table of complaints names tests that exist, and leaves no complaint without an answer."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
TABLE = (TESTS / "PAIN.md").read_text(encoding="utf-8")


def test_every_named_test_exists() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", TABLE)
    assert len(named) > 50
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not re.search(rf"^(async )?def {test}\b", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_every_complaint_has_a_test_or_a_reason() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \| (.+) \|$", TABLE, re.MULTILINE)
    assert [int(number) for number, _, _ in rows] == list(range(1, 54))
    assert all("::test_" in cell or cell.startswith("none: ") for _, _, cell in rows)
