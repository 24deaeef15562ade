"""The benchmark of reading measures the same work on both sides and loses no row."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest

from hedgectl import bench
from hedgectl.benchcases import ingest as case
from hedgectl.errors import UsageError
from hedgectl.ingest import ingest
from hedgectl.schemas import load
from hedgectl.store import bare_connection, connect


def test_a_small_run_is_a_valid_document() -> None:
    got = bench.run("ingest", as_of="2026-11-29T00:00:00Z", rows=300, runs=1)
    jsonschema.validate(got, load("bench"))
    (row,) = got["cases"]
    assert row["ratio"] == pytest.approx(row["ours"] / row["bare"], rel=0.05)
    assert "rows 300" in row["text"]


def test_many_small_files_are_all_read() -> None:
    (row,) = bench.run("files", files=40)["cases"]
    assert "files 40" in row["text"]
    with pytest.raises(UsageError):
        bench.run("files", files=1)


def test_growth_names_every_size() -> None:
    got = bench.run("growth", as_of="", rows=400, scope_rows=300, scopes=1, requests=300, candidates=1)
    jsonschema.validate(got, load("bench"))
    told = [row["text"] for row in got["cases"]]
    for text, sizes in zip(told, [(400, 800, 1600), (300, 600, 1200), (1, 2, 4), (1, 2, 4)], strict=True):
        assert all(f" {size}: " in text for size in sizes)
    with pytest.raises(UsageError):
        bench.run("growth", scopes=0)


def test_what_is_not_there_is_a_usage_error() -> None:
    for wrong in (
        lambda: bench.run("nothing"),
        lambda: bench.run("ingest", format="nothing"),
        lambda: bench.run("ingest", colour=1),
    ):
        with pytest.raises(UsageError):
            wrong()


@pytest.mark.parametrize("format", case.LOGS)
def test_both_sides_write_the_same_values(tmp_path: Path, format: str) -> None:
    log = tmp_path / "log.jsonl"
    case.write(log, 500, case.LOGS[format])
    con = bare_connection(":memory:", "256MB")
    create, _, insert = case.sql.text(f"bench/bare_{format}").partition("INSERT INTO")
    con.execute(create)
    con.execute(f"INSERT INTO{insert}", {"path": str(log)})
    columns = [
        name for (name,) in con.execute("SELECT column_name FROM duckdb_columns() WHERE table_name = 'bare'").fetchall()
    ]
    query = f"SELECT {', '.join(columns)} FROM {{}} ORDER BY request_id"
    bare = con.execute(query.format("bare")).fetchall()
    with connect(None) as store:
        ingest(store, [str(log)])
        ours = store.con.execute(query.format("attempt")).fetchall()
    assert len(ours) == 500
    assert ours == bare
