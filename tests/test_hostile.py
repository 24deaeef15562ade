"""Input that nobody means well with: no traceback, no number from nothing, an exit code that says what happened."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from hedgectl.cli import main

Ran = tuple[int, str, str]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """The command line in this process: exit code, stdout, stderr. Fails on what a user must never see."""
    monkeypatch.chdir(tmp_path)

    def run(*argv: str) -> Ran:
        capfd.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(argv))
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert "fault of hedgectl" not in err, err
        assert "Traceback" not in err, err
        return int(stop.value.code or 0), out, err

    return run


def row(i: int, **more: Any) -> str:
    known = {"ts": f"2026-03-02T08:{i // 60:02d}:{i % 60:02d}Z", "request_id": f"h{i}", "replica": "e1", "model": "m"}
    return json.dumps({**known, "status": 200, "stream": True, "ttft_ms": 150 + i, "e2e_ms": 900 + 3 * i, **more})


GOOD = "".join(row(i) + "\n" for i in range(4))


def totals(ran: Ran) -> dict[str, int]:
    assert ran[0] == 0, ran[2]
    found: dict[str, int] = json.loads(ran[1])["totals"]
    assert found["lines"] == found["accepted"] + found["duplicates"] + found["not_requests"] + found["rejected"]
    return found


@pytest.mark.parametrize(
    "content",
    [
        b"\x7fELF\x02\x01,a,b\r\r\x00\x01\n\x03,\r,x\n" * 50,  # carriage returns inside of what looks like CSV
        bytes(range(256)) * 64,
        b"[" * 100_000,
        b'{"a":' * 50_000 + b"\n",
        b"\0" * 4096,
    ],
    ids=["program", "bytes", "brackets", "braces", "nuls"],
)
def test_what_is_no_log_is_refused(run: Any, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    code, out, err = run("breakdown", "x.jsonl")
    assert (code, out) == (4, ""), err
    assert "x.jsonl" in err


def test_values_nested_without_end_cost_no_neighbour(run: Any, tmp_path: Path) -> None:
    deep = "[" * 100_000 + "\n" + '{"ts":' * 50_000 + "\n"
    (tmp_path / "deep.jsonl").write_text(GOOD + deep)
    found = totals(run("ingest", "deep.jsonl", "--db", "d.duckdb", "-o", "json"))
    assert (found["accepted"], found["rejected"]) == (4, 2)


def test_times_at_the_end_of_the_clock_are_rejected_and_stop_nothing(run: Any, tmp_path: Path) -> None:
    times: list[Any] = [
        "2262-04-11T23:47:16Z",
        "1970-01-01T00:00:00Z",
        "1677-09-22T00:00:00Z",
        9223372036854775807,
        -1,
        "infinity",
    ]
    (tmp_path / "t.jsonl").write_text(GOOD + "".join(row(9, ts=t) + "\n" for t in times))
    found = totals(run("ingest", "t.jsonl", "--db", "d.duckdb", "-o", "json"))
    assert (found["accepted"], found["rejected"]) == (4, len(times))


def test_names_cannot_colour_reorder_or_break_what_is_printed(run: Any, tmp_path: Path) -> None:
    names = ["a\tb\nc\x1b[31m", "m\u202egpj", "=cmd|' /C calc'!A0", "plain|bar", "\x9bx"]
    (tmp_path / "n.jsonl").write_text("".join(row(i, model=name) + "\n" for i, name in enumerate(names)))
    for fmt in ("table", "md", "csv"):
        code, out, err = run("breakdown", "n.jsonl", "--by", "model", "-o", fmt)
        assert code == 0, err
        assert fmt == "csv" or not set("\t\x1b\x9b\u202e") & set(out), fmt
    import csv

    assert {line["model"] for line in csv.DictReader(out.splitlines(keepends=True))} == {*names, "'" + names[2]} - {
        names[2]
    }
    code, out, _ = run("breakdown", "n.jsonl", "--by", "model", "-o", "json")
    assert {group["key"]["model"] for group in json.loads(out)["groups"]} == set(names)
    code, out, _ = run("breakdown", "n.jsonl", "--model", names[2], "-o", "json")
    assert json.loads(out)["groups"][0]["requests"] == 1
    code, _, err = run("breakdown", "no\x1b[2Jsuch\n.jsonl")
    assert code == 4
    assert "\x1b" not in err


def test_an_argument_that_is_no_text_is_a_usage_error(run: Any) -> None:
    code, out, err = run("breakdown", os.fsdecode(b"bad\xff.jsonl"))
    assert (code, out) == (2, "")
    assert "UTF-8" in err


@pytest.mark.skipif(sys.platform == "win32", reason="no named pipes and no links without rights")
def test_a_pipe_or_a_link_as_out_is_written_to_and_stays(run: Any, tmp_path: Path) -> None:
    import stat

    from hedgectl.cli import output

    pipe, link, target = tmp_path / "pipe", tmp_path / "link", tmp_path / "target"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    output.write_text("said\n", pipe)
    assert os.read(reader, 100) == b"said\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    target.write_text("old")
    link.symlink_to(target)
    output.write_text("new", link)
    assert link.is_symlink()
    assert target.read_text() == "new"
    from hedgectl.daily import files
    from hedgectl.errors import HedgectlError

    assert files.write(link, "newer")
    assert link.is_symlink()
    assert target.read_text() == "newer"
    with pytest.raises(HedgectlError, match="no file"):
        files.write(pipe, "x")
