"""Closed forms that the kernel is held against, where they are known and where they are not."""

from __future__ import annotations

from typing import Any

import pytest

from hedgectl.sim.validate import judge

CASES: list[dict[str, Any]] = [
    {"name": "mm1_mean_response", "params": {"lam": 0.5, "mu": 2}, "expected": 1 / 1.5, "rel_tol": 0.01},
    {"name": "mmc_erlangC_pwait", "params": {"c": 2, "lam": 1.0, "mu": 1}, "expected": 1 / 3, "rel_tol": 0.01},
    {"name": "md1_mean_wait", "params": {"lam": 0.5, "D": 1}, "expected": 0.5, "rel_tol": 0.01},
    {"name": "mg1_pk_lognormal", "params": {"lam": 0.5, "ES": 1, "scv": 1.0}, "expected": 1.0, "rel_tol": 0.02},
    {"name": "mg1_ps_lognormal", "params": {"lam": 0.5, "ES": 1, "scv": 2.0}, "expected": 2.0, "rel_tol": 0.02},
    {
        "name": "decode_batch_linear_step_exponential",
        "params": {"lam": 2.0, "mean_tokens": 100.0, "a": 0.02, "b": 0.001},
        "expected": 100 * 0.021 / (1 - 0.2),
        "rel_tol": 0.02,
    },
    {
        "name": "redundancy_d_n3_d3",
        "params": {"n": 3, "d": 3, "lam_per_server": 0.5, "mu": 1},
        "expected": 1 / (3 - 1.5),
        "rel_tol": 0.02,
    },
    {"name": "delayed_min_exponential_mean", "params": {"mu": 1, "d": 0.5}, "expected": 0.69673467, "rel_tol": 0.005},
    {
        "name": "delayed_min_exp_work_nocancel",
        "params": {"mu": 1, "d": 0.5, "cancel": "engine runs on"},
        "expected": 1.60653066,
        "rel_tol": 0.005,
    },
    {
        "name": "token_bucket_p1_beta0.2_cap1",
        "params": {"p_candidate": 1.0, "tokens_per_primary": 0.2, "cost": 1, "cap": 1, "start": "full"},
        "expected": 0.2,
        "rel_tol": 0.001,
    },
    {"name": "erlangB_reject_429", "params": {"c": 1, "offered": 1.0}, "expected": 0.5, "rel_tol": 0.01},
    {
        "name": "jsq2_mitzenmacher",
        "params": {"n": 200, "lam": 0.5, "mu": 1, "d": 2},
        "expected": 1.2656,
        "rel_tol": 0.02,
    },
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_closed_forms_of_our_own(case: dict[str, Any]) -> None:
    first, second = judge(case, requests=100_000, seed=1), judge(case, requests=100_000, seed=2)
    assert first.passed, first
    if not case["name"].startswith("token_bucket"):
        assert first.measured != second.measured


def test_unknown_and_broken_cases() -> None:
    assert judge({"name": "no_such_queue", "params": {}, "expected": 1}).passed is None
    broken = judge({"name": "mm1_mean_response", "params": {}, "expected": 1.0, "rel_tol": 0.1}, requests=100)
    assert broken.passed is False
    assert "lam" in broken.why
    off = judge(
        {"name": "mm1_mean_response", "params": {"lam": 0.5, "mu": 1}, "expected": 9.0, "rel_tol": 0.01},
        requests=20_000,
    )
    assert off.passed is False
