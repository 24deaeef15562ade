"""A folder of parts is read as the database would be: same counts, same documents, whatever the batches."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ingest_logs as logs
import pytest

from hedgectl import analysis, fleet, history, store, tasks
from hedgectl.breakdown import breakdown
from hedgectl.daily import Job, daily
from hedgectl.decompose import Selection
from hedgectl.errors import InputError, UsageError
from hedgectl.fleet.manifest import Manifest, Segment, shelf, standing
from hedgectl.ingest.ledger import Entry
from hedgectl.place import find, place
from hedgectl.recommend import Options, recommend, spread
from hedgectl.tasks import Abreast, Done, Here, on

SMALL = 1  # every file is a batch of its own


def into(folder: Path, *paths: Path, **options: Any) -> dict[str, Any]:
    """One run into a folder, a batch a file."""
    return fleet.ingest(str(folder), [str(p) for p in paths], Here(), batch_bytes=SMALL, **options)


def rows_of(**source: Any) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    """The split and all attempts of a source."""
    selection = source.pop("selection", Selection())
    with analysis.opened(analysis.Logs(**source), selection) as found:
        rows = found.con.execute("SELECT * FROM attempt ORDER BY file_id, line, record").fetchall()
        return breakdown(found.con, found.prepared, ["replica"]), rows


def same(folder: Path, db: Path, selection: Selection | None = None) -> None:
    """A folder and a database answer alike."""
    chosen = selection or Selection()
    ours, our_rows = rows_of(folder=str(folder), selection=chosen)
    theirs, their_rows = rows_of(db=db, selection=chosen)
    assert json.dumps(ours) == json.dumps(theirs)
    if selection is None:
        assert our_rows == their_rows


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Three files that repeat twenty requests of the one before, and a line that is none."""
    made = []
    for k in range(3):
        path = tmp_path / f"gw-{k}.jsonl"
        path.write_text(logs.lines(range(k * 1500, k * 1500 + 1520)) + "{cut\n")
        made.append(path)
    return made


def test_folder_and_database_tell_the_same(tmp_path: Path, files: list[Path]) -> None:
    expected = logs.read(*files, db=tmp_path / "a.duckdb")
    got = into(tmp_path / "out", *files)
    assert logs.counts(got["totals"]) == (4563, 4520, 40, 0, 3)
    assert got | {"database": ""} == expected | {"database": ""}
    same(tmp_path / "out", tmp_path / "a.duckdb")
    newest = place(str(tmp_path / "out"))
    last = shelf(newest).newest_ns
    assert last is not None
    same(tmp_path / "out", tmp_path / "a.duckdb", Selection(window_ns=600 * 10**9))
    same(tmp_path / "out", tmp_path / "a.duckdb", Selection(until_ns=last - 1800 * 10**9, model="chat"))

    again = into(tmp_path / "out", *files)
    assert logs.counts(again["totals"]) == (0, 0, 0, 0, 0)
    assert all(f["already_ingested"] for f in again["files"])
    assert again["window"] == got["window"]


def test_names_longer_than_a_file_system_takes(tmp_path: Path) -> None:
    names = ["機" * 30, "機" * 29 + "械", "a" * 300, "a" * 301, "é" * 41]
    path = tmp_path / "gw.jsonl"
    path.write_text("".join(json.dumps(logs.row(n, model=names[n % 5], route=names[n % 3])) + "\n" for n in range(60)))
    expected = logs.read(path, db=tmp_path / "a.duckdb")
    got = into(tmp_path / "out", path)
    assert got | {"database": ""} == expected | {"database": ""}
    same(tmp_path / "out", tmp_path / "a.duckdb")
    assert len({part.parent for part in (tmp_path / "out" / "rows").rglob("*.parquet")}) >= 15


