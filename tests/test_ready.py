"""Goals from the time that callers have, and decisions by prompt size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import recommend_logs as logs
from recommend_cases import only

from hedgectl import config
from hedgectl.errors import UsageError
from hedgectl.recommend import configured, ready, recommend, sizes
from hedgectl.recommend.arms import Arm, Pool
from hedgectl.recommend.options import Options


def arm(seconds: np.ndarray, errors: float = 0.0) -> Arm:
    return Arm(len(seconds) + int(errors), Pool.of(seconds), Pool.of(seconds), errors=errors)


def test_the_goal_is_the_time_less_the_safety_and_the_delay_at_most_half_of_it() -> None:
    cfg = config.with_flags(config.Config(), {"recommend.ceiling": 60.0})
    chosen = configured.options(cfg, ready=ready.average(4.8, 1.0))
    assert chosen.goal.below_ms == pytest.approx(3800.0)
    assert chosen.limits.ceiling_s == pytest.approx(1.9)
    w = logs.spells(slow=0.05, streamed=0)
    entry = only(w, chosen)
    assert entry["hedge"]["delay_ms"] <= 1900.0 + 1e-6
    told = entry["projection"]["ready"]
    assert (told["time_ms"], told["safety_ms"], told["source"]) == (4800.0, 1000.0, "average")
    assert told["unhedged_ratio"] == pytest.approx(float(np.mean(w.e2e_s <= 3.8)), abs=0.005)
    assert told["hedged_ratio"] > told["unhedged_ratio"]


def test_the_share_that_is_ready_follows_the_distribution_of_times() -> None:
    seconds = (np.arange(10_000) + 0.5) / 1000.0  # evenly 0..10 s
    assert ready.average(4.0, 1.0).share(arm(seconds)) == pytest.approx(0.3, abs=0.002)
    # times evenly between 2 and 6 s: the mean of F is F of the mean
    even = ready.Ready(((0.0, 2.0), (1.0, 6.0)), 1.0)
    assert even.share(arm(seconds)) == pytest.approx(0.3, abs=0.002)
    assert ready.average(99.0).share(arm(seconds)) == 1.0
    assert ready.average(99.0).share(arm(seconds, errors=10_000.0)) == pytest.approx(0.5, abs=0.001)
    assert ready.average(9.0).share(Arm(0, Pool.of(np.zeros(0)), Pool.of(np.zeros(0)))) is None


def test_quantiles_of_the_time_are_read_from_json_or_csv(tmp_path: Path) -> None:
    one = tmp_path / "times.json"
    one.write_text('{"p90": "7s", "p10": "2100ms"}')
    found = ready.from_file(one, 1.0)
    assert found.time_s == ((0.1, 2.1), (0.9, 7.0))
    assert found.goal_s == pytest.approx(4.55 - 1.0)
    two = tmp_path / "times.csv"
    two.write_text("quantile,time\np10,2.1s\np90,7s\n")
    assert ready.from_file(two, 1.0) == found


@pytest.mark.parametrize(
    "text", ["", "{}", '{"p10": "2s"}', '{"p10": 2, "p90": 7}', '{"p10": "7s", "p90": "2s"}', '{"x": "1s", "p9": "2s"}']
)
def test_quantiles_that_cannot_be_read_are_refused_with_the_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(UsageError, match=r"bad|x:|p10"):
        ready.from_file(path)


def test_contradictions_are_refused() -> None:
    with pytest.raises(UsageError, match="no time"):
        ready.average(1.0, 1.0)
    limit = config.with_flags(config.Config(), {"recommend.goal": "e2e_p99 < 7s"})
    with pytest.raises(UsageError, match="both"):
        configured.options(limit, ready=ready.average(4.8))
    first = config.with_flags(config.Config(), {"recommend.goal": "ttft_p95"})
    with pytest.raises(UsageError, match="whole answer"):
        configured.options(first, ready=ready.average(4.8))


def test_prompt_sizes_are_decided_apart_where_each_has_enough() -> None:
    w = logs.spells(slow=0.05)
    long = replace(logs.spells(seed=2), prompt_tokens=np.full(6000, 9000))
    con = logs.database(w)
    logs.add(con, long, request_id=[f"long-{i}" for i in range(6000)])
    found = recommend(con, logs.prepared(con), Options(by_size=True))
    assert {p["scope"]["size_class"]: p["decision"] for p in found["policies"]} == {
        "prompt_below_1000": "hedge",
        "prompt_1000_and_more": "do_not_hedge",
    }
    assert found["policies"][0]["scope"]["size_class"] == "prompt_below_1000"  # the slower one
    one = recommend(con, logs.prepared(con), Options(by_size=True, min_requests=6001))
    assert [p["scope"]["size_class"] for p in one["policies"]] == [None]
    assert any(n["code"] == "one_size_class" for n in one["notes"])


def test_small_classes_join_the_next_and_every_prompt_length_has_one_class() -> None:
    w = replace(logs.spells(n=1000), prompt_tokens=np.repeat([10, 2000, 5000, 100_000], [400, 10, 390, 200]))
    found = dict(sizes.classes(w, 100))
    assert list(found) == ["prompt_below_1000", "prompt_1000_to_15999", "prompt_16000_and_more"]
    assert [int(rows.sum()) for rows in found.values()] == [400, 400, 200]
    tail = replace(w, prompt_tokens=np.repeat([10, 2000, 100_000], [500, 490, 10]))
    assert list(dict(sizes.classes(tail, 100))) == ["prompt_below_1000", "prompt_1000_and_more"]
    assert [name for name, _ in sizes.classes(w, 900)] == [None]
