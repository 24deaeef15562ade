"""What a run's result may say: arms compared, too few requests, lower bounds, what a loser costs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from probe_runs import RULES, answer, many, plain, quick, run, settings
from probe_servers import Exchange, Scripted

from hedgectl.probe import compare, result
from hedgectl.probe.caps import Prices
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.records import AttemptRecord, CallRecord


def fake_calls(n: int, arm: str, ms: Any, pairs: int) -> list[CallRecord]:
    """Finished calls with the given latencies, both arms spread over the same pairs."""
    calls = []
    for i in range(n):
        took = round(ms(i) * 1e6)
        attempt = AttemptRecord("a", 0, "primary", 0, first_token_ns=took, ended_ns=2 * took, status="ok")
        calls.append(
            CallRecord(
                i, "r", arm, 1.0, 0, i * pairs // n, attempts=[attempt], winner=0, status="ok", ended_ns=2 * took
            )
        )
    return calls


@pytest.mark.parametrize("pairs", [6, 150])
def test_a_real_difference_is_significant_and_none_is_not(pairs: int) -> None:
    rng = np.random.default_rng(4)
    noise = rng.lognormal(4, 0.3, 600)
    tail = np.where(rng.random(600) < 0.15, 900.0, 0.0)
    plain = fake_calls(150, "unhedged", lambda i: noise[i] + tail[i], pairs)
    helped = fake_calls(150, "hedged", lambda i: noise[150 + i] + min(tail[150 + i], 200.0), pairs)
    same = fake_calls(150, "hedged", lambda i: noise[300 + i] + tail[300 + i], pairs)
    change = compare.changes(plain, helped, 1)
    for metric in ("ttft_p95", "e2e_p95"):
        low, high = change[metric]["interval"]
        assert change[metric]["significant"]
        assert low <= change[metric]["ratio"] <= high < 0.6
    nothing = compare.changes(plain, same, 1)["ttft_p95"]
    assert not nothing["significant"]
    assert nothing["interval"][0] <= 1.0 <= nothing["interval"][1]
    assert compare.changes(plain, helped, 1) == change, "the interval depends on the seed only"


def test_arms_that_cannot_be_compared_have_no_ratio() -> None:
    plain = fake_calls(150, "unhedged", lambda i: 1.0, 6)
    assert compare.changes(plain, [], 1)["ttft_p95"]["ratio"] is None
    few = compare.changes(plain[:40], fake_calls(40, "hedged", lambda i: 0.5, 6), 1)["ttft_p95"]
    assert (few["ratio"], few["interval"], few["significant"]) == (0.5, None, False)
    two_blocks = compare.changes(
        fake_calls(150, "unhedged", lambda i: 1.0, 2), fake_calls(150, "hedged", lambda i: 0.5, 2), 1
    )
    assert two_blocks["ttft_p95"]["interval"] is None


def test_too_few_requests_claim_nothing() -> None:
    async def go() -> Outcome:
        async with Scripted(quick) as server:
            return await plain(settings(server.url, **many(20)))

    doc = result.document(asyncio.run(go()))
    assert doc["change"]["ttft_p95"]["interval"] is None
    assert doc["change"]["ttft_p95"]["significant"] is False
    assert doc["arms"]["unhedged"]["ttft_ms"]["p99"] is None


def test_a_timeout_is_a_lower_bound_and_an_error_no_latency() -> None:
    async def script(x: Exchange) -> None:
        if x.number % 2:
            x.start(500)
            x.finish()
        else:
            x.start()
            await x.wait(5)

    async def go() -> Outcome:
        async with Scripted(script) as server:
            rules = replace(RULES, total_s=2.0, attempt_s=1.5, delay_s=1.9)
            return await plain(settings(server.url, **many(20, rates=(20.0,)), rules=rules))

    outcome = asyncio.run(go())
    late = [c for c in outcome.calls if c.status == "censored"]
    assert len(late) == 10
    assert all(compare.e2e_ms(c) is not None and not compare.e2e_ms(c)[1] for c in late)  # type: ignore[index]
    assert all(compare.e2e_ms(c) is None for c in outcome.calls if c.status == "error")
    assert result.document(outcome)["void"] == "every request failed"


def test_a_loser_costs_between_its_prompt_and_a_full_answer() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, *["t"] * 10, gap=0.01 if x.is_copy else 0.4)

    async def go() -> Outcome:
        async with Scripted(script) as server:
            return (await run(settings(server.url, prices=Prices(1e6, 1e6))))[0]  # one a token

    outcome = asyncio.run(go())
    doc = result.document(outcome)
    (call,) = outcome.calls
    assert call.hedge_won
    (loser, winner) = result.bills_of(call, outcome.settings)
    assert winner == (17.0, 17.0)  # 7 prompt + 10 answer tokens, as reported
    prompt = outcome.settings.prompts[0].estimated_tokens
    assert loser == (prompt, prompt + 10)
    assert doc["spend"]["estimated"] == doc["spend"]["high"] == 27.0 + prompt
    assert doc["spend"]["low"] == 17.0 + prompt
