"""Records go to DuckDB as bytes: what it scans is what was gathered, in order, without a copy that could differ."""

from __future__ import annotations

import gc
import weakref

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgectl.ingest.arrow import Feed, Part
from hedgectl.ingest.gather import Gathered, Records
from hedgectl.lines.blocks import newlines
from hedgectl.store import bare_connection


def scanned(records: Records) -> list[tuple[int, int, str | None]]:
    feed = Feed()
    feed.parts = records.parts
    con = bare_connection(":memory:", "256MB")
    con.register("block", feed)
    query = "SELECT line, record, rtrim(t, chr(10)) FROM block ORDER BY line, record"
    twice = [con.execute(query).fetchall() for _ in range(2)]
    feed.parts = []
    con.close()
    assert twice[0] == twice[1]
    return twice[0]


def test_blocks_texts_and_hidden_records_come_back_in_their_places() -> None:
    large = "\n".join(f"line {n} é" for n in range(40_000))
    gathered = Gathered()
    gathered.add_block(b"small\n\nblock", None, 1)
    gathered.add_block(large.encode(), newlines(large.encode()), 100)
    gathered.add([50_000, 50_000], [0, 1], ["one", "two \ud800"])
    records = gathered.done()
    records.hide(3)
    want = [(1, 0, "small"), (2, 0, ""), (3, 0, "block"), (100, 0, None)]
    want += [(100 + n, 0, f"line {n} é") for n in range(1, 40_000)]
    want += [(50_000, 0, "one"), (50_000, 1, "two ?")]
    assert scanned(records) == want
    assert np.flatnonzero(records.empty()).tolist() == [1, 3]
    assert [records.text(i) for i in (0, 2, 4, len(records) - 1)] == ["small", "block", "line 1 é", "two ?"]
    assert scanned(records.cut(2, 6)) == want[2:6]
    assert records.at_lines([50_000]) == [40_003, 40_004]


def test_what_was_scanned_is_not_kept() -> None:
    """DuckDB opens a stream for the schema of every statement and forgets it: 5 million rows once took 7 GB."""
    gathered = Gathered()
    gathered.add([1], [0], ["one"])
    records = gathered.done()
    kept = weakref.ref(records.parts[0].lines)
    assert scanned(records) == [(1, 0, "one")]
    del gathered, records
    gc.collect()
    assert kept() is None


def test_nothing_gathered_is_nothing_scanned() -> None:
    assert scanned(Gathered().done()) == []
    assert Part(np.zeros(0, np.int64), np.zeros(0, np.int32), b"", np.zeros(1, np.int64)).blank().tolist() == []


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=200))
def test_newlines_are_found_where_they_stand(data: bytes) -> None:
    assert newlines(data).tolist() == [i for i, byte in enumerate(data) if byte == 10]
