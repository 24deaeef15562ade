"""Whole runs against real servers: honest time, caps, stops, and cancels that reach the engine."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from probe_runs import LONG, RULES, answer, many, plain, quick, run, settings
from probe_servers import Exchange, Scripted

from hedgectl.policy import Suppress
from hedgectl.probe import result
from hedgectl.probe.caps import Caps, Prices
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.sandbox.app import Sandbox, SandboxSettings
from hedgectl.probe.sandbox.engine import Law

QUICK = Law(0.005, 0.0, 0.005, 0.0005)


def test_planned_start_shows_a_two_second_stall_that_send_time_hides() -> None:
    stalled: list[int] = []

    async def script(x: Exchange) -> None:
        if x.number == 10:
            stalled.append(x.number)
            await asyncio.sleep(2.0)
        x.start()
        await answer(x, "t")

    async def go() -> Outcome:
        async with Scripted(script) as server:
            # one connection's worth of concurrency: what a client without enough of them does to itself
            rules = replace(RULES, total_s=20.0, attempt_s=15.0, delay_s=14.0)
            return await plain(settings(server.url, **many(120, rates=(40.0,), max_in_flight=1, rules=rules)))

    calls = asyncio.run(go()).calls
    assert len(stalled) == 1
    planned = [c.since_plan(c.ended_ns) or 0 for c in calls]
    sent = [(c.ended_ns or 0) - (c.sent_ns or 0) for c in calls]
    assert np.quantile(planned, 0.95) / 1e9 > 1.5
    assert np.quantile(planned, 0.99) / 1e9 > 1.9
    assert np.quantile(sent, 0.99) / 1e9 < 1.0


def test_a_late_client_makes_its_run_void() -> None:
    async def go() -> Outcome:
        async with Scripted(quick) as server:
            s = settings(server.url, **many(40, rates=(100.0,)))
            # a client that is busy with something else for a while
            asyncio.get_running_loop().call_later(0.2, time.sleep, 0.4)
            return await plain(s)

    doc = result.document(asyncio.run(go()))
    assert doc["void"] is not None
    assert "lag p99" in doc["void"]
    assert doc["client_lag_ms"]["n"] == 40


@pytest.mark.parametrize(
    ("caps", "posts", "reason"),
    [
        (Caps(requests=7, hedges=0), 7, None),
        (Caps(requests=30, hedges=0, tokens=700), None, "cap_tokens"),
        (Caps(requests=30, hedges=0, spend=0.0007), None, "cap_spend"),
        (Caps(requests=30, hedges=0, time_s=0.25), None, "time"),
    ],
    ids=["requests", "tokens", "spend", "time"],
)
def test_no_request_goes_beyond_a_cap(caps: Caps, posts: int | None, reason: str | None) -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "t", gap=0.2)

    async def go() -> tuple[Outcome, int, float]:
        async with Scripted(script) as server:
            s = settings(server.url, requests=30, caps=caps, rates=(50.0,), prices=Prices(1.0, 1.0), answer_tokens=20)
            outcome = await plain(s)
            return outcome, len(server.posts), outcome.spend_booked

    outcome, seen, spend = asyncio.run(go())
    assert outcome.stopped == reason
    assert 0 < seen <= len(outcome.calls) < 30
    assert seen == len(outcome.calls) or reason == "time"  # then some were closed before they left
    assert posts is None or seen == posts
    if caps.tokens is not None:
        assert outcome.tokens_booked <= caps.tokens
    if caps.spend is not None:
        assert spend <= caps.spend
    doc = result.document(outcome)
    assert doc["accounting"]["open"] == 0
    assert doc["sent"] == len(outcome.calls)


def test_copies_are_capped_in_number() -> None:
    async def go() -> tuple[Outcome, int]:
        all_there = asyncio.Event()

        async def script(x: Exchange) -> None:
            # nobody answers before three copies have arrived: on a busy machine a primary could win before its copy left
            if x.is_copy and sum(other.is_copy for other in server.exchanges) == 3:
                all_there.set()
            await all_there.wait()
            x.start()
            await answer(x, "t", gap=0.4)  # time enough for the other calls to ask for a copy too

        async with Scripted(script) as server:
            s = settings(server.url, **many(12) | {"caps": Caps(requests=12, hedges=3), "rules": LONG})
            return (await run(s))[0], len(server.posts)

    outcome, posts = asyncio.run(go())
    assert sum(c.hedges for c in outcome.calls) == 3
    assert posts == 15


def test_it_stops_by_itself_on_errors_and_on_429() -> None:
    async def failing(x: Exchange) -> None:
        x.start(500)
        x.finish()

    async def limited(x: Exchange) -> None:
        x.start(429, retry_after="60")
        x.finish()

    async def go(script: Any, **given: Any) -> tuple[Outcome, int]:
        async with Scripted(script) as server:
            outcome = await plain(settings(server.url, **many(600, rates=(50.0,)), rules=LONG, **given))
            return outcome, len(server.posts)

    outcome, posts = asyncio.run(go(failing, stop_after_errors=5))
    assert outcome.stopped == "errors"
    assert 5 <= posts < 600

    async def every_other(x: Exchange) -> None:
        x.start(200 if x.number % 3 == 0 else 500)
        if x.number % 3 == 0:
            await answer(x, "t")
        else:
            x.finish()

    outcome, posts = asyncio.run(go(every_other, stop_error_share=0.5))
    assert outcome.stopped == "errors"
    assert 20 <= posts < 600
    outcome, posts = asyncio.run(go(limited, stop_after_429=3))
    assert outcome.stopped == "rate_limited"
    assert 3 <= posts < 600


def test_retry_after_holds_copies_back() -> None:
    async def script(x: Exchange) -> None:
        if x.number == 0:
            x.start(429, retry_after="60")
            x.finish()
        else:
            x.start()
            await answer(x, "t", gap=0.4)

    async def go() -> Outcome:
        async with Scripted(script) as server:
            return (await run(settings(server.url, **many(6, rates=(30.0,)))))[0]

    outcome = asyncio.run(go())
    assert sum(c.hedges for c in outcome.calls) == 0
    assert outcome.suppressed_by == {"retry_after": 5}
    assert sum(c.refused == "suppressed" for c in outcome.calls) == 5


def test_waiting_requests_hold_copies_back() -> None:
    load = "vllm:num_requests_running 4\nvllm:num_requests_waiting 3\n"

    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "t", gap=0.4)

    async def go() -> Outcome:
        async with Scripted(script, metrics=lambda: load) as server:
            s = settings(
                server.url,
                **many(4),
                metrics=None,
                abort=False,
                suppress=(
                    Suppress("waiting_requests_per_replica", ">=", 1.0),
                    Suppress("slow_replicas_ratio", ">", 0.3),
                ),
            )
            return (await run(s))[0]

    outcome = asyncio.run(go())
    doc = result.document(outcome)
    assert doc["arms"]["hedged"]["hedges_refused"] == {"budget": 0, "suppressed": 4, "deadline": 0, "ineligible": 0}
    assert doc["signals"]["not_enforced"] == ["slow_replicas_ratio"]
    assert any(n["code"] == "not_enforced" for n in doc["notes"])


# --- cancel, really -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("frees", "said"), [(True, "yes"), (False, "no")])
def test_it_looks_whether_the_engine_stopped(frees: bool, said: str) -> None:
    async def go() -> Outcome:
        law = Law(0.005, 0.0, 0.02, 0.0)
        box = Sandbox(SandboxSettings(replicas=2, slow=0, law=law, frees=frees, answer_tokens=150, answer_sigma=0.0))
        url = await box.start()
        s = settings(url, **many(3, rates=(20.0,)), metrics=None, check_cancel=2, abort=False, answer_tokens=150)
        s = replace(s, caps=Caps(requests=3, hedges=0), rules=LONG)
        outcome = await plain(s)
        await box.close()
        return outcome

    outcome = asyncio.run(go())
    assert outcome.cancel["engine_stopped"] == said, outcome.cancel
    assert len(outcome.calls) == 1
    assert len(outcome.checks) == 2


def test_a_loser_is_aborted_in_the_engine_by_its_exact_id() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        await answer(x, "t", gap=0.02 if x.is_copy else 0.6)

    async def go(page: str) -> tuple[Outcome, Scripted]:
        async with Scripted(script, metrics=lambda: page) as server:
            return (await run(settings(server.url, metrics=None)))[0], server

    outcome, server = asyncio.run(go("sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n"))
    assert outcome.engine == "sglang"
    assert server.exchanges[0].body["rid"] == outcome.calls[0].attempts[0].attempt_id
    assert server.posts.count("/abort_request") == 1
    assert outcome.abort_missing, "the scripted server has no such call, and the run says so"
    outcome, server = asyncio.run(go("vllm:num_requests_running 1\nvllm:num_requests_waiting 0\n"))
    assert server.posts.count("/abort_requests") == 1
    assert "rid" not in server.exchanges[0].body


def test_an_abort_reaches_the_sandbox_under_the_engines_name_for_the_request() -> None:
    async def go() -> tuple[Outcome, int]:
        box = Sandbox(SandboxSettings(replicas=2, slow=1, slow_factor=60, law=QUICK, frees=False, answer_tokens=40))
        url = await box.start()
        outcome = (
            await run(
                settings(
                    url,
                    **many(6, rates=(10.0,)),
                    metrics=None,
                    answer_tokens=60,
                    rules=LONG,
                )
            )
        )[0]
        stopped = sum(engine.aborted for engine in box.engines)
        await box.close()
        return outcome, stopped

    outcome, stopped = asyncio.run(go())
    lost = sum(a.error_kind == "loser" for c in outcome.calls for a in c.attempts)
    assert lost > 0
    assert outcome.aborts_sent == lost
    # closing the stream frees nothing here, the abort call does; one that comes after the end has nothing to stop
    assert 0 < stopped <= lost
