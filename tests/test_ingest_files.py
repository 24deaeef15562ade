"""Which bytes were read before: growing, rotated, renamed, compressed, truncated and half-written files."""

from __future__ import annotations

import gzip
import importlib
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ingest_logs import counts, lines, query, read, row

from hedgectl.errors import NoRequests
from hedgectl.ingest import ingest
from hedgectl.ingest import run as batches
from hedgectl.ingest.ledger import Entry, Ledger
from hedgectl.lines import blocks
from hedgectl.store import connect

IDS = pytest.mark.parametrize("ids", [True, False], ids=["with ids", "without ids"])


def total(db: Path) -> tuple[int, ...]:
    """Rows of the ledger summed, checked against the tables."""
    got = query(
        db, "SELECT sum(lines), sum(accepted), sum(duplicates), sum(not_requests), sum(rejected) FROM ingested_file"
    )[0]
    assert got[0] == sum(got[1:])
    assert query(db, "SELECT (SELECT count(*) FROM attempt), (SELECT count(*) FROM reject)") == [(got[1], got[4])]
    return tuple(int(x) for x in got)


def noted(document: dict[str, Any], code: str) -> list[str]:
    return [n["text"] for n in document["notes"] if n["code"] == code]


@IDS
def test_reading_a_file_twice_changes_nothing(tmp_path: Path, ids: bool) -> None:
    log, db = tmp_path / "a.jsonl", tmp_path / "h.duckdb"
    log.write_text(lines(range(20), ids=ids) + '{"cut')
    read(log, db=db)
    again = read(log, db=db)
    assert again["files"][0]["already_ingested"]
    assert counts(again["totals"]) == (0, 0, 0, 0, 0)
    assert total(db) == (21, 20, 0, 0, 1)


@IDS
def test_a_growing_file_is_resumed_and_its_half_line_is_not_lost(tmp_path: Path, ids: bool) -> None:
    log, db = tmp_path / "a.jsonl", tmp_path / "h.duckdb"
    whole = lines(range(9), ids=ids)
    for end in (400, 401, 777, len(whole) - 1, len(whole)):
        log.write_text(whole[:end])
        read(log, db=db)
        done = whole[:end].count("\n")
        last = whole[:end].rpartition("\n")[2]
        complete = bool(last) and last.endswith("}")
        assert total(db) == (done + bool(last), done + complete, 0, 0, int(bool(last) and not complete))
    assert query(db, "SELECT line FROM attempt ORDER BY line") == [(n,) for n in range(1, 10)]


def test_a_last_line_that_looked_complete_is_read_again_when_it_goes_on(tmp_path: Path) -> None:
    """A table cut inside its last number still parses; the value must not stay."""
    log, db = tmp_path / "a.csv", tmp_path / "h.duckdb"
    text = "ts,request_id,e2e_ms\n2026-11-20T10:00:00Z,q0,900\n2026-11-20T10:00:01Z,q1,1234\n"
    log.write_text(text[:-3])
    read(log, db=db)
    assert query(db, "SELECT e2e_ns FROM attempt WHERE request_id = 'q1'") == [(12_000_000,)]
    log.write_text(text + "2026-11-20T10:00:02Z,q2,5\n")
    got = read(log, db=db)
    assert counts(got["totals"]) == (2, 2, 0, 0, 0)
    assert query(db, "SELECT request_id, e2e_ns, line FROM attempt ORDER BY line") == [
        ("q0", 900_000_000, 2),
        ("q1", 1_234_000_000, 3),
        ("q2", 5_000_000, 4),
    ]
    assert total(db) == (3, 3, 0, 0, 0)


@IDS
def test_rename_copytruncate_and_gzip_after_rotation(tmp_path: Path, ids: bool) -> None:
    log, db = tmp_path / "gw.log", tmp_path / "h.duckdb"
    log.write_text(lines(range(10), ids=ids))
    read(log, db=db)
    # copytruncate, with a last record written in between
    rotated = tmp_path / "gw.log.1"
    shutil.copy(log, rotated)
    with rotated.open("a") as more:
        more.write(lines([10], ids=ids))
    log.write_text(lines(range(100, 103), ids=ids))
    got = read(log, rotated, db=db)
    assert [counts(f)[:2] for f in got["files"]] == [(3, 3), (1, 1)]
    # renamed, then compressed
    packed = tmp_path / "gw.log.2.gz"
    packed.write_bytes(gzip.compress(rotated.read_bytes()))
    rotated.unlink()
    got = read(log, packed, db=db)
    assert [f["already_ingested"] for f in got["files"]] == [True, True]
    assert total(db)[:2] == (14, 14)