def test_lines_without_ids_count_once_a_file(tmp_path: Path) -> None:
    """Two names of one file are one file, and a copy that has grown goes on where it was."""
    first, second, grown = (tmp_path / name for name in ("a.jsonl", "b.jsonl", "c.jsonl"))
    first.write_text(logs.lines(range(50), ids=False))
    second.write_text(first.read_text())
    grown.write_text(first.read_text() + logs.lines(range(50, 60), ids=False))
    for path in (first, second, grown):
        expected = logs.read(path, db=tmp_path / "a.duckdb")
        got = into(tmp_path / "out", path)
        assert got["totals"] == expected["totals"]
    assert got["totals"]["attempts"] == 60
    same(tmp_path / "out", tmp_path / "a.duckdb")


def test_growing_file_with_an_unfinished_line(tmp_path: Path) -> None:
    log, db, out = tmp_path / "gw.jsonl", tmp_path / "a.duckdb", tmp_path / "out"
    whole = logs.lines(range(40))
    for end in (777, 1500, 1501, len(whole)):
        log.write_text(whole[:end])
        expected = logs.read(log, db=db)
        got = into(out, log)
        assert got["totals"] == expected["totals"], end
        same(out, db)
    assert got["totals"]["attempts"] == 40


class Stopped(Here):
    """Does the last batch only, then is interrupted."""

    def run(self, function: Any, items: Sequence[Any], memory_bytes: Sequence[int]) -> Iterator[Done[Any]]:
        for done in super().run(function, items[-1:], memory_bytes[-1:]):
            yield Done(len(items) - 1, done.result, done.error, 0.0, "here")
        raise KeyboardInterrupt


def test_a_run_that_was_broken_off_goes_on(tmp_path: Path, files: list[Path]) -> None:
    logs.read(*files, db=tmp_path / "a.duckdb")
    out = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        fleet.ingest(str(out), [str(p) for p in files], Stopped(), batch_bytes=SMALL)
    assert len(shelf(place(str(out))).manifests) == 1
    orphan = out / "rows" / "model=chat" / "left-by-a-task-that-died.parquet"
    orphan.parent.mkdir(parents=True, exist_ok=True)
    orphan.write_bytes(b"half of a file")
    rest = into(out, *files)
    assert [f["already_ingested"] for f in rest["files"]] == [False, False, True]
    same(out, tmp_path / "a.duckdb")


def test_limit_on_rejects_commits_nothing(tmp_path: Path, files: list[Path]) -> None:
    with pytest.raises(InputError, match=r"3 of 4563 records were rejected.*nothing was written"):
        into(tmp_path / "out", *files, max_reject=0.0001)
    assert shelf(place(str(tmp_path / "out"))).manifests == ()
    with pytest.raises(InputError, match="holds no request"):
        rows_of(folder=str(tmp_path / "out"))


def test_two_runs_over_one_file_count_it_once() -> None:
    def batch(key: str, *files: int, after: str | None = None) -> Manifest:
        entries = [Entry(f, f"{f}.jsonl", "plain", "", 0, 0, "") for f in files]
        return Manifest(key, tuple(Segment(e, after) for e in entries), (), None, None, {})

    a, b, c = batch("a", 1, 2), batch("b", 2, 3), batch("0", 1, 2, after="a")
    assert [m.key for m in standing([c, b, a]).manifests] == ["a", "0"]


def test_sources_and_places_that_exclude_each_other(tmp_path: Path, files: list[Path]) -> None:
    with pytest.raises(UsageError, match="beside another source"):
        rows_of(folder=str(tmp_path), db=tmp_path / "a.duckdb")
    with pytest.raises(UsageError, match="stdin"):
        fleet.ingest(str(tmp_path / "out"), ["-"], Here())
    with pytest.raises(UsageError, match="no place"):
        place("gs://bucket/logs")
    with pytest.raises(UsageError, match="names no bucket"):
        find("s3:///logs")
    with pytest.raises(UsageError, match="--on spark"), on("spark"):
        pass


