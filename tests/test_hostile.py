"""Input that nobody means well with: no traceback, no number from nothing, an exit code that says what happened."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import Ran, row, run
from policy_documents import full

__all__ = ["run"]  # a fixture

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


@pytest.mark.parametrize(
    ("settings", "line", "what"),
    [
        ('[recommend]\ndeadline = "0s"\n', 2, "no time to answer"),
        ('[recommend]\nceiling = "1s"\nfloor = "9s"\n', 3, "is above the longest"),
        ("seed = 1\nrecommend = 5\n", 2, "is a table"),
        ('tz = "Mars/Base"\n', None, "no time zone Mars"),
        ('[recommend]\ngoal = "p99"\n', None, "is not a goal"),
        ('memory_limit = "much"\n', None, "not an amount of memory"),
    ],
)
def test_settings_are_refused_where_they_stand(
    run: Any, tmp_path: Path, settings: str, line: int | None, what: str
) -> None:
    """What a command would refuse, `config validate` refuses too."""
    (tmp_path / "c.toml").write_text(settings)
    code, _, err = run("config", "validate", "--config", "c.toml")
    assert (code, what in err) == (2, True), err
    assert line is None or f"c.toml:{line}" in err


@pytest.mark.parametrize("content", ["", GOOD, "x"], ids=["empty", "log", "short"])
def test_a_database_that_is_none_is_called_so(run: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "d.duckdb").write_text(content)
    code, _, err = run("breakdown", "--db", "d.duckdb")
    assert (code, "not a DuckDB database" in err) == (4, True), err
    assert (tmp_path / "d.duckdb").read_text() == content


def test_folders_without_a_log_are_named_and_stop_no_other(run: Any, tmp_path: Path) -> None:
    (tmp_path / "none").mkdir()
    code, _, err = run("breakdown", "none")
    assert (code, "where: none" in err) == (4, True), err
    (tmp_path / "good.jsonl").write_text(GOOD)
    assert run("breakdown", "none", "good.jsonl")[0] == 0


def test_a_file_named_like_an_option_is_pointed_to(run: Any, tmp_path: Path) -> None:
    (tmp_path / "--gw.jsonl").write_text(GOOD)
    code, _, err = run("breakdown", "--gw.jsonl")
    assert (code, "./--gw.jsonl" in err) == (2, True)
    assert run("breakdown", "./--gw.jsonl")[0] == 0


NINES = "9" * 400


@pytest.mark.parametrize(
    "argv",
    [
        ["breakdown", "log.jsonl", "--window", f"{NINES}d"],
        ["breakdown", "log.jsonl", "--window", "999999999d"],
        ["config", "validate", "--config", "number.toml"],
        ["config", "validate", "--config", "ratio.toml"],
        ["config", "validate", "--config", "count.toml"],
        ["emit", "ttl.json", "--to", "env"],
        ["emit", "century.json", "--to", "env"],
        ["emit", "last-year.json", "--to", "env"],
        ["emit", "delay.json", "--to", "env"],
        ["emit", "burst.json", "--to", "env"],
        ["emit", "months.json", "--to", "env"],
    ],
    ids=lambda argv: " ".join(argv)[:30],
)
def test_numbers_that_fit_nowhere_are_refused(run: Any, tmp_path: Path, argv: list[str]) -> None:
    (tmp_path / "log.jsonl").write_text(GOOD)
    for name, text in (
        ("number", f"[engine]\ngpu_hour_cost = {NINES}\n"),
        ("ratio", f"[recommend]\nbudget = {NINES}\n"),
        ("count", f"[recommend]\nmin_requests = {NINES}\n"),
    ):
        (tmp_path / f"{name}.toml").write_text(text)

    def edited(name: str, change: Any) -> None:
        document = full()
        change(document, document["policies"][0]["hedge"])
        (tmp_path / f"{name}.json").write_text(json.dumps(document))

    edited("ttl", lambda d, h: d.update(ttl=f"{NINES}d"))
    edited("century", lambda d, h: d.update(ttl="5300w"))
    edited("last-year", lambda d, h: d.update(as_of="9999-12-31T00:00:00Z"))
    edited("delay", lambda d, h: h.update(delay_ms=int(NINES)))
    edited("burst", lambda d, h: h["budget"].update(burst=int(NINES)))
    edited("months", lambda d, h: h.update(delay_ms=3e9, deadline=None))
    code, out, err = run(*argv)
    assert (code, out) == (2, ""), err


@pytest.mark.skipif(sys.platform == "win32", reason="no numbered streams")
@pytest.mark.parametrize(
    ("closed", "code"), [(">&-", 0), ("2>&-", 0), ("<&-", 0), ("<&- >&- 2>&-", 0), ("- <&-", 4)], ids=lambda c: str(c)
)
def test_streams_that_the_caller_closed_stop_nothing(tmp_path: Path, closed: str, code: int) -> None:
    import subprocess

    (tmp_path / "log.jsonl").write_text(GOOD)
    log = "" if closed.startswith("-") else "log.jsonl"
    command = f"exec {sys.executable} -m hedgectl breakdown {log} -o json {closed}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert "fault of hedgectl" not in done.stderr
    assert (tmp_path / "log.jsonl").read_text() == GOOD
    if closed == "2>&-":
        assert json.loads(done.stdout)["window"]["requests"] == 4


def test_a_narrow_terminal_keeps_sentences_readable(run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.jsonl").write_text(GOOD)
    said = {}
    for columns in ("1", "60", "9" * 30, "-5"):
        monkeypatch.setenv("COLUMNS", columns)
        said[columns] = run("breakdown", "log.jsonl")[1]
    assert said["1"] == said["60"] != said["-5"]
    assert said["9" * 30] == said["-5"]
