"""Random engines, rules and jobs: anything the kernel can do, in any mixture."""

from __future__ import annotations

from typing import Any

import numpy as np

from hedgectl.model import SlowSeries
from hedgectl.sim.inputs import OFF, Jobs, Law, Rule
from hedgectl.sim.layout import SIGNALS


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
        suppress_below={name: float(rng.choice([0.05, 0.5])) for name in SIGNALS if rng.random() < 0.04},
    )
    jobs = Jobs.of(
        np.sort(rng.uniform(0, n * 0.03, n)),
        tokens,
        attempts=k,
        seed=seed,
        work=0.005 + 1e-4 * prompt + rng.uniform(0, 1e-3, (n, k)),  # copies at once on idle engines would tie
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
