"""Joining as logs are read: files in any order, databases and folders, the flag, the daily job."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import make_joined_sample
import pytest
from analysis_logs import MS
from ingest_logs import query, read
from join_logs import S, fetch

from hedgectl import analysis, decompose, fleet, history, join, sql
from hedgectl.errors import UsageError
from hedgectl.store import connect
from hedgectl.tasks import Here


def calls(path: Path, n: int, **more: Any) -> Path:
    rows = (
        {
            "ts": f"2026-11-20T10:00:{i:02d}Z",
            "request_id": f"q{i}",
            "attempt_id": f"q{i}-1",
            "replica": "r0",
            "e2e_ms": 900,
            "status": 200,
        }
        | more
        for i in range(n)
    )
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    return path


def spans(path: Path, numbers: range) -> Path:
    start = 1_795_168_800_000_000_000  # 2026-11-20T10:00:00Z
    lines = []
    for i in numbers:
        value = {
            "e2e": 0.7,
            "time_in_queue": 0.1,
            "time_in_model_prefill": 0.2,
            "time_in_model_decode": 0.4,
            "time_to_first_token": 0.3,
        }
        attributes = [{"key": f"gen_ai.latency.{k}", "value": {"doubleValue": v}} for k, v in value.items()]
        attributes.append({"key": "gen_ai.request.id", "value": {"stringValue": f"cmpl-q{i}-1-0"}})
        span = {
            "traceId": f"{i + 1:032x}", "spanId": f"{i + 1:016x}", "name": "llm_request",
            "startTimeUnixNano": str(start + i * S), "endTimeUnixNano": str(start + i * S + 700 * MS), "attributes": attributes,
        }  # fmt: skip
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "gpu-0"}}]}
        lines.append(json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": [span]}]}]}))
    path.write_text("\n".join(lines) + "\n")
    return path


def both_ways(db: Path) -> list[tuple[Any, ...]]:
    with connect(None) as memory:
        analysis.copy(db, memory)
        decompose.prepare(memory.con)
        return fetch(
            memory.con, "SELECT request_id, e2e_ns, queue_ns, prefill_ns, decode_ns, replica FROM request ORDER BY ALL"
        )


def test_the_other_observer_may_arrive_later_or_first(tmp_path: Path) -> None:
    log_file, span_file = calls(tmp_path / "a.jsonl", 6), spans(tmp_path / "s.jsonl", range(1, 5))
    at_once = read(log_file, span_file, db=tmp_path / "1.duckdb", join=True)
    read(log_file, db=tmp_path / "2.duckdb")
    with pytest.raises(UsageError, match="overlap in time") as refused:
        read(span_file, db=tmp_path / "2.duckdb")
    assert "--join" in str(refused.value.hint)
    later = read(span_file, db=tmp_path / "2.duckdb", join=True)
    read(span_file, db=tmp_path / "3.duckdb")
    read(log_file, db=tmp_path / "3.duckdb", join=True)
    assert at_once["joined"] == later["joined"]
    assert at_once["totals"]["requests"] == later["totals"]["requests"] == 6
    assert at_once["coverage"]["queue"] == later["coverage"]["queue"] == round(4 / 6, 4)
    first, *others = (both_ways(tmp_path / f"{i}.duckdb") for i in (1, 2, 3))
    assert [r[2] is not None for r in first] == [False, True, True, True, True, False]
    assert others == [first, first]


def test_a_joined_database_takes_more_of_both_logs_without_the_flag_and_reads_nothing_twice(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    read(calls(tmp_path / "a.jsonl", 3), spans(tmp_path / "s.jsonl", range(3)), db=db, join=True)
    grown = read(calls(tmp_path / "a.jsonl", 5), spans(tmp_path / "s.jsonl", range(4)), db=db)
    assert (grown["totals"]["accepted"], grown["totals"]["requests"], grown["joined"][0]["joined"]) == (3, 5, 4)
    assert query(db, "SELECT count(*) FROM attempt") == [(9,)]  # what was read stays as it was read


def test_the_daily_figures_of_a_joined_database_count_a_request_once(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    read(calls(tmp_path / "a.jsonl", 5), spans(tmp_path / "s.jsonl", range(1, 7)), db=db, join=True)
    with connect(db) as store, store.transaction() as con:
        history.record(con)
    assert query(db, "SELECT requests::INT, attempts::INT FROM history_day") == [(5, 5)]


def test_the_flag_reaches_the_readers_from_the_command_line_and_the_settings(tmp_path: Path) -> None:
    calls(tmp_path / "a.jsonl", 3)
    spans(tmp_path / "s.jsonl", range(3))
    (tmp_path / "joined.toml").write_text("join = true\n")
    logs = [str(tmp_path / "a.jsonl"), str(tmp_path / "s.jsonl")]
    command = [sys.executable, "-m", "hedgectl", "breakdown", *logs, "-o", "json"]
    for more, code in (([], 2), (["--join"], 0), (["--config", str(tmp_path / "joined.toml")], 0)):
        done = subprocess.run([*command, *more], capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == code, done.stderr
        if not code:
            (group,) = json.loads(done.stdout)["groups"]
            assert (group["requests"], group["components"]["queue"]["n"]) == (3, 3)


def test_a_log_without_a_time_of_day_is_refused_beside_another_one(tmp_path: Path) -> None:
    text = "slot launch_slot_: id 0 | task 1 | processing task\n"
    text += "slot print_timing: id 0 | task 1 | prompt eval time = 10.00 ms / 5 tokens\nslot print_timing: id 0 | task 1 | eval time = 20.00 ms / 2 tokens\n"
    text += "slot      release: id 0 | task 1 | stop processing: n_tokens = 6, truncated = 0\n"
    slots = tmp_path / "server.log"
    slots.write_text(text)
    with pytest.raises(UsageError, match="same requests would be counted twice"):
        read(calls(tmp_path / "a.jsonl", 2), slots)
    done = read(calls(tmp_path / "a.jsonl", 2), slots, join=True)
    assert (done["joined"][0]["inner_unmatched"], done["totals"]["requests"]) == (1, 2)


def test_the_sample_pair_is_as_its_maker_writes_it_and_joins_to_the_last_row() -> None:
    folder = sql.samples_dir() / "joined"
    assert {p.name: p.read_text(encoding="utf-8") for p in folder.iterdir()} == make_joined_sample.files()
    with analysis.opened(analysis.Logs(paths=(str(folder),), join=True), decompose.Selection()) as found:
        (told,) = join.counts(found.con)
        losers = fetch(found.con, "SELECT count(*), count(queue_ns) FROM selected_attempt WHERE status = 'censored'")
        # the gateway's own time was drawn from 4 to 30 ms
        (low, high) = fetch(found.con, "SELECT min(other_ns), max(other_ns) FROM component")[0]
    assert (told["joined"], told["outer_unmatched"], told["inner_unmatched"]) == (60, 6, 1)
    assert losers == [(6, 0)]
    assert 4 * MS - 100_000 <= low <= high <= 30 * MS + 100_000


def test_the_daily_job_joins_where_the_configuration_says_so(tmp_path: Path) -> None:
    """Two logs in one line of cron; whatever keeps the rows, a request that both saw is one."""
    (tmp_path / "hedgectl.toml").write_text("join = true\n")
    (tmp_path / "state").mkdir()
    logs = [str(path) for path in sorted((sql.samples_dir() / "joined").iterdir())]
    command = [sys.executable, "-m", "hedgectl", "daily", *logs, "--config", "hedgectl.toml", "-o", "json", "--dry-run"]
    for place in (["--state-dir", "state"], ["--from", "folder"]):
        given = [*command, *place, "--policy-file", "policy.json", "--as-of", "2026-10-13T00:00:00Z"]
        if place[0] == "--from":
            given.remove("--dry-run")
        done = subprocess.run(given, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
        assert done.returncode == 3, done.stderr
        ingested = json.loads(done.stdout)["ingested"]
        assert (ingested["lines"], ingested["attempts"], ingested["requests"]) == (127, 66, 60), place


def test_a_folder_tells_what_was_joined_as_a_database_does(tmp_path: Path) -> None:
    logs = sorted((sql.samples_dir() / "joined").iterdir())
    expected = read(*logs, db=tmp_path / "a.duckdb", join=True)
    got = fleet.ingest(str(tmp_path / "out"), [str(p) for p in logs], Here(), batch_bytes=1, join=True)
    assert got["joined"][0]["joined"] == 60
    assert got | {"database": ""} == expected | {"database": ""}
    with pytest.raises(UsageError, match="overlap in time"):
        fleet.ingest(str(tmp_path / "other"), [str(p) for p in logs], Here(), batch_bytes=1)
