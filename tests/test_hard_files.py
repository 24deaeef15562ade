"""Files that make a careless tool lie: nothing in them, broken, oddly named, with fields spelled otherwise or twice; whole commands."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command_line import row, run, write

from hedgectl.schemas import load

__all__ = ["run"]  # a fixture


@pytest.mark.parametrize(
    "content", ["", "\n  \n\n", "ts,request_id,replica,status,ttft_ms,e2e_ms\n"], ids=["empty", "blank", "header"]
)
def test_no_request_is_named_and_writes_no_policy(run: Any, tmp_path: Path, content: str) -> None:
    (tmp_path / "log.csv").write_text(content)
    (tmp_path / "policy.json").write_text("as it was")
    code, out, err = run("recommend", "log.csv", "-o", "json", "--out", "policy.json")
    assert (code, out) == (4, "")
    assert "no requests found" in err
    assert "log.csv" in err
    assert (tmp_path / "policy.json").read_text() == "as it was"


@pytest.mark.parametrize("command", ["ingest --db d.duckdb", "breakdown", "diagnose", "check", "recommend"])
def test_no_request_is_a_valid_document_all_the_same(run: Any, tmp_path: Path, command: str) -> None:
    """n = 0 and nothing observed, on stdout, from every command that has a document; the exit code stays 4."""
    (tmp_path / "blank.jsonl").write_text("\n  \n\n")
    (tmp_path / "header.csv").write_text("ts,request_id,replica,status,ttft_ms,e2e_ms\n")
    (tmp_path / "log.jsonl").write_text(row(0, e2e_ms=-5) + '\n{"level": "info"}\n')
    code, out, err = run(*command.split(), "blank.jsonl", "header.csv", "log.jsonl", "--format", "plain", "-o", "json")
    assert (code, "no requests found" in err) == (4, True)
    assert all(name in err for name in ("blank.jsonl", "header.csv", "log.jsonl", "1 negative_duration"))
    document = json.loads(out)
    jsonschema.validate(document, load(document["schema"].removeprefix("hedgectl/").removesuffix(".v1")))
    assert document["window"]["requests"] == 0
    if command == "breakdown":
        first = document["groups"][0]
        assert (first["requests"], first["e2e_ms"]["n"], first["e2e_ms"]["p50"]) == (0, 0, None)
        assert first["components"]["other"]["mean"] is None
    if command == "recommend":
        (policy,) = document["policies"]
        assert (policy["decision"], policy["reasons"][0]["value"]) == ("not_enough_data", 0)


def test_a_file_that_cannot_be_read_gives_no_document(run: Any, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    (tmp_path / "other.jsonl").write_text('{"colour": "blue", "size": 3}\n' * 5)
    code, out, err = run("breakdown", "empty.jsonl", "other.jsonl", "-o", "json")
    assert (code, out) == (4, "")
    assert "no format fits" in err


def test_an_empty_file_among_good_ones_stops_nothing(run: Any, tmp_path: Path) -> None:
    code, out, err = run("breakdown", write(tmp_path, name="none.jsonl"), write(tmp_path, row(0), row(1)), "-o", "json")
    assert code == 0, err
    assert json.loads(out)["window"]["requests"] == 2


def test_one_request_is_not_enough(run: Any, tmp_path: Path) -> None:
    code, out, _ = run("recommend", write(tmp_path, row(0)), "-o", "json")
    policy = json.loads(out)["policies"][0]
    assert (code, policy["decision"]) == (3, "not_enough_data")


def test_a_field_spelled_otherwise_is_no_unknown_field(run: Any, tmp_path: Path) -> None:
    rows = [
        row(0, spare={"deep": [1, {"a": None}]}),
        row(1, **{"Replica ": "z"}),
        row(2, replica=["e1", "e2"], Model="m2"),
    ]
    late = json.loads(row(3))
    late["TTFT-MS"] = late.pop("ttft_ms")
    log = write(tmp_path, *rows, json.dumps(late))
    code, out, _ = run("ingest", log, "--db", "d.duckdb", "-o", "json")
    document = json.loads(out)
    notes = {(n["code"], n["level"]): n["text"] for n in document["notes"]}
    assert (code, document["totals"]["accepted"]) == (0, 4)
    assert notes[("unknown_fields", "info")] == "plain: 1 unknown field: spare"
    assert "'TTFT-MS'" in notes[("near_field", "warning")]
    assert "stands beside it" in notes[("near_field", "info")]
    assert document["coverage"]["replica"] == 0.75


def test_a_name_with_newlines_breaks_no_line_of_any_text(run: Any, tmp_path: Path) -> None:
    names = ["one\ntwo\x1b[31m", "tab\there", "plain"]
    log = write(tmp_path, *(row(i, model=name, replica="r\nx") for i, name in enumerate(names * 4)))
    for argv in (
        ["recommend", "--min-requests", "2"],
        ["diagnose", "--min-requests", "2"],
        ["breakdown", "--by", "model,replica"],
    ):
        for fmt in ("table", "md"):
            _, out, err = run(*argv, log, "-o", fmt)
            assert not [line for line in out.splitlines() if line.startswith(("two", "x)", "x ", "x,"))], out
            assert "\x1b" not in out + err


@pytest.mark.parametrize(
    ("keep", "says"),
    [(slice(0, 2), "cut off"), (slice(0, 12), "cut off"), (slice(0, 40), "cut off"), (None, "damaged")],
    ids=["two bytes", "a header", "some bytes", "bytes overwritten"],
)
def test_an_archive_broken_at_its_start_is_not_called_empty(
    run: Any, tmp_path: Path, keep: slice | None, says: str
) -> None:
    whole = gzip.compress("".join(row(i) + "\n" for i in range(300)).encode(), mtime=0)
    (tmp_path / "a.gz").write_bytes(whole[keep] if keep is not None else whole[:10] + b"\xff" * 40 + whole[50:])
    code, out, err = run("ingest", "a.gz", "--db", "d.duckdb", "-o", "json")
    assert (code, out) == (4, "")
    assert f"the archive is {says}" in err
    assert "empty" not in err


def test_a_field_that_stands_twice_is_said(run: Any, tmp_path: Path) -> None:
    twice = row(9)[:-1] + ', "e2e_ms": 1, "status": 500}'
    log = write(tmp_path, row(0), twice, '{"cut', "[" + row(1) + "]", row(2)[:-1] + ', "model": "other"}')
    _, out, _ = run("ingest", log, "--db", "d.duckdb", "-o", "json")
    (told,) = [n for n in json.loads(out)["notes"] if n["code"] == "field_twice"]
    assert (told["level"], told["text"][-7:]) == ("warning", "ws seen")
    assert ": 2 rows" in told["text"]
    _, out, _ = run("breakdown", "--db", "d.duckdb", "-o", "json")
    assert json.loads(out)["groups"][0]["excluded"]["error"] == 0  # the first status counts
    # inside an object, too; the same name in two objects is no repetition
    inside = '{"id": %d, "usage": {"n": 1, "n": 2}, "a": [{"x": 1}, {"x": 1}], '
    log = write(
        tmp_path, inside % 1 + row(3)[1:], (inside % 2).replace('"n": 2', '"m": 2') + row(4)[1:], name="b.jsonl"
    )
    _, out, _ = run("ingest", log, "--db", "e.duckdb", "-o", "json")
    assert [n["text"][-10:] for n in json.loads(out)["notes"] if n["code"] == "field_twice"] == ["1 row seen"]


@pytest.mark.skipif(sys.platform != "linux", reason="file names are text elsewhere")
def test_a_file_whose_name_is_not_utf8_is_read_from_its_folder(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with open(os.fsencode(folder) + b"/gw\xff\xfe.jsonl", "w") as file:
        file.write(row(0) + "\n" + row(1) + '\n{"cut\n')
    code, out, err = run("ingest", "logs/*", "--db", "d.duckdb", "-o", "json")
    document = json.loads(out)
    assert (code, document["totals"]["accepted"], document["totals"]["rejected"]) == (0, 2, 1), err
    assert document["files"][0]["path"] == "logs/gw\\xff\\xfe.jsonl"
    code, _, err = run("breakdown", "logs")
    assert code == 0
    assert "gw\\xff\\xfe.jsonl line 3" in err
    _, out, _ = run("ingest", "logs", "--db", "d.duckdb", "-o", "json")
    assert json.loads(out)["files"][0]["already_ingested"]
