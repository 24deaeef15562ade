"""The schedule, budget, caps, signals and gauges: what is planned, what is allowed, what forbids a copy."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probe_runs import answer, run
from probe_runs import settings as hedged_settings
from probe_servers import Exchange, Scripted

from hedgectl.errors import UsageError
from hedgectl.model import Workload
from hedgectl.policy import Rule, Suppress, Window
from hedgectl.probe import eligibility, gauges, planning, result, schedule, settings
from hedgectl.probe.budget import HedgeBudget
from hedgectl.probe.caps import Caps, Ledger, Prices
from hedgectl.probe.records import AttemptRecord
from hedgectl.probe.signals import Signals
from hedgectl.probe.wire import Prompt, Usage
from hedgectl.recommend.eligibility import in_windows

PROMPT = Prompt(({"role": "user", "content": "x" * 84},))  # 100 tokens at most


@given(
    requests=st.integers(1, 300),
    rates=st.lists(st.floats(0.5, 50), min_size=1, max_size=3),
    seed=st.integers(1, 9),
    blocks=st.booleans(),
    block_s=st.floats(0.1, 100),
    warm=st.integers(0, 5),
)
def test_half_of_the_requests_stand_in_each_arm(
    requests: int, rates: list[float], seed: int, blocks: bool, block_s: float, warm: int
) -> None:
    plan = schedule.make(requests=requests + warm, rates=rates, seed=seed, blocks=blocks, block_s=block_s, warm_up=warm)
    assert len(plan) == requests + warm
    assert [p.index for p in plan] == list(range(len(plan)))
    assert all(a.offset_ns <= b.offset_ns for a, b in pairwise(plan))
    measured = [p for p in plan if not p.warm_up]
    assert len(measured) == requests
    for rate in set(rates):
        of_rate = [p for p in measured if p.rate_per_s == rate]
        hedged = sum(p.arm == "hedged" for p in of_rate)
        assert abs(2 * hedged - len(of_rate)) <= rates.count(rate)
    # a pair holds neighbours only, and both arms, unless it was cut short
    by_pair: dict[int, list[schedule.Planned]] = {}
    for p in measured:
        by_pair.setdefault(p.pair, []).append(p)
    for pair in by_pair.values():
        assert [p.index for p in pair] == list(range(pair[0].index, pair[0].index + len(pair)))
    assert sum(len({p.arm for p in pair}) == 2 for pair in by_pair.values()) >= len(by_pair) - len(rates)
    again = schedule.make(
        requests=requests + warm, rates=rates, seed=seed, blocks=blocks, block_s=block_s, warm_up=warm
    )
    assert again == plan


def test_arrivals_keep_their_rate_and_a_duration_cuts_them() -> None:
    plan = schedule.make(requests=4000, rates=[10.0], seed=3, blocks=False, block_s=30)
    assert plan[-1].offset_ns / 1e9 == pytest.approx(400, rel=0.06)
    cut = schedule.make(requests=4000, rates=[10.0, 20.0], seed=3, blocks=False, block_s=30, duration_s=60)
    assert cut[-1].offset_ns <= 60e9
    assert sum(p.rate_per_s == 10.0 for p in cut) == pytest.approx(300, rel=0.25)
    even = schedule.make(requests=4, rates=[2.0], seed=1, blocks=False, block_s=30, uniform=True)
    assert [p.offset_ns for p in even] == [500_000_000, 1_000_000_000, 1_500_000_000, 2_000_000_000]


def test_blocks_alternate_and_differ_with_the_seed() -> None:
    def arms(seed: int) -> str:
        plan = schedule.make(requests=80, rates=[10.0], seed=seed, blocks=True, block_s=1.0)
        return "".join(p.arm[0] for p in plan[::10])

    assert all(set(arms(seed)[i : i + 2]) == {"h", "u"} for seed in range(5) for i in range(0, 8, 2))
    assert len({arms(seed) for seed in range(12)}) > 3


@given(st.lists(st.sampled_from("aht"), max_size=300), st.floats(0, 1), st.integers(0, 5))
def test_the_budget_is_never_exceeded(events: list[str], ratio: float, burst: int) -> None:
    budget = HedgeBudget(ratio, burst, 3, most=40)
    arrived = 0
    for event in events:
        if event == "a":
            budget.arrived()
            arrived += 1
        elif event == "h":
            budget.take()
        elif budget.flying:
            budget.landed()
        assert budget.sent <= ratio * arrived + burst + 1e-6
        assert 0 <= budget.flying <= 3
        assert budget.sent <= 40


def record(n: int) -> AttemptRecord:
    return AttemptRecord(f"a{n}", 0, "primary", 0)


def test_caps_hold_the_worst_case_and_give_back_what_was_not_used() -> None:
    ledger = Ledger(Caps(requests=10, hedges=10, tokens=350), None, 50)  # 150 an attempt
    first, second, third = record(1), record(2), record(3)
    assert ledger.admit(first, PROMPT, logical=True) is None
    assert ledger.admit(second, PROMPT, logical=False) is None
    assert ledger.admit(third, PROMPT, logical=True) == "tokens"
    second.settle("censored", "loser", 1)
    ledger.settle(second)
    assert ledger.admit(third, PROMPT, logical=True) == "tokens", "a loser may be billed in full"
    first.usage = Usage(20, 10)
    first.settle("ok", None, 1)
    ledger.settle(first)
    ledger.settle(first)
    assert ledger.tokens == 180
    assert ledger.admit(third, PROMPT, logical=True) is None
    assert ledger.open == 1


def test_money_is_capped_before_it_is_spent() -> None:
    ledger = Ledger(Caps(requests=10, hedges=10, spend=0.0005), Prices(1.0, 2.0), 50)  # 0.0002 an attempt
    assert [ledger.admit(record(i), PROMPT, logical=True) for i in range(3)] == [None, None, "spend"]
    assert ledger.spend <= 0.0005
    assert Prices(1.0, 2.0, cached=0.1).of(1_000_000, 500_000, cached=400_000) == pytest.approx(0.6 + 0.04 + 1.0)


def test_requests_are_capped() -> None:
    ledger = Ledger(Caps(requests=1, hedges=10), None, 50)
    assert ledger.admit(record(1), PROMPT, logical=True) is None
    assert ledger.admit(record(2), PROMPT, logical=False) is None
    assert ledger.admit(record(3), PROMPT, logical=True) == "requests"


VLLM = """# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 1.0
vllm:num_requests_waiting{engine="0",model_name="m"} 2
vllm:num_requests_waiting{engine="1",model_name="m"} 0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 2
vllm:kv_cache_usage_perc{engine="0"} 0.5
vllm:kv_cache_usage_perc{engine="1"} 0.25
vllm:generation_tokens_total{engine="0"} 1e+06
vllm:generation_tokens_total{engine="1"} 5
not a line
vllm:num_requests_running NaN
"""
SGLANG = (
    'sglang:num_running_reqs{model_name="m"} 4.0\nsglang:num_queue_reqs{model_name="m"} 1.0\nsglang:token_usage 0.31\n'
)
TRTLLM = "trtllm_num_requests_running 2\ntrtllm_num_requests_waiting 7\ntrtllm_kv_cache_utilization 0.9\n"
LLMD = (
    'llm_d_epp_average_queue_size{name="p"} 1.5\nllm_d_epp_average_kv_cache_utilization{name="p"} 0.4\n'
    'llm_d_epp_ready_pods{name="p"} 4\ninference_pool_average_queue_size{name="p"} 1.5\n'
)


@pytest.mark.parametrize(
    ("page", "engine", "replicas", "running", "waiting", "kv"),
    [
        (VLLM, "vllm", 2, 4.0, 2.0, 0.375),
        (SGLANG, "sglang", 1, 4.0, 1.0, 0.31),
        (TRTLLM, "trtllm", 1, 2.0, 7.0, 0.9),
        (LLMD, "llm-d", 4, None, 6.0, 0.4),
    ],
    ids=["vllm", "sglang", "trtllm", "llm-d"],
)
def test_gauges_of_each_engine(
    page: str, engine: str, replicas: int, running: float | None, waiting: float, kv: float
) -> None:
    found = gauges.read(page)
    assert found is not None
    assert (found.engine, found.replicas, found.running, found.waiting) == (engine, replicas, running, waiting)
    assert found.kv == pytest.approx(kv)


def test_a_page_without_engine_gauges_is_no_signal() -> None:
    assert gauges.read("go_goroutines 12\n") is None
    assert gauges.read("<html>") is None
    assert gauges.read("") is None


def started(rules: list[Suppress], page: str | None, **given_: float) -> Signals:
    async def get(url: str) -> str | None:
        return page

    async def go() -> Signals:
        signals = Signals(rules, get, ("http://h/metrics",), **given_)  # type: ignore[arg-type]
        await signals.start()
        await signals.close()
        return signals

    return asyncio.run(go())


def test_conditions_are_judged_per_replica() -> None:
    assert (
        started([Suppress("waiting_requests_per_replica", ">", 0.9)], VLLM).suppressed()
        == "waiting_requests_per_replica"
    )
    assert started([Suppress("waiting_requests_per_replica", ">", 1.0)], VLLM).suppressed() is None
    assert (
        started([Suppress("running_requests_per_replica", ">=", 2.0)], VLLM).suppressed()
        == "running_requests_per_replica"
    )
    assert started([Suppress("kv_cache_usage_ratio", ">", 0.37)], VLLM).suppressed() == "kv_cache_usage_ratio"


def test_a_signal_that_cannot_be_seen_is_listed_and_waiting_requests_stand_in() -> None:
    signals = started([Suppress("target_queue_age_ms", ">", 1000.0)], VLLM)
    assert [r.signal for r in signals.not_enforced] == ["target_queue_age_ms"]
    assert signals.stand_in
    assert signals.suppressed() == "waiting_requests_per_replica"
    blind = started([Suppress("target_queue_age_ms", ">", 1000.0)], None)
    assert not blind.stand_in
    assert blind.suppressed() is None
    assert blind.enforced == []


def test_a_signal_that_has_gone_forbids_copies() -> None:
    signals = started([Suppress("waiting_requests_per_replica", ">", 100.0)], VLLM, every_s=0.0)
    assert signals.suppressed() is None
    signals._read_ns -= 2_000_000_000
    assert signals.suppressed() == "waiting_requests_per_replica"


def test_our_own_errors_and_hedge_rate_and_a_429_forbid_copies() -> None:
    signals = started([Suppress("error_ratio", ">", 0.1), Suppress("hedge_rate", ">", 0.3)], None)
    for _ in range(19):
        signals.call_ended(hedged_arm=True, copied=False, failed=False)
    assert signals.suppressed() is None
    for _ in range(4):
        signals.call_ended(hedged_arm=False, copied=False, failed=True)
    assert signals.suppressed() == "error_ratio"
    busy = started([Suppress("hedge_rate", ">", 0.3)], None)
    for i in range(20):
        busy.call_ended(hedged_arm=True, copied=i % 2 == 0, failed=False)
    assert busy.suppressed() == "hedge_rate"
    limited = started([], None)
    limited.rate_limited(30.0)
    assert limited.suppressed() == "retry_after"


def test_rules_of_eligibility_a_probe_can_and_cannot_judge() -> None:
    tools = Prompt(PROMPT.messages, ({"name": "search"},))
    rules = [Rule("tools_offered", "=", False), Rule("prompt_tokens", "<=", 500.0), Rule("segment", "=", "pro")]
    assert eligibility.eligible(PROMPT, rules, streamed=True)
    assert not eligibility.eligible(tools, rules, streamed=True)
    assert eligibility.unknown(rules) == ["segment"]
    assert not eligibility.eligible(PROMPT, [Rule("tool_names", "in", ("search",))], streamed=True)


SOME = (Window((1,), "23:00", "01:00"), Window((3, 4), "13:00", "15:30"))


@given(st.integers(0, 10_000 * 1440))
def test_a_moment_lies_in_a_window_where_the_projection_puts_it(minute: int) -> None:
    workload = Workload.of(np.zeros(1), np.ones(1), np.ones(1), t0_ns=minute * 60 * 10**9)
    expected = bool(in_windows(workload, SOME)[0])
    assert any(window.holds(minute * 60.0 + 59.9) for window in SOME) is expected


def test_a_policys_hours_are_kept_and_what_is_not_applied_is_said() -> None:
    now = datetime.now(UTC)
    today = now.isoweekday()
    open_now, closed_now = Window((today,), "00:00", "00:00"), Window((today % 7 + 1,), "12:00", "13:00")

    async def script(x: Exchange) -> None:
        x.start()
        if not x.is_copy:
            await x.wait(0.3)
        await answer(x, "t")

    async def go(window: Window) -> dict[str, Any]:
        async with Scripted(script) as server:
            outcome, _ = await run(hedged_settings(server.url, windows=(window,), experiment=True))
            return result.document(outcome)

    inside, outside = asyncio.run(go(open_now)), asyncio.run(go(closed_now))
    assert (inside["arms"]["hedged"]["hedges"], outside["arms"]["hedged"]["hedges"]) == (1, 0)
    assert outside["arms"]["hedged"]["hedges_refused"]["ineligible"] == 1
    codes = [{n["code"] for n in doc["notes"]} for doc in (inside, outside)]
    assert "outside_hours" in codes[1] - codes[0]
    assert "experiment_not_applied" in codes[0] & codes[1]


def flags(**given_: object) -> planning.Flags:
    return planning.Flags(url="http://127.0.0.1:9", delay_s=0.5, **given_)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given_",
    [
        {"rates": "0"},
        {"rates": "a"},
        {"arms": "both"},
        {"arrivals": "burst"},
        {"warm_up": 120},
        {"deadline_s": 0.4},
        {"deadline_s": 2.0, "attempt_timeout_s": 2.0},
        {"trigger": "first_byte"},
        {"max_spend": 1.0},
        {"price_in": 1.0},
        {"key_env": "NO_SUCH_VARIABLE_HERE"},
        {"header_env": ("x-a",)},
        {"hedge_url": "ftp://h"},
        {"metrics": ("nowhere",)},
    ],
    ids=str,
)
def test_what_cannot_be_is_refused_before_anything_is_sent(given_: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        planning.settings(flags(**given_))


@pytest.mark.parametrize(
    "url", ["https://user:hunter22@h/v1", "https://h/v1?key=hunter22", "https://h/?a=b&Api_Key=hunter22", "hunter22"]
)
def test_an_address_with_a_secret_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        settings.check_url(url)
    assert "hunter22" not in f"{caught.value.what} {caught.value.where} {caught.value.hint}"


def test_a_key_typed_where_its_variables_name_belongs_is_not_repeated() -> None:
    for text in ("sk-live-hunter22", "AIzaSyhunter22hunter22hunter22hunter22hun"):
        with pytest.raises(UsageError) as caught:
            settings.secrets_from(text, (), {})
        assert "hunter22" not in f"{caught.value.what} {caught.value.hint}"
    assert settings.secrets_from("K", ("x-a=B",), {"K": " v ", "B": "w"}).headers == (("x-a", "w"),)
    assert "v" not in repr(settings.secrets_from("K", (), {"K": "vvv"}))


def test_a_key_goes_to_another_host_only_if_it_is_named_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K", "hunter22")
    monkeypatch.setenv("T", "tenant")
    same = planning.settings(flags(key_env="K", header_env=("x-t=T",), hedge_url="http://127.0.0.1:10"))
    assert same.hedge_secrets == same.secrets
    with pytest.raises(UsageError):
        planning.settings(flags(key_env="K", hedge_url="http://10.0.0.1"))
    other = planning.settings(flags(key_env="K", hedge_key_env="K", header_env=("x-t=T",), hedge_url="http://10.0.0.1"))
    assert (other.hedge_secrets.key, other.hedge_secrets.headers) == ("hunter22", ())
    assert planning.settings(flags(hedge_url="http://10.0.0.1")).hedge_secrets.key is None


def test_the_plan_names_number_tokens_money_and_time() -> None:
    s = planning.settings(flags(price_in=1.0, price_out=2.0, max_tokens=5000, max_hedges=7))
    plan = result.plan(s, blocks=False)
    assert (plan["requests"], plan["copies_at_most"]) == (120, 7)
    assert plan["tokens_worst_case"] == 5000
    text = "\n".join(planning.describe(s))
    for word in ("120 requests", "7 copies", "5,000", "USD", "500 ms", "a burst of 100"):
        assert word in text


def test_more_copies_than_the_budget_are_explained_by_the_burst() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        if not x.is_copy:
            await x.wait(0.5)
        await answer(x, "t")

    async def go(**budget: float) -> list[str]:
        async with Scripted(script) as server:
            outcome, _ = await run(hedged_settings(server.url, **budget))
            assert outcome.calls[0].hedges == 1
            return [n["text"] for n in result.document(outcome)["notes"] if n["code"] == "burst"]

    (said,) = asyncio.run(go(budget_ratio=0.05, budget_burst=100.0))
    assert "1 copies for 1 requests" in said
    assert "5 %" in said
    assert "a burst of 100" in said
    assert asyncio.run(go(budget_ratio=1.0)) == []
