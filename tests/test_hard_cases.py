"""Logs that make a careless tool lie: what a whole command answers, from the first line to the exit code.

Cases with a test beside the code they concern are not repeated here: cut lines, duplicates, retries, losers, clocks, units, zones,
overlapping tools and cached tokens stand in test_ingest, test_formats_pitfalls, test_formats_map and test_decompose; the verdicts in
test_diagnose.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_hostile import row, run

__all__ = ["run"]  # a fixture


def write(folder: Path, *rows: str, name: str = "log.jsonl") -> str:
    (folder / name).write_text("".join(f"{line}\n" for line in rows))
    return name


@pytest.mark.parametrize(
    "content", ["", "\n  \n\n", "ts,request_id,replica,status,ttft_ms,e2e_ms\n"], ids=["empty", "blank", "header"]
)
def test_no_request_is_named_and_writes_no_policy(run: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "log.csv").write_text(content)
    (tmp_path / "policy.json").write_text("as it was")
    code, out, err = run("recommend", "log.csv", "-o", "json", "--out", "policy.json")
    assert (code, out) == (4, "")
    assert "log.csv" in err
    assert (tmp_path / "policy.json").read_text() == "as it was"


def test_an_empty_file_among_good_ones_stops_nothing(run: Any, tmp_path: Path) -> None:
    code, out, err = run("breakdown", write(tmp_path, name="none.jsonl"), write(tmp_path, row(0), row(1)), "-o", "json")
    assert code == 0, err
    assert json.loads(out)["window"]["requests"] == 2


def test_one_request_is_not_enough(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("recommend", write(tmp_path, row(0)), "-o", "json")
    policy = json.loads(out)["policies"][0]
    assert (code, policy["decision"]) == (3, "not_enough_data")


def test_answers_from_a_cache_are_no_latencies_and_never_hedged(run: Any, tmp_path: Path) -> None:
    rows = [row(i, cache_hit=hit, e2e_ms=5, ttft_ms=3) for i, hit in enumerate([True, "True", 1, "hit"])]
    log = write(tmp_path, *rows)
    code, out, _ = run("breakdown", log, "-o", "json")
    group = json.loads(out)["groups"][0]
    assert (code, group["excluded"]["cache_hit"], group["e2e_ms"]["n"]) == (0, 4, 0)
    code, out, _ = run("recommend", log, "--min-requests", "1", "-o", "json")
    assert json.loads(out)["policies"][0]["decision"] != "hedge"


def test_the_window_is_told_by_the_times_and_not_by_the_lines(run: Any, tmp_path: Path) -> None:
    old = row(7, ts="2026-02-20T08:00:00Z", e2e_ms=60_000)
    log = write(tmp_path, row(30), row(10), row(50), old, row(20))
    code, out, err = run("breakdown", log, "--window", "7d", "--as-of", "2026-03-02T08:00:50Z", "-o", "json")
    assert code == 0, err
    assert json.loads(out)["groups"][0]["requests"] == 4


def test_timeouts_are_lower_bounds_and_an_incident(run: Any, tmp_path: Path) -> None:
    rows = [row(i) for i in range(6)] + [row(i, status=504, ttft_ms=None, e2e_ms=20_000) for i in range(6, 9)]
    code, out, _ = run("recommend", write(tmp_path, *rows), "--min-requests", "5", "-o", "json")
    policy = json.loads(out)["policies"][0]
    assert (code, policy["decision"]) == (0, "do_not_hedge")
    assert "incident" in json.dumps(policy["reasons"])
