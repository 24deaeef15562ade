"""--strict: the same numbers, no file, exit 3, as soon as anything that was read is in doubt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import row, run

__all__ = ["run"]  # a fixture

CUT = '{"ts": "2026-03-02T08:00:59Z", "request_id": "cu\n'
GOOD = "".join(row(i, replica=f"e{i % 2}") + "\n" for i in range(30))


@pytest.mark.parametrize(
    "argv",
    [
        ["breakdown"],
        ["check"],
        ["stats"],
        ["recommend", "--min-requests", "50"],
        ["sql", "SELECT count(*) AS n FROM request"],
        ["ingest", "--db", "d.duckdb"],
    ],
    ids=lambda argv: argv[0],
)
def test_a_rejected_row_is_a_no_and_the_numbers_are_printed_all_the_same(
    run: Any, tmp_path: Path, argv: list[str]
) -> None:
    enough = 3 if argv[0] == "recommend" else 0  # 30 requests are too few, and are said to be
    (tmp_path / "good.jsonl").write_text(GOOD)
    assert run(*argv, "good.jsonl", "--strict")[0] == enough
    (tmp_path / "d.duckdb").unlink(missing_ok=True)
    (tmp_path / "cut.jsonl").write_text(GOOD + CUT)
    easy, plain, _ = run(*argv, "cut.jsonl")
    (tmp_path / "d.duckdb").unlink(missing_ok=True)
    code, out, err = run(*argv, "cut.jsonl", "--strict", "-q")
    assert (easy, code, out) == (enough, 3, plain)
    assert "--strict: 1 warning about the data" in err
    assert "cut_json" in err
    (tmp_path / "d.duckdb").unlink(missing_ok=True)
    (tmp_path / "kept").write_text("as it was")
    assert run(*argv, "cut.jsonl", "--strict", "-O", "kept")[:2] == (3, "")
    assert (tmp_path / "kept").read_text() == "as it was"


def test_a_database_remembers_what_was_rejected(run: Any, tmp_path: Path) -> None:
    (tmp_path / "cut.jsonl").write_text(GOOD + CUT)
    run("ingest", "cut.jsonl", "--db", "d.duckdb")
    code, _, err = run("breakdown", "--db", "d.duckdb", "--strict")
    assert (code, "rejected when read: 1" in err) == (3, True)


def test_a_doubt_about_the_selected_rows_is_a_no_without_any_reject(run: Any, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(GOOD + row(40, ttft_ms=None) + "\n")
    assert run("breakdown", "log.jsonl", "--strict")[0] == 3
    assert run("breakdown", "log.jsonl", "--strict", "--where", "ttft_ns IS NOT NULL")[0] == 0


def test_check_fails_on_offenders_only_when_asked(run: Any, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(GOOD + row(40, prompt_tokens=10, cached_tokens=90) + "\n")
    assert run("check", "log.jsonl")[0] == 0
    code, _, err = run("check", "log.jsonl", "--strict")
    assert (code, "cached_exceeds_prompt: 1" in err) == (3, True)


def test_the_cron_job_keeps_the_old_policy(run: Any, tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text(GOOD + CUT)
    (tmp_path / "hedgectl.toml").write_text("[recommend]\nmin_requests = 20\n")
    argv = ("daily", "log.jsonl", "--policy-file", "p.json", "--as-of", "2026-03-02T09:00:00Z", "-o", "json")
    code, out, _ = run(*argv, "--strict")
    gates = {g["gate"]: g for g in json.loads(out)["gates"]}
    assert (code, gates["strict"]["passed"], gates["strict"]["value"]) == (3, False, 1.0)
    assert not (tmp_path / "p.json").exists()
    code, out, _ = run(*argv)
    assert (code, "strict" in {g["gate"] for g in json.loads(out)["gates"]}) == (0, False)
    assert (tmp_path / "p.json").exists()


def test_a_field_of_a_mapping_that_no_record_has_is_told(tmp_path: Path, run: Any) -> None:
    fields = 'ts = "ts"\ne2e_ms = "e2e_ms"\nreplica = "nosuch"\nmodel = ["llm", "request_id"]\nerror = "failure"\n'
    (tmp_path / "map.toml").write_text(f'format = "mine"\n[fields]\n{fields}')
    (tmp_path / "log.jsonl").write_text(GOOD)
    argv = ["ingest", "log.jsonl", "--map", "map.toml", "--db"]
    code, out, _ = run(*argv, "a.duckdb", "-o", "json")
    notes = {n["text"]: n["level"] for n in json.loads(out)["notes"] if n["code"] == "absent_field"}
    assert code == 0
    assert notes == {"replica: 'nosuch' is in no record": "warning", "error: 'failure' is in no record": "info"}
    assert run(*argv, "b.duckdb", "--strict")[0] == 3
    code, _, err = run(*argv, "c.duckdb", "--format", "plain")
    assert (code, "--format says plain" in err) == (2, True)
    assert run(*argv, "d.duckdb", "--format", "mine")[0] == 0