def test_files_that_only_begin_alike_are_different(tmp_path: Path) -> None:
    """A table of which only the header was there must not swallow another one with the same header."""
    db, header = tmp_path / "h.duckdb", "ts,request_id,e2e_ms\n"
    a, b = tmp_path / "a.csv", tmp_path / "b.csv"
    first = [f"2026-11-20T10:00:0{n}Z,q{n},5\n" for n in range(6)]
    a.write_text(header + first[0])
    read(a, db=db)
    b.write_text(header + first[1] + first[2])
    a.write_text(header + first[0] + first[3])
    got = read(a, b, db=db)
    assert [counts(f)[:2] for f in got["files"]] == [(1, 1), (2, 2)]
    assert query(db, "SELECT request_id FROM attempt ORDER BY ALL") == [("q0",), ("q1",), ("q2",), ("q3",)]


@given(
    st.lists(st.tuples(st.sampled_from([b"a", b"b", b"ab"]), st.integers(0, 6000), st.booleans()), max_size=12),
    st.sampled_from([b"a", b"b", b"ab"]),
    st.sampled_from([0, 1, 63, 64, 65, 255, 256, 1023, 1024, 4095, 4096, 4097, 6000]),
)
def test_every_file_that_begins_alike_is_found_whatever_its_length(
    files: list[tuple[bytes, int, bool]], word: bytes, size: int
) -> None:
    with connect(None) as memory:
        ledger = Ledger(memory.con)
    entries = []
    for number, (text, length, by_an_older_version) in enumerate(files, 1):
        entry = Entry(number, "f", "plain", "", 0, length, "")
        entry.begins((text * 6000)[:length])
        entries.append(replace(entry, start_fingerprint=None) if by_an_older_version else entry)
        ledger.put(entries[-1])
    head = (word * 6000)[:size]
    alike = {
        e.file_id
        for e in entries
        if head[: e.fingerprint_bytes] == ((files[e.file_id - 1][0] * 6000)[: files[e.file_id - 1][1]])
    }
    assert {e.file_id for e in ledger.candidates(head)} == alike


def test_a_database_of_an_older_version_knows_its_files(tmp_path: Path) -> None:
    log, db = tmp_path / "a.jsonl", tmp_path / "h.duckdb"
    log.write_text(lines(range(3)))
    read(log, db=db)
    with connect(db) as store:
        store.con.execute("UPDATE ingested_file SET start_fingerprint = NULL")
    log.write_text(lines(range(5)))
    assert counts(read(log, db=db)["totals"]) == (2, 2, 0, 0, 0)


def test_long_files_with_the_same_first_64_kb_are_told_apart_at_their_end(tmp_path: Path) -> None:
    db = tmp_path / "h.duckdb"
    common = lines(range(800), ids=False)
    assert len(common) > 80_000
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_text(common + lines(range(700, 705), ids=False))
    b.write_text(common + lines(range(800, 808), ids=False))
    read(a, db=db)
    assert counts(read(b, db=db)["totals"])[:2] == (808, 808)


@IDS
@pytest.mark.parametrize("n", [10, 900])
@pytest.mark.parametrize("end", ["\n", ""], ids=["ended", "open"])
def test_copies_in_one_run_count_once(tmp_path: Path, ids: bool, n: int, end: str) -> None:
    """A copy and a compressed copy are told by their content; what ends otherwise is a log of its own."""
    first, copy, packed, other, longer = files = [tmp_path / name for name in ("a", "b", "c.gz", "d", "e")]
    text = lines(range(n), ids=ids)[:-1] + end
    first.write_text(text)
    copy.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    other.write_text(lines([*range(n - 2), n + 5, n + 6], ids=ids)[:-1] + end)
    longer.write_text(lines(range(n + 1), ids=ids))
    db = tmp_path / "h.duckdb"
    got = read(*files, db=db)
    found = [counts(f)[1:3] for f in got["files"]]
    assert found == [(n, 0), (0, n), (0, n), *([(2, n - 2), (1, n)] if ids else [(n, 0), (n + 1, 0)])]
    assert [t.rsplit("/", 1)[-1] for t in noted(got, "same_content")] == ["a, counted once"] * 2
    assert query(db, "SELECT count(*) FROM attempt") == [(sum(accepted for accepted, _ in found),)]
    again = read(*files, db=db)
    assert all(f["already_ingested"] for f in again["files"])
    assert not noted(again, "same_content")
    for path in (first, copy):
        path.write_text("\n\n")
    with pytest.raises(NoRequests):
        read(first, copy, format="plain")


