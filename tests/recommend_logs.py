"""Small generated logs for the decision's tests: arrays, and the same rows in a database."""

from __future__ import annotations

from typing import Any

import duckdb
import numpy as np

from hedgectl import decompose, store
from hedgectl.model import Workload

T0_NS = 1_790_000_000_000_000_000


def spells(
    n: int = 6000,
    replicas: int = 4,
    *,
    slow: float = 0.0,
    shared: bool = False,
    long_share: float = 0.0,
    streamed: int = 1,
    gap_s: float = 0.05,
    seed: int = 1,
) -> Workload:
    """Requests at 0.1 s + 10 ms a token; slow spells of 10 s (10 times) on one replica or on all; some answers 20 times as long."""
    rng = np.random.default_rng(seed)
    arrival = np.arange(n) * gap_s
    replica = rng.integers(0, replicas, n)
    tokens = rng.integers(50, 150, n)
    tokens[rng.random(n) < long_share] *= 20
    spell = (arrival // 10.0).astype(int)
    unlucky = rng.random((spell.max() + 1, replicas)) < slow
    if shared:
        unlucky[:] = unlucky[:, :1]
    factor = np.where(unlucky[spell, replica], 10.0, 1.0) * rng.uniform(0.95, 1.05, n)
    ttft = 0.1 * factor
    return Workload.of(
        arrival,
        np.full(n, 100),
        tokens,
        t0_ns=T0_NS,
        ttft_s=ttft if streamed else np.full(n, np.nan),
        e2e_s=ttft + 0.01 * (tokens - 1) * factor,
        replica=replica,
        streamed=np.full(n, streamed),
    )


def database(workload: Workload, model: str = "chat", **columns: Any) -> duckdb.DuckDBPyConnection:
    """An in-memory database whose `attempt` holds one primary a request; `columns` override or add columns of `attempt`."""
    con = store.connect(None).con
    add(con, workload, model, **columns)
    return con


def add(con: duckdb.DuckDBPyConnection, w: Workload, model: str = "chat", **columns: Any) -> None:
    """Adds the rows of a workload; values are arrays of length n or one value for all."""
    n = len(w)
    known: dict[str, Any] = {
        "file_id": 1,
        "line": np.arange(n) + 1,
        "record": 0,
        "format": "made",
        "request_id": [f"{model}-{i}" for i in range(n)],
        "attempt_no": 0,
        "cause": "primary",
        "model": model,
        "observer": "gateway",
        "arrival_ns": w.t0_ns + np.round(w.arrival_s * 1e9).astype(np.int64),
        "e2e_ns": np.round(w.e2e_s * 1e9).astype(np.int64),
        "prompt_tokens": w.prompt_tokens,
        "completion_tokens": w.completion_tokens,
        "streamed": w.streamed == 1,
        "status": np.where(w.status == 0, "ok", "error"),
    }
    if np.isfinite(w.ttft_s).all():
        known |= {"ttft_ns": np.round(w.ttft_s * 1e9).astype(np.int64), "ttft_basis": "first_token"}
    if (w.replica >= 0).all():
        known["replica"] = [w.replicas[k] for k in w.replica]
    known |= columns
    made = {name: np.asarray(_column(value, n)) for name, value in known.items()}
    con.register("made", {k: (v.astype(object) if v.dtype.kind == "U" else v) for k, v in made.items()})
    con.execute("INSERT INTO attempt BY NAME SELECT * FROM made")
    con.unregister("made")


def _column(value: Any, n: int) -> list[Any]:
    if isinstance(value, np.ndarray):
        return list(value.tolist())
    return value if isinstance(value, list) else [value] * n


def prepared(con: duckdb.DuckDBPyConnection, **selection: Any) -> decompose.Prepared:
    return decompose.prepare(con, decompose.Selection(**selection))
