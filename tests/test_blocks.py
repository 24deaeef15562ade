"""Tables on narrow terminals: they get smaller as far as nothing is lost, and then lines get longer."""

from __future__ import annotations

import pytest

from hedgectl.cli.blocks import Table, terminal

COLUMNS = ("request", "tools offered", "stored_state", "cached_tokens", "prompt_tokens", "e2e")
ROWS = [["call-17", "True", "False", "1234567", "8000", "12.34 s"], ["call-18", "False", "True", "0", "9,999", "1 ms"]]


@pytest.mark.parametrize("width", [20, 60, 72, 80, 100])
def test_no_cell_is_cut_however_narrow_the_terminal(width: int) -> None:
    text = terminal([Table("", COLUMNS, ROWS)], width=width, color=False)
    for row in ROWS:
        for cell in row[1:]:
            assert cell in text, f"{cell} is cut at {width} columns"


@pytest.mark.parametrize("width", [80, 100])
def test_a_table_that_fits_has_no_longer_lines(width: int) -> None:
    text = terminal([Table("", COLUMNS, ROWS)], width=width, color=False)
    assert max(map(len, text.splitlines())) <= width