@IDS
def test_two_files_that_go_on_where_one_ended_are_read_once(tmp_path: Path, ids: bool) -> None:
    """Between two runs a log grew, was copied, and grew once more."""
    db, log, copy, longer = (tmp_path / name for name in ("h.duckdb", "a", "b", "c"))
    log.write_text(lines(range(6), ids=ids) + lines([6], ids=ids)[:-1])
    read(log, db=db)
    for path, upto in ((log, 8), (copy, 8), (longer, 9)):
        path.write_text(lines(range(upto), ids=ids))
    # where all is one batch, the longer one has to wait for its turn
    first = read(log, copy, longer, db=db, max_reject=0.5)
    assert [counts(f)[1:3] for f in first["files"]] == [(2, 0), (0, 2), (0, 0)]
    assert "goes on" in first["files"][2]["error"]
    assert counts(read(log, copy, longer, db=db)["totals"])[:2] == (1, 1)
    longer.write_text(lines(range(12), ids=ids))
    copy.write_text(lines(range(10), ids=ids))
    assert [counts(f)[1:3] for f in read(copy, longer, db=db)["files"]] == [(1, 0), (2, 0)]
    assert total(db)[:2] == (12, 12)


def test_files_of_one_beginning_whose_last_line_is_not_ended_are_different(tmp_path: Path) -> None:
    db, header = tmp_path / "h.duckdb", "ts,e2e_ms,replica\n"
    names = [tmp_path / f"{n}.csv" for n in range(3)]
    for n, path in enumerate(names):
        path.write_text(f"{header}2026-11-20T10:00:0{n}Z,5,r1")
        read(path, db=db)
    assert total(db)[:2] == (3, 3)
    assert counts(read(*names)["totals"])[:2] == (3, 3)


