"""Reading many files of one record: hedgectl's ingest beside a bare ``read_json`` over the same folder."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hedgectl import sql
from hedgectl.benchcases._logs import litellm_line
from hedgectl.errors import HedgectlError, UsageError

CASE = "files"

_PARTS = 10
_PER_FOLDER = 1000


def run(*, files: int = 20_000, memory_limit: str = "1GB") -> dict[str, Any]:
    """One row of ``bench.v1``: seconds for ``files`` files of one LiteLLM record each, ours and bare, in processes of their own.

    ``files_per_s`` is ours, by CPU time ``files_per_cpu_s``; ``last_by_first`` compares the time of the last tenth of the files with
    that of the first tenth: a cost that grows with the files read before shows there. Raises HedgectlError if a record is lost.
    """
    if files < _PARTS:
        raise UsageError(f"at least {_PARTS} files")
    with tempfile.TemporaryDirectory(prefix="hedgectl-bench-") as folder:
        write(Path(folder) / "logs", files)
        bare, ours = (_child(which, Path(folder), memory_limit) for which in ("bare", "ours"))
    if ours["rows"] != files:
        raise HedgectlError(f"{ours['rows']} of {files} records were read")
    return {
        "case": CASE,
        "unit": "s",
        "ours": round(ours["seconds"], 3),
        "bare": round(bare["seconds"], 3),
        "ratio": round(ours["seconds"] / bare["seconds"], 3),
        "runs": 1,
        "files": files,
        "files_per_s": round(files / ours["seconds"]),
        "files_per_cpu_s": round(files / ours["cpu"]),
        "last_by_first": round(ours["last_by_first"], 2),
    }


def write(folder: Path, files: int) -> None:
    """Writes ``files`` files of one record, 1,000 a folder, as a bucket of a logger looks."""
    for n in range(files):
        part = folder / f"{n // _PER_FOLDER:04}"
        if n % _PER_FOLDER == 0:
            part.mkdir(parents=True)
        (part / f"{n:07}.json").write_text(litellm_line(n), encoding="utf-8")


def _child(which: str, folder: Path, memory_limit: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "hedgectl.benchcases.files", which, str(folder), memory_limit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise HedgectlError(f"the {which} run failed: {done.stderr.strip().splitlines()[-1:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _main(which: str, folder: str, memory_limit: str) -> None:
    from hedgectl.ingest import ingest
    from hedgectl.store import bare_connection, connect

    logs, db = Path(folder) / "logs", Path(folder) / f"{which}.duckdb"
    ended: list[float] = []
    start, cpu = time.perf_counter(), time.process_time()
    if which == "bare":
        con = bare_connection(str(db), memory_limit)
        create, _, insert = sql.text("bench/bare_litellm_payload").partition("INSERT INTO")
        con.execute(create)
        # folder by folder: 10,000 files in one statement take more than a gigabyte
        for part in sorted(logs.iterdir()):
            con.execute(f"INSERT INTO{insert}", {"path": str(part / "*.json")})
        ((rows,),) = con.execute("SELECT count(*) FROM bare").fetchall()
        con.close()
    else:
        with connect(db, memory_limit=memory_limit) as store:
            got = ingest(store, [str(logs)], progress=lambda *_: ended.append(time.process_time()))
        rows = got["totals"]["accepted"]
    result = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu, "rows": rows}
    if ended:
        tenth = len(ended) // _PARTS
        result["last_by_first"] = (ended[-1] - ended[-1 - tenth]) / (ended[tenth] - cpu)
    print(json.dumps(result))


if __name__ == "__main__":
    _main(*sys.argv[1:4])
