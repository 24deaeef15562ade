"""Whole runs against real servers: honest time, caps, stops, cancels, accounting, nothing left behind."""

from __future__ import annotations

import asyncio
import os
import random
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from probe_servers import Exchange, Scripted
from test_probe_hedged import RULES, answer, run, settings

from hedgectl.errors import HedgectlError
from hedgectl.policy import Suppress
from hedgectl.probe import compare, providers, result
from hedgectl.probe.caps import Caps, Prices
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.records import AttemptRecord, CallRecord
from hedgectl.probe.sandbox.app import Sandbox, SandboxSettings
from hedgectl.probe.sandbox.engine import Law
from hedgectl.probe.session import Session

LONG = replace(RULES, total_s=120.0, attempt_s=110.0)  # where no deadline may strike, however busy the machine is
QUICK = Law(0.005, 0.0, 0.005, 0.0005)


async def quick(x: Exchange) -> None:
    x.start()
    await answer(x, "ok")


def many(n: int, **given: Any) -> dict[str, Any]:
    return {"requests": n, "caps": Caps(requests=n, hedges=n), "rates": (200.0,), **given}


async def plain(s: Any) -> Outcome:
    return (await run(s, all_hedged=False))[0]


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


# --- accounting -----------------------------------------------------------------------------------------------------------


def test_chaos_ends_with_every_attempt_accounted_for() -> None:
    rng = random.Random(5)

    async def script(x: Exchange) -> None:
        kind = rng.randrange(10)
        await x.wait(rng.random() * 0.3)
        if kind == 0:
            return x.reset()
        if kind == 1:
            x.start(rng.choice([429, 500, 503]))
            return x.finish()
        x.start()
        if kind == 2:
            return x.finish()
        x.token("a")
        if kind == 3:
            return x.reset()
        if kind == 4:
            x.finish()
            return None
        if kind == 5:
            x.send(b"data: {broken\n\n")
            x.finish()
            return None
        if kind == 6:
            await x.wait(5)
            return None
        if kind == 7:
            x.half_close()
            await x.wait(5)
            return None
        await answer(x, "b", "c", gap=rng.random() * 0.1)
        return None

    async def go(http2: bool) -> tuple[Outcome, int, int]:
        async with Scripted(script, http2=http2) as server:
            rules = replace(RULES, delay_s=0.1, total_s=1.2, attempt_s=0.9, retry=True, max_attempts=3)
            s = settings(server.url, **many(150, rates=(150.0,)), rules=rules, http2=http2)
            outcome = (await run(s))[0]
            await asyncio.sleep(0.2)
            return outcome, len(server.exchanges), server.connections

    for http2 in (False, True):
        outcome, seen, open_connections = asyncio.run(go(http2))
        attempts = [a for c in outcome.calls for a in c.attempts]
        assert len(outcome.calls) == 150
        assert all(a.status is not None and a.ended_ns is not None for a in attempts)
        assert all(c.status is not None for c in outcome.calls)
        # no more was sent than is on the books; what was closed before its request left is on them too
        assert seen <= len(attempts)
        assert seen >= len(attempts) - sum(a.headers_ns is None for a in attempts)
        assert open_connections == 0
        doc = result.document(outcome)
        books = doc["accounting"]
        assert books["attempts"] == books["ok"] + books["error"] + books["censored"]
        assert books["open"] == 0
        arms = doc["arms"]["hedged"]
        assert arms["e2e_ms"]["n"] + sum(arms["errors"].values()) + arms["timeouts"] == 150


def sockets() -> int:
    """Open sockets of this process; 0 where /proc is not there."""
    try:
        names = os.listdir("/proc/self/fd")
    except FileNotFoundError:
        return 0
    found = 0
    for name in names:
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
        except OSError:
            continue
    return found


def calls_in_a_row(n: int) -> tuple[Outcome, int, int, int]:
    """(outcome, tasks, sockets, server's connections) left behind by n hedged calls."""

    async def script(x: Exchange) -> None:
        # every 50th is late, so that copies win and connections are thrown away too
        if x.number % 50 == 0:
            await x.wait(0.5)
        x.start()
        x.token("t")
        x.end()

    async def go() -> tuple[Outcome, int, int, int]:
        before_tasks, before_sockets = len(asyncio.all_tasks()), sockets()
        async with Scripted(script) as server:
            rules = replace(RULES, delay_s=0.3, total_s=7200.0, attempt_s=7000.0)
            s = settings(server.url, **many(n, rates=(5_000.0,), max_in_flight=32), rules=rules)
            outcome = (await run(s))[0]
            async with asyncio.timeout(5):
                while server.connections:
                    await asyncio.sleep(0.05)
            left = server.connections
        await asyncio.sleep(0.05)
        return outcome, len(asyncio.all_tasks()) - before_tasks, sockets() - before_sockets, left

    return asyncio.run(go())


def test_a_thousand_calls_leave_no_task_and_no_socket_behind() -> None:
    outcome, *left = calls_in_a_row(1_000)
    assert left == [0, 0, 0]
    assert len(outcome.calls) == 1_000
    assert sum(c.status == "ok" for c in outcome.calls) == 1_000
    assert sum(c.hedges for c in outcome.calls) > 0


def test_stopping_at_once_settles_everything_as_censored() -> None:
    async def script(x: Exchange) -> None:
        x.start()
        x.token("t")
        await x.wait(30)

    async def go() -> tuple[Outcome, int]:
        async with Scripted(script) as server:
            session = Session(settings(server.url, **many(50, rates=(100.0,)), rules=LONG))

            async def interrupt() -> None:
                while sum(x.tokens for x in server.exchanges) < 5:
                    await asyncio.sleep(0.01)
                session.stop("SIGINT", at_once=True)

            task = asyncio.create_task(interrupt())
            outcome = await session.run()
            await task
            outcome.interrupted = outcome.stopped
            await asyncio.sleep(0.1)
            assert session.ledger.open == 0 or session.ledger.open == len(outcome.calls)
            return outcome, server.connections

    outcome, connections = asyncio.run(go())
    attempts = [a for c in outcome.calls for a in c.attempts]
    assert len(attempts) > 0
    assert {a.status for a in attempts} == {"censored"}
    assert {a.error_kind for a in attempts} <= {"client_gone", "loser"}
    assert connections == 0
    doc = result.document(outcome)
    assert doc["stopped_early"] == "SIGINT"
    assert doc["accounting"]["censored"] == len(attempts)


# --- result -----------------------------------------------------------------------------------------------------------------


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


def test_a_setting_that_no_request_can_be_made_of_fails_before_anything_is_sent() -> None:
    async def go() -> int:
        async with Scripted(quick) as server:
            s = replace(settings(server.url + "/v1beta"), provider=providers.choose("http://h", "gemini"), model="")
            s = replace(s, url=server.url + "/v1beta/models", metrics=())
            with pytest.raises(HedgectlError):
                await Session(s).run()
            return len(server.posts)

    assert asyncio.run(go()) == 0


def test_a_fault_of_our_own_is_raised_and_not_counted_as_the_targets() -> None:
    async def go() -> int:
        async with Scripted(quick) as server:
            session = Session(settings(server.url, **many(20)))

            def broken(call: CallRecord) -> None:
                raise ZeroDivisionError

            session._ended = broken  # type: ignore[method-assign]
            with pytest.raises(ZeroDivisionError):
                await session.run()
            await asyncio.sleep(0.1)
            return server.connections

    assert asyncio.run(go()) == 0
