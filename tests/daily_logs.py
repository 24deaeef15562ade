"""Small gateway logs for the daily job: plain rows, one slow replica now and then, a day at a time."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

START = datetime(2026, 11, 2, tzinfo=UTC)


def write_day(
    folder: Path, day: int, *, n: int = 1200, scale: float = 1.0, seed: int = 1, drop: tuple[str, ...] = ()
) -> Path:
    """One day's file; ``scale`` stretches all latencies, ``drop`` leaves fields out."""
    rng = np.random.default_rng([seed, day])
    at = np.sort(rng.uniform(0, 86_000, n))
    replica = rng.integers(0, 4, n)
    # replica 1 is slow for one minute in twenty: four copies in five land elsewhere
    slow = (replica == 1) & (at % 1200 < 240)
    ttft = (0.1 + rng.exponential(0.05, n)) * np.where(slow, 30, 1) * scale
    tokens = rng.integers(20, 200, n)
    e2e = ttft + tokens * 0.01 * np.where(slow, 4, 1) * scale
    path = folder / f"day-{day:02d}.jsonl"
    with path.open("w", encoding="utf-8") as stream:
        for i in range(n):
            row = {
                "ts": (START + timedelta(days=day, seconds=float(at[i]))).isoformat().replace("+00:00", "Z"),
                "request_id": f"{seed}-{day}-{i}",
                "replica": f"r{replica[i]}",
                "model": "chat",
                "status": 200,
                "stream": True,
                "ttft_ms": round(float(ttft[i]) * 1000, 3),
                "e2e_ms": round(float(e2e[i]) * 1000, 3),
                "prompt_tokens": 100,
                "completion_tokens": int(tokens[i]),
                "cost_usd": 0.001,
                "tools": [],
                "cache_hit": False,
            }
            stream.write(json.dumps({k: v for k, v in row.items() if k not in drop}) + "\n")
    return path


def as_of(day: int) -> str:
    """The end of a day, as the job is told it."""
    return (START + timedelta(days=day + 1)).isoformat().replace("+00:00", "Z")
