"""The kernel against the naive, per-token reference: random engines, rules and jobs, agreement to 1e-6."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hedgectl.model import SlowSeries
from hedgectl.sim import layout as c
from hedgectl.sim.inputs import OFF, SIGNALS, Jobs, Law, Rule
from hedgectl.sim.reference import Reference
from hedgectl.sim.run import run

STATES = {c.DONE, c.CANCELLED, c.FAILED}


def random_case(seed: int) -> tuple[Jobs, Law, Rule]:
    """Anything the kernel can do, in any mixture, up to 200 requests."""
    rng = np.random.default_rng(seed)

    def maybe(p: float, value: Any, otherwise: Any) -> Any:
        return value if rng.random() < p else otherwise

    n, k, replicas = int(rng.integers(1, 201)), int(rng.integers(1, 4)), int(rng.integers(1, 6))
    # not whole: sequences that start together would else end together, and rounding would decide who is first
    tokens = rng.exponential(12, (n, k))
    if rng.random() < 0.5:
        tokens[:] = tokens[:, :1]
    tokens[rng.random(n) < 0.05] = 0
    prompt = np.broadcast_to(np.ceil(rng.exponential(100, (n, 1))), (n, k))
    law = Law(
        replicas=replicas,
        decode_base=0.01,
        decode_per_sequence=float(rng.choice([0.0, 0.002, 0.01])),
        prefill_per_token=1e-4,
        chunk=int(rng.choice([0, 0, 16, 64])),
        cap=maybe(0.7, int(rng.integers(1, 9)), OFF),
        kv_capacity=maybe(0.5, float(rng.uniform(150, 800)), OFF),
        queue_limit=maybe(0.2, int(rng.integers(0, 6)), OFF),
        slow=SlowSeries.of(
            {
                r: [(s := float(rng.uniform(0, 5)), s + float(rng.exponential(2)), float(rng.choice([0.5, 2.0, 6.0])))]
                for r in range(replicas)
                if rng.random() < 0.5
            },
            replicas,
        ),
        pool=rng.integers(0, 2, replicas).astype(np.int32),
    )
    rule = Rule(
        routing=int(rng.integers(0, 3)),
        choices=maybe(0.2, 2, 0),
        delay=maybe(0.85, float(rng.choice([0.0, 0.05, 0.2, 0.6])), OFF),
        deadline=maybe(0.2, float(rng.uniform(0.2, 3)), OFF),
        attempt_deadline=maybe(0.2, float(rng.uniform(0.2, 2)), OFF),
        ratio=maybe(0.5, 0.1, OFF),
        burst=maybe(0.5, 5.0, OFF),
        max_in_flight=maybe(0.3, int(rng.integers(1, 4)), OFF),
        target=int(rng.integers(0, 3)),
        same_replica=bool(rng.random() < 0.2),
        other_pool=bool(rng.random() < 0.2),
        cancel=int(rng.integers(0, 3)),
        cancel_lag=maybe(0.3, 0.07, 0.0),
        healthy_limit=0.3,
        suppress={name: float(rng.choice([0.0, 0.1, 0.5, 2.0])) for name in SIGNALS if rng.random() < 0.12},
    )
    jobs = Jobs.of(
        np.sort(rng.uniform(0, n * 0.03, n)),
        tokens,
        attempts=k,
        seed=seed,
        work=0.005 + 1e-4 * prompt,
        prompt=prompt,
        gateway=maybe(0.4, rng.exponential(0.02, (n, k)) * (rng.random((n, k)) < 0.5), 0.0),
        fails_after=maybe(0.3, np.where(rng.random((n, k)) < 0.15, rng.exponential(0.2, (n, k)), OFF), OFF),
        logged=rng.integers(-1, replicas, n),
        clock=rng.integers(0, 2, n),
        eligible=(rng.random(n) < 0.9).astype(int),
        predicted=rng.uniform(0, 0.5, n),
        choices=rng.random((n, 2)),
    )
    return jobs, law, rule


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
    winners = [call.winner.request * jobs.attempts + call.winner.number if call.winner else -1 for call in want.calls]
    assert list(got.request["winner"]) == winners
    for name in ("sent", "enqueued", "admitted", "first", "end", "gpu", "kv", "decoded"):
        expected = [[getattr(x, name) for x in call.copies] for call in want.calls]
        np.testing.assert_allclose(got.attempt[name], expected, rtol=1e-9, atol=1e-6, err_msg=name)
    assert [list(row) for row in got.attempt["replica"]] == [[x.replica for x in y.copies] for y in want.calls]
    assert [list(row) for row in got.attempt["state"]] == [[x.state for x in y.copies] for y in want.calls]
    assert int(got.run["hedges"]) == want.hedges
    for reason, count in want.refused.items():
        assert int(got.run[f"refused_{reason}"]) == count, reason


def test_random_cases_reach_every_feature() -> None:
    """The generator must not quietly stop exercising something."""
    seen = {"hedged": 0, "won": 0, "timed out": 0, "errored": 0, "refused": 0, "zombies": 0, "cancelled": 0}
    for seed in range(60):
        jobs, law, rule = random_case(seed)
        o = run(jobs, law, rule)
        seen["hedged"] += int(o.run["hedges"])
        seen["won"] += int(np.sum((o.request["winner"] >= 0) & (o.request["winner"] % jobs.attempts > 0)))
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
