"""The demo log of the README: the generator still writes it, and it shows what it is meant to show."""

from __future__ import annotations

from statistics import quantiles

from format_rows import attempts, read_text
from make_demo_log import REPLICAS, TARGET, demo, packed


def test_generator_writes_the_shipped_file() -> None:
    assert read_text(TARGET).encode() == demo()
    assert TARGET.stat().st_size < 400_000
    assert packed(b"x") == packed(b"x")


def test_it_has_what_the_readme_needs() -> None:
    text = read_text(TARGET)
    found = attempts("litellm_payload", text)
    requests = {r["request_id"] for r in found}
    assert 6000 <= len(requests) <= 8000
    assert {r["replica"] for r in found if "replica" in r} == set(REPLICAS)
    assert 0.02 < sum(r["cache_hit"] for r in found) / len(found) < 0.05
    assert 0.03 < sum(r["tools_offered"] for r in found) / len(found) < 0.1
    assert {"ok", "error", "censored"} == {r["status"] for r in found}
    assert all("cost" in r for r in found)


def test_its_tail_is_one_slow_replica_at_a_time() -> None:
    found = sorted(
        (r for r in attempts("litellm_payload", read_text(TARGET)) if r["status"] == "ok" and not r["cache_hit"]),
        key=lambda r: r["arrival_ns"],
    )
    e2e = [r["e2e_ns"] for r in found]
    p50, p99 = quantiles(e2e, n=100)[49], quantiles(e2e, n=100)[98]
    assert p99 > 5 * p50
    # per token, the slow ones are few and alone: at most one replica in the half minute around each
    pace = [(r["arrival_ns"] / 1e9, r["replica"], r["e2e_ns"] / max(r["completion_tokens"], 1)) for r in found]
    middle = sorted(p for *_, p in pace)[len(pace) // 2]
    slow = [(at, replica) for at, replica, p in pace if p > 4 * middle]
    assert 0.02 < len(slow) / len(pace) < 0.05
    alone = [all(r == replica for at, r in slow if abs(at - t) < 10) for t, replica in slow]
    assert sum(alone) / len(alone) > 0.95
