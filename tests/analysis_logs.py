"""Canonical rows written by hand or drawn from a seed, for the tests of the analysis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import numpy as np

from hedgectl import decompose, sql
from hedgectl.decompose import Prepared, Selection

START_NS = 1_800_000_000_000_000_000  # 2027-01-15T08:00:00Z
MS = 1_000_000
S = 1000 * MS


@contextmanager
def log(rows: Sequence[Mapping[str, Any]]) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database with these attempts; what a row does not say is NULL or a harmless default."""
    with duckdb.connect() as con:
        for name in sql.names("schema"):
            con.execute(sql.text(f"schema/{name}")).fetchall()
        for i, row in enumerate(rows):
            full = {
                "file_id": 1,
                "line": i + 1,
                "record": 0,
                "format": "plain",
                "request_id": f"q{i}",
                "observer": "gateway",
                "status": "ok",
                "arrival_ns": START_NS + i * 1000 * MS,
                "resolution_ns": MS,
            } | dict(row)
            if full.get("ttft_ns") is not None:
                full.setdefault("ttft_basis", "first_token")
                full.setdefault("streamed", True)
            names = ", ".join(full)
            marks = ", ".join("?" for _ in full)
            con.execute(f"INSERT INTO attempt ({names}) VALUES ({marks})", list(full.values())).fetchall()
        yield con


@contextmanager
def table(columns: Mapping[str, Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    """The same from arrays by column name (object arrays for text, None for NULL)."""
    n = len(next(iter(columns.values())))
    full = {
        "file_id": np.ones(n, dtype=np.int64),
        "line": np.arange(1, n + 1),
        "record": np.zeros(n, dtype=np.int64),
        "format": np.full(n, "plain", dtype=object),
        "request_id": np.array([f"q{i}" for i in range(n)], dtype=object),
        "observer": np.full(n, "gateway", dtype=object),
        "status": np.full(n, "ok", dtype=object),
        "resolution_ns": np.full(n, 1000),
    } | dict(columns)
    with duckdb.connect() as con:
        for name in sql.names("schema"):
            con.execute(sql.text(f"schema/{name}")).fetchall()
        con.register("given", full)
        con.execute("INSERT INTO attempt BY NAME SELECT * FROM given").fetchall()
        con.unregister("given")
        yield con


def fleet(
    n: int = 12_000,
    replicas: int = 6,
    rate_per_s: float = 10.0,
    seed: int = 1,
    length_sigma: float = 0.4,
    alone: float = 0.0,
    together: float = 0.0,
    factor: float = 6.0,
    spell_s: float = 20.0,
    static: Mapping[int, float] | None = None,
    hiccup: float = 0.0,
    pools: int = 0,
    pool_together: float = 0.0,
) -> dict[str, Any]:
    """Attempts on a fleet without a queue: time is prefill + length times token time, both longer in slow spells.

    `alone` / `together`: share of the time in which one replica / all of them are `factor` times slower, in spells.
    `hiccup`: share of attempts that wait some seconds more, each on its own. `static`: factor by replica, all the time.
    `pool_together`: like together, but each pool has spells of its own.
    """
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(1 / rate_per_s, n))
    where = rng.integers(0, replicas, n)
    prompt = np.maximum(rng.lognormal(np.log(700), 0.6, n).astype(np.int64), 8)
    output = np.maximum(rng.lognormal(np.log(200), length_sigma, n).astype(np.int64), 2)
    slow = np.ones(n)
    span = float(at[-1])

    def spells(share: float) -> np.ndarray[Any, Any]:
        starts = rng.uniform(0, span, max(1, round(share * span / spell_s)))
        return (np.abs(at[:, None] - starts[None, :] - spell_s / 2) < spell_s / 2).any(axis=1)

    for r in range(replicas):
        if alone:
            slow = np.where((where == r) & spells(alone), factor, slow)
        slow = np.where(where == r, slow * (static or {}).get(r, 1.0), slow)
    if together:
        slow = np.where(spells(together), factor, slow)
    pool = where % pools if pools else where
    if pool_together:
        for p in range(pools):
            slow = np.where((pool == p) & spells(pool_together), factor, slow)
    first = (0.03 + 0.00012 * prompt) * slow
    if hiccup:
        first = first + np.where(rng.random(n) < hiccup, 4 + rng.exponential(6, n), 0.0)
    whole = first + output * 0.015 * slow * rng.normal(1.0, 0.03, n).clip(0.8, 1.2)
    columns = {
        "arrival_ns": START_NS + (at * 1e9).astype(np.int64),
        "e2e_ns": (whole * 1e9).astype(np.int64),
        "ttft_ns": (first * 1e9).astype(np.int64),
        "ttft_basis": np.full(n, "first_token", dtype=object),
        "streamed": np.ones(n, dtype=bool),
        "replica": np.array([f"r{r}" for r in where], dtype=object),
        "model": np.full(n, "chat", dtype=object),
        "prompt_tokens": prompt,
        "cached_tokens": np.zeros(n, dtype=np.int64),
        "completion_tokens": output,
    }
    if pools:
        columns["pool"] = np.array([f"zone-{p}" for p in pool], dtype=object)
    return columns


def requests(
    rows: Sequence[Mapping[str, Any]], selection: Selection | None = None
) -> tuple[list[dict[str, Any]], Prepared]:
    """Rows of `request` joined with `component`, in order of arrival."""
    with log(rows) as con:
        prepared = decompose.prepare(con, selection)
        found = con.execute(
            "SELECT r.* EXCLUDE (queue_ns, queue_basis, prefill_ns, prefill_basis, decode_ns, decode_basis, tool_wait_ns, "
            "tool_wait_basis), c.* EXCLUDE (request_key, e2e_ns) "
            "FROM request r LEFT JOIN component c USING (request_key) ORDER BY r.request_key"
        )
        names = [d[0] for d in found.description or []]
        return [dict(zip(names, r, strict=True)) for r in found.fetchall()], prepared


def at(ms: float, **more: Any) -> dict[str, Any]:
    return {"arrival_ns": START_NS + round(ms * MS), **more}
