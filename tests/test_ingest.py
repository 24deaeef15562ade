"""What becomes of records: accepted, repeated, no request, rejected; and what the document says about them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import zstandard
from ingest_logs import counts, lines, query, read, row

from hedgectl.errors import ExitCode, HedgectlError, InputError, UsageError
from hedgectl.ingest import ingest
from hedgectl.store import connect


def codes(document: dict[str, object]) -> list[str]:
    notes = document["notes"]
    assert isinstance(notes, list)
    return [note["code"] for note in notes]


def test_every_record_of_a_clean_log_is_accepted(tmp_path: Path) -> None:
    log = tmp_path / "gw.jsonl"
    log.write_text(lines(range(50)))
    got = read(log)
    assert counts(got["totals"]) == (50, 50, 0, 0, 0)
    assert got["totals"]["requests"] == 50
    assert got["files"][0]["format"] == "plain"
    assert got["window"] == {
        "from": "2026-11-20T10:00:00Z",
        "to": "2026-11-20T10:00:49.049Z",
        "requests": 50,
        "attempts": 50,
    }
    assert got["coverage"]["ttft"] == 1.0
    assert got["coverage"]["cost"] == 0.0
    assert got["observers"] == ["client"]
    assert got["notes"] == []


def test_values_are_exact_integers_and_positions_are_kept(tmp_path: Path) -> None:
    log = tmp_path / "gw.jsonl"
    record = {"ts": 1763632801.123456789, "request_id": 9007199254740993, "ttft_ms": 0.25, "e2e_ms": 1000.000001}
    log.write_text("\n" + json.dumps(record).replace("1763632801.1234567", "1763632801.123456789") + "\n")
    with connect(None) as store:
        ingest(store, [str(log)])
        got = query(store, "SELECT line, record, request_id, arrival_ns, ttft_ns, e2e_ns FROM attempt")
    assert got == [(2, 0, "9007199254740993", 1763632801123456789, 250_000, 1_000_000_001)]


def test_repetitions_with_ids_are_counted_whatever_the_order_of_keys(tmp_path: Path) -> None:
    log = tmp_path / "shipped.jsonl"
    again = dict(reversed(list(row(1).items())))
    log.write_text(lines([1, 2, 2, 3]) + json.dumps(again) + "\n")
    assert counts(read(log)["totals"]) == (5, 3, 2, 0, 0)


def test_the_same_id_with_other_content_is_kept_and_told(tmp_path: Path) -> None:
    log = tmp_path / "reused.jsonl"
    log.write_text(lines([1, 2]) + json.dumps(row(1, e2e_ms=5000)) + "\n")
    got = read(log)
    assert counts(got["totals"]) == (3, 3, 0, 0, 0)
    assert "id_reused" in codes(got)


def test_identical_lines_without_ids_are_different_requests(tmp_path: Path) -> None:
    log = tmp_path / "bare.jsonl"
    log.write_text(lines([1, 1, 1], ids=False))
    got = read(log)
    assert counts(got["totals"]) == (3, 3, 0, 0, 0)
    assert got["totals"]["requests"] == 3


def test_every_kind_of_bad_line_is_counted_with_its_place(tmp_path: Path) -> None:
    log = tmp_path / "odd.jsonl"
    good = json.dumps(row(1))
    log.write_bytes(
        b"\xef\xbb\xbf" + good.encode() + b"\r\n"  # 1
        b"\r\n  \n"
        b"INFO started\n"  # 4
        b'{"level": "info", "msg": "healthy"}\n'  # 5
         + json.dumps(row(2)).encode() + json.dumps(row(3)).encode() + b"\n"  # 6: glued
        b'{"ts": 1, "x": NaN}\n'  # 7
        + json.dumps([row(4), 7]).encode()
        + b"\n"  # 8
        + json.dumps(row(5, model="caf")).encode().replace(b"caf", b"caf\xe9")
        + b"\n"  # 9
        b"{'single': 'quotes'}\n"  # 10
         + json.dumps(row(6, ts="yesterday")).encode() + b"\n"  # 11
        b"2026-11-20T10:00:03.1Z stdout F " + json.dumps(row(7)).encode() + b"\n"  # 12
        b'{"ts": "2026-11-20T10:0'  # 13
    )
    with connect(None) as store:
        got = ingest(store, [str(log)])
        kept = query(store, "SELECT line, record, request_id, model FROM attempt ORDER BY line, record")
        stored = query(store, "SELECT line, reason FROM reject ORDER BY line")
    assert counts(got["totals"]) == (13, 6, 0, 2, 5)
    assert [(line, record, name) for line, record, name, _ in kept] == [
        (1, 0, "q1"), (6, 0, "q2"), (6, 1, "q3"), (8, 0, "q4"), (9, 0, "q5"), (12, 0, "q7"),
    ]  # fmt: skip
    assert {(line, reason) for line, reason in stored} == {
        (7, "nan_in_json"), (8, "not_an_object"), (10, "bad_json"), (11, "bad_time"), (13, "cut_json"),
    }  # fmt: skip
    assert [r["line"] for r in got["files"][0]["rejects"]] == [7, 8, 10, 11, 13]
    assert {"rejected", "not_requests", "bad_utf8"} <= set(codes(got))
    assert next(model for line, _, _, model in kept if line == 9) == "caf\\xe9"


def test_a_log_that_is_mostly_something_else_says_so(tmp_path: Path) -> None:
    log = tmp_path / "mixed.log"
    log.write_text("engine started\n" * 9 + lines([1, 2]))
    got = read(log)
    assert counts(got["totals"]) == (11, 2, 0, 9, 0)
    assert "mostly_not_requests" in codes(got)


@pytest.mark.parametrize(
    "shape",
    ["array", "pretty", "data", "page_lines", "csv", "semicolon", "parquet", "gzip", "zstd", "cri", "docker", "utf16"],
)
def test_one_log_in_every_container_gives_the_same_rows(tmp_path: Path, shape: str) -> None:
    rows = [row(n, model='dé "x"') for n in range(7)]
    text = "".join(json.dumps(r) + "\n" for r in rows)
    log = tmp_path / "any.name"
    if shape == "array":
        log.write_text(json.dumps(rows))
    elif shape == "pretty":
        log.write_text(json.dumps(rows, indent=2))
    elif shape == "data":
        log.write_text(json.dumps({"object": "list", "data": rows}, indent=1))
    elif shape == "page_lines":
        log.write_text(json.dumps({"data": rows[:3]}) + "\n" + json.dumps({"data": rows[3:]}) + "\n")
    elif shape in ("csv", "semicolon"):
        mark = "," if shape == "csv" else ";"
        quoted = [mark.join('"' + str(v).replace('"', '""') + '"' for v in r.values()) for r in rows]
        log.write_text("\n".join([mark.join(rows[0]), *quoted]))
    elif shape == "parquet":
        source = tmp_path / "source.jsonl"
        source.write_text(text)
        with connect(None) as store:
            store.con.execute(
                f"COPY (FROM read_json('{source}', columns = {{request_id: 'VARCHAR', attempt_id: 'VARCHAR', ts: 'VARCHAR', replica: 'VARCHAR', model: 'VARCHAR', status: 'INTEGER', ttft_ms: 'DOUBLE', e2e_ms: 'DOUBLE'}})) TO '{log}' (FORMAT parquet)"
            )
    elif shape == "gzip":
        log.write_bytes(gzip.compress(text[:500].encode()) + gzip.compress(text[500:].encode()))
    elif shape == "zstd":
        log.write_bytes(zstandard.ZstdCompressor().compress(text.encode()))
    elif shape == "cri":
        out = []
        for line in text.splitlines():
            out += [
                f"2026-11-20T10:00:00.1Z stdout P {line[:40]}",
                "2026-11-20T10:00:00.1Z stderr F noise",
                f"2026-11-20T10:00:00.2Z stdout F {line[40:]}",
            ]
        log.write_text("\n".join(out) + "\n")
    elif shape == "docker":
        out = []
        for line in text.splitlines():
            out += [
                json.dumps({"log": part, "stream": "stdout", "time": "2026-11-20T10:00:00Z"})
                for part in (line[:30], line[30:] + "\n")
            ]
        log.write_text("\n".join(out) + "\n")
    else:
        log.write_bytes(text.encode("utf-16"))
    with connect(None) as store:
        got = ingest(store, [str(log)])
        kept = query(
            store,
            "SELECT request_id, attempt_id, replica, model, ttft_ns, e2e_ns, arrival_ns FROM attempt ORDER BY arrival_ns",
        )
    noise = 7 if shape == "cri" else 0
    assert counts(got["totals"]) == (7 + noise, 7, 0, noise, 0)
    assert kept == [
        (f"q{n}", f"a{n}", f"r{n % 3}", 'dé "x"', (100 + n % 7) * 10**6, (900 + n % 11) * 10**6, 1763632800000000000 + 31536000000000000 + n * 1_001_000_000)
        for n in range(7)
    ]  # fmt: skip


def test_two_files_with_the_same_records_in_either_order(tmp_path: Path) -> None:
    """A gzip file without its name, and a longer copy of it."""
    short, long = tmp_path / "input.log", tmp_path / "input.jsonl.gz"
    short.write_bytes(gzip.compress(lines([1, 2]).encode()))
    long.write_bytes(gzip.compress(lines([1, 2]).encode()) + gzip.compress(lines([3, 4]).encode()))
    for order in ((long, short), (short, long)):
        got = read(*order)
        assert got["totals"]["requests"] == 4
        assert counts(got["totals"])[1:3] == (4, 2)


def test_a_bad_file_does_not_stop_the_others(tmp_path: Path) -> None:
    good, empty, header, words, cut = (
        tmp_path / n for n in ("good.jsonl", "empty", "header.csv", "words.txt", "cut.gz")
    )
    good.write_text(lines(range(4)))
    empty.write_text("")
    header.write_text("ts,request_id,replica,e2e_ms\n")
    words.write_text("nothing to see here\nat all\n")
    packed = gzip.compress(
        "".join(json.dumps(row(n, pad="x" * (n * 37 % 997))) + "\n" for n in range(10, 400)).encode()
    )
    cut.write_bytes(packed[: len(packed) // 2])
    got = read(good, empty, header, words, cut)
    by_name = {Path(f["path"]).name: f for f in got["files"]}
    assert counts(by_name["good.jsonl"]) == (4, 4, 0, 0, 0)
    assert by_name["empty"]["error"]
    assert by_name["words.txt"]["error"]
    assert counts(by_name["header.csv"]) == (0, 0, 0, 0, 0)
    assert "cut_archive" in {r["reason"] for r in by_name["cut.gz"]["rejects"]}
    assert counts(by_name["cut.gz"])[1] > 20
    assert codes(got).count("file_unusable") == 2
    assert "file_without_requests" in codes(got)


def test_links_that_lead_nowhere_are_warned_of_by_name(tmp_path: Path) -> None:
    (tmp_path / "good.jsonl").write_text(lines(range(4)))
    for name, target in (("a", "b"), ("b", "a"), ("c", "gone")):
        (tmp_path / name).symlink_to(target)
    got = read(tmp_path)
    said = [n["text"] for n in got["notes"] if n["code"] == "file_unusable" and n["level"] == "warning"]
    assert [text.split(": cannot be read")[0] for text in said] == [str(tmp_path / name) for name in "abc"]


@pytest.mark.parametrize(
    "content",
    [b"", b"\n\n  \n", b"ts,request_id,replica,status,ttft_ms,e2e_ms\n", b'{"hello": "world"}\n', b"\0" * 100],
)
def test_input_without_a_request_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    log = tmp_path / "nothing.log"
    log.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(log)
    assert "nothing.log" in (caught.value.where or "")
    assert caught.value.hint


def test_too_many_rejects_commit_nothing(tmp_path: Path) -> None:
    log, db = tmp_path / "half.jsonl", tmp_path / "h.duckdb"
    log.write_text(lines(range(8)) + '{"bad": \n' * 2)
    with pytest.raises(InputError, match="2 of 10 records were rejected"):
        read(log, db=db, max_reject=0.1)
    assert query(
        db, "SELECT (SELECT count(*) FROM attempt), (SELECT count(*) FROM ingested_file), (SELECT count(*) FROM reject)"
    ) == [(0, 0, 0)]
    assert counts(read(log, db=db, max_reject=0.2)["totals"]) == (10, 8, 0, 0, 2)


def test_aggregates_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "minutes.csv"
    log.write_text("window_start,replica,count,p50_ms,p95_ms,p99_ms\n2026-11-20T10:00:00Z,r-a,10000,200,300,400\n")
    with pytest.raises(InputError, match="percentiles"):
        read(log)


def test_two_formats_that_saw_the_same_time_are_refused_until_joined(tmp_path: Path) -> None:
    ours, theirs, db = tmp_path / "a.jsonl", tmp_path / "b.jsonl", tmp_path / "h.duckdb"
    ours.write_text(lines(range(5)))
    mapping = tmp_path / "edge.toml"
    mapping.write_text('[fields]\nts = "when"\ne2e_ms = "took"\n')
    theirs.write_text("".join(json.dumps({"when": row(n)["ts"], "took": 5}) + "\n" for n in range(3)))
    read(ours, db=db)
    with pytest.raises(UsageError, match="overlap in time"):
        read(theirs, db=db, map_file=mapping)
    assert query(db, "SELECT count(*) FROM attempt") == [(5,)]
    read(theirs, db=db, map_file=mapping, join=True)
    assert query(db, "SELECT count(*) FROM attempt") == [(8,)]


def test_naive_times_follow_the_flag_and_never_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    log = tmp_path / "naive.jsonl"
    log.write_text(json.dumps(row(1, ts="2026-11-20T10:00:01")) + "\n" + json.dumps(row(2)) + "\n")
    assert read(log)["window"]["from"] == "2026-11-20T10:00:01Z"
    got = read(log, tz="America/New_York")
    assert (got["window"]["from"], got["window"]["to"]) == ("2026-11-20T10:00:02.002Z", "2026-11-20T15:00:01Z")
    assert "naive_time" in codes(got)


def test_a_faulty_query_of_a_format_is_a_usage_error_and_a_faulty_value_a_reject(tmp_path: Path) -> None:
    """A user's mapping is compiled; a format whose SQL fails on a value must not take its neighbours along."""
    from dataclasses import replace

    from hedgectl.formats.catalogue import get
    from hedgectl.ingest.counts import Piece
    from hedgectl.ingest.stage import Stage
    from hedgectl.ingest.steps import Step

    base = get("plain")
    fragile = replace(
        base, name="fragile", select_sql="SELECT line, record, CAST(j->>'n' AS INTEGER) AS e2e_ns FROM raw"
    )
    broken = replace(base, name="broken", select_sql="SELECT line, record, no_such_column FROM raw")
    with connect(None) as store:
        stage = Stage(store, tz=None)
        texts = [f'{{"n": "{n}"}}' for n in (1, 2, "x", 4, "y", 6)]
        stage.add(fragile, Piece(0, Step(0, 6, texts=texts, lines=list(range(1, 7)), records=[0] * 6)))
        got = stage.take().counts()[0]
        assert (got.accepted, got.rejected) == (4, 2)
        assert [(line, reason) for line, reason, _ in got.rejects] == [(3, "format_error"), (5, "format_error")]
        # on every record: one clear word instead of a run for each of them
        texts = ['{"n": "x"}'] * 5000
        stage.add(fragile, Piece(0, Step(0, 5000, texts=texts, lines=list(range(1, 5001)), records=[0] * 5000)))
        with pytest.raises(
            HedgectlError, match="fragile fails on every record: Conversion Error: Could not convert"
        ) as e:
            stage.take().counts()
        assert e.value.code == ExitCode.FAILED
        assert "--map" in str(e.value.hint)
        stage.add(broken, Piece(0, Step(0, 1, texts=["{}"], lines=[1], records=[0])))
        with pytest.raises(UsageError, match="broken"):
            stage.take().counts()
        stage.close()
