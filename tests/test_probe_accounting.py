"""Every attempt of a run has an end, and nothing is left behind: chaos, a thousand calls, stopping, faults before and within."""

from __future__ import annotations

import asyncio
import os
import random
from dataclasses import replace

import pytest
from probe_runs import LONG, RULES, answer, many, quick, run, settings
from probe_servers import Exchange, Scripted

from hedgectl.errors import HedgectlError
from hedgectl.probe import providers, result
from hedgectl.probe.outcome import Outcome
from hedgectl.probe.records import CallRecord
from hedgectl.probe.session import Session


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
