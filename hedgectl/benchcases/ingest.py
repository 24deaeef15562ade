"""Reading a log: hedgectl's ingest beside a bare ``read_json`` that writes the same columns with a unique key."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hedgectl import sql
from hedgectl.errors import HedgectlError, UsageError

_CHUNK_ROWS = 20_000


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
            bare.append(_child("bare", log, memory_limit))
            ours.append(_child("ours", log, memory_limit))
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


def write(path: Path, rows: int, line: Callable[[int], str]) -> None:
    """Writes a generated log of ``rows`` lines."""
    with path.open("w", encoding="utf-8") as out:
        for start in range(0, rows, _CHUNK_ROWS):
            out.write("".join(line(n) for n in range(start, min(rows, start + _CHUNK_ROWS))))


def litellm_line(n: int) -> str:
    """A successful streamed call as LiteLLM's payload has it, about 1.2 kB."""
    start = 1_787_220_000_000_000 + n * 10_007
    first, end = start + 180_000 + n * 7919 % 900_000, start + 1_500_000 + n * 104_729 % 9_000_000
    prompt, completion = 100 + n * 31 % 3000, 20 + n * 17 % 700
    record = {
        "id": f"chatcmpl-{n:012x}", "trace_id": f"t-{n:010x}", "session_id": "", "litellm_call_id": f"c-{n:012x}",
        "call_type": "acompletion", "cache_hit": None, "stream": True, "status": "success",
        "status_fields": {"llm_api_status": "success", "guardrail_status": "not_run"}, "custom_llm_provider": "openai",
        "saved_cache_cost": 0.0, "startTime": start / 1e6, "endTime": end / 1e6, "completionStartTime": first / 1e6,
        "response_time": (first - start) / 1e6, "model": "openai/gpt-4o-mini", "model_group": "chat-fast", "model_id": f"dep-{n % 8}",
        "api_base": "https://eastus.example.net/openai", "response_cost": round(prompt * 15e-8 + completion * 6e-7, 9),
        "total_tokens": prompt + completion, "prompt_tokens": prompt, "completion_tokens": completion, "request_tags": ["tier:gold"],
        "metadata": {
            "user_api_key_hash": "0" * 40, "user_api_key_alias": "svc-search", "user_api_key_spend": 1.25, "user_api_key_team_id": "team-a",
            "user_api_key_team_alias": "Team A", "user_api_key_request_route": "/v1/chat/completions", "requester_ip_address": "192.0.2.10",
            "usage_object": {"prompt_tokens": prompt, "completion_tokens": completion, "prompt_tokens_details": {"cached_tokens": n % 64}},
        },
        "model_parameters": {"stream": True, "temperature": 0.2, "max_tokens": 1024},
        "hidden_params": {"model_id": f"dep-{n % 8}", "litellm_overhead_time_ms": 1.5, "additional_headers": {}},
    }  # fmt: skip
    return json.dumps(record) + "\n"


LOGS: dict[str, Callable[[int], str]] = {"litellm_payload": litellm_line}
"""Format -> line of a generated log."""


def _child(which: str, log: Path, memory_limit: str) -> dict[str, Any]:
    db = log.with_name(f"{which}.duckdb")
    for old in log.parent.glob(f"{which}.duckdb*"):
        old.unlink()
    done = subprocess.run(
        [sys.executable, "-m", "hedgectl.benchcases.ingest", which, str(log), str(db), memory_limit],
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


def _main(which: str, log: str, db: str, memory_limit: str) -> None:
    from hedgectl.ingest import ingest
    from hedgectl.store import bare_connection, connect

    start, cpu = time.perf_counter(), time.process_time()
    if which == "bare":
        con = bare_connection(db, memory_limit)
        create, _, insert = sql.text("bench/ingest_bare").partition("INSERT INTO")
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
    _main(*sys.argv[1:5])
