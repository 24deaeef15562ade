"""Switchback against hold-out: the blocks see the harm that copies do to everybody else."""

from __future__ import annotations

import numpy as np
import pytest
from jsonschema import Draft202012Validator

from hedgectl import schemas, verify
from hedgectl.policy import Experiment, Scope, ScopePolicy
from hedgectl.verify import Outcomes, is_on

BLOCK_S = 600.0


def policy(projection: dict | None = None) -> ScopePolicy:
    return ScopePolicy(
        scope=Scope(),
        decision="do_not_hedge",
        confidence="low",
        experiment=Experiment(block="10m", seed=1),
        projection=projection,
    )


def queue(
    arrival: np.ndarray, service: np.ndarray, want_copy: np.ndarray, delay: float
) -> tuple[np.ndarray, np.ndarray]:
    """Two first-come-first-served servers; a copy goes to the other one after ``delay`` and runs on when it loses."""
    free = [0.0, 0.0]
    answer, copied = np.zeros(len(arrival)), np.zeros(len(arrival), dtype=bool)
    pending: list[tuple[float, int, int]] = []
    for i, t in enumerate(arrival):
        while pending and pending[0][0] <= t:
            at, who, server = pending.pop(0)
            free[server] = max(free[server], at) + service[who]
            answer[who] = min(answer[who], free[server] - arrival[who])
            copied[who] = True
        server = i % 2
        free[server] = max(free[server], t) + service[i]
        answer[i] = free[server] - t
        if want_copy[i] and answer[i] > delay:
            pending.append((t + delay, i, 1 - server))
    return answer, copied


def world(seed: int, hold_out: bool) -> Outcomes:
    """A fleet near its limit in which copies add work: seeded blocks, or a random half of requests held out."""
    rng = np.random.default_rng(seed)
    n, t0 = 60_000, 1_800_000_000.0
    arrival = np.cumsum(rng.exponential(0.9, n))
    service = rng.exponential(1.0, n)
    on = rng.random(n) < 0.5 if hold_out else np.array([is_on(BLOCK_S, 1, t0 + t) for t in arrival])
    e2e, copied = queue(arrival, service, on, delay=2.0)
    return Outcomes(
        t0 + arrival, e2e, e2e, np.zeros(n, dtype=bool), 1 + copied.astype(np.int64), copied.astype(np.int64),
        np.zeros(n, dtype=bool), np.full(n, np.nan),
    )  # fmt: skip


def test_blocks_see_harm_that_a_hold_out_comparison_calls_a_gain() -> None:
    held = world(7, hold_out=True)
    rng = np.random.default_rng(7)
    rng.exponential(0.9, len(held.arrival_s)), rng.exponential(1.0, len(held.arrival_s))
    treated = rng.random(len(held.arrival_s)) < 0.5
    assert np.quantile(held.e2e_s[treated], 0.99) < np.quantile(held.e2e_s[~treated], 0.99), (
        "the hold-out arm sees a gain"
    )

    answer = verify.compare(world(7, hold_out=False), policy())
    assert answer["enough"], answer["reasons"]
    assert answer["verdict"]["code"] == "harms"


def test_too_few_blocks_say_so_and_give_no_verdict() -> None:
    seen = world(3, hold_out=False)
    first = slice(0, 6000)
    short = Outcomes(*(getattr(seen, name)[first] for name in seen.__slots__))
    answer = verify.compare(short, policy())
    assert not answer["enough"]
    assert answer["verdict"] is None
    assert answer["reasons"][0]["code"] == "not_enough_blocks"
    assert answer["rows"], "the numbers are printed all the same"


def test_no_difference_is_not_called_one() -> None:
    seen = world(5, hold_out=False)
    rng = np.random.default_rng(9)
    same = rng.exponential(1.0, len(seen.arrival_s))
    flat = Outcomes(seen.arrival_s, same, same, *(getattr(seen, name) for name in seen.__slots__[3:]))
    projection = {"hedged": {"e2e_ms": {"p99": 900.0}}, "unhedged": {"e2e_ms": {"p99": 1000.0}}}
    answer = verify.compare(flat, policy(projection))
    row = next(r for r in answer["rows"] if r["metric"] == "e2e_p99_ratio")
    assert answer["verdict"]["code"] == "not_significant"
    assert row["interval"][0] < 1 < row["interval"][1]
    assert row["projected"] == pytest.approx(0.9)


def test_blocks_follow_the_published_rule() -> None:
    import hashlib

    for k in (0, 1, 2, 77):
        first = int(hashlib.sha256(f"1:{k}".encode()).hexdigest()[:2], 16)
        assert is_on(1800.0, 1, k * 1800.0 + 5) == (first % 2 == 0)


def test_the_document_obeys_its_schema() -> None:
    answer = verify.compare(world(2, hold_out=False), policy())
    doc = {
        "schema": "hedgectl/verify.v1", "as_of": None, "window": {}, "policy_id": "sha256:0", "enough": True,
        "scopes": [answer], "notes": [],
    }  # fmt: skip
    Draft202012Validator(schemas.load("verify")).validate(doc)