def test_a_shorter_copy_of_a_long_file_holds_nothing_new(tmp_path: Path) -> None:
    db, a, b = tmp_path / "h.duckdb", tmp_path / "a", tmp_path / "b"
    text = lines(range(900), ids=False)
    a.write_text(text)
    b.write_text(text[: text.rfind("\n", 0, len(text) * 9 // 10) + 1])
    read(a, db=db)
    assert read(b, db=db)["files"][0]["already_ingested"]
    assert total(db)[1] == 900


@pytest.mark.parametrize("shape", ["array", "data", "pretty"])
def test_a_document_that_grew_gives_only_what_is_new(tmp_path: Path, shape: str) -> None:
    ids = False  # with ids repetitions would be found anyway
    log, db = tmp_path / "export.json", tmp_path / "h.duckdb"
    rows = [row(n, ids=ids) for n in range(12)]
    for upto in (5, 9, 12):
        part = rows[:upto]
        log.write_text(json.dumps({"data": part} if shape == "data" else part, indent=1 if shape == "pretty" else None))
        read(log, db=db)
        assert total(db)[:2] == (upto, upto)


def test_a_half_written_document_is_finished_later(tmp_path: Path) -> None:
    log, db = tmp_path / "export.json", tmp_path / "h.duckdb"
    text = json.dumps([row(n, ids=False) for n in range(6)], indent=1)
    log.write_text(text[: text.rindex("ttft_ms", 0, len(text) * 2 // 3) + 4])
    first = counts(read(log, db=db)["totals"])
    assert first[1] >= 2
    assert first[4] == 1
    log.write_text(text)
    read(log, db=db)
    assert total(db) == (6, 6, 0, 0, 0)


def test_a_cut_archive_is_finished_later(tmp_path: Path) -> None:
    log, db = tmp_path / "gw.gz", tmp_path / "h.duckdb"
    packed = gzip.compress(
        "".join(json.dumps(row(n, ids=False, pad=str(n * 7919 % 10007) * 20)) + "\n" for n in range(900)).encode()
    )
    log.write_bytes(packed[: len(packed) // 2])
    assert counts(read(log, db=db)["totals"])[4] >= 1
    again = read(log, db=db)
    assert again["files"][0]["already_ingested"]
    log.write_bytes(packed)
    read(log, db=db)
    assert total(db) == (900, 900, 0, 0, 0)


def test_batches_by_files_and_by_bytes_give_the_same_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, db = tmp_path / "logs", tmp_path / "h.duckdb"
    folder.mkdir()
    for n in range(25):
        (folder / f"{n:02d}.jsonl").write_text(lines(range(n * 3, n * 3 + 3)))
    (folder / "big.jsonl").write_text(lines(range(1000, 1400)))
    monkeypatch.setattr(batches, "BATCH_FILES", 7)
    monkeypatch.setattr(batches, "BATCH_BYTES", 5000)
    got = read(folder, db=db)
    assert counts(got["totals"]) == (475, 475, 0, 0, 0)
    assert query(db, "SELECT count(DISTINCT batch_id) > 3, count(*) FROM ingested_file") == [(True, 26)]
    assert query(db, "SELECT count(DISTINCT request_id) FROM attempt") == [(475,)]
    assert read(folder, db=db)["totals"]["lines"] == 0


def test_a_file_larger_than_a_batch_spans_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, cutting = (importlib.import_module(f"hedgectl.lines.{name}") for name in ("archive", "blocks"))
    log, db = tmp_path / "big.jsonl", tmp_path / "h.duckdb"
    log.write_text(lines(range(300), ids=False) + lines(range(5)))
    monkeypatch.setattr(batches, "BATCH_BYTES", 9000)
    monkeypatch.setattr(archive, "READ_SIZE", 4000)
    monkeypatch.setattr(cutting.blocks, "__kwdefaults__", {**cutting.blocks.__kwdefaults__, "size": 4000})
    assert counts(read(log, db=db)["totals"]) == (305, 305, 0, 0, 0)
    assert query(db, "SELECT batch_id > 2, lines, bytes_read FROM ingested_file") == [(True, 305, log.stat().st_size)]
    assert query(db, "SELECT count(DISTINCT line) FROM attempt") == [(305,)]


def test_the_path_follows_the_file(tmp_path: Path) -> None:
    log, db = tmp_path / "a.jsonl", tmp_path / "h.duckdb"
    log.write_text(lines([1]))
    read(log, db=db)
    moved = tmp_path / "b.jsonl"
    log.rename(moved)
    with moved.open("a") as more:
        more.write(lines([2]))
    read(moved, db=db)
    assert query(db, "SELECT path, lines FROM ingested_file") == [(str(moved), 2)]


def test_a_line_of_33_mb_is_rejected_alone_and_the_file_goes_on(tmp_path: Path) -> None:
    log = tmp_path / "big.jsonl"
    with log.open("wb") as out:
        out.write(lines(range(3)).encode() + b'{"x":"')
        for _ in range(33):
            out.write(b"a" * (1 << 20))
        out.write(b'"}\n' + lines(range(3, 6)).encode())
    found = read(log)
    assert counts(found["totals"])[:2] == (7, 6)
    (reject,) = found["files"][0]["rejects"]
    assert (reject["line"], reject["reason"], reject["text"][:6]) == (4, "line_too_long", '{"x":"')


def test_the_name_of_a_file_says_nothing(tmp_path: Path) -> None:
    import zstandard

    (tmp_path / "plain.json.gz").write_text(lines(range(3)), encoding="utf-8")
    (tmp_path / "packed.csv").write_bytes(zstandard.ZstdCompressor().compress(lines(range(3, 6)).encode()))
    keys = list(row(0))
    table = "".join(",".join(str(v) for v in r) + "\n" for r in [keys, *(row(n).values() for n in range(6, 9))])
    (tmp_path / "table.log").write_bytes(gzip.compress(table.encode()))
    assert counts(read(tmp_path)["totals"]) == (9, 9, 0, 0, 0)


def test_a_request_of_several_lines_is_not_cut_where_a_block_or_a_batch_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of requests that run side by side, blocks of two lines: every request has its end."""
    stage, steps = importlib.import_module("hedgectl.ingest.stage"), importlib.import_module("hedgectl.ingest.steps")
    log = tmp_path / "vllm.log"
    begun = [
        f"INFO 11-30 10:00:{n:02} [logger.py:39] Received request cmpl-{n:04}: prompt: 'x', params: SamplingParams(n=1)." for n in range(40)
    ]  # fmt: skip
    ended = [f"INFO 11-30 10:01:{n:02} [async_llm.py:431] Request cmpl-{n:04} aborted." for n in range(40)]
    log.write_text(
        "\n".join(begun[:20] + [line for pair in zip(begun[20:], ended, strict=False) for line in pair] + ended[20:])
    )
    monkeypatch.setattr(steps, "blocks", partial(blocks, size=200))
    monkeypatch.setattr(stage, "CHUNK_BYTES", 400)
    monkeypatch.setattr(stage, "WIDE_CHUNK_BYTES", 400)
    monkeypatch.setattr(batches, "BATCH_BYTES", 1000)
    with connect(None) as store:
        got = ingest(store, [str(log)])
        rows = store.con.execute("SELECT request_id, e2e_ns FROM attempt ORDER BY request_id").fetchall()
    assert rows == [(f"cmpl-{n:04}", 60_000_000_000) for n in range(40)]
    assert got["totals"]["lines"] == 80
    assert got["totals"]["rejected"] == 0
    assert not noted(got, "cut_file")
    # beyond what is held as a whole it is cut, which is told
    monkeypatch.setattr(stage, "WHOLE_BYTES", 3000)
    with connect(None) as store:
        got = ingest(store, [str(log)])
    assert noted(got, "cut_file")[0].endswith("told in part: 1 file")
    assert got["totals"]["lines"] == 80
