"""The database: created, migrated, refused, locked, read only; always with a limit on memory and a place to spill."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest
from rights import WITH_TEST_MODULES

from hedgectl import sql
from hedgectl.errors import BusyError, ExitCode, HedgectlError, InputError, UsageError
from hedgectl.store import connect


def setting(con: duckdb.DuckDBPyConnection, name: str) -> str:
    row = con.execute("SELECT current_setting($1)", [name]).fetchone()
    assert row is not None
    return str(row[0])


@pytest.mark.parametrize("in_memory", [True, False])
def test_limits_are_always_set(tmp_path: Path, in_memory: bool) -> None:
    db = None if in_memory else tmp_path / "h.duckdb"
    with connect(db, memory_limit="300MB") as store:
        assert "286" in setting(store.con, "memory_limit") or "300" in setting(store.con, "memory_limit")
        assert setting(store.con, "temp_directory")
        assert setting(store.con, "TimeZone") == "UTC"
        assert setting(store.con, "autoinstall_known_extensions") == "False"
    with connect(db) as store:
        assert setting(store.con, "memory_limit")


@pytest.mark.parametrize("text", ["much", "-1GB", "5", "1 GB; DROP TABLE attempt"])
def test_a_limit_that_is_no_amount_is_a_usage_error(text: str) -> None:
    with pytest.raises(UsageError, match="amount of memory"):
        connect(None, memory_limit=text)


def test_the_schema_is_written_once_and_kept(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    for _ in range(2):
        with connect(db) as store:
            names = store.con.execute("SELECT name FROM schema_version").fetchall()
            assert names == [(name,) for name in sql.names("schema")]
    with connect(db, read_only=True) as store, pytest.raises(HedgectlError, match="read"), store.transaction() as con:
        con.execute("DELETE FROM attempt")


def test_what_is_no_database_of_ours_is_refused_and_left_alone(tmp_path: Path) -> None:
    words, other, newer = tmp_path / "words", tmp_path / "other.duckdb", tmp_path / "newer.duckdb"
    words.write_text("no database\n" * 1000)
    with duckdb.connect(str(other)) as con:
        con.execute("CREATE TABLE theirs (x INTEGER)")
    with connect(newer) as store:
        store.con.execute("INSERT INTO schema_version VALUES ('999_future')")
    for path, what in ((words, "not a DuckDB database"), (other, "something else"), (newer, "newer hedgectl")):
        before = path.read_bytes()
        with pytest.raises(InputError, match=what) as caught:
            connect(path)
        assert caught.value.where == str(path)
        assert path.read_bytes() == before


def test_a_damaged_database_is_named_with_a_way_out(tmp_path: Path) -> None:
    whole = tmp_path / "whole.duckdb"
    with connect(whole) as store:
        store.con.execute("CHECKPOINT")
    data = whole.read_bytes()
    with connect(whole) as store:
        store.con.execute("DROP TABLE tool_span")
    cases = {
        "without a table": (whole.read_bytes(), "it has no table tool_span"),
        "half": (data[: len(data) // 2], "missing or overwritten"),
        "zeroed behind its head": (data[:12288] + bytes(len(data) - 12288), "missing or overwritten"),
    }
    for name, (bad, what) in cases.items():
        path = tmp_path / f"{name}.duckdb"
        path.write_bytes(bad)
        for read_only in (True, False):
            with pytest.raises(InputError, match=what) as caught:
                connect(path, read_only=read_only)
            assert caught.value.where == str(path)
            assert "ingest the logs into a new one" in str(caught.value.hint)


def test_places_that_cannot_hold_a_database(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="directory"):
        connect(tmp_path)
    with pytest.raises(UsageError, match="does not exist"):
        connect(tmp_path / "none" / "h.duckdb")
    with pytest.raises(InputError, match="no database there"):
        connect(tmp_path / "h.duckdb", read_only=True)
    assert list(tmp_path.iterdir()) == []


HOLD = """
import sys, time
from pathlib import Path
from hedgectl.store import connect
with connect(Path(sys.argv[1])):
    print("open", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def test_a_database_that_somebody_holds_is_busy_and_the_holder_is_named(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(db), "60"], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "open\n"
            with pytest.raises(BusyError) as caught:
                connect(db)
            assert str(holder.pid) in caught.value.what
            assert caught.value.code is ExitCode.BUSY
            with pytest.raises(BusyError):
                connect(db, read_only=True)
            start = time.monotonic()
            with pytest.raises(BusyError):
                connect(db, wait_s=0.5)
            assert time.monotonic() - start >= 0.5
        finally:
            holder.kill()


def test_waiting_gets_a_database_that_is_let_go(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(db), "0.5"], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with connect(db, wait_s=60) as store:
            assert store.con.execute("SELECT count(*) FROM attempt").fetchone() == (0,)


WITH_FILE_MODES = """
import sys
from pathlib import Path
from hedgectl.errors import HedgectlError
from hedgectl.store import connect
from rights import obey_file_modes
obey_file_modes()
try:
    connect(Path(sys.argv[1]))
except HedgectlError as error:
    print(error.code.value, error.what, "|", error.hint)
"""


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_without_the_right_to_write(tmp_path: Path, there: bool) -> None:
    db = tmp_path / "locked" / "h.duckdb"
    db.parent.mkdir()
    if there:
        connect(db).close()
        db.chmod(0o444)
    db.parent.chmod(0o555)
    command = [sys.executable, "-c", WITH_FILE_MODES, str(db)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=WITH_TEST_MODULES)
    assert "Traceback" not in done.stderr
    assert "permission denied" in done.stdout
    assert done.stdout.startswith(f"{ExitCode.FAILED.value} ")
    db.parent.chmod(0o755)


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    with connect(tmp_path / "h.duckdb") as store:
        with pytest.raises(ZeroDivisionError), store.transaction() as con:  # noqa: PT012
            con.execute("INSERT INTO reject VALUES (1, 1, 'x', 'y')")
            raise ZeroDivisionError
        assert store.con.execute("SELECT count(*) FROM reject").fetchone() == (0,)
        with pytest.raises(HedgectlError, match="the database says"), store.transaction() as con:
            con.execute("SELECT no_such_column FROM attempt")


def test_opening_needs_no_writable_home(tmp_path: Path) -> None:
    environment = {**os.environ, "HOME": "/nonexistent", "TMPDIR": str(tmp_path)}
    code = "from hedgectl.store import connect\nconnect(None).close()\nprint('fine')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)
    assert done.stdout == "fine\n", done.stderr
