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


PITFALLS = (TESTS / "PITFALLS.md").read_text(encoding="utf-8")


def test_every_pitfall_has_a_test_that_exists_or_a_reason() -> None:
    rows = re.findall(r"^\| (\w\d+|\d+) \| (.+?) \| (.+) \|$", PITFALLS, re.MULTILINE)
    numbers = [number for number, _, _ in rows]
    for letter, last in {"P": 33, "": 38, "L": 15, "R": 20, "F": 14}.items():
        assert [n for n in numbers if n.rstrip("0123456789") == letter] == [f"{letter}{i}" for i in range(1, last + 1)]
    assert [cell for _, _, cell in rows if "::test_" not in cell and not cell.startswith("none: ")] == []
    missing = [
        f"{file}::{test}"
        for file, test in re.findall(r"`(test_\w+\.py)::(test_\w+)`", PITFALLS)
        if not re.search(rf"^(async )?def {test}\b", (TESTS / file).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert missing == []
