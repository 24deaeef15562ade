"""The cron job: writes, renews, keeps, stays silent, and never leaves a half."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from daily_logs import as_of, write_day
from jsonschema import Draft202012Validator

from hedgectl import analysis, ingest, schemas, store
from hedgectl.daily import Job, daily, gates
from hedgectl.daily import files as daily_files
from hedgectl.errors import BusyError, HedgectlError, InputError, NotEnoughData
from hedgectl.policy import parse
from hedgectl.recommend.options import Options


def job(tmp_path: Path, day: int, **more: Any) -> Job:
    logs = tmp_path / "logs"
    given = {
        "logs": analysis.Logs(paths=(str(logs),), db=tmp_path / "h.duckdb"),
        "policy": tmp_path / "policy.json",
        "options": Options(min_requests=500),
        "as_of_ns": analysis.moment_ns(as_of(day)),
        "emit": {"client": tmp_path / "client.json"},
    }
    return Job(**(given | more))


def run(tmp_path: Path, day: int, **more: Any) -> dict[str, Any]:
    document = daily(job(tmp_path, day, **more))
    Draft202012Validator(schemas.load("daily")).validate(document)
    return document


@pytest.fixture
def week(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    for day in range(8):
        write_day(tmp_path / "logs", day)
    return tmp_path


def test_first_run_writes_a_policy_and_its_files_then_nothing_is_new(week: Path) -> None:
    first = run(week, 7)
    assert first["action"] == "written"
    assert first["decisions"][0]["decision"] == "hedge"
    policy = parse(json.loads((week / "policy.json").read_text()))
    client = json.loads((week / "client.json").read_text())
    assert client["enabled"] is True
    before = (week / "policy.json").read_bytes()
    again = run(week, 7)
    assert again["action"] == "nothing_new"
    assert (week / "policy.json").read_bytes() == before
    assert policy.policy_id() == again["policy_id"]


def test_a_new_quiet_day_renews_and_keeps_the_previous(week: Path) -> None:
    run(week, 7)
    before = (week / "policy.json").read_text()
    write_day(week / "logs", 8)
    document = run(week, 8)
    assert document["action"] in ("renewed", "written")
    new = json.loads((week / "policy.json").read_text())
    assert new["as_of"] == as_of(8)
    assert (week / "policy.json.previous").read_text() == before
    old_delay = json.loads(before)["policies"][0]["hedge"]["delay_ms"]
    assert abs(new["policies"][0]["hedge"]["delay_ms"] / old_delay - 1) < 0.25


def test_a_lost_field_keeps_the_old_policy(week: Path) -> None:
    run(week, 7)
    before = (week / "policy.json").read_bytes()
    for day in (8, 9):
        write_day(week / "logs", day, drop=("replica",))
    document = run(week, 9)
    assert document["action"] == "kept"
    assert any(g["gate"] == "coverage_replica" and g["passed"] is False for g in document["gates"])
    assert (week / "policy.json").read_bytes() == before


def test_missing_logs_keep_the_old_policy(week: Path) -> None:
    run(week, 7)
    write_day(week / "logs", 13, n=1300)
    document = run(week, 13)
    assert document["action"] == "kept"
    assert any(g["gate"] == "traffic" and g["passed"] is False for g in document["gates"])


def test_dry_run_changes_nothing(week: Path) -> None:
    document = run(week, 7, dry_run=True)
    assert document["action"] == "written"
    assert sorted(p.name for p in week.iterdir() if not p.name.startswith(".")) == ["logs"]


def test_raw_rows_are_kept_for_the_window_and_figures_for_ever(week: Path) -> None:
    run(week, 7)
    for day in range(8, 11):
        write_day(week / "logs", day)
    run(week, 10)
    with store.connect(week / "h.duckdb", read_only=True) as opened:
        days = opened.con.execute("SELECT count(DISTINCT day) FROM history_day").fetchall()[0][0]
        oldest = opened.con.execute("SELECT min(arrival_ns) FROM attempt").fetchall()[0][0]
    assert days == 11
    assert oldest >= analysis.moment_ns(as_of(1))


def test_a_run_that_is_refused_removes_no_row_and_one_that_writes_says_what_it_removed(week: Path) -> None:
    def rows() -> int:
        with store.connect(week / "h.duckdb", read_only=True) as opened:
            return int(opened.con.execute("SELECT count(*) FROM attempt").fetchall()[0][0])

    with pytest.raises(NotEnoughData, match="no request lies in the window"):
        run(week, 300)
    held = rows()
    assert held > 0
    assert run(week, 7, window_s=2 * 86_400.0, dry_run=True)["action"] == "written"
    assert rows() == held
    document = run(week, 7, window_s=2 * 86_400.0)
    (said,) = [n for n in document["notes"] if n["code"] == "rows_pruned" and "removed from" in n["text"]]
    assert document["action"] == "written"
    assert said["text"].startswith(f"{held - rows()} raw rows of days before {as_of(4)[:10]}")
    assert 0 < rows() < held


def test_rows_that_were_removed_do_not_vanish_silently_when_they_are_read_again(week: Path) -> None:
    run(week, 7, window_s=86_400.0)
    with store.connect(week / "h.duckdb") as opened:
        read = ingest.ingest(opened, [str(week / "logs")])
        (said,) = [n for n in read["notes"] if n["code"] == "rows_pruned"]
        assert said["text"].startswith("6 of these files were read before")
        opened.con.execute("DELETE FROM attempt")
    with (
        store.connect(None) as memory,
        pytest.raises(InputError, match="hedgectl daily has removed those of days before"),
    ):
        analysis.copy(week / "h.duckdb", memory)


def test_the_same_input_and_as_of_give_the_same_bytes_on_two_machines(tmp_path: Path) -> None:
    machines = {
        "one": {"PYTHONHASHSEED": "1", "TZ": "UTC", "LC_ALL": "C", "ONE_CPU": "1"},
        "another/place": {"PYTHONHASHSEED": "2", "TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8", "LANG": "tr_TR.UTF-8"},
    }
    written = []
    for name, environment in machines.items():
        folder = tmp_path / name
        (folder / "logs").mkdir(parents=True)
        for day in range(8):
            write_day(folder / "logs", day)
        command = [sys.executable, str(Path(__file__).resolve()), str(folder), "7"]
        subprocess.run(command, cwd=folder, env=os.environ | environment, check=True, timeout=300)
        written.append([(folder / file).read_bytes() for file in ("policy.json", "client.json")])
    assert written[0] == written[1]


def test_a_runner_without_a_disk_carries_its_state(week: Path) -> None:
    state = week / "state"
    state.mkdir()
    logs = analysis.Logs(paths=(str(week / "logs"),))
    run(week, 7, logs=logs, state_dir=state)
    rows = json.loads((state / "history.json").read_text())
    assert {r[0] for r in rows["history_day"]} == {f"2026-11-{d:02d}" for d in range(2, 10)}
    for day in range(3):
        (week / "logs" / f"day-{day:02d}.jsonl").unlink()
    write_day(week / "logs", 8)
    run(week, 8, logs=logs, state_dir=state)
    rows = json.loads((state / "history.json").read_text())
    assert {r[0] for r in rows["history_day"]} == {f"2026-11-{d:02d}" for d in range(2, 11)}


def test_two_at_once_one_is_told_who_holds(week: Path) -> None:
    import fcntl

    lock = week / ".policy.json.lock"
    with lock.open("w") as held:
        held.write("4242\n")
        held.flush()
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError) as raised:
            daily(job(week, 7))
    assert "4242" in raised.value.what
    assert not (week / "policy.json").exists()


def test_a_job_that_runs_keeps_another_one_out_to_its_end(week: Path) -> None:
    met: list[str] = []

    def another(said: str) -> None:
        if said == "deciding":
            with pytest.raises(BusyError) as raised:
                daily(job(week, 7))
            met.append(raised.value.what)

    assert run(week, 7, progress=another)["action"] == "written"
    assert len(met) == 1
    assert str(os.getpid()) in met[0]


def test_what_a_killed_run_left_is_swept_away_and_the_lock_is_not(week: Path) -> None:
    left, lock = week / ".policy.json.x1y2.part", week / ".policy.json.lock"
    for path in (left, lock):
        path.write_text("{")
    run(week, 7)
    assert not left.exists()
    assert lock.exists()


def test_a_broken_old_policy_is_an_error_that_changes_nothing(week: Path) -> None:
    (week / "policy.json").write_text("{half")
    with pytest.raises(InputError) as raised:
        daily(job(week, 7))
    assert "previous" in (raised.value.hint or "")
    assert (week / "policy.json").read_text() == "{half"


def test_a_full_disk_leaves_the_old_policy(week: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(week, 7)
    before = (week / "policy.json").read_bytes()
    write_day(week / "logs", 8)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(daily_files.os, "fsync", full)
    with pytest.raises(HedgectlError) as raised:
        daily(job(week, 8))
    assert "No space left" in raised.value.what
    assert (week / "policy.json").read_bytes() == before
    assert not [p for p in week.iterdir() if p.name.startswith(".policy.json.") and not p.name.endswith(".lock")]


def test_delay_gate_wants_a_cause() -> None:
    document = json.loads((Path(__file__).parent / "golden" / "daily_policy.json").read_text())
    old = parse(document)

    def moved(delay: float, p50: float) -> Any:
        changed = json.loads(json.dumps(document))
        changed["policies"][0]["hedge"]["delay_ms"] = delay
        changed["policies"][0]["projection"]["unhedged"]["e2e_ms"]["p50"] = p50
        return parse(changed)

    def delay(new: Any, spread: dict | None = None) -> Any:
        answers = gates.judge(old, new, bad_rows={}, spread=spread or {})
        return next(g for g in answers if g.gate.startswith("delay"))

    assert delay(moved(1100.0, 1000.0)).passed is True
    assert delay(moved(2000.0, 1000.0)).passed is False
    assert delay(moved(2000.0, 1800.0)).passed is True, "everything got slower: that is a cause"
    assert delay(moved(2000.0, 600.0)).passed is False, "the other way is no cause"
    assert delay(moved(1500.0, 1000.0), {("chat", "first_token"): (900.0, 1600.0)}).passed is True


def test_killed_at_random_moments_leaves_a_valid_policy_and_a_consistent_database(week: Path) -> None:
    killed(week, int(os.environ.get("HEDGECTL_KILLS", "4")))


def killed(week: Path, kills: int) -> None:
    """Kills the job so often, each time somewhere in its run, and looks at what it left."""
    run(week, 7)
    started = time.monotonic()
    write_day(week / "logs", 8)
    run(week, 8)
    usual_s = time.monotonic() - started
    rng = random.Random(7)
    day = 8
    for kill in range(kills):
        day += 1 if kill % 2 == 0 else 0
        write_day(week / "logs", day)
        child = subprocess.Popen(
            [sys.executable, __file__, str(week), str(day)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        time.sleep(rng.uniform(0.2, 1.3) * usual_s)
        child.send_signal(signal.SIGKILL)
        child.wait(60)
        policy = parse(json.loads((week / "policy.json").read_text()))
        assert not policy.edited
        assert json.loads((week / "client.json").read_text())["enabled"] in (True, False)
        with store.connect(week / "h.duckdb", read_only=True) as opened:
            counted = opened.con.execute("SELECT sum(accepted) FROM ingested_file").fetchall()[0][0]
            figures = opened.con.execute("SELECT sum(requests) FROM history_day").fetchall()[0][0]
        assert counted % 1200 == 0, "a batch is in the database whole or not at all"
        assert figures % 1200 == 0
    final = run(week, day)
    assert final["action"] in ("written", "renewed", "nothing_new")
    with store.connect(week / "h.duckdb", read_only=True) as opened:
        assert opened.con.execute("SELECT sum(requests) FROM history_day").fetchall()[0][0] == 1200 * (day + 1)


if __name__ == "__main__":
    if "ONE_CPU" in os.environ and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # DuckDB, numba and BLAS count threads by it
    daily(job(Path(sys.argv[1]), int(sys.argv[2])))