def test_a_scope_alone_is_decided_as_among_all(tmp_path: Path) -> None:
    """One task a scope gives the bytes of one machine, though a task loads little but its scope."""
    log, db, out = tmp_path / "gw.jsonl", tmp_path / "a.duckdb", tmp_path / "out"
    models = ("a", "b/c=1", None)
    records = [logs.row(n, model=models[n % 3], e2e_ms=800 + n * 37 % 900) for n in range(1500)]
    # a call that fell back to another model has attempts in two scopes
    records += [logs.row(n, model=models[(n + 1) % 3], attempt_id=f"b{n}", attempt=1) for n in range(0, 1500, 100)]
    log.write_text("".join(json.dumps(r) + "\n" for r in records))
    logs.read(log, db=db)
    into(out, log)
    options = Options(min_requests=100)
    with analysis.opened(analysis.Logs(db=db), Selection()) as found:
        expected = recommend(found.con, found.prepared, options)
    with analysis.opened(analysis.Logs(folder=str(out)), Selection()) as found:
        got = spread.recommended(found.con, found.prepared, options, Here(), str(out)).document
    assert len(got["policies"]) == 3
    assert json.dumps(got) == json.dumps(expected)
    question = analysis.Question(analysis.Logs(folder=str(out)), Selection(), history.of_rows, {})
    assert sum(row["n"] for row in analysis.ask(Here(), question)["rows"]) == 1500


def test_the_daily_job_keeps_its_rows_in_a_folder(tmp_path: Path, files: list[Path]) -> None:
    newest = 1_795_170_000_000_000_000
    written = []
    for name, source in (("folder", {"folder": str(tmp_path / "out")}), ("db", {"db": tmp_path / "a.duckdb"})):
        job = Job(
            analysis.Logs(paths=[str(p) for p in files], **source),
            tmp_path / f"{name}.json",
            Options(),
            as_of_ns=newest,
        )
        written.append(daily(job))
        assert daily(job)["action"] == "nothing_new"
        again = daily(replace(job, logs=replace(job.logs, paths=())))
        assert again["action"] == ("renewed" if name == "folder" else "nothing_new")
    assert [d | {"policy": ""} for d in written[:1]] == [d | {"policy": ""} for d in written[1:]]
    assert (tmp_path / "folder.json").read_text() == (tmp_path / "db.json").read_text()


def test_a_piece_keeps_to_its_cores(tmp_path: Path, files: list[Path]) -> None:
    """What a scheduler counts with is what a database takes, and the answer does not depend on it."""
    expected = logs.read(*files, db=tmp_path / "a.duckdb")
    with tasks.confined(1):
        got = logs.read(*files, db=tmp_path / "b.duckdb")
        with store.connect(None) as memory:
            assert memory.con.execute("SELECT current_setting('threads')").fetchall() == [(1,)]
    assert tasks.threads() is None
    assert got | {"database": ""} == expected | {"database": ""}


def test_pieces_abreast_share_the_machine() -> None:
    """Two at once, each with a core and half of the memory; what was not begun when the run is closed never is."""
    met, begun = threading.Barrier(2, timeout=60), []

    def piece(n: int) -> list[tuple[Any, ...]]:
        begun.append(n)
        if n < 2:
            met.wait()
        if n == 2:
            raise InputError("not this one")
        with store.connect(None, memory_limit="1GiB") as memory:
            return memory.con.execute("SELECT current_setting('threads'), current_setting('memory_limit')").fetchall()

    done = {each.index: each for each in Abreast(2).run(piece, range(4), [0] * 4)}
    assert [done[n].result for n in (0, 1, 3)] == [[(1, "512.0 MiB")]] * 3
    assert str(done[2].error) == "not this one"

    begun.clear()
    run = Abreast(2).run(piece, range(40), [0] * 40)
    next(run)
    run.close()  # type: ignore[attr-defined]
    assert 2 <= len(begun) < 40
    assert tasks.sharers() == 1


def test_a_batch_of_one_part_and_one_of_many_are_the_same_rows(tmp_path: Path) -> None:
    """Names that no path could hold, and none at all, come back as they were."""
    models = ["chat", "org/embed=2", "a b+c%2F", "\u00e9\u4e2d", ".."]
    paths = []
    for k, some in enumerate((models[:1], models)):
        path = tmp_path / f"{k}.jsonl"
        rows = [logs.row(k * 100 + n, model=some[n % len(some)], pool="p" if n % 2 and k else None) for n in range(60)]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        paths.append(path)
    logs.read(*paths, db=tmp_path / "a.duckdb")
    into(tmp_path / "out", *paths)
    same(tmp_path / "out", tmp_path / "a.duckdb")
    parts = [manifest.parts for manifest in shelf(place(str(tmp_path / "out"))).manifests]
    assert sorted(map(len, parts)) == [1, 10]
    assert {part.model for some in parts for part in some} == set(models)
    assert {part.pool for some in parts for part in some} == {"p", None}


