"""Candidates of one scope spread over a Ray cluster: the same policy, and a small scope does not wait for a large one."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import engine_logs
import pytest

pytestmark = pytest.mark.real

LARGE, SMALL = 200_000, 10_000


def write(path: Path, model: str, n: int, seed: int) -> None:
    """A log of engines that are slow now and then, appended to a file."""
    w = engine_logs.log(n, slow=6.0, seed=seed)
    with path.open("a") as out:
        for k in range(n):
            row = {
                "ts": round(w.t0_ns / 1e9 + float(w.arrival_s[k]), 6),
                "request_id": f"{model}-{k}",
                "model": model,
                "replica": f"{model}-{int(w.replica[k])}",
                "status": 200,
                "ttft_ms": round(float(w.ttft_s[k]) * 1e3, 3),
                "e2e_ms": round(float(w.e2e_s[k]) * 1e3, 3),
                "prompt_tokens": int(w.prompt_tokens[k]),
                "completion_tokens": int(w.completion_tokens[k]),
                "stream": True,
            }
            out.write(json.dumps(row) + "\n")


def test_candidates_of_a_large_scope_are_spread(tmp_path: Path) -> None:
    log = tmp_path / "gw.jsonl"
    write(log, "large", LARGE, 2)
    write(log, "small", SMALL, 3)
    engine = {
        "confirmed": True,
        "replicas": engine_logs.REPLICAS,
        "max_running_requests": engine_logs.CAP,
        "kv_capacity_tokens": engine_logs.CACHE,
    }
    script = Path(__file__).with_name("fleet_scopes.py")
    command = [os.environ["HEDGECTL_RAY_PYTHON"], str(script), str(tmp_path), str(log), json.dumps(engine)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=600)
    found = json.loads(done.stdout)
    assert found["same"]
    assert {model for model, _, confidence in found["policies"] if confidence != "low"} == {"large", "small"}
    decided = [text.split()[0] for text in found["said"] if "decided" in text]
    assert decided == ["small", "large"]
    (parts,) = [int(text.split()[0]) for text in found["summary"] if "parts of tasks were done by others" in text]
    print(f"{parts} parts done by others")
    assert parts >= 1
