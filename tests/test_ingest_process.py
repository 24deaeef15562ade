"""Ingest as a process among others: killed, stopped, two at once, no rights, no space; the database stays consistent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from ingest_logs import counts, lines, query, read
from rights import WITH_TEST_MODULES

INGEST = """
import json, os, sys
from pathlib import Path
import hedgectl.ingest as ingesting
from hedgectl.ingest import run as batches
from hedgectl.errors import HedgectlError
from hedgectl.store import connect
options = json.loads(sys.argv[1])
batches.BATCH_FILES = options.get("batch_files", 1000)
if "file_size" in options:
    import resource
    resource.setrlimit(resource.RLIMIT_FSIZE, (options["file_size"], options["file_size"]))
if options.get("obey_modes"):
    from rights import obey_file_modes
    obey_file_modes()
def progress(path, read, size):
    print(path, flush=True)
try:
    with connect(Path(options["db"]) if options["db"] else None) as store:
        document = ingesting.ingest(store, sys.argv[2:], progress=progress if options.get("progress") else None)
    print(json.dumps(document["totals"]))
except HedgectlError as error:
    print(f"{type(error).__name__}: {error.what} | {error.where} | {error.hint}", file=sys.stderr)
    sys.exit(error.code)
except KeyboardInterrupt:
    sys.exit(130)
"""


def start(options: dict[str, object], *paths: Path | str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", INGEST, json.dumps(options), *map(str, paths)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=WITH_TEST_MODULES)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
def test_killed_in_the_middle_nothing_is_half_written_and_nothing_is_read_twice(
    tmp_path: Path, stop: signal.Signals
) -> None:
    folder, db = tmp_path / "logs", tmp_path / "h.duckdb"
    folder.mkdir()
    for n in range(30):
        (folder / f"{n:02d}.jsonl").write_text(lines(range(n * 4, n * 4 + 4), ids=False))
    with start({"db": str(db), "progress": True, "batch_files": 3}, folder) as process:
        assert process.stdout is not None
        for _ in range(14):
            process.stdout.readline()
        process.send_signal(stop)
        _, errors = process.communicate(timeout=120)
    assert process.returncode in (-stop, 130)
    assert "HedgectlError" not in errors
    done = query(db, "SELECT count(*), coalesce(sum(lines), 0), coalesce(sum(accepted), 0) FROM ingested_file")[0]
    assert query(db, "SELECT count(*) FROM attempt") == [(done[2],)]
    assert done[0] % 3 == 0
    assert 0 < done[0] < 30
    again = read(folder, db=db)
    assert counts(again["totals"])[0] == 120 - done[1]
    assert query(db, "SELECT count(*) FROM attempt") == [(120,)]


def test_two_runs_at_once_take_turns_or_say_busy(tmp_path: Path) -> None:
    log, db = tmp_path / "a.jsonl", tmp_path / "h.duckdb"
    log.write_text(lines(range(40)))
    first, second = start({"db": str(db)}, log), start({"db": str(db)}, log)
    results = [(process.communicate(timeout=120), process.returncode) for process in (first, second)]
    assert {code for _, code in results} <= {0, 5}
    assert 0 in {code for _, code in results}
    assert query(db, "SELECT count(*) FROM attempt") == [(40,)]


def test_standard_input_is_read_and_known_again(tmp_path: Path) -> None:
    db, text = tmp_path / "h.duckdb", lines(range(12), ids=False)
    for expected in (12, 0):
        with start({"db": str(db)}, "-") as process:
            out, errors = process.communicate(text, timeout=120)
        assert process.returncode == 0, errors
        assert json.loads(out)["accepted"] == expected
    with start({"db": str(db)}, "-") as process:
        out, _ = process.communicate(text + lines(range(12, 15), ids=False), timeout=120)
    assert json.loads(out)["accepted"] == 3


def test_a_file_without_the_right_to_read_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    good, secret = tmp_path / "good.jsonl", tmp_path / "secret.jsonl"
    good.write_text(lines(range(3)))
    secret.write_text(lines(range(3, 6)))
    secret.chmod(0)
    with start({"db": None, "obey_modes": True}, good, secret) as process:
        out, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert json.loads(out)["accepted"] == 3
    with start({"db": None, "obey_modes": True}, secret) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 4
    assert "Permission denied" in errors
    assert str(secret) in errors


def test_no_space_left_writes_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    small, large, db = tmp_path / "small.jsonl", tmp_path / "large.jsonl", tmp_path / "h.duckdb"
    small.write_text(lines(range(10)))
    read(small, db=db)
    large.write_text(
        "".join(
            json.dumps(
                {
                    "ts": 1763632801 + n,
                    "request_id": os.urandom(24).hex(),
                    "replica": os.urandom(12).hex(),
                    "e2e_ms": n % 999,
                }
            )
            + "\n"
            for n in range(30_000)
        )
    )
    limit = db.stat().st_size + 200_000
    with start({"db": str(db), "file_size": limit}, large) as process:
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 1, errors
    assert "no space left" in errors
    assert "Traceback" not in errors
    assert query(db, "SELECT (SELECT count(*) FROM attempt), (SELECT count(*) FROM ingested_file)") == [(10, 1)]
    read(large, db=db)
    assert query(db, "SELECT count(*) FROM attempt") == [(30_010,)]


def test_a_file_that_grows_and_one_that_is_truncated_while_they_are_read(tmp_path: Path) -> None:
    """A writer that appends and rotates by truncation during many runs: every record once, none half."""
    log, db = tmp_path / "live.jsonl", tmp_path / "h.duckdb"
    log.write_text("")
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITE, str(log), str(tmp_path / "live.jsonl.1")], stdout=subprocess.PIPE, text=True
    )
    until = time.monotonic() + 100
    while writer.poll() is None and time.monotonic() < until:
        if log.stat().st_size:
            read(*[p for p in (log, tmp_path / "live.jsonl.1") if p.exists()], db=db)
        time.sleep(0.05)
    assert writer.wait(60) == 0
    read(log, tmp_path / "live.jsonl.1", db=db)
    assert query(db, "SELECT count(*), count(DISTINCT request_id) FROM attempt") == [(900, 900)]
    assert query(db, "SELECT sum(lines) = sum(accepted + duplicates + not_requests + rejected) FROM ingested_file") == [
        (True,)
    ]


WRITE = """
import json, shutil, sys, time
def record(n):
    return json.dumps({"ts": 1763632801 + n, "request_id": f"q{n}", "attempt_id": f"a{n}", "replica": "r", "e2e_ms": 5}) + "\\n"
def write(numbers):
    with open(sys.argv[1], "a") as out:
        for n in numbers:
            text = record(n)
            out.write(text[:30]); out.flush()
            time.sleep(0.002)
            out.write(text[30:]); out.flush()
write(range(600))
shutil.copy(sys.argv[1], sys.argv[2])
open(sys.argv[1], "w").close()
write(range(600, 900))
"""
