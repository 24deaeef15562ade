"""A Ray cluster of four nodes on loopback does what one machine does: prints what both found as JSON.

Usage: fleet_cluster.py FOLDER ROWS FILES. Runs in the interpreter that has hedgectl[ray].
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb

HEDGECTL = [sys.executable, "-m", "hedgectl"]
CLIENT_PORT = 10_777
REPEATED = 50  # records of each file stand in the one before as well
FEW = 15  # files of the run that is broken off
WINDOW = ("--window", "4h", "--seed", "3", "-o", "json")
QUESTIONS = {"recommend": ("recommend", *WINDOW), "stats": ("stats", "--window", "1d", "-o", "json")}

# One request every 200 ms; each replica is slow for some minutes now and then. A last line is cut in every file.
LOG = """
COPY (
    WITH drawn AS (
        SELECT n, hash(n) % 8 AS replica, hash(n, 1) % 140 AS first, hash(n, 2) % 1500 AS rest, (hash(n, 3) % 5)::INTEGER AS scope
        FROM range($begin, $begin + $rows) t(n)
    ), timed AS (
        SELECT *, CASE WHEN (n // 2000 + replica) % 11 = 0 THEN 6 ELSE 1 END * (120 + first) AS ttft FROM drawn
    )
    SELECT text FROM (
        SELECT n, concat(
            '{"ts":"', strftime(TIMESTAMP '2026-11-20' + to_milliseconds(n * 200), '%Y-%m-%dT%H:%M:%S.%gZ'), '","request_id":"q', n,
            '","attempt_id":"a', n, '","replica":"r', replica, '","model":"', ['chat', 'chat', 'chat', 'code', 'org/embed=2'][scope + 1],
            '","status":200,"ttft_ms":', ttft, ',"e2e_ms":', ttft + rest * ttft // (120 + first) + 400, '}'
        ) AS text
        FROM timed
        UNION ALL SELECT $begin + $rows, '{"ts":"2026'
    ) ORDER BY n
) TO '{file}' (FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\x01')
"""


def write_logs(folder: Path, rows: int, files: int) -> None:
    """``rows`` records with the cut and the repeated ones, evenly over the files."""
    folder.mkdir(parents=True)
    each = rows // files - 1
    for k in range(files):
        begin = max(0, k * (each - REPEATED))
        file = folder / f"gw-{k:03d}.jsonl"
        duckdb.execute(LOG.replace("{file}", str(file)), {"begin": begin, "rows": each})


def run(*given: str) -> str:
    """stdout of one hedgectl that did its work: with or without data enough for a policy."""
    done = subprocess.run([*HEDGECTL, *given], capture_output=True, text=True, check=False)
    if done.returncode not in (0, 3):
        raise SystemExit(f"hedgectl {' '.join(given)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def ingested(*given: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("ingest", *given, "-o", "json"))
    return found


def told(document: dict[str, Any]) -> dict[str, Any]:
    """What two ingests of the same files must agree on."""
    return {k: v for k, v in document.items() if k not in ("database", "notes")}


def batches(folder: Path) -> int:
    """Those that count already."""
    return (
        sum(name.endswith(".json") for name in os.listdir(folder / "batches")) if (folder / "batches").is_dir() else 0
    )


class Clock:
    """Seconds of each stage."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        begin = time.perf_counter()
        yield
        self.seconds[stage] = round(time.perf_counter() - begin, 1)
        print(f"{stage}: {self.seconds[stage]} s", file=sys.stderr, flush=True)


def main(root: Path, rows: int, files: int) -> None:
    """Does everything on one machine and on the cluster."""
    from ray.cluster_utils import Cluster

    clock = Clock()
    logs, db, out = root / "logs", str(root / "one.duckdb"), root / "out"
    with clock("write"):
        write_logs(logs, rows, files)
    with clock("one machine, and the start of the cluster"), ThreadPoolExecutor() as beside:
        alone = beside.submit(ingested, str(logs), "--db", db)
        size = {"object_store_memory": 80 << 20, "memory": 4 << 30}
        # the command hangs on to the head, where no task runs: any other node may be lost
        head = {**size, "num_cpus": 0, "include_dashboard": False, "ray_client_server_port": CLIENT_PORT}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        doomed, *_ = [cluster.add_node(**size, num_cpus=1) for _ in range(3)]
        os.environ["RAY_ADDRESS"] = cluster.address
        one = alone.result()

    def kill() -> None:
        while batches(out) < 3:
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    with clock("cluster"):
        many = ingested(str(logs), "--out", str(out), "--on", "ray")
    killer.join()
    with clock("again"):
        again = ingested(str(logs), "--out", str(out), "--on", "ray")
    with clock("broken off"):
        stopped = broken_off(root, sorted(map(str, logs.iterdir()))[:FEW])
    with clock("questions"), ThreadPoolExecutor() as beside:
        # the client port is how a machine outside of the cluster asks
        outside = f"ray://127.0.0.1:{CLIENT_PORT}"
        answers = {}
        for name, question in QUESTIONS.items():
            here = beside.submit(run, *question, "--db", db)
            there = run(*question, "--from", str(out), "--on", outside if name == "stats" else "ray")
            answers[name] = [there == here.result(), len(there)]
    cluster.shutdown()
    found = {
        "totals": many["totals"],
        "same_ingest": told(many) == told(one),
        "notes": [n["text"] for n in many["notes"] if n["code"] == "cluster"],
        "again": again["totals"],
        "stopped": stopped,
        "answers": answers,
        "seconds": clock.seconds,
    }
    print(json.dumps(found, indent=1))


def broken_off(root: Path, logs: list[str]) -> dict[str, Any]:
    """A run that is stopped in the middle and gone on with, beside one that is left alone."""
    broken, whole = root / "broken", root / "whole"
    child = subprocess.Popen([*HEDGECTL, "ingest", *logs, "--out", str(broken), "--on", "ray"], stderr=subprocess.PIPE)
    while batches(broken) < 2 and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGINT)
    _, said = child.communicate()
    kept = batches(broken)
    with ThreadPoolExecutor() as beside:
        alone = beside.submit(ingested, *logs, "--out", str(whole))
        resumed, undisturbed = ingested(*logs, "--out", str(broken), "--on", "ray"), alone.result()
        documents = list(beside.map(lambda folder: run("stats", "-o", "json", "--from", str(folder)), (broken, whole)))
    return {
        "code": child.returncode,
        "said": said.decode()[-2000:],
        "kept": kept,
        "whole": batches(broken),
        "already": sum(f["already_ingested"] for f in resumed["files"]),
        "same_window": resumed["window"] == undisturbed["window"] and resumed["coverage"] == undisturbed["coverage"],
        "same_figures": documents[0] == documents[1],
    }


if __name__ == "__main__":
    # set before any node starts: it may take its time on a busy machine, and is to be missed soon when it is lost
    os.environ |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_raylet_start_wait_time_s": "120",
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_failure_threshold": "3",
    }
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
