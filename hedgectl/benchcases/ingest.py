"""Reading a log: hedgectl's ingest beside a bare ``read_json`` that writes the same columns with a unique key."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from hedgectl import sql
from hedgectl.benchcases._logs import LOGS, write
from hedgectl.errors import HedgectlError, UsageError

CASE = "ingest"


def run(
    *, rows: int = 500_000, runs: int = 3, format: str = "litellm_payload", memory_limit: str = "1GB"
) -> dict[str, Any]:
    """One row of ``bench.v1``: seconds of ours and of bare, medians of ``runs`` alternating runs in processes of their own.

    ``ratio`` is how many times longer ours takes, the median of the pairs; ``cpu_ratio`` the same for CPU time, which other work on the machine disturbs
    less; ``resident_mb`` the largest memory of ours. Raises HedgectlError if a row is lost.
    """
    if format not in LOGS:
        raise UsageError(f"no log is generated for {format}", hint=f"there are: {', '.join(LOGS)}")
    if rows < 1 or runs < 1:
        raise UsageError("rows and runs are at least 1")
    with tempfile.TemporaryDirectory(prefix="hedgectl-bench-") as folder:
        log = Path(folder) / "log.jsonl"
        write(log, rows, LOGS[format])
        ours, bare = [], []
        for _ in range(runs):
            bare.append(_child("bare", format, log, memory_limit))
            ours.append(_child("ours", format, log, memory_limit))
            if ours[-1]["rows"] != rows:
                raise HedgectlError(f"{ours[-1]['rows']} of {rows} rows were read")
        size = log.stat().st_size
    ratios = {
        key: statistics.median(a[key] / b[key] for a, b in zip(ours, bare, strict=True)) for key in ("seconds", "cpu")
    }
    return {
        "case": f"ingest {format}",
        "unit": "s",
        "ours": round(statistics.median(r["seconds"] for r in ours), 3),
        "bare": round(statistics.median(r["seconds"] for r in bare), 3),
        "ratio": round(ratios["seconds"], 3),
        "runs": runs,
        "rows": rows,
        "log_mb": round(size / 1e6, 1),
        "cpu_ratio": round(ratios["cpu"], 3),
        "resident_mb": round(max(r["resident_mb"] for r in ours), 1),
    }


def _child(which: str, format: str, log: Path, memory_limit: str) -> dict[str, Any]:
    db = log.with_name(f"{which}.duckdb")
    for old in log.parent.glob(f"{which}.duckdb*"):
        old.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "hedgectl.benchcases.ingest", which, format, str(log), str(db), memory_limit],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise HedgectlError(f"the {which} run failed: {done.stderr.strip().splitlines()[-1:]}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _resident_mb() -> float:
    try:
        import resource
    except ImportError:  # Windows
        return 0.0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 1e6 if sys.platform == "darwin" else peak / 1e3


def _main(which: str, format: str, log: str, db: str, memory_limit: str) -> None:
    from hedgectl.ingest import ingest
    from hedgectl.store import bare_connection, connect

    start, cpu = time.perf_counter(), time.process_time()
    if which == "bare":
        con = bare_connection(db, memory_limit)
        create, _, insert = sql.text(f"bench/bare_{format}").partition("INSERT INTO")
        con.execute(create)
        con.execute(f"INSERT INTO{insert}", {"path": log})
        ((rows,),) = con.execute("SELECT count(*) FROM bare").fetchall()
        con.close()
    else:
        with connect(Path(db), memory_limit=memory_limit) as store:
            rows = ingest(store, [log])["totals"]["accepted"]
    seconds = time.perf_counter() - start
    used = time.process_time() - cpu
    print(json.dumps({"seconds": seconds, "cpu": used, "rows": rows, "resident_mb": _resident_mb()}))


if __name__ == "__main__":
    _main(*sys.argv[1:6])
