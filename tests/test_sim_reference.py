"""The kernel against the naive, per-token reference: random engines, rules and jobs, agreement to 1e-6."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sim_cases import random_case

from hedgectl.sim import layout as c
from hedgectl.sim.inputs import Jobs, Law, Rule
from hedgectl.sim.reference import Reference
from hedgectl.sim.run import run


@pytest.mark.parametrize("seed", range(60))
def test_kernel_agrees_with_the_naive_reference(seed: int) -> None:
    jobs, law, rule = random_case(seed)
    got = run(jobs, law, rule)
    want = Reference(jobs, law, rule).go()

    for name in ("ttft", "end"):
        expected = [getattr(call, name) for call in want.calls]
        np.testing.assert_allclose(got.request[name], expected, rtol=0, atol=1e-6, err_msg=name)
    assert list(got.request["status"]) == [call.status for call in want.calls]
    assert list(got.request["sent"]) == [call.sent for call in want.calls]
    assert list(got.request["winner"]) == [call.winner.number if call.winner else -1 for call in want.calls]
    for name in ("sent", "enqueued", "admitted", "first", "end", "gpu", "kv", "decoded"):
        expected = [[getattr(x, name) for x in call.copies] for call in want.calls]
        found = got.kv_token_s() if name == "kv" else got.attempt[name]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-6, err_msg=name)
    assert [list(row) for row in got.attempt["replica"]] == [[x.replica for x in y.copies] for y in want.calls]
    assert [list(row) for row in got.attempt["state"]] == [[x.state for x in y.copies] for y in want.calls]
    assert int(got.run["hedges"]) == want.hedges
    for reason, count in want.refused.items():
        assert int(got.run[f"refused_{reason}"]) == count, reason


@pytest.mark.parametrize("signal", ["slow", "errors", "hedges"])
def test_windows_of_live_signals_turn_as_in_the_reference(signal: str) -> None:
    """Minutes with silences of one, two and many halves of a window, which the random cases are too short for."""
    rng = np.random.default_rng(2)
    n = 600
    silence = np.where(rng.random(n) < 0.02, rng.choice([13.0, 31.0, 200.0], n), 0.0)
    jobs = Jobs.of(
        np.cumsum(rng.exponential(0.4, n) + silence),
        rng.exponential(10.0, (n, 2)),
        seed=2,
        work=0.02 + rng.uniform(0, 1e-3, (n, 2)),
        fails_after=np.where(rng.random((n, 2)) < 0.15, 0.05, np.inf),
    )
    law, rule = Law(3, 0.02, 0.002, cap=4), Rule(delay=0.1, healthy_limit=0.3, suppress={signal: 0.25})
    got = run(jobs, law, rule)
    want = Reference(jobs, law, rule).go()
    assert list(got.request["sent"]) == [call.sent for call in want.calls]
    refused = int(got.run["refused_suppressed"])
    assert refused == want.refused["suppressed"]
    assert 20 < refused < int(got.run["hedges"]) + refused


def test_random_cases_reach_every_feature() -> None:
    """The generator must not quietly stop exercising something."""
    seen = {"hedged": 0, "won": 0, "timed out": 0, "errored": 0, "refused": 0, "zombies": 0, "cancelled": 0}
    for seed in range(60):
        jobs, law, rule = random_case(seed)
        o = run(jobs, law, rule)
        seen["hedged"] += int(o.run["hedges"])
        seen["won"] += int(np.sum(o.request["winner"] > 0))
        seen["timed out"] += int(np.sum(o.request["status"] == c.TIMED_OUT))
        seen["errored"] += int(np.sum(o.request["status"] == c.ERRORED))
        seen["refused"] += sum(int(o.run[f"refused_{r}"]) for r in ("budget", "suppressed", "ineligible", "deadline"))
        seen["zombies"] += int(np.sum((o.attempt["state"] == c.DONE) & ~np.isnan(o.attempt["left"])))
        seen["cancelled"] += int(np.sum(o.attempt["state"] == c.CANCELLED))
    assert all(count > 20 for count in seen.values()), seen


def test_reference_refuses_a_step_without_time() -> None:
    with pytest.raises(ValueError, match="takes no time"):
        Reference(Jobs.of([0.0], [1.0]), Law(1, 0.0, 0.0), Rule())
    assert math.isclose(run(Jobs.of([0.0], [1.0]), Law(1, 0.0, 0.0), Rule()).request["end"][0], 0.0, abs_tol=1e-12)