EXTRAS = ("ray", "boto3", "botocore")


def test_nothing_of_the_extras_is_required() -> None:
    """Whoever installs hedgectl gets neither Ray nor boto3."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    plain, extras = project["dependencies"], project["optional-dependencies"]
    assert any(need.startswith("duckdb") for need in plain)
    assert not any(need.startswith(EXTRAS) for need in plain)
    assert any(need.startswith("ray") for need in extras["ray"])
    assert any(need.startswith("boto3") for need in extras["s3"])


def test_nothing_of_the_extras_is_imported(tmp_path: Path) -> None:
    """Reading into a folder, reading it and deciding work where Ray and boto3 cannot even be imported."""
    log, out = tmp_path / "gw.jsonl", tmp_path / "out"
    log.write_text(logs.lines(range(300)))
    for argv in (["ingest", str(log), "--out", str(out)], ["stats", "--from", str(out)], ["breakdown", str(log)]):
        done = without_extras(*argv)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["ingest", "LOG", "--out", "OUT", "--on", "ray"], "pip install 'hedgectl[ray]'"),
        (["stats", "--from", "OUT", "--on", "ray://head:10001"], "pip install 'hedgectl[ray]'"),
        (["ingest", "LOG", "--out", "s3://bucket/out"], "pip install 'hedgectl[s3]'"),
    ],
)
def test_an_extra_that_is_missing_is_named(tmp_path: Path, argv: list[str], says: str) -> None:
    (tmp_path / "gw.jsonl").write_text(logs.lines(range(3)))
    named = {"LOG": str(tmp_path / "gw.jsonl"), "OUT": str(tmp_path / "out")}
    done = without_extras(*(named.get(word, word) for word in argv))
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert done.stdout == ""


def without_extras(*argv: str) -> subprocess.CompletedProcess[str]:
    """hedgectl in a process in which none of the extras can be imported."""
    code = f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS!r}))\nfrom hedgectl.cli import main\nmain({list(argv)!r})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize("rest", ['{"key": "12', "", "[]", "{}"])
def test_a_damaged_count_of_an_hour_is_made_anew(tmp_path: Path, files: list[Path], rest: str) -> None:
    folder = tmp_path / "rows"
    into(folder, *files[:2])
    whole = {path: path.read_bytes() for path in (folder / "hours").iterdir()}
    for path in whole:
        path.write_text(rest)
    with store.connect(None) as memory:
        fleet.load(str(folder), memory, Selection(), fleet.Scope(None, None))
    into(folder, *files[:2])
    assert {path: path.read_bytes() for path in whole} == whole


def test_a_damaged_part_is_named_by_whoever_reads_it_and_by_the_next_ingest(tmp_path: Path, files: list[Path]) -> None:
    folder = tmp_path / "rows"
    into(folder, files[0])
    part = sorted((folder / "rows").rglob("*.parquet"))[-1]
    whole = part.read_bytes()
    for data in (whole[:-100], whole[: len(whole) // 2], b"", bytes(len(whole))):
        part.write_bytes(data)
        with pytest.raises(InputError, match=f"{part.name} is damaged") as caught:
            rows_of(folder=str(folder))
        assert caught.value.hint is not None
        if len(data) != len(whole):
            with pytest.raises(InputError, match=f"{part.name} is damaged"):
                into(folder, files[1])
    part.unlink()
    with pytest.raises(InputError, match=f"{part.name} is missing"):
        into(folder, files[1])


def test_a_damaged_list_of_files_is_named(tmp_path: Path, files: list[Path]) -> None:
    folder = tmp_path / "rows"
    into(folder, files[0])
    (folder / "files" / "000001.json").write_text('{"first": 1')
    with pytest.raises(InputError, match=r"files/000001\.json is damaged"):
        into(folder, files[1])
